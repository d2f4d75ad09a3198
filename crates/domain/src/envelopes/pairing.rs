//! How a reply finds its task (AEE §4, §6.3). A task sent to one entity is over with its first result or error; one sent to
//! a channel has a pair with each who listened then, and each pair is over for itself.

use serde::{Deserialize, Serialize};

use super::{Envelope, EnvelopeType, Warning};
use crate::clock::Timestamp;
use crate::refusal::{Code, Refusal};

/// How far a pair is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairStatus {
    /// A person has to agree before it is handed out.
    Held,
    /// It waits for its result or error.
    Open,
    /// It has one.
    Closed,
    /// Its time ran out first; the gateway has said so.
    TimedOut,
}

impl PairStatus {
    /// The status as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Open => "open",
            Self::Closed => "closed",
            Self::TimedOut => "timed_out",
        }
    }

    /// Reads a status; `None` when there is no such status.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Held, Self::Open, Self::Closed, Self::TimedOut].into_iter().find(|one| one.as_str() == text)
    }
}

/// A task and one who is to answer it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The task's id.
    pub task_id: String,
    /// Who is to answer.
    pub respondent: String,
    /// Who asked.
    pub asker: String,
    /// The task's thread.
    pub corr: String,
    /// How far it is.
    pub status: PairStatus,
    /// Until when an answer counts.
    pub deadline: Option<Timestamp>,
}

impl Pair {
    /// How far it is at a moment: its time is over the instant it is.
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

/// What is known of the envelope that another one answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// Nothing.
    Nothing,
    /// It is no task.
    Other,
    /// It is a task, and these are its pairs that the answerer is in: none, when it was not sent to them.
    Task(Option<Pair>),
}

/// What becomes of an envelope that answers another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing else.
    Plain,
    /// As nothing else, with a word on what is odd.
    Odd(Warning),
    /// The pair is over.
    Closes,
}

fn mismatch(why: &str) -> Refusal {
    let message = format!(
        "`reply_to` does not fit: {why} (AEE §6.3). Answer the task that was sent to you, in its thread."
    );
    Refusal::field(Code::ReplyMismatch, "reply_to", "reply_mismatch", message)
}

/// Judges an envelope by what it answers.
///
/// # Errors
/// [`Code::ReplyMismatch`]: it answers what is no task, or a task of others, or in another thread; in strict mode, one that
/// is not known. [`Code::TaskClosed`]: there is an end already.
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

/// What is said of an answer to what is over.
#[must_use]
pub fn over(why: &str) -> Refusal {
    let message = format!(
        "The task is over: {why} (AEE §4). Send what you have to say as an event of the same thread."
    );
    Refusal::new(Code::TaskClosed, message)
}
