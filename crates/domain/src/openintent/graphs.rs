//! Graphs of intents (RFC-0002): parent and child intents, and dependencies.
//!
//! Of the two relations only one waits. A child belongs to its parent (`parent_id`) from its creation and
//! permanently, so that these always form trees. An intent waits for its dependencies, which must not form a
//! circle. A new intent cannot close one, because no other depends on it yet; only a dependency added later
//! can.
//!
//! A parent may depend on its children, or a child on its parent: there is no other rule by which a parent
//! waits for its children (its admins set its status, OI-7.2), so each alone is not a circle. Both
//! together are, and are refused.

use serde_json::{Value, json};

use crate::clock::Timestamp;
use crate::ids::IntentId;
use crate::limits::{DEPENDENCIES, GRAPH_NODES, INTENT_DEPTH};
use crate::openintent::intents::{Intent, IntentStatus};
use crate::refusal::{Code, Refusal};

/// The unmet dependencies of an intent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wait {
    /// Dependencies that are not resolved.
    pub open: Vec<IntentId>,
    /// Dependencies that were abandoned: waiting is pointless until they are resumed or removed.
    pub lost: Vec<IntentId>,
}

impl Wait {
    /// Returns the unmet ones among an intent's dependencies.
    #[must_use]
    pub fn of(dependencies: &[(IntentId, IntentStatus)]) -> Self {
        let mut wait = Self::default();
        for (id, status) in dependencies {
            match status {
                IntentStatus::Completed => {}
                IntentStatus::Abandoned => wait.lost.push(*id),
                IntentStatus::Draft
                | IntentStatus::Active
                | IntentStatus::Blocked
                | IntentStatus::SuspendedAwaitingInput => wait.open.push(*id),
            }
        }
        wait
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.open.is_empty() && self.lost.is_empty()
    }
}

/// Whether an intent can be worked on, judging by its dependencies alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// All its dependencies are completed.
    Ready,
    /// At least one dependency is not completed.
    Blocked,
    /// The intent itself is completed or abandoned.
    Over,
}

/// Returns the readiness of an intent; its own status `blocked` or `suspended_awaiting_input` is independent
/// of it.
#[must_use]
pub fn readiness(status: IntentStatus, wait: &Wait) -> Readiness {
    match (status.is_terminal(), wait.is_over()) {
        (true, _) => Readiness::Over,
        (false, true) => Readiness::Ready,
        (false, false) => Readiness::Blocked,
    }
}

/// Adds a dependency to the intent.
///
/// `reached` is the dependency itself and everything it depends on, directly or indirectly; above
/// [`GRAPH_NODES`], the absence of a circle cannot be verified.
///
/// # Errors
/// [`Code::IntentResolved`], [`Code::AlreadyExists`], too many dependencies, [`Code::DependencyCircle`].
pub fn depend(
    intent: &Intent,
    dependency: IntentId,
    reached: &[IntentId],
    now: Timestamp,
) -> Result<Intent, Refusal> {
    if intent.status.is_terminal() {
        let message = format!("The intent is {}; it waits for nothing any more.", intent.status.as_str());
        return Err(Refusal::new(Code::IntentResolved, message));
    }
    if intent.depends_on.contains(&dependency) {
        return Err(Refusal::new(Code::AlreadyExists, "The intent depends on that one already."));
    }
    if dependency == intent.id || reached.contains(&intent.id) {
        return Err(Refusal::field(
            Code::DependencyCircle,
            "dependency_id",
            "circle",
            "The intent would wait for itself: what you name waits for it, directly or through others. Take that \
             dependency away first, or leave this one out.",
        ));
    }
    if intent.depends_on.len() >= DEPENDENCIES {
        let message = format!("An intent depends on at most {DEPENDENCIES} others.");
        return Err(Refusal::field(Code::Unprocessable, "dependency_id", "too_many", message));
    }
    if reached.len() > GRAPH_NODES {
        let message = format!(
            "What you name waits for more than {GRAPH_NODES} intents; that none of them waits for this one cannot be \
             checked. Depend on one that is nearer to the end."
        );
        return Err(Refusal::field(Code::Unprocessable, "dependency_id", "too_large", message));
    }
    let mut next = Intent { version: intent.version + 1, updated_at: now, ..intent.clone() };
    next.depends_on.push(dependency);
    Ok(next)
}

/// Removes a dependency from the intent.
///
/// # Errors
/// [`Code::NotFound`] if it does not depend on that intent.
pub fn let_go(intent: &Intent, dependency: IntentId, now: Timestamp) -> Result<Intent, Refusal> {
    if !intent.depends_on.contains(&dependency) {
        return Err(Refusal::not_found("dependency"));
    }
    let mut next = Intent { version: intent.version + 1, updated_at: now, ..intent.clone() };
    next.depends_on.retain(|id| *id != dependency);
    Ok(next)
}

/// Returns the payload of `dependency_added` and `dependency_removed`.
#[must_use]
pub fn dependency_payload(dependency: IntentId, after: &Intent) -> Value {
    json!({ "dependency_id": dependency, "version": after.version })
}

/// Checks the depth of a new child; `levels` counts its ancestors, including the parent.
///
/// # Errors
/// [`Code::Unprocessable`].
pub fn check_depth(levels: usize) -> Result<(), Refusal> {
    if levels < INTENT_DEPTH {
        return Ok(());
    }
    let message = format!(
        "Intents are at most {INTENT_DEPTH} levels deep, and the parent is on the last. Make it a part of one further up."
    );
    Err(Refusal::field(Code::Unprocessable, "parent_intent_id", "too_deep", message))
}

/// Checks that a walk was complete: too large a graph is refused, as a part of it would look like the whole.
///
/// # Errors
/// [`Code::Unprocessable`].
pub fn check_walk(visited: usize) -> Result<(), Refusal> {
    if visited <= GRAPH_NODES {
        return Ok(());
    }
    let message = format!(
        "There are more than {GRAPH_NODES} intents below this one, too many for one answer. Ask for its children, page by \
         page, and then for what is below each."
    );
    Err(Refusal::new(Code::Unprocessable, message))
}
