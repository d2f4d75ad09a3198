//! Receipts: what happens to a message after it was sent (RFC-0021 §2.5), and who may have it written down.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::ids::{ChannelId, IntentId, MessageId};
use crate::messages::{Message, MessageStatus, Viewer};
use crate::refusal::{Code, Refusal};

/// Something that happened to a message after it was sent. Receipts take a number of their own in the intent's line,
/// so that streams show them in order and replay them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Its place in the intent's line.
    pub seq: i64,
    /// The intent.
    pub intent_id: IntentId,
    /// The channel.
    pub channel_id: ChannelId,
    /// The message.
    pub message_id: MessageId,
    /// What happened.
    pub kind: ReceiptKind,
    /// Who read it; empty when it expired.
    pub agent: String,
    /// When.
    pub at: Timestamp,
}

/// What can happen to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiptKind {
    /// A recipient acknowledged it.
    Read,
    /// It expired.
    Expired,
}

impl ReceiptKind {
    /// The kind as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Expired => "expired",
        }
    }

    /// Reads a kind; `None` when there is no such kind.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Read, Self::Expired].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Requires that `viewer` may mark a message read (RFC-0021 §2.5).
///
/// # Errors
/// [`Code::Forbidden`] for anybody it is not for, the sender of an undirected one included; [`Code::MessageExpired`].
pub fn require_recipient(message: &Message, viewer: &Viewer<'_>) -> Result<(), Refusal> {
    let echo = message.recipients.is_none() && message.sender == viewer.agent;
    if echo || !viewer.admitted || !message.is_for(viewer.agent) {
        return Err(Refusal::new(Code::Forbidden, "Only those whom a message is for can mark it read."));
    }
    if message.status == MessageStatus::Expired {
        return Err(Refusal::new(
            Code::MessageExpired,
            "The message has expired and can no longer be marked read.",
        ));
    }
    Ok(())
}
