//! Receipts: later events in the life of a message (RFC-0021 §2.5). Who may mark a message as read:
//! `Message::may_be_marked_read` (`openintent/messages.rs`).

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::ids::{ChannelId, IntentId, MessageId};

/// A later event in the life of a message.
///
/// Receipts have their own position in the intent's log, so that streams show them in order and replay them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Position in the intent's log.
    pub seq: i64,
    /// Intent.
    pub intent_id: IntentId,
    /// Channel.
    pub channel_id: ChannelId,
    /// Message.
    pub message_id: MessageId,
    /// Kind of event.
    pub kind: ReceiptKind,
    /// Agent that read the message; empty if it expired.
    pub agent: String,
    /// Time of the event.
    pub at: Timestamp,
}

/// Kind of receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiptKind {
    /// A recipient acknowledged the message.
    Read,
    /// The message expired.
    Expired,
}

impl ReceiptKind {
    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Expired => "expired",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Read, Self::Expired].into_iter().find(|kind| kind.as_str() == text)
    }
}
