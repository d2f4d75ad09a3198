//! Whose doing an intent is.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Trigger;
use crate::events::{Event, Kind};
use crate::ids::{IntentId, TriggerId};

/// Whose doing an intent is: the triggers in a row that led to it, the last one its own (RFC-0017 §5.2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The triggers.
    pub chain: Vec<TriggerId>,
}

impl Lineage {
    /// The lineage of what a trigger makes because of something with this one.
    #[must_use]
    pub fn with(&self, trigger: TriggerId) -> Self {
        let mut chain = self.chain.clone();
        chain.push(trigger);
        Self { chain }
    }

    /// How many triggers that is.
    #[must_use]
    pub fn depth(&self) -> u32 {
        u32::try_from(self.chain.len()).unwrap_or(u32::MAX)
    }

    /// As it stands in the log and in the intent's state.
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

/// The intent that an event is to be traced back by: of a firing, the intent that was made.
#[must_use]
pub fn source(event: &Event) -> Option<IntentId> {
    let fired = !event.posted && event.event_type == Kind::TriggerFired.wire();
    if fired {
        return event.payload.get("intent_id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    }
    (event.intent_id != IntentId::HOUSE).then_some(event.intent_id)
}
