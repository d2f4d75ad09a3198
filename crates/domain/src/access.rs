//! Access to an intent (RFC-0011): entries, the default policy and the access level that follows from them.
//!
//! An intent without an access control list is fully open. An open list with entries lets unlisted principals
//! read; a closed list keeps them out (OI-7.1, OI-7.3). The creator is always an admin. The operations enforce
//! these rules; requests for more access are in `access_requests`.

pub mod access_requests;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::identity::principals::check_name;
use crate::ids::{EntryId, IntentId};
use crate::limits::{LIST_ITEMS, TEXT_BYTES};
use crate::refusal::{Code, Refusal};

/// An access level (`permission` on the wire); each level includes the ones before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// View, subscribe, and take part in channels (RFC-0021 §5).
    Read,
    /// Patch, append events, open channels.
    Write,
    /// Change status and access, create children.
    Admin,
}

impl Level {
    /// Returns the level's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    /// Parses a level's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Read, Self::Write, Self::Admin].into_iter().find(|level| level.as_str() == text)
    }
}

/// The policy for principals without an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Unlisted principals may read, or do everything while the list has no entries.
    Open,
    /// Unlisted principals are kept out, and may request access.
    Closed,
}

impl Policy {
    /// Returns the policy's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }

    /// Parses a policy's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Open, Self::Closed].into_iter().find(|policy| policy.as_str() == text)
    }
}

/// One principal's entry in an access control list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The entry's id.
    pub id: EntryId,
    /// The intent it belongs to.
    pub intent_id: IntentId,
    /// The principal granted access.
    pub principal_id: String,
    /// The kind of principal: `agent`, or another name chosen by the granting client.
    pub principal_type: String,
    /// The access level granted.
    pub permission: Level,
    /// The principal that granted it.
    pub granted_by: String,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// When the entry ends; it is no longer in force from that instant.
    pub expires_at: Option<Timestamp>,
    /// Why it was granted.
    pub reason: Option<String>,
}

impl Entry {
    /// Whether the entry is still in force.
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| end > now)
    }
}

/// An intent's access control list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acl {
    /// The intent.
    pub intent_id: IntentId,
    /// The policy for unlisted principals.
    pub default_policy: Policy,
    /// Whether writes of agents on the intent have to name the epochs of their sessions.
    pub strict: bool,
    /// The entries of the listed principals.
    pub entries: Vec<Entry>,
}

/// An agent's access to an intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessLevel {
    /// The access level, or `None` if the agent is kept out.
    pub level: Option<Level>,
    /// Whether the level was given to this agent (as creator or by an entry) rather than left open to
    /// everybody.
    pub granted: bool,
    /// When the entry that grants the level ends.
    pub until: Option<Timestamp>,
}

/// The facts that decide an agent's access: as few as possible, so that the hot path can read many at once.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The creator of the intent.
    pub created_by: &'a str,
    /// The list's policy; open if there is no list.
    pub policy: Policy,
    /// Whether any entry is in force.
    pub has_entries: bool,
    /// The agent's own best entry in force: its level and its end.
    pub own: Option<(Level, Option<Timestamp>)>,
}

/// Returns the access of `agent`, given the facts (OI-7.1 to OI-7.3).
#[must_use]
pub fn access(agent: &str, facts: Facts<'_>) -> AccessLevel {
    if agent == facts.created_by {
        return AccessLevel { level: Some(Level::Admin), granted: true, until: None };
    }
    if let Some((level, until)) = facts.own {
        return AccessLevel { level: Some(level), granted: true, until };
    }
    let level = match (facts.policy, facts.has_entries) {
        (Policy::Closed, _) => None,
        (Policy::Open, true) => Some(Level::Read),
        (Policy::Open, false) => Some(Level::Admin),
    };
    AccessLevel { level, granted: false, until: None }
}

impl Acl {
    /// Returns the access of `agent` to the intent created by `created_by`.
    #[must_use]
    pub fn access(&self, agent: &str, created_by: &str, now: Timestamp) -> AccessLevel {
        let in_force = || self.entries.iter().filter(|entry| entry.in_force(now));
        let own = in_force()
            .filter(|entry| entry.principal_id == agent)
            .max_by_key(|entry| (entry.permission, entry.expires_at.is_none(), entry.expires_at))
            .map(|entry| (entry.permission, entry.expires_at));
        let has_entries = in_force().next().is_some();
        access(agent, Facts { created_by, policy: self.default_policy, has_entries, own })
    }
}

impl AccessLevel {
    /// Whether the agent's level is at least `need`.
    #[must_use]
    pub fn reaches(self, need: Level) -> bool {
        self.level.is_some_and(|level| level >= need)
    }

    /// Whether the agent was granted the admin level, which is required to manage access and channels.
    ///
    /// On a fully open intent everybody may change the status, but nobody without such a grant may lock
    /// others out.
    #[must_use]
    pub fn manages(self) -> bool {
        self.granted && self.reaches(Level::Admin)
    }

    /// Requires an access level.
    ///
    /// # Errors
    /// [`Code::AccessClosed`] if the agent is kept out, [`Code::Forbidden`] if its level is too low.
    pub fn require(self, need: Level) -> Result<(), Refusal> {
        match self.level {
            None => Err(Refusal::new(
                Code::AccessClosed,
                "This intent is closed to you. Ask for access with POST …/access-requests; its admins decide.",
            )),
            Some(level) if level < need => Err(Refusal::new(
                Code::Forbidden,
                format!(
                    "This needs {} access to the intent, you have {}. Ask for more with POST …/access-requests.",
                    need.as_str(),
                    level.as_str()
                ),
            )),
            Some(_) => Ok(()),
        }
    }

    /// Requires a granted admin level, see [`Self::manages`].
    ///
    /// # Errors
    /// As [`Self::require`].
    pub fn require_manager(self) -> Result<(), Refusal> {
        self.require(Level::Admin)?;
        if self.manages() {
            return Ok(());
        }
        Err(Refusal::new(
            Code::Forbidden,
            "Only the intent's creator and those with an admin entry manage who has access.",
        ))
    }
}

/// Request for a new entry.
#[derive(Debug, Clone)]
pub struct EntryAsk {
    /// The principal to grant access to.
    pub principal_id: String,
    /// The kind of principal; defaults to `agent`.
    pub principal_type: Option<String>,
    /// The access level; defaults to read.
    pub permission: Option<Level>,
    /// When the entry ends.
    pub expires_at: Option<Timestamp>,
    /// Why access is granted.
    pub reason: Option<String>,
}

/// Creates an entry.
///
/// # Errors
/// An invalid name, an end in the past, or a reason that is too long.
pub fn grant(
    ask: EntryAsk,
    intent_id: IntentId,
    by: &str,
    id: EntryId,
    now: Timestamp,
) -> Result<Entry, Refusal> {
    check_name("principal_id", &ask.principal_id)?;
    check_reason(ask.reason.as_deref())?;
    let principal_type = ask.principal_type.unwrap_or_else(|| "agent".to_owned());
    check_name("principal_type", &principal_type)?;
    if ask.expires_at.is_some_and(|end| end <= now) {
        let message = "`expires_at` lies in the past; the entry would never count.";
        return Err(Refusal::field(Code::AlreadyExpired, "expires_at", "past", message));
    }
    Ok(Entry {
        id,
        intent_id,
        principal_id: ask.principal_id,
        principal_type,
        permission: ask.permission.unwrap_or(Level::Read),
        granted_by: by.to_owned(),
        granted_at: now,
        expires_at: ask.expires_at,
        reason: ask.reason,
    })
}

/// Checks a list of names, such as capabilities or roles.
///
/// # Errors
/// More than [`LIST_ITEMS`] items, or an invalid name.
pub fn check_list(member: &str, items: &[String]) -> Result<(), Refusal> {
    if items.len() > LIST_ITEMS {
        let message = format!("`{member}` has {} items, at most {LIST_ITEMS} are allowed.", items.len());
        return Err(Refusal::field(Code::TooLarge, member, "too_long", message));
    }
    items.iter().try_for_each(|item| check_name(member, item))
}

/// Checks a reason or another free text.
///
/// # Errors
/// More than [`TEXT_BYTES`].
pub fn check_reason(reason: Option<&str>) -> Result<(), Refusal> {
    if reason.is_some_and(|text| text.len() > TEXT_BYTES) {
        let message = format!("A reason has at most {TEXT_BYTES} bytes.");
        return Err(Refusal::field(Code::TooLarge, "reason", "too_long", message));
    }
    Ok(())
}
