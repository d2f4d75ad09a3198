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

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::ids::{Chance, JobId};
use crate::jobs::wire::Accepted;

/// Bytes of a frame that a client may send.
pub const FRAME_BYTES: usize = 1024 * 1024;
/// Bytes of a frame that is sent to a client: some close the connection at 1 MiB (contract 2).
pub const SENT_BYTES: usize = 1_000_000;
/// Bytes of a line on stdio: some clients die of one of 64 KiB (contract 2).
pub const LINE_BYTES: usize = 60_000;
/// Jobs that one session may be subscribed to.
pub const FOLLOWS: i64 = 1_000;
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
    /// The child that a `delegate` event tells of: its own `job.accepted` follows the event (ARCP §10).
    pub child: Option<Box<Accepted>>,
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

/// Bytes of a streamed result that a session which takes no chunks is handed inline; a larger one it is told the name of
/// (contract 9, decision 4).
pub const INLINE_BYTES: u64 = 256 * 1024;

#[derive(Deserialize)]
struct Streamed {
    result_id: String,
    #[serde(default)]
    result_size: u64,
}

/// The name of the streamed result that a `job.result` ends, when it is small enough to be handed over inline.
#[must_use]
pub fn small_stream(payload: &str) -> Option<String> {
    let said: Streamed = serde_json::from_str(payload).ok()?;
    (said.result_size <= INLINE_BYTES).then_some(said.result_id)
}

/// A `job.result` with a streamed text in the place of its name. `None` when it is none, or too large after all.
#[must_use]
pub fn inlined(payload: &str, bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= INLINE_BYTES)?;
    let mut said: Map<String, Value> = serde_json::from_str(payload).ok()?;
    said.remove("result_id")?;
    said.remove("result_size");
    said.insert("result".to_owned(), Value::String(text));
    serde_json::to_string(&said).ok()
}
