//! Sessions (ARCP §5 to §7): the conversation with one client, without any IO. Frames, answers and time go in; frames to
//! send, things to be asked of the deeds, and the end come out (`machine.rs`).
//!
//! `envelope.rs` reads frames, `wire.rs` writes them, `features.rs` is what both sides can, `dialects.rs` and `legacy.rs`
//! what differs from client to client, `lines.rs` how large chunks are cut for stdio, `tokens.rs` what a client proves
//! itself with. Where sessions are kept is `src/app/sessions.rs`; the jobs are `jobs.rs`.

pub mod dialects;
pub mod dialogue;
pub mod envelope;
pub mod features;
pub mod legacy;
pub mod lines;
pub mod machine;
pub mod tokens;
pub mod wire;

use std::time::Duration;

use crate::clock::Timestamp;
use crate::ids::{Chance, JobId};

/// Bytes of a frame that a client may send.
pub const FRAME_BYTES: usize = 1024 * 1024;
/// Bytes of a frame that is sent to a client: some close the connection at 1 MiB (contract 2).
pub const SENT_BYTES: usize = 1_000_000;
/// Bytes of a line on stdio: some clients die of one of 64 KiB (contract 2).
pub const LINE_BYTES: usize = 60_000;
/// Jobs that one session may be subscribed to.
pub const FOLLOWS: usize = 1_000;
/// Jobs of one page of a list, at the most, and when nothing is said.
pub const PAGE: u32 = 1_000;
/// See [`PAGE`].
pub const USUAL_PAGE: u32 = 100;
/// Events that a client may lag behind, having said up to where it is, before it is told so (contract 10).
pub const LAG: i64 = 50;

/// When something happens, and what is needed to give it a name.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// On a steady clock, since any fixed moment.
    pub at: Duration,
    /// On the clock on the wall.
    pub now: Timestamp,
    /// Where ids come from.
    pub chance: &'a dyn Chance,
}

/// An event of a job on its way to a session, with its number there.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Its number in the session, as it is stored.
    pub event_seq: i64,
    /// The job.
    pub job_id: JobId,
    /// The job's trace.
    pub trace_id: String,
    /// What it is.
    pub what: What,
    /// When it happened.
    pub ts: Timestamp,
    /// Of an event its body, else the whole payload: JSON.
    pub body: String,
}

/// What is delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A `job.event` of this kind.
    Event(String),
    /// A `job.result`.
    Result,
    /// A `job.error`.
    Error,
}

impl What {
    /// Reads a stored type and kind; `None` when they are none.
    #[must_use]
    pub fn parse(word: &str, kind: Option<String>) -> Option<Self> {
        match word {
            "job.event" => kind.map(Self::Event),
            "job.result" => Some(Self::Result),
            "job.error" => Some(Self::Error),
            _ => None,
        }
    }

    /// The type of its frame.
    #[must_use]
    pub fn wire(&self) -> &'static str {
        match self {
            Self::Event(_) => "job.event",
            Self::Result => "job.result",
            Self::Error => "job.error",
        }
    }
}
