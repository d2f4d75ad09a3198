//! Sessions (ARCP §5 to §7): the protocol with one client, without IO. Input is frames, answers and time; output is
//! frames to send, requests to the server, and the end of the session (`machine.rs`).
//!
//! `envelope.rs` parses frames, `wire.rs` writes them, `features.rs` negotiates features, `dialects.rs` and
//! `legacy.rs` handle client differences, `lines.rs` splits large chunks for stdio, and `tokens.rs` checks resume and
//! signed tokens. Sessions are stored by `crates/arcp/src/sessions.rs`; jobs are in `jobs.rs`.

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

use crate::arcp::jobs::wire::Accepted;
use crate::clock::Timestamp;
use crate::ids::{Chance, JobId};

/// Maximum size of a frame from a client, in bytes.
pub const FRAME_BYTES: usize = 1024 * 1024;
/// Maximum size of a frame to a client, in bytes: some clients close the connection at 1 MiB (ARCP-W-2.4).
pub const SENT_BYTES: usize = 1_000_000;
/// Maximum length of a line on stdio, in bytes: some clients fail on a line of 64 KiB (ARCP-W-2.5).
pub const LINE_BYTES: usize = 60_000;
/// Maximum number of jobs that one session may subscribe to.
pub const FOLLOWS: i64 = 1_000;
/// Maximum number of jobs on one page of a list.
pub const PAGE: u32 = 1_000;
/// Default number of jobs on one page of a list.
pub const USUAL_PAGE: u32 = 100;
/// Number of unacknowledged events after which an acknowledging client is warned that it lags behind (ARCP-W-10.4).
pub const LAG: i64 = 50;

/// Time and randomness for handling one input.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// Time on a monotonic clock, since a fixed origin.
    pub at: Duration,
    /// Wall-clock time.
    pub now: Timestamp,
    /// Source of randomness for ids.
    pub chance: &'a dyn Chance,
}

/// An event of a job to be delivered to a session, with its number there.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Number in the session, as stored.
    pub event_seq: i64,
    /// Job.
    pub job_id: JobId,
    /// Trace of the job.
    pub trace_id: String,
    /// Kind of delivery.
    pub what: What,
    /// Time of the event.
    pub ts: Timestamp,
    /// JSON: the body of an event, otherwise the whole payload.
    pub body: String,
    /// Child job announced by a `delegate` event; its own `job.accepted` follows the event (ARCP §10).
    pub child: Option<Box<Accepted>>,
}

/// Kind of delivery.
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
    /// Parses a stored type and kind; `None` if unknown.
    #[must_use]
    pub fn parse(word: &str, kind: Option<String>) -> Option<Self> {
        match word {
            "job.event" => kind.map(Self::Event),
            "job.result" => Some(Self::Result),
            "job.error" => Some(Self::Error),
            _ => None,
        }
    }

    /// Returns the frame type.
    #[must_use]
    pub fn wire(&self) -> &'static str {
        match self {
            Self::Event(_) => "job.event",
            Self::Result => "job.result",
            Self::Error => "job.error",
        }
    }
}

/// Maximum size in bytes of a streamed result that is inlined for sessions without chunk support; for larger results
/// they get the name (ARCP-W-9.4).
pub const INLINE_BYTES: u64 = 256 * 1024;

#[derive(Deserialize)]
struct Streamed {
    result_id: String,
    #[serde(default)]
    result_size: u64,
}

/// Returns the id of the streamed result that a `job.result` ends, if it is small enough to be inlined.
#[must_use]
pub fn small_stream(payload: &str) -> Option<String> {
    let said: Streamed = serde_json::from_str(payload).ok()?;
    (said.result_size <= INLINE_BYTES).then_some(said.result_id)
}

/// Returns a `job.result` with the streamed text in place of its id; `None` if the payload does not fit, or the text
/// is too large.
#[must_use]
pub fn inlined(payload: &str, bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= INLINE_BYTES)?;
    let mut said: Map<String, Value> = serde_json::from_str(payload).ok()?;
    said.remove("result_id")?;
    said.remove("result_size");
    said.insert("result".to_owned(), Value::String(text));
    serde_json::to_string(&said).ok()
}
