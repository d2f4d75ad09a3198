//! Messages (RFC-0021 §2 to §4): what may be said to whom, who sees it, and what becomes of it.
//!
//! Addressing is resolved when a message is sent: a role names those who hold it at that moment. A directed message is
//! seen by its sender, its recipients and the channel's managers only.

use serde::{Deserialize, Serialize};

use crate::access::{Level, Standing};
use crate::channels::{Channel, ChannelStatus, closed, not_a_member};
use crate::clock::{Timestamp, plus_seconds, rfc3339};
use crate::ids::{ChannelId, IntentId, MessageId};
use crate::limits::DURATION_SECONDS;
use crate::moments::carries_question;
use crate::payload::Payload;
use crate::principals::check_name;
use crate::refusal::{Code, Refusal};

/// What a message is for (RFC-0021 §2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MessageType {
    /// Expects a response.
    Request,
    /// Answers a request.
    Response,
    /// Tells, expects nothing.
    Notify,
    /// Tells everybody on the channel.
    Broadcast,
}

impl MessageType {
    /// The type as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Notify => "notify",
            Self::Broadcast => "broadcast",
        }
    }

    /// Reads a type; `None` when there is no such type.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Request, Self::Response, Self::Notify, Self::Broadcast]
            .into_iter()
            .find(|t| t.as_str() == text)
    }
}

/// What has become of a message (RFC-0021 §2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MessageStatus {
    /// Taken in, not yet stored. Entente answers after the commit, so nobody ever reads this.
    Pending,
    /// Stored, and there for its recipients.
    Delivered,
    /// A recipient has acknowledged it.
    Read,
    /// Its time ran out, or what it was about is over.
    Expired,
}

impl MessageStatus {
    /// The status as it is written.
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

/// Whom a message is for (RFC-0021 §4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// One agent, §4.1.
    Agent(String),
    /// Whoever holds the role, §4.2.
    Role(String),
    /// All members, §4.3.
    Everybody,
}

impl Address {
    /// Reads a `to`.
    ///
    /// # Errors
    /// A name that is none.
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
    /// Its id; carries its number.
    pub id: MessageId,
    /// Its number in the channel, from 1 and without gaps.
    pub number: u32,
    /// Its place in the intent's line.
    pub seq: i64,
    /// The channel.
    pub channel_id: ChannelId,
    /// The channel's intent.
    pub intent_id: IntentId,
    /// Who sent it.
    pub sender: String,
    /// Whom it is for, as addressed: an agent, `role:…`, `*` or nobody in particular.
    pub to: Option<String>,
    /// Whom that came to when it was sent; `None` for everybody.
    pub recipients: Option<Vec<String>>,
    /// What it is for.
    pub message_type: MessageType,
    /// The request that it answers.
    pub correlation_id: Option<MessageId>,
    /// What it says.
    pub payload: Payload,
    /// Hints for routing and tracing.
    pub metadata: Option<Payload>,
    /// When it was sent.
    pub created_at: Timestamp,
    /// When it is too late for it.
    pub expires_at: Option<Timestamp>,
    /// What has become of it.
    pub status: MessageStatus,
    /// When a recipient first acknowledged it.
    pub read_at: Option<Timestamp>,
}

impl Message {
    /// Whether `agent` is one whom the message is for.
    #[must_use]
    pub fn is_for(&self, agent: &str) -> bool {
        match &self.recipients {
            None => true,
            Some(list) => list.iter().any(|recipient| recipient == agent),
        }
    }

    /// Whether `viewer` may know of the message (RFC-0021 §4, contract 1.6).
    #[must_use]
    pub fn visible_to(&self, viewer: &Viewer<'_>) -> bool {
        viewer.manages
            || viewer.sees_all
            || self.sender == viewer.agent
            || (viewer.admitted && self.is_for(viewer.agent))
    }

    /// Whether lists and streams hand the message to `viewer`. An expired one is no longer delivered (RFC-0021 §2.2);
    /// only its sender and the channel's managers still find it there, to see what became of it.
    #[must_use]
    pub fn delivered_to(&self, viewer: &Viewer<'_>) -> bool {
        self.visible_to(viewer)
            && (self.status != MessageStatus::Expired || viewer.manages || self.sender == viewer.agent)
    }
}

/// Who looks at a channel's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Viewer<'a> {
    /// The agent that looks.
    pub agent: &'a str,
    /// Whether the channel admits it.
    pub admitted: bool,
    /// Whether it manages the channel.
    pub manages: bool,
    /// Whether its key may act as any agent and so reads on behalf of all (contract 1.6; not in strict mode).
    pub sees_all: bool,
}

impl Viewer<'_> {
    /// Requires that the viewer may look at the channel's messages at all (RFC-0021 §5.2).
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

/// What is to be sent.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Who sends it; checked against the key.
    pub sender: String,
    /// Whom it is for.
    pub to: Option<String>,
    /// What it is for.
    pub message_type: MessageType,
    /// The request that it answers.
    pub correlation_id: Option<MessageId>,
    /// What it says.
    pub payload: Payload,
    /// Hints.
    pub metadata: Option<Payload>,
    /// When it will be too late for it.
    pub expires_at: Option<Timestamp>,
}

/// What the law says of a draft: whom it is for in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// `to` as it is stored.
    pub to: Option<String>,
    /// Whom that comes to; `None` for everybody.
    pub recipients: Option<Vec<String>>,
}

/// The facts that a draft is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The channel as it is.
    pub channel: &'a Channel,
    /// Where the sender stands with the intent.
    pub standing: Standing,
    /// Those who hold the role that the draft is addressed to and have access to the intent; empty otherwise.
    pub holders: &'a [String],
    /// The message that the draft answers, in its status at this moment, if the channel has it.
    pub original: Option<&'a Message>,
    /// The setting `ENTENTE_STRICT_RFC0021` (contract 2).
    pub strict: bool,
}

/// Judges a draft. RFC-0021 §2.3, §4, §5.
///
/// # Errors
/// A closed channel, a sender who may not speak there, an address that is wrong for the type or that nobody answers
/// to, an expiry in the past, a response that answers nothing, a question that belongs before one person.
pub fn judge(draft: &Draft, case: Case<'_>, now: Timestamp) -> Result<Ruling, Refusal> {
    // Whoever may read the intent takes part, as far as the channel admits it (§5.1, §5.2): saying something changes
    // nothing of the intent, which is what `write` is for.
    case.standing.require(Level::Read)?;
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

/// A question to a person is delivered to that person alone (binding moment §7.4); a channel is shared, whatever a message's
/// `to` says: its managers read everything.
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

/// A response goes to whoever sent the original (§2.3), and only those whom a directed original was for may give one.
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
        // Clients of the reference server send requests to nobody in particular (contract 2).
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
