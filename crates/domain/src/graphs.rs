//! Graphs of intents (RFC-0002): parts of a whole, and what waits for what.
//!
//! Two relations, of which one waits. A part belongs to its whole (`parent_id`) from the beginning and for ever, so that
//! parts form trees by themselves. An intent waits for those that it depends on, and there must be no circle of waits. An
//! intent that is being made closes none, because nobody can depend on it yet; only a dependency that is added later can.
//!
//! A whole may wait for its parts, and a part for its whole: nothing else has a whole wait for its parts (a status changes
//! as its admins say, contract 5.4), so each of the two alone is no circle. Both at once is one, and is refused as such.

use serde_json::{Value, json};

use crate::clock::Timestamp;
use crate::ids::IntentId;
use crate::intents::{Intent, IntentStatus};
use crate::limits::{DEPENDENCIES, GRAPH_NODES, INTENT_DEPTH};
use crate::refusal::{Code, Refusal};

/// What an intent still waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wait {
    /// Dependencies that are not over.
    pub open: Vec<IntentId>,
    /// Dependencies that were abandoned: nothing will come of waiting until they are taken up again or let go of.
    pub lost: Vec<IntentId>,
}

impl Wait {
    /// What an intent with these dependencies waits for.
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

    /// Whether nothing is waited for.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.open.is_empty() && self.lost.is_empty()
    }
}

/// Whether an intent can be worked on, as far as its dependencies go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// All that it depends on is completed.
    Ready,
    /// Something that it depends on is not.
    Blocked,
    /// It is completed or abandoned itself.
    Over,
}

/// Whether an intent in this status that waits for this can be worked on. Its own status `blocked` or
/// `suspended_awaiting_input` says something else, and is there to be read.
#[must_use]
pub fn readiness(status: IntentStatus, wait: &Wait) -> Readiness {
    match (status.is_terminal(), wait.is_over()) {
        (true, _) => Readiness::Over,
        (false, true) => Readiness::Ready,
        (false, false) => Readiness::Blocked,
    }
}

/// The intent with one dependency more. `reached` is the dependency itself and all that it waits for, directly or through
/// others; more than [`GRAPH_NODES`] of them are too many to know that there is no circle.
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

/// The intent without one of its dependencies.
///
/// # Errors
/// [`Code::NotFound`] when it does not depend on that one.
pub fn let_go(intent: &Intent, dependency: IntentId, now: Timestamp) -> Result<Intent, Refusal> {
    if !intent.depends_on.contains(&dependency) {
        return Err(Refusal::not_found("dependency"));
    }
    let mut next = Intent { version: intent.version + 1, updated_at: now, ..intent.clone() };
    next.depends_on.retain(|id| *id != dependency);
    Ok(next)
}

/// The payload of `dependency_added` and `dependency_removed`.
#[must_use]
pub fn dependency_payload(dependency: IntentId, after: &Intent) -> Value {
    json!({ "dependency_id": dependency, "version": after.version })
}

/// Checks that an intent may be a part of one that has so many above it, itself included.
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

/// Checks that a walk came to its end: of a graph that is too large nothing is shown, rather than a part that looks like
/// all of it.
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
