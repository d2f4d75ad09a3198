//! Chains (RFC-0019): whether a log is what was recorded, told from nothing but its events. What an event is and how it is
//! sealed is [`crate::events`]; checkpoints, which also find a log that was rewritten as a whole, are
//! [`crate::checkpoints`].

use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::events::{Sealed, sealed_hash};
use crate::ids::EventId;

/// Something that is wrong with a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Break {
    /// The event at fault, by its sequence.
    pub sequence: i64,
    /// Its id.
    pub event_id: EventId,
    /// The checkpoint that says so, when it is one: then the event is the last that it covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<String>,
    /// What is wrong.
    #[schema(example = "the event's content does not give its hash")]
    pub reason: String,
}

impl Break {
    /// A fault of one event.
    #[must_use]
    pub fn of(event: &Sealed, reason: &str) -> Self {
        Self { sequence: event.sequence, event_id: event.id, checkpoint_id: None, reason: reason.to_owned() }
    }
}

/// Verifies a chain: every event in its place, linked to the one before it, and with the hash that its content gives.
/// Answers with every fault found; a chain without any is whole. `first` is the sequence that the first event must
/// have, `previous` the hash that it must link to.
#[must_use]
pub fn verify(events: &[Sealed], first: i64, previous: Option<&str>) -> Vec<Break> {
    let mut breaks = Vec::new();
    let mut expected = Some(first);
    let mut previous = previous.map(str::to_owned);
    for event in events {
        let mut fault = |reason: &str| {
            breaks.push(Break::of(event, reason));
        };
        if Some(event.sequence) != expected {
            fault("its sequence does not follow the event before it: one is missing, added or moved");
        }
        if event.previous_event_hash != previous {
            fault("it does not link to the hash of the event before it");
        }
        let content = canonical::show(&sealed_hash(&Sealed { event_hash: None, ..event.clone() }));
        if event.event_hash.as_ref() != Some(&content) {
            fault("its content does not give its hash: it was changed after it was recorded");
        }
        expected = event.sequence.checked_add(1);
        previous.clone_from(&event.event_hash);
    }
    breaks
}

/// The fault at the end of a chain, if there is one: it must end with event `sequence`, whose hash is `head`. What was cut
/// off at the end, or put there instead, shows nowhere else. A chain of which nothing is left is accused under the nil id.
#[must_use]
pub fn verify_end(events: &[Sealed], sequence: i64, head: Option<&str>) -> Option<Break> {
    let last = events.last();
    let (end, hash) = last.map_or((0, None), |event| (event.sequence, event.event_hash.as_deref()));
    let reason = if end < sequence {
        format!("the log ends here, but event {sequence} was recorded: its end is missing")
    } else if end > sequence {
        format!("event {sequence} was the last that was recorded: this was added")
    } else if hash != head {
        "it does not have the hash of the last event that was recorded".to_owned()
    } else {
        return None;
    };
    let event_id = last.map_or(EventId::from(uuid::Uuid::nil()), |event| event.id);
    Some(Break { sequence: end, event_id, checkpoint_id: None, reason })
}
