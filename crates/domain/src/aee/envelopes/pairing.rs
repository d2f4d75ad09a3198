//! Exchanges: the pairing of replies with their tasks (AEE §4, §6.3).
//!
//! A task sent to one entity is over with its first result or error. A task sent to a channel has one
//! exchange with each subscriber at that time, and each ends on its own.

use serde::{Deserialize, Serialize};

use super::{Envelope, EnvelopeType, Warning};
use crate::clock::Timestamp;
use crate::refusal::{Code, Refusal};

/// The status of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairStatus {
    /// A person has to approve the task before it is delivered.
    Held,
    /// It waits for its result or error.
    Open,
    /// It has its result or error.
    Closed,
    /// Its time ran out first; the gateway has notified the sender.
    TimedOut,
}

impl PairStatus {
    /// Returns the status's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Open => "open",
            Self::Closed => "closed",
            Self::TimedOut => "timed_out",
        }
    }

    /// Parses a status's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Held, Self::Open, Self::Closed, Self::TimedOut].into_iter().find(|one| one.as_str() == text)
    }
}

/// An exchange: a task and one entity that is expected to answer it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The task's id.
    pub task_id: String,
    /// The entity that is expected to answer.
    pub respondent: String,
    /// The sender of the task.
    pub asker: String,
    /// The task's thread.
    pub corr: String,
    /// The status as last written.
    pub status: PairStatus,
    /// The time from which an answer is too late.
    pub deadline: Option<Timestamp>,
}

impl Pair {
    /// Returns the status at the given time; the deadline takes effect at once.
    #[must_use]
    pub fn status_at(&self, now: Timestamp) -> PairStatus {
        match self.status {
            PairStatus::Open | PairStatus::Held if self.deadline.is_some_and(|deadline| deadline <= now) => {
                PairStatus::TimedOut
            }
            status => status,
        }
    }
}

/// The known facts about the envelope that another one answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// It is unknown.
    Nothing,
    /// It is not a task.
    Other,
    /// It is a task; contains the exchange with the answering entity, or `None` if the task was not sent to
    /// it.
    Task(Option<Pair>),
}

/// The effect of an envelope on the exchange that it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// None.
    Plain,
    /// None, but it gets a warning.
    Odd(Warning),
    /// The exchange is over.
    Closes,
}

fn mismatch(why: &str) -> Refusal {
    let message = format!(
        "`reply_to` does not fit: {why} (AEE §6.3). Answer the task that was sent to you, in its thread."
    );
    Refusal::field(Code::ReplyMismatch, "reply_to", "reply_mismatch", message)
}

/// Checks an envelope against the one that it answers.
///
/// # Errors
/// [`Code::ReplyMismatch`]: it does not answer a task, or answers the task of others, or in another thread;
/// in strict mode, also an unknown task. [`Code::TaskClosed`]: the exchange is over already.
pub fn judge(envelope: &Envelope, known: &Known, strict: bool, now: Timestamp) -> Result<Verdict, Refusal> {
    let ends = envelope.kind.is_terminal();
    if !ends && envelope.kind != EnvelopeType::Stream {
        return Ok(Verdict::Plain);
    }
    let pair = match known {
        Known::Nothing if ends && strict => return Err(mismatch("no task with this id is known here")),
        Known::Nothing if ends => return Ok(Verdict::Odd(Warning::UnmatchedReply)),
        Known::Other if ends => return Err(mismatch("what has this id is no task")),
        Known::Task(None) if ends => return Err(mismatch("the task was not sent to you")),
        Known::Nothing | Known::Other | Known::Task(None) => return Ok(Verdict::Plain),
        Known::Task(Some(pair)) => pair,
    };
    let status = pair.status_at(now);
    if !ends {
        let over = matches!(status, PairStatus::Closed | PairStatus::TimedOut);
        return Ok(if over { Verdict::Odd(Warning::StreamAfterTerminal) } else { Verdict::Plain });
    }
    if pair.corr != envelope.corr {
        return Err(mismatch("its task has another `corr`"));
    }
    if pair.asker != envelope.recipient {
        return Err(mismatch("the one who asked is not who it is sent to"));
    }
    match status {
        PairStatus::Open => Ok(Verdict::Closes),
        PairStatus::Held => Err(mismatch("the task was not handed out yet")),
        PairStatus::Closed => Err(over("it has its result or error already")),
        PairStatus::TimedOut => Err(over("its time ran out, and who asked was told so")),
    }
}

/// Returns the refusal of an answer to an exchange that is over.
#[must_use]
pub fn over(why: &str) -> Refusal {
    let message = format!(
        "The task is over: {why} (AEE §4). Send what you have to say as an event of the same thread."
    );
    Refusal::new(Code::TaskClosed, message)
}
