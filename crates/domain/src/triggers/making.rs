//! What a trigger makes (RFC-0017 §5): the template of an intent, and the intent that it comes to when it is filled in.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::template::{self, Filling, Unfilled};
use super::{Cause, Lineage, Trigger};
use crate::clock::{Timestamp, rfc3339};
use crate::ids::FiringId;
use crate::intents::{IntentAsk, IntentStatus};
use crate::limits::LIST_ITEMS;
use crate::principals::check_name;
use crate::refusal::{Code, Refusal};

/// The member of an intent's state that says where it comes from.
pub const MARK: &str = "trigger";

/// An agent that is assigned to what is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assigned {
    /// The agent; may have paths in braces.
    pub agent_id: String,
    /// As what.
    pub role: String,
}

/// What a trigger makes. Every text may have paths in braces (`template.rs`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntentTemplate {
    /// The client's own word for what kind of intent it is; deduplication goes by it.
    pub r#type: String,
    /// The goal in a line; the trigger's name when it is empty.
    pub title: String,
    /// The goal in full.
    pub description: String,
    /// How much it matters, in the client's own words.
    pub priority: Option<String>,
    /// Who is assigned to it.
    pub assignee: Option<String>,
    /// Who else is.
    pub assignments: Vec<Assigned>,
    /// What it begins with in its state.
    pub context: Map<String, Value>,
    /// The same, by the name that intents have for it.
    pub state: Map<String, Value>,
    /// What must hold on the way.
    pub constraints: Map<String, Value>,
    /// The intent that it is a part of.
    pub parent_intent_id: Option<String>,
    /// The status to begin in.
    pub status: Option<IntentStatus>,
    /// The client's own word for where it belongs.
    pub graph_id: Option<String>,
    /// The client's own words.
    pub tags: Vec<String>,
}

/// What came of a template.
#[derive(Debug, Clone)]
pub struct Made {
    /// The intent that is asked for.
    pub ask: IntentAsk,
    /// Who is assigned to it.
    pub assignments: Vec<Assigned>,
}

/// What a firing is about.
#[derive(Debug, Clone)]
pub struct Occasion<'a> {
    /// Its id.
    pub firing: FiringId,
    /// What brought it about.
    pub cause: Cause,
    /// When.
    pub at: Timestamp,
    /// The time that it was due at, when it is that.
    pub due_at: Option<Timestamp>,
    /// What came with it: `event`, or `body`, `headers`, `query`.
    pub brought: &'a Map<String, Value>,
    /// Whose doing the intent is.
    pub lineage: &'a Lineage,
}

impl IntentTemplate {
    /// Checks a template that a client gives.
    ///
    /// # Errors
    /// What is in braces is none; it is too large; a member of the state that the server itself writes.
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
        // What has nothing to be filled in is checked now, and not when it is too late.
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
    /// What it makes on this occasion.
    ///
    /// # Errors
    /// Something that its template speaks of is not there, or does not fit.
    pub fn make(&self, occasion: &Occasion<'_>) -> Result<Made, Unfilled> {
        let known = self.known(occasion);
        let mut filling = Filling::new(&known);
        let nothing = IntentTemplate::default();
        let template = self.template.as_ref().unwrap_or(&nothing);
        let title = if template.title.trim().is_empty() { &self.name } else { &template.title };
        // A name is no template: whoever chose it did not write one.
        let title = if template.title.trim().is_empty() { title.clone() } else { filling.text(title)? };
        let mut state = filling.object(&template.context)?;
        state.extend(filling.object(&template.state)?);
        let transform = self.condition.as_ref().and_then(|condition| condition.transform.as_ref());
        if let Some(transform) = transform.filter(|_| occasion.cause == Cause::Webhook) {
            state.extend(filling.object(transform)?);
        }
        let tags: Result<Vec<String>, Unfilled> = template.tags.iter().map(|tag| filling.text(tag)).collect();
        let mut optional = |text: &Option<String>| text.as_deref().map(|text| filling.text(text)).transpose();
        let (priority, graph_id) = (optional(&template.priority)?, optional(&template.graph_id)?);
        let parent = optional(&template.parent_intent_id)?;
        let mut mark = occasion.lineage.shown(self);
        mark.extend(Map::from_iter([
            ("firing_id".to_owned(), json!(occasion.firing)),
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

    /// What templates can speak of on this occasion.
    fn known(&self, occasion: &Occasion<'_>) -> Map<String, Value> {
        let mut known = occasion.brought.clone();
        let at = rfc3339(occasion.at);
        let trigger = json!({
            "trigger_id": self.id, "id": self.id, "name": self.name, "type": self.kind,
            "namespace": self.namespace, "fire_count": self.fire_count + 1, "fired_at": at,
            "scheduled_at": occasion.due_at.map_or_else(|| at.clone(), rfc3339), "firing_id": occasion.firing,
            "depth": occasion.lineage.depth(),
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
