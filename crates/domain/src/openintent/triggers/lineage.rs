//! Causal chain of triggers behind an intent.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Trigger;
use crate::ids::{IntentId, TriggerId};
use crate::log::events::{Event, Kind};

/// Causal chain of an intent: the triggers that led to it in order, ending with its own (RFC-0017 §5.2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// Triggers.
    pub chain: Vec<TriggerId>,
}

impl Lineage {
    /// Returns the chain extended by a trigger that fires because of this one.
    #[must_use]
    pub fn with(&self, trigger: TriggerId) -> Self {
        let mut chain = self.chain.clone();
        chain.push(trigger);
        Self { chain }
    }

    /// Returns the number of triggers.
    #[must_use]
    pub fn depth(&self) -> u32 {
        u32::try_from(self.chain.len()).unwrap_or(u32::MAX)
    }

    /// Returns the chain as recorded in the log and in the intent's state.
    #[must_use]
    pub fn shown(&self, trigger: &Trigger) -> Map<String, Value> {
        let lineage = json!({
            "created_by": "trigger", "trigger_id": trigger.id, "trigger_type": trigger.kind,
            "trigger_depth": self.depth(), "trigger_chain": self.chain,
        });
        match lineage {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }
}

/// Returns the intent that provides an event's causal chain; for a firing, the created intent.
#[must_use]
pub fn source(event: &Event) -> Option<IntentId> {
    let fired = !event.posted && event.event_type == Kind::TriggerFired.wire();
    if fired {
        return event.payload.get("intent_id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    }
    (event.intent_id != IntentId::SYSTEM).then_some(event.intent_id)
}
