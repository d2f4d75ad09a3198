//! Messages of a turn, as `POST /turn` and the tool `turn` take them: each names its channel.

use entente_domain::ids::{ChannelId, MessageId};
use entente_domain::openintent::messages::Draft;
use entente_domain::refusal::Refusal;
use entente_http::body::id_of_item;
use entente_http::wire::GivenTime;
use entente_kernel::Caller;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::SendBody;

/// A message to send.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TurnMessage)]
pub struct TurnMessageBody {
    /// The channel.
    channel_id: String,
    /// Agent that sends the message; defaults to the one that takes the turn.
    sender: Option<String>,
    /// Addressee: an agent, `role:…` or `*`.
    to: Option<String>,
    /// `request`, `response`, `notify` or `broadcast`; defaults to `notify`.
    message_type: Option<String>,
    /// For a response: the id of the request.
    correlation_id: Option<String>,
    /// Content: an object of up to 256 KiB; defaults to `{}`, required in strict mode.
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
    /// Hints for routing and tracing: an object of up to 16 KiB.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Box<RawValue>>,
    /// When the message expires.
    expires_at: Option<GivenTime>,
}

impl TurnMessageBody {
    /// Checks the message; returns its channel, too.
    ///
    /// # Errors
    /// The channel's id is none; the key may not act as the sender; a member is invalid.
    pub fn draft(self, caller: &Caller, strict: bool) -> Result<(ChannelId, Draft), Refusal> {
        let channel: ChannelId = id_of_item("channel", &self.channel_id)?;
        let sender = caller.speaker("sender", self.sender.as_deref(), strict)?;
        let Self { to, message_type, correlation_id, payload, metadata, expires_at, .. } = self;
        let body = SendBody {
            sender: sender.clone(),
            to,
            message_type,
            correlation_id,
            payload,
            metadata,
            expires_at,
        };
        Ok((channel, body.draft_of(sender, strict)?))
    }
}

/// A message to mark as read.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TurnRead)]
pub struct TurnReadBody {
    /// The channel.
    channel_id: String,
    /// The message.
    message_id: String,
}

impl TurnReadBody {
    /// Parses the ids.
    ///
    /// # Errors
    /// One of them is none.
    pub fn ids(&self) -> Result<(ChannelId, MessageId), Refusal> {
        Ok((id_of_item("channel", &self.channel_id)?, id_of_item("message", &self.message_id)?))
    }
}
