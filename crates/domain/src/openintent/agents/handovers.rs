//! Hand-overs: an agent passes its part of an intent to another one, with the state of the work, references, tasks and leases.
//! `POST /intents/{id}/handover`; not part of the RFCs, whose assignments only name the agent that delegates (OI-11.5.2).

use serde::{Deserialize, Serialize};

use crate::identity::principals::check_name;
use crate::ids::{LeaseId, TaskId};
use crate::payload::Payload;
use crate::refusal::{Code, Refusal};

/// Maximum number of bytes of the note for the other agent.
pub const NOTE_BYTES: usize = 16 * 1024;

/// Maximum number of bytes of the state of the work.
pub const STATE_BYTES: usize = 64 * 1024;

/// Maximum number of references, and of bytes of each.
const REFERENCES: usize = 100;
const REFERENCE_BYTES: usize = 2 * 1024;

/// A request for a hand-over.
#[derive(Debug, Clone)]
pub struct HandoverAsk {
    /// The agent that hands over; the acting one, or one whose work a manager of the intent passes on.
    pub from: String,
    /// The agent that takes over.
    pub to: String,
    /// Note to that agent, for people and models.
    pub note: Option<String>,
    /// State of the work, an object.
    pub state: Option<Payload>,
    /// References of the work: ids or addresses.
    pub references: Vec<String>,
    /// The tasks; all that the agent has, if none are named.
    pub tasks: Option<Vec<TaskId>>,
    /// The leases; all that the agent holds, if none are named.
    pub leases: Option<Vec<LeaseId>>,
}

impl HandoverAsk {
    /// Checks names and sizes.
    ///
    /// # Errors
    /// A name is invalid; both agents are the same; a text is too long.
    pub fn check(&self) -> Result<(), Refusal> {
        check_name("from", &self.from)?;
        check_name("to", &self.to)?;
        let wrong = |member: &str, kind: &str, message: String| {
            Err(Refusal::field(Code::InvalidRequest, member, kind, message))
        };
        if self.from == self.to {
            return wrong("to", "value", "An agent hands over to another one. Name that agent.".to_owned());
        }
        if self.note.as_ref().is_some_and(|note| note.len() > NOTE_BYTES) {
            return wrong(
                "note",
                "too_long",
                format!("`note` has more than {NOTE_BYTES} bytes. Refer to the rest."),
            );
        }
        let references = &self.references;
        if references.len() > REFERENCES || references.iter().any(|one| one.len() > REFERENCE_BYTES) {
            let message = format!(
                "`references` has more than {REFERENCES} items, or one of more than {REFERENCE_BYTES} bytes."
            );
            return wrong("references", "too_long", message);
        }
        Ok(())
    }
}

/// A task that was handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedTask {
    /// The task.
    pub task_id: TaskId,
    /// The claim of the agent that took over; `None` for a task that is only kept for it.
    pub claim_token: Option<i64>,
}
