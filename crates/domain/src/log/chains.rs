//! Chains (RFC-0019): verifies that a log is as recorded, from its events alone.
//!
//! Events and their sealing are in [`crate::log::events`]; checkpoints, which also detect a log that was rewritten
//! as a whole, are in [`crate::log::checkpoints`].

use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::ids::EventId;
use crate::log::events::{Sealed, sealed_hash};

/// A fault in a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Break {
    /// The sequence of the event at fault.
    pub sequence: i64,
    /// The event's id.
    pub event_id: EventId,
    /// The checkpoint that shows the fault, if one does; the event is then the last that it covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<String>,
    /// Description of the fault.
    #[schema(example = "the event's content does not give its hash")]
    pub reason: String,
}

impl Break {
    /// Creates a fault of one event.
    #[must_use]
    pub fn of(event: &Sealed, reason: &str) -> Self {
        Self { sequence: event.sequence, event_id: event.id, checkpoint_id: None, reason: reason.to_owned() }
    }
}

/// Verifies a chain: every event is in sequence, links to the one before it, and has the hash of its content.
///
/// Returns every fault found; none means that the chain is intact. `first` is the expected sequence of the
/// first event, `previous` the hash that it must link to.
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

/// Returns the fault at the end of a chain, if any: it must end with event `sequence` with the hash `head`.
///
/// Events cut off at the end or replaced there are only detected here. The fault of an empty chain carries
/// the nil id.
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
