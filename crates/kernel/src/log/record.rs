//! A record: an entry of an intent's log, which is a message, an event or a receipt.

use std::sync::Arc;

use entente_domain::clock::Timestamp;
use entente_domain::ids::IntentId;
use entente_domain::log::events::Event;
use entente_domain::log::receipts::Receipt;
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::intents::StateChange;
use entente_domain::openintent::messages::Message;

/// An entry of an intent's log.
#[derive(Debug, Clone)]
pub enum Record {
    /// A message was sent.
    Message {
        /// The message.
        message: Arc<Message>,
        /// Its channel at that time.
        channel: Arc<Channel>,
    },
    /// An event was recorded.
    Event {
        /// The event.
        event: Event,
        /// The intent before and after, if the event changed it.
        change: Option<Arc<StateChange>>,
    },
    /// A message's status changed.
    Receipt {
        /// The receipt.
        receipt: Receipt,
        /// The message after the change.
        message: Arc<Message>,
        /// Its channel.
        channel: Arc<Channel>,
    },
}

impl Record {
    /// Returns the record's position in the intent's log.
    #[must_use]
    pub fn seq(&self) -> i64 {
        match self {
            Self::Message { message, .. } => message.seq,
            Self::Event { event, .. } => event.seq,
            Self::Receipt { receipt, .. } => receipt.seq,
        }
    }

    /// Returns the record's time.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Message { message, .. } => message.created_at,
            Self::Event { event, .. } => event.created_at,
            Self::Receipt { receipt, .. } => receipt.at,
        }
    }

    /// Returns the record's intent.
    #[must_use]
    pub fn intent_id(&self) -> IntentId {
        match self {
            Self::Message { message, .. } => message.intent_id,
            Self::Event { event, .. } => event.intent_id,
            Self::Receipt { receipt, .. } => receipt.intent_id,
        }
    }
}
