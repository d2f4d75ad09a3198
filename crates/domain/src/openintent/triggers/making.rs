//! Creation of intents by triggers (RFC-0017 §5): the template of an intent, and its instantiation.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::template::{self, Filling, Unfilled};
use super::{Cause, Lineage, Trigger};
use crate::clock::{Timestamp, rfc3339};
use crate::identity::principals::check_name;
use crate::ids::FiringId;
use crate::limits::LIST_ITEMS;
use crate::openintent::intents::{IntentAsk, IntentStatus};
use crate::refusal::{Code, Refusal};

/// Member of an intent's state that records the trigger.
pub const MARK: &str = "trigger";

/// An agent assigned to the new intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assigned {
    /// Agent; may contain placeholders.
    pub agent_id: String,
    /// Role.
    pub role: String,
}

/// Template of an intent; every text may contain placeholders (`template.rs`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntentTemplate {
    /// Client-defined type of the intent, used for deduplication.
    pub r#type: String,
    /// Goal in one line; the trigger's name if empty.
    pub title: String,
    /// Full description of the goal.
    pub description: String,
    /// Client-defined priority.
    pub priority: Option<String>,
    /// Agent assigned to it.
    pub assignee: Option<String>,
    /// Further assignments.
    pub assignments: Vec<Assigned>,
    /// Initial state.
    pub context: Map<String, Value>,
    /// The same, under the name that intents use.
    pub state: Map<String, Value>,
    /// Constraints.
    pub constraints: Map<String, Value>,
    /// Parent intent.
    pub parent_intent_id: Option<String>,
    /// Initial status.
    pub status: Option<IntentStatus>,
    /// Client-defined graph id.
    pub graph_id: Option<String>,
    /// Client-defined tags.
    pub tags: Vec<String>,
}

/// Result of a template.
#[derive(Debug, Clone)]
pub struct Made {
    /// Request for the new intent.
    pub ask: IntentAsk,
    /// Agents assigned to it.
    pub assignments: Vec<Assigned>,
}

/// Context of a firing.
#[derive(Debug, Clone)]
pub struct FiringContext<'a> {
    /// Identifier.
    pub firing: FiringId,
    /// Cause.
    pub cause: Cause,
    /// Time of the firing.
    pub at: Timestamp,
    /// Scheduled time, if it was scheduled.
    pub due_at: Option<Timestamp>,
    /// Input of the firing: `event`, or `body`, `headers`, `query`.
    pub brought: &'a Map<String, Value>,
    /// Causal chain of the intent.
    pub lineage: &'a Lineage,
}

impl IntentTemplate {
    /// Checks a client's template.
    ///
    /// # Errors
    /// An invalid placeholder, too large a template, or a state member reserved for the server.
    pub fn check(&self) -> Result<(), Refusal> {
        let whole = serde_json::to_value(self).unwrap_or_default();
        template::check("intent_template", &whole)?;
        let fault = |kind: &str, message: String| {
            Err(Refusal::field(Code::Unprocessable, "intent_template", kind, message))
        };
        if self.tags.len() > LIST_ITEMS || self.assignments.len() > LIST_ITEMS {
            return fault(
                "too_long",
                format!("`intent_template` has at most {LIST_ITEMS} tags and assignments."),
            );
        }
        if self.context.contains_key(MARK) || self.state.contains_key(MARK) {
            let message =
                format!("`{MARK}` in an intent's state says which trigger made it. Use another name.");
            return fault("reserved", message);
        }
        if self.status.is_some_and(IntentStatus::is_terminal) {
            return fault("status", "An intent cannot begin completed or abandoned.".to_owned());
        }
        // Values without placeholders are checked now rather than at firing.
        for assigned in self.assigned().filter(|one| !one.agent_id.contains("{{")) {
            check_name("agent_id", &assigned.agent_id)?;
            check_name("role", &assigned.role)?;
        }
        let parent = self.parent_intent_id.as_deref().filter(|id| !id.contains("{{"));
        parent.map_or(Ok(()), |id| parse_parent(id).map(|_id| ()).map_err(unlawful))
    }

    fn assigned(&self) -> impl Iterator<Item = Assigned> {
        let one = |agent: &String| Assigned { agent_id: agent.clone(), role: "worker".to_owned() };
        let first = self.assignee.as_ref().filter(|agent| !agent.is_empty()).map(one);
        first.into_iter().chain(self.assignments.clone())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what errors are mapped with")]
fn unlawful(why: Unfilled) -> Refusal {
    Refusal::field(Code::Unprocessable, "intent_template", "unknown", format!("`intent_template` {}.", why.0))
}

fn parse_parent(text: &str) -> Result<crate::ids::IntentId, Unfilled> {
    text.parse().map_err(|_no_id| Unfilled("has a `parent_intent_id` that is no intent's id".to_owned()))
}

impl Trigger {
    /// Creates the request for an intent for this firing.
    ///
    /// # Errors
    /// A value that the template refers to is missing, or does not fit.
    pub fn make(&self, context: &FiringContext<'_>) -> Result<Made, Unfilled> {
        let known = self.known(context);
        let mut filling = Filling::new(&known);
        let nothing = IntentTemplate::default();
        let template = self.template.as_ref().unwrap_or(&nothing);
        let title = if template.title.trim().is_empty() { &self.name } else { &template.title };
        // A name is never a template: its author did not write placeholders.
        let title = if template.title.trim().is_empty() { title.clone() } else { filling.text(title)? };
        let mut state = filling.object(&template.context)?;
        state.extend(filling.object(&template.state)?);
        let transform = self.condition.as_ref().and_then(|condition| condition.transform.as_ref());
        if let Some(transform) = transform.filter(|_| context.cause == Cause::Webhook) {
            state.extend(filling.object(transform)?);
        }
        let tags: Result<Vec<String>, Unfilled> = template.tags.iter().map(|tag| filling.text(tag)).collect();
        let mut optional = |text: &Option<String>| text.as_deref().map(|text| filling.text(text)).transpose();
        let (priority, graph_id) = (optional(&template.priority)?, optional(&template.graph_id)?);
        let parent = optional(&template.parent_intent_id)?;
        let mut mark = context.lineage.shown(self);
        mark.extend(Map::from_iter([
            ("firing_id".to_owned(), json!(context.firing)),
            ("type".to_owned(), json!(template.r#type)),
            ("priority".to_owned(), json!(priority.as_deref().unwrap_or("medium"))),
            ("graph_id".to_owned(), json!(graph_id)),
            ("tags".to_owned(), json!(tags?)),
        ]));
        state.insert(MARK.to_owned(), Value::Object(mark));
        let assignments: Result<Vec<Assigned>, Unfilled> = template
            .assigned()
            .map(|one| {
                let one = Assigned { agent_id: filling.text(&one.agent_id)?, role: filling.text(&one.role)? };
                for (member, name) in [("agent_id", &one.agent_id), ("role", &one.role)] {
                    check_name(member, name)
                        .map_err(|_no_name| Unfilled("assigns an agent whose name is none".to_owned()))?;
                }
                Ok(one)
            })
            .collect();
        let ask = IntentAsk {
            title,
            description: filling.text(&template.description)?,
            parent_id: parent.as_deref().map(parse_parent).transpose()?,
            depends_on: Vec::new(),
            constraints: filling.object(&template.constraints)?,
            state,
            status: template.status.unwrap_or(IntentStatus::Draft),
            governance_policy: None,
        };
        Ok(Made { ask, assignments: assignments? })
    }

    /// Returns the values that templates may refer to for this firing.
    pub(super) fn known(&self, context: &FiringContext<'_>) -> Map<String, Value> {
        let mut known = context.brought.clone();
        let at = rfc3339(context.at);
        let trigger = json!({
            "trigger_id": self.id, "id": self.id, "name": self.name, "type": self.kind,
            "namespace": self.namespace, "fire_count": self.fire_count + 1, "fired_at": at,
            "scheduled_at": context.due_at.map_or_else(|| at.clone(), rfc3339), "firing_id": context.firing,
            "depth": context.lineage.depth(),
        });
        known.insert("trigger".to_owned(), trigger);
        known.insert("today".to_owned(), json!(at.get(..10).unwrap_or_default()));
        if let Some(body) = known.get("body").cloned() {
            known.entry("payload").or_insert(body);
        }
        let event = known.get("event");
        let (payload, intent) =
            (event.and_then(|e| e.get("payload").cloned()), event.and_then(|e| e.get("intent_id").cloned()));
        if let Some(payload) = payload {
            known.entry("payload").or_insert(payload);
        }
        if let Some(intent) = intent {
            known.entry("source_intent_id").or_insert(intent);
        }
        known
    }
}
