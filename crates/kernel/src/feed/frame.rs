//! Frames: a record with its wire encodings. Each encoding is made once, by the first follower that needs it;
//! the API supplies the encoder (`http/src/frames.rs`).

use std::sync::OnceLock;

use bytes::Bytes;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::IntentId;

use crate::log::{FormerPosition, GlobalPosition, Record};

/// The family of subscription paths that a stream was opened on; event names differ between them (OI-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `/subscribe/…`, of the reference server.
    Reference,
    /// `/…/subscribe`, of the SDK.
    Sdk,
}

/// How frames are encoded for a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// The family of the stream's path.
    pub family: Family,
    /// The dialect of its client.
    pub dialect: Dialect,
}

impl Wire {
    const KINDS: usize = 4;

    fn index(self) -> usize {
        let family = match self.family {
            Family::Reference => 0,
            Family::Sdk => 1,
        };
        let dialect = match self.dialect {
            Dialect::Standard => 0,
            Dialect::OpenIntentPython => 2,
        };
        family + dialect
    }
}

/// A stream's resume token, sent as `id:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeToken {
    /// A position in one intent's log.
    IntentLog(i64),
    /// The message with this number in a channel, as a client of the channel's stream named it.
    Message(u32),
    /// A position among all intents.
    Global(GlobalPosition),
    /// A position within the beginning of an agent's stream, which shows the agent's open assignments.
    Opening(Opening),
    /// A position of the form before among all intents, as a client sent it.
    Former(FormerPosition),
    /// A position of the form before within the beginning of an agent's stream.
    FormerOpening {
        /// Where the stream continues with the log.
        start: FormerPosition,
        /// The event of the last assignment that was shown.
        shown: FormerPosition,
    },
}

impl ResumeToken {
    /// Returns the number of a message, if it is one.
    #[must_use]
    pub fn number(self) -> Option<u32> {
        if let Self::Message(number) = self { Some(number) } else { None }
    }
}

/// The beginning of an agent's stream: it shows the agent's open assignments that are older than the stream, the oldest
/// first, and continues with the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Where the stream continues with the log; assignments from there on are shown by the log itself.
    pub start: GlobalPosition,
    /// Time and intent of the last assignment that was shown.
    pub shown: (Timestamp, IntentId),
}

impl Opening {
    /// Creates an opening that has shown nothing yet.
    #[must_use]
    pub fn at(start: GlobalPosition) -> Self {
        Self { start, shown: (Timestamp::UNIX_EPOCH, IntentId::SYSTEM) }
    }
}

/// A record with its resume token and encodings.
#[derive(Debug)]
pub struct Frame {
    /// The resume token after it.
    pub mark: ResumeToken,
    /// The record.
    pub record: Record,
    encodings: [OnceLock<Bytes>; Wire::KINDS],
}

impl Frame {
    /// Creates a frame without encodings.
    #[must_use]
    pub fn new(mark: ResumeToken, record: Record) -> Self {
        Self { mark, record, encodings: Default::default() }
    }

    /// Returns the wire encoding, made by `encode` the first time; empty if this kind of stream has no event
    /// for the record.
    pub fn encoded(&self, wire: Wire, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        // The index is below the array's length by construction.
        self.encodings[wire.index()].get_or_init(|| encode(self)).clone()
    }
}
