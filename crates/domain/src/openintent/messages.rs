//! Messages (RFC-0021 §2 to §4): addressing, visibility and status.
//!
//! Addressing is resolved when a message is sent: a role addresses the agents that hold it at that moment. A directed
//! message is visible to its sender, its recipients and the channel's managers only.

pub mod proofs;

use serde::{Deserialize, Serialize};

use crate::access::{AccessLevel, Level};
use crate::clock::{Timestamp, plus_seconds, rfc3339};
use crate::identity::principals::check_name;
use crate::ids::{ChannelId, IntentId, MessageId};
use crate::limits::DURATION_SECONDS;
use crate::openintent::channels::{Channel, ChannelStatus, closed, not_a_member};
use crate::payload::Payload;
use crate::payload::questions::carries_question;
use crate::refusal::{Code, Refusal};

/// Purpose of a message (RFC-0021 §2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MessageType {
    /// Expects a response.
    Request,
    /// Answers a request.
    Response,
    /// Informs, expects nothing.
    Notify,
    /// Informs everybody on the channel.
    Broadcast,
}

impl MessageType {
    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Notify => "notify",
            Self::Broadcast => "broadcast",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Request, Self::Response, Self::Notify, Self::Broadcast]
            .into_iter()
            .find(|t| t.as_str() == text)
    }
}

/// Delivery status of a message (RFC-0021 §2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MessageStatus {
    /// Accepted, not yet stored; no client ever sees this status, because Entente responds after the commit.
    Pending,
    /// Stored, and available to its recipients.
    Delivered,
    /// A recipient has acknowledged it.
    Read,
    /// Its expiry time has passed, or its subject is closed.
    Expired,
}

impl MessageStatus {
    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Read => "read",
            Self::Expired => "expired",
        }
    }
}

/// Addressee of a message (RFC-0021 §4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// One agent, §4.1.
    Agent(String),
    /// All agents that hold the role, §4.2.
    Role(String),
    /// All members, §4.3.
    Everybody,
}

impl Address {
    /// Parses a `to`.
    ///
    /// # Errors
    /// An invalid name.
    pub fn parse(to: &str) -> Result<Self, Refusal> {
        if to == "*" {
            return Ok(Self::Everybody);
        }
        if let Some(role) = to.strip_prefix("role:") {
            check_name("to", role)?;
            return Ok(Self::Role(role.to_owned()));
        }
        check_name("to", to)?;
        Ok(Self::Agent(to.to_owned()))
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Identifier; contains the number.
    pub id: MessageId,
    /// Number in the channel, starting at 1 and without gaps.
    pub number: u32,
    /// Position in the intent's log.
    pub seq: i64,
    /// Channel.
    pub channel_id: ChannelId,
    /// Intent of the channel.
    pub intent_id: IntentId,
    /// Agent that sent the message.
    pub sender: String,
    /// Address as given: an agent, `role:…`, `*`, or `None` for no particular recipient.
    pub to: Option<String>,
    /// Agents that the address resolved to when it was sent; `None` for everybody.
    pub recipients: Option<Vec<String>>,
    /// Purpose.
    pub message_type: MessageType,
    /// Request that the message answers.
    pub correlation_id: Option<MessageId>,
    /// Content.
    pub payload: Payload,
    /// Hints for routing and tracing.
    pub metadata: Option<Payload>,
    /// Time of sending.
    pub created_at: Timestamp,
    /// Expiry time.
    pub expires_at: Option<Timestamp>,
    /// Delivery status.
    pub status: MessageStatus,
    /// Time of the first acknowledgement by a recipient.
    pub read_at: Option<Timestamp>,
}

impl Message {
    /// Returns whether `agent` is a recipient of the message.
    #[must_use]
    pub fn is_for(&self, agent: &str) -> bool {
        match &self.recipients {
            None => true,
            Some(list) => list.iter().any(|recipient| recipient == agent),
        }
    }

    /// Returns whether `viewer` may know of the message (RFC-0021 §4, OI-1.6).
    #[must_use]
    pub fn visible_to(&self, viewer: &Viewer<'_>) -> bool {
        viewer.manages
            || viewer.sees_all
            || self.sender == viewer.agent
            || (viewer.admitted && self.is_for(viewer.agent))
    }

    /// Requires that `viewer` may mark the message read (RFC-0021 §2.5).
    ///
    /// # Errors
    /// [`Code::Forbidden`] for non-recipients, including the sender of an undirected message; [`Code::MessageExpired`].
    pub fn may_be_marked_read(&self, viewer: &Viewer<'_>) -> Result<(), Refusal> {
        let echo = self.recipients.is_none() && self.sender == viewer.agent;
        if echo || !viewer.admitted || !self.is_for(viewer.agent) {
            return Err(Refusal::new(Code::Forbidden, "Only those whom a message is for can mark it read."));
        }
        if self.status == MessageStatus::Expired {
            return Err(Refusal::new(
                Code::MessageExpired,
                "The message has expired and can no longer be marked read.",
            ));
        }
        Ok(())
    }

    /// Returns whether lists and streams contain the message for `viewer`.
    ///
    /// An expired message is no longer delivered (RFC-0021 §2.2); only its sender and the channel's managers still
    /// see it there, with its status.
    #[must_use]
    pub fn delivered_to(&self, viewer: &Viewer<'_>) -> bool {
        self.visible_to(viewer)
            && (self.status != MessageStatus::Expired || viewer.manages || self.sender == viewer.agent)
    }
}

/// An agent that reads a channel's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Viewer<'a> {
    /// The reading agent.
    pub agent: &'a str,
    /// Whether the channel admits it.
    pub admitted: bool,
    /// Whether it manages the channel.
    pub manages: bool,
    /// Whether its key may act as any agent and so reads on behalf of all (OI-1.6; not in strict mode).
    pub sees_all: bool,
}

impl Viewer<'_> {
    /// Requires that the viewer may read the channel's messages at all (RFC-0021 §5.2).
    ///
    /// # Errors
    /// [`Code::NotAMember`].
    pub fn require(&self, channel: &Channel) -> Result<(), Refusal> {
        if self.admitted || self.manages || self.sees_all {
            Ok(())
        } else {
            Err(not_a_member(channel, self.agent))
        }
    }
}

/// A message to be sent.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Sending agent; checked against the key.
    pub sender: String,
    /// Address.
    pub to: Option<String>,
    /// Purpose.
    pub message_type: MessageType,
    /// Request that the message answers.
    pub correlation_id: Option<MessageId>,
    /// Content.
    pub payload: Payload,
    /// Hints for routing and tracing.
    pub metadata: Option<Payload>,
    /// Expiry time.
    pub expires_at: Option<Timestamp>,
}

/// Result of judging a draft: its resolved address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// `to` as it is stored.
    pub to: Option<String>,
    /// Agents that the address resolves to; `None` for everybody.
    pub recipients: Option<Vec<String>>,
}

/// Facts needed to judge a draft.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The channel in its current state.
    pub channel: &'a Channel,
    /// The sender's access level on the intent.
    pub access: AccessLevel,
    /// Agents that hold the addressed role and have access to the intent; empty for other addresses.
    pub holders: &'a [String],
    /// Message that the draft answers, with its current status, if the channel has it.
    pub original: Option<&'a Message>,
    /// The setting `ENTENTE_STRICT_RFC0021` (OI-2).
    pub strict: bool,
}

/// Judges a draft (RFC-0021 §2.3, §4, §5).
///
/// # Errors
/// A closed channel, a sender that may not speak there, an address that does not fit the type or has no recipients,
/// an expiry time in the past, a response without a valid request, or a question that belongs before one person.
pub fn judge(draft: &Draft, case: Case<'_>, now: Timestamp) -> Result<Ruling, Refusal> {
    // Every agent with read access to the intent may take part if the channel admits it (§5.1, §5.2): sending a
    // message does not change the intent, so `write` is not required.
    case.access.require(Level::Read)?;
    if !case.channel.admits(&draft.sender) {
        return Err(not_a_member(case.channel, &draft.sender));
    }
    if case.channel.status_at(now) == ChannelStatus::Closed {
        return Err(closed(case.channel));
    }
    if case.channel.message_count >= i64::from(u32::MAX) {
        return Err(Refusal::new(
            Code::ChannelClosed,
            "This channel has used up its numbers. Open another one.",
        ));
    }
    check_expiry(draft.expires_at, now)?;
    check_carried(draft)?;
    if draft.message_type == MessageType::Response {
        return respond(draft, case);
    }
    if draft.correlation_id.is_some() {
        return Err(Refusal::field(
            Code::Unprocessable,
            "correlation_id",
            "unexpected",
            "Only a response has a `correlation_id`. Send it with message_type \"response\", or leave it out.",
        ));
    }
    resolve(draft, case)
}

/// Refuses a question to a person: it must be delivered to that person alone (binding moment §7.4), but a channel's
/// managers read everything, regardless of `to`.
fn check_carried(draft: &Draft) -> Result<(), Refusal> {
    let parts = [("payload", Some(&draft.payload)), ("metadata", draft.metadata.as_ref())];
    let Some((member, _)) =
        parts.into_iter().find(|(_, part)| part.is_some_and(|part| carries_question(part.as_str())))
    else {
        return Ok(());
    };
    let message = format!(
        "`{member}` has a `binding_moment`, a question to one person, and a channel is shared. Ask that person: POST \
         /api/v1/moments; a message may name the moment's id."
    );
    Err(Refusal::field(Code::InvalidMoment, member, "broadcast", message))
}

fn check_expiry(expires_at: Option<Timestamp>, now: Timestamp) -> Result<(), Refusal> {
    let Some(end) = expires_at else { return Ok(()) };
    if end <= now {
        return Err(Refusal::field(
            Code::AlreadyExpired,
            "expires_at",
            "past",
            format!("`expires_at` lies in the past (it is {} now). Send a later one or none.", rfc3339(now)),
        ));
    }
    if end > plus_seconds(now, DURATION_SECONDS) {
        return Err(Refusal::field(
            Code::Unprocessable,
            "expires_at",
            "too_far",
            "`expires_at` is more than ten years away. Leave it out for a message that does not expire.",
        ));
    }
    Ok(())
}

/// Addresses a response to the original's sender (§2.3); only recipients of a directed original may respond.
fn respond(draft: &Draft, case: Case<'_>) -> Result<Ruling, Refusal> {
    let Some(original) = case.original else {
        return Err(Refusal::field(
            Code::NotARequest,
            "correlation_id",
            "unknown",
            "A response needs the `correlation_id` of a request on this channel that you can see.",
        ));
    };
    if case.strict && original.message_type != MessageType::Request {
        return Err(Refusal::field(
            Code::NotARequest,
            "correlation_id",
            "not_a_request",
            format!(
                "The message is a {}, not a request; it cannot be answered.",
                original.message_type.as_str()
            ),
        ));
    }
    if original.status == MessageStatus::Expired {
        return Err(Refusal::new(
            Code::MessageExpired,
            "The request has expired; its sender no longer waits. Send a notify if it should know anyway.",
        ));
    }
    if original.recipients.is_some() && !original.is_for(&draft.sender) {
        return Err(Refusal::new(
            Code::Forbidden,
            "This request is for somebody else; only those it is for can answer it.",
        ));
    }
    Ok(Ruling { to: Some(original.sender.clone()), recipients: Some(vec![original.sender.clone()]) })
}

fn resolve(draft: &Draft, case: Case<'_>) -> Result<Ruling, Refusal> {
    let everybody = Ruling { to: Some("*".to_owned()), recipients: None };
    let address = draft.to.as_deref().map(Address::parse).transpose()?;
    match (draft.message_type, address) {
        (MessageType::Broadcast, None | Some(Address::Everybody)) => Ok(everybody),
        (MessageType::Broadcast, Some(_)) => Err(Refusal::field(
            Code::Unprocessable,
            "to",
            "broadcast",
            "A broadcast goes to everybody on the channel. Send a notify to address somebody.",
        )),
        (MessageType::Request, None | Some(Address::Everybody)) if case.strict => Err(Refusal::field(
            Code::Unprocessable,
            "to",
            "missing",
            "A request needs a `to`: an agent or a role (RFC-0021 §2.3).",
        )),
        // Clients of the reference server send requests without a recipient (OI-2.3).
        (MessageType::Request, None) | (_, Some(Address::Everybody)) => Ok(everybody),
        (_, None) => Ok(Ruling { to: None, recipients: None }),
        (_, Some(Address::Agent(agent))) => {
            if !case.channel.admits(&agent) {
                return Err(not_a_member(case.channel, &agent));
            }
            Ok(Ruling { to: Some(agent.clone()), recipients: Some(vec![agent]) })
        }
        (_, Some(Address::Role(role))) => {
            let holders: Vec<String> =
                case.holders.iter().filter(|holder| case.channel.admits(holder)).cloned().collect();
            if holders.is_empty() {
                return Err(Refusal::field(
                    Code::NoRecipient,
                    "to",
                    "no_recipient",
                    format!(
                        "No agent with access to this channel holds the role `{role}`. Register one with that role_id."
                    ),
                ));
            }
            Ok(Ruling { to: Some(format!("role:{role}")), recipients: Some(holders) })
        }
    }
}
