//! A frame: one thing that happened, and its encodings for the wire. Each encoding is made once, by whichever follower
//! needs it first; the door says how (`api/src/http/frames.rs`).

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use entente_domain::channels::Channel;
use entente_domain::events::Event;
use entente_domain::ids::IntentId;
use entente_domain::intents::Turn;
use entente_domain::keys::Dialect;
use entente_domain::messages::Message;
use entente_domain::receipts::Receipt;

use super::Place;

/// Which of the two families of subscription paths a stream was opened on; their event names differ (contract 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `/subscribe/…`, the reference server's.
    Reference,
    /// `/…/subscribe`, the SDK's.
    Sdk,
}

/// How a frame is written for a stream.
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

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Record {
    /// A message was sent.
    Message {
        /// The message.
        message: Arc<Message>,
        /// Its channel as it was then.
        channel: Arc<Channel>,
    },
    /// An event was recorded.
    Event {
        /// The event.
        event: Event,
        /// The intent around it, when it changed the intent.
        turn: Option<Arc<Turn>>,
    },
    /// Something happened to a message.
    Receipt {
        /// What happened.
        receipt: Receipt,
        /// The message as it is since.
        message: Arc<Message>,
        /// Its channel.
        channel: Arc<Channel>,
    },
}

impl Record {
    /// Its place in the intent's line.
    #[must_use]
    pub fn seq(&self) -> i64 {
        match self {
            Self::Message { message, .. } => message.seq,
            Self::Event { event, .. } => event.seq,
            Self::Receipt { receipt, .. } => receipt.seq,
        }
    }

    /// Its intent.
    #[must_use]
    pub fn intent_id(&self) -> IntentId {
        match self {
            Self::Message { message, .. } => message.intent_id,
            Self::Event { event, .. } => event.intent_id,
            Self::Receipt { receipt, .. } => receipt.intent_id,
        }
    }
}

/// What a stream's `id:` says: where to resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A number of the one intent's line.
    Line(i64),
    /// A place among all intents.
    House(Place),
}

/// A record with its mark and its encodings.
#[derive(Debug)]
pub struct Frame {
    /// Where to resume after it.
    pub mark: Mark,
    /// What happened.
    pub record: Record,
    encodings: [OnceLock<Bytes>; Wire::KINDS],
}

impl Frame {
    /// A frame that nobody has encoded yet.
    #[must_use]
    pub fn new(mark: Mark, record: Record) -> Self {
        Self { mark, record, encodings: Default::default() }
    }

    /// The frame as it goes over the wire, made by `encode` the first time. Empty: this kind of stream has no word for
    /// the record.
    pub fn encoded(&self, wire: Wire, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        // The index is below the array's length by construction.
        self.encodings[wire.index()].get_or_init(|| encode(self)).clone()
    }
}
