//! The wire format of a message (RFC-0021 §2): in the message routes, and in the frames of streams and webhooks.

use std::sync::LazyLock;

use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{ChannelId, MessageId};
use entente_domain::openintent::messages::{Message, MessageStatus, MessageType};
use entente_domain::payload::Payload;
use serde::Serialize;
use utoipa::ToSchema;

use crate::wire::WireTime;

/// Metadata of a message without any, in strict mode.
static NO_METADATA: LazyLock<Payload> = LazyLock::new(Payload::empty);

/// A message.
#[derive(Debug, Serialize, ToSchema)]
pub struct MessageBody<'a> {
    /// Message id; also the cursor that continues after the message.
    id: MessageId,
    /// The channel.
    channel_id: ChannelId,
    /// Agent that sent the message.
    #[schema(example = "agent.researcher")]
    sender: &'a str,
    /// Addressee: an agent, `role:…`, `*`, or null if the message is not directed.
    #[schema(example = "agent.data")]
    to: Option<&'a str>,
    /// Type of the message.
    message_type: MessageType,
    /// The request that this message answers.
    correlation_id: Option<MessageId>,
    /// Content of the message.
    #[schema(value_type = Object, example = json!({ "question": "What schema version does the Q1 dataset use?" }))]
    payload: &'a Payload,
    /// Hints for routing and tracing; null if there are none, in strict mode `{}`.
    #[schema(value_type = Option<Object>)]
    metadata: Option<&'a Payload>,
    /// Status of the message.
    status: MessageStatus,
    /// When the message was sent.
    created_at: WireTime,
    /// When the message expires.
    expires_at: Option<WireTime>,
    /// When a recipient first acknowledged the message.
    read_at: Option<WireTime>,
}

impl<'a> MessageBody<'a> {
    /// Returns the message in the client's dialect; in strict mode, `metadata` is never null (OI-2.11).
    #[must_use]
    pub fn new(message: &'a Message, strict: bool, dialect: Dialect) -> Self {
        let none = strict.then(|| &*NO_METADATA);
        Self {
            id: message.id,
            channel_id: message.channel_id,
            sender: &message.sender,
            to: message.to.as_deref(),
            message_type: message.message_type,
            correlation_id: message.correlation_id,
            payload: &message.payload,
            metadata: message.metadata.as_ref().or(none),
            status: message.status,
            created_at: WireTime::new(message.created_at, dialect),
            expires_at: message.expires_at.map(|end| WireTime::given(end, dialect)),
            read_at: message.read_at.map(|at| WireTime::new(at, dialect)),
        }
    }
}
