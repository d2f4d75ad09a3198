//! Channels (RFC-0021 §1, §5): message channels between the agents of one intent, their members and their
//! lifetime.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::{AccessLevel, Level};
use crate::clock::{Timestamp, plus_seconds};
use crate::identity::principals::check_name;
use crate::ids::{ChannelId, IntentId};
use crate::limits::{DEFAULT_MAX_MESSAGES, DURATION_SECONDS, MAX_MESSAGES, MEMBERS, METADATA_BYTES};
use crate::refusal::{Code, Refusal};

/// The rule that decides which agents may take part in a channel (RFC-0021 §1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MemberPolicy {
    /// Only listed members.
    Explicit,
    /// Any agent with access to the intent.
    Intent,
}

impl MemberPolicy {
    /// Returns the policy's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::Intent => "intent",
        }
    }

    /// Parses a policy's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Explicit, Self::Intent].into_iter().find(|policy| policy.as_str() == text)
    }
}

/// Whether a channel accepts messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChannelStatus {
    /// It accepts messages.
    Open,
    /// It does not accept messages any more; this is final.
    Closed,
}

/// Why a channel was closed (RFC-0021 §1.3, §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// By a manager of the channel.
    Requested,
    /// The intent was completed or abandoned, §7.1.
    IntentResolved,
    /// Its time to live after the last message ran out, §1.2.
    TtlExpired,
    /// Its task ended, §7.3.
    TaskEnded,
}

impl CloseReason {
    /// Returns the reason's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::IntentResolved => "intent_resolved",
            Self::TtlExpired => "ttl_expired",
            Self::TaskEnded => "task_ended",
        }
    }
}

/// A channel's effective options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Whether every message is copied to the intent's log (§6).
    pub audit: bool,
    /// Seconds after the last message at which the channel closes.
    pub ttl_seconds: Option<u32>,
    /// Number of messages kept; older ones are evicted.
    pub max_messages: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { audit: false, ttl_seconds: None, max_messages: DEFAULT_MAX_MESSAGES }
    }
}

impl Options {
    /// Parses the known keys of an `options` object; unknown ones have no effect.
    ///
    /// # Errors
    /// A known key of the wrong type or out of its range, or an object over its limit.
    pub fn read(given: &Map<String, Value>) -> Result<Self, Refusal> {
        let fault =
            |key: &str, message: String| Err(Refusal::field(Code::InvalidRequest, "options", key, message));
        if serde_json::to_string(given).map_or(0, |text| text.len()) > METADATA_BYTES {
            return fault("too_large", format!("`options` has at most {METADATA_BYTES} bytes."));
        }
        let mut options = Self::default();
        match given.get("audit") {
            None | Some(Value::Null) => {}
            Some(Value::Bool(audit)) => options.audit = *audit,
            Some(_) => return fault("audit", "`options.audit` must be true or false.".to_owned()),
        }
        let number = |value: &Value, most: u32| {
            value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| (1..=most).contains(n))
        };
        match given.get("ttl_seconds") {
            None | Some(Value::Null) => {}
            Some(value) => match number(value, DURATION_SECONDS) {
                Some(seconds) => options.ttl_seconds = Some(seconds),
                None => {
                    return fault(
                        "ttl_seconds",
                        format!(
                            "`options.ttl_seconds` must be null or a number from 1 to {DURATION_SECONDS}."
                        ),
                    );
                }
            },
        }
        match given.get("max_messages") {
            None | Some(Value::Null) => {}
            Some(value) => match number(value, MAX_MESSAGES) {
                Some(count) => options.max_messages = count,
                None => {
                    return fault(
                        "max_messages",
                        format!("`options.max_messages` must be a number from 1 to {MAX_MESSAGES}."),
                    );
                }
            },
        }
        Ok(options)
    }

    /// Returns the options in full, as strict clients expect them (RFC-0021 §1.1).
    #[must_use]
    pub fn filled(self) -> Map<String, Value> {
        Map::from_iter([
            ("audit".to_owned(), Value::from(self.audit)),
            ("ttl_seconds".to_owned(), Value::from(self.ttl_seconds)),
            ("max_messages".to_owned(), Value::from(self.max_messages)),
        ])
    }
}

/// A channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// The channel's id.
    pub id: ChannelId,
    /// The intent it is attached to.
    pub intent_id: IntentId,
    /// The task it is scoped to.
    pub task_id: Option<String>,
    /// Its name, unique among the intent's open channels.
    pub name: String,
    /// The agent that opened it.
    pub created_by: String,
    /// The listed members.
    pub members: Vec<String>,
    /// Whether only listed members may take part.
    pub member_policy: MemberPolicy,
    /// The options as they were given (OI-10.1.1).
    pub given_options: Option<Map<String, Value>>,
    /// The effective options.
    pub options: Options,
    /// The status as last written; see [`Channel::status_at`].
    pub status: ChannelStatus,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// Number of messages ever sent, which is also the number of the last one.
    pub message_count: i64,
    /// When the last message was sent.
    pub last_message_at: Option<Timestamp>,
}

/// Input for a new channel.
#[derive(Debug, Clone)]
pub struct ChannelAsk {
    /// The channel's name.
    pub name: String,
    /// The members to list.
    pub members: Vec<String>,
    /// Whether only listed members may take part; defaults to `intent`.
    pub member_policy: Option<MemberPolicy>,
    /// The task to scope it to.
    pub task_id: Option<String>,
    /// The options.
    pub options: Option<Map<String, Value>>,
}

impl ChannelAsk {
    /// Returns the input for the channel that a first message to an unknown name opens (RFC-0021 §1.4).
    #[must_use]
    pub fn implicit(name: &str) -> Self {
        Self { name: name.to_owned(), members: Vec::new(), member_policy: None, task_id: None, options: None }
    }
}

/// Opens a channel.
///
/// # Errors
/// An access level below write, an invalid name or member, or invalid options.
pub fn create(
    ask: ChannelAsk,
    intent_id: IntentId,
    agent: &str,
    access: AccessLevel,
    id: ChannelId,
    now: Timestamp,
) -> Result<Channel, Refusal> {
    access.require(Level::Write)?;
    check_name("name", &ask.name)?;
    if let Some(task) = &ask.task_id {
        check_name("task_id", task)?;
    }
    let options = ask.options.as_ref().map_or_else(|| Ok(Options::default()), Options::read)?;
    Ok(Channel {
        id,
        intent_id,
        task_id: ask.task_id,
        name: ask.name,
        created_by: agent.to_owned(),
        members: members(ask.members)?,
        member_policy: ask.member_policy.unwrap_or(MemberPolicy::Intent),
        given_options: ask.options,
        options,
        status: ChannelStatus::Open,
        created_at: now,
        closed_at: None,
        message_count: 0,
        last_message_at: None,
    })
}

/// Returns the list without repetitions, in the order given.
fn members(given: Vec<String>) -> Result<Vec<String>, Refusal> {
    if given.len() > MEMBERS {
        return Err(Refusal::field(
            Code::TooLarge,
            "members",
            "too_long",
            format!("A channel has at most {MEMBERS} members. Use member_policy \"intent\" for more."),
        ));
    }
    let mut list: Vec<String> = Vec::with_capacity(given.len());
    for member in given {
        check_name("members", &member)?;
        if !list.contains(&member) {
            list.push(member);
        }
    }
    Ok(list)
}

/// Input for a change of a channel; members that are `None` are unchanged.
#[derive(Debug, Clone, Default)]
pub struct ChannelChange {
    /// The complete new list of members.
    pub members: Option<Vec<String>>,
    /// The new policy.
    pub member_policy: Option<MemberPolicy>,
    /// The complete new options.
    pub options: Option<Map<String, Value>>,
    /// The new status.
    pub status: Option<ChannelStatus>,
}

/// Returns the channel after a change, and the names of the changed members.
///
/// Only managers may change a channel (RFC-0021 §5.3).
///
/// # Errors
/// The caller is not a manager, a closed channel is to be changed or reopened, or lists or options are
/// invalid.
pub fn change(
    channel: &Channel,
    change: ChannelChange,
    manages: bool,
    now: Timestamp,
) -> Result<(Channel, Vec<&'static str>), Refusal> {
    require_manager(manages)?;
    let closes = change.status == Some(ChannelStatus::Closed);
    let changes_more = change.members.is_some() || change.member_policy.is_some() || change.options.is_some();
    let open = channel.status_at(now) == ChannelStatus::Open;
    if !open && (changes_more || change.status == Some(ChannelStatus::Open)) {
        return Err(closed(channel));
    }
    let mut next = channel.clone();
    let mut changed = Vec::new();
    if let Some(list) = change.members {
        next.members = members(list)?;
        changed.push("members");
    }
    if let Some(policy) = change.member_policy {
        next.member_policy = policy;
        changed.push("member_policy");
    }
    if let Some(given) = change.options {
        next.options = Options::read(&given)?;
        next.given_options = Some(given);
        changed.push("options");
    }
    if closes && open {
        next.status = ChannelStatus::Closed;
        next.closed_at = Some(now);
        changed.push("status");
    }
    Ok((next, changed))
}

/// Requires a manager of the channel.
///
/// # Errors
/// [`Code::Forbidden`].
pub fn require_manager(manages: bool) -> Result<(), Refusal> {
    if manages {
        return Ok(());
    }
    Err(Refusal::new(
        Code::Forbidden,
        "Only the channel's creator, the intent's coordinators and its admins manage a channel.",
    ))
}

/// Returns the refusal for a closed channel.
#[must_use]
pub fn closed(channel: &Channel) -> Refusal {
    let when = channel.closed_at.map_or_else(|| "its time ran out".to_owned(), crate::clock::rfc3339);
    Refusal::new(
        Code::ChannelClosed,
        format!(
            "This channel is closed ({when}). Open another one, or send to a channel of the intent by name."
        ),
    )
}

impl Channel {
    /// When the channel closes by itself, if no message is sent before.
    #[must_use]
    pub fn ttl_ends_at(&self) -> Option<Timestamp> {
        self.options.ttl_seconds.map(|ttl| plus_seconds(self.last_message_at.unwrap_or(self.created_at), ttl))
    }

    /// Returns the status at the given time: a time to live takes effect the instant it runs out.
    #[must_use]
    pub fn status_at(&self, now: Timestamp) -> ChannelStatus {
        if self.ttl_ends_at().is_some_and(|end| end <= now) { ChannelStatus::Closed } else { self.status }
    }

    /// Whether `agent` manages the channel: its creator, an admin of the intent by grant, or the intent's
    /// coordinator (RFC-0021 §5.3, OI-1.6).
    #[must_use]
    pub fn managed_by(&self, agent: &str, access: AccessLevel, coordinates: bool) -> bool {
        access.level.is_some() && (agent == self.created_by || access.manages() || coordinates)
    }

    /// Whether `agent`, which has access to the intent, may take part.
    #[must_use]
    pub fn admits(&self, agent: &str) -> bool {
        match self.member_policy {
            MemberPolicy::Intent => true,
            MemberPolicy::Explicit => self.members.iter().any(|member| member == agent),
        }
    }

    /// Returns the eviction floor: messages with this number or a lower one are evicted (RFC-0021 §1.2,
    /// `max_messages`).
    #[must_use]
    pub fn floor(&self) -> i64 {
        self.message_count.saturating_sub(i64::from(self.options.max_messages)).max(0)
    }
}

/// Returns the refusal for an agent that is not a member.
#[must_use]
pub fn not_a_member(channel: &Channel, agent: &str) -> Refusal {
    Refusal::new(
        Code::NotAMember,
        format!(
            "`{agent}` is not a member of this channel. Its creator ({}) can add members with PATCH …/channels/{}.",
            channel.created_by, channel.id
        ),
    )
}
