//! API keys: their format, permissions and validity. The kernel hashes and stores them
//! (`crates/kernel/src/identity/keys.rs`).
//!
//! A key is `ent_<public id>_<secret><checksum>`: 12 base-62 characters to look it up by, 44 of secret (256
//! bits), and 6 of CRC-32, so that a mistyped or invented key is refused without any look-up, and secret
//! scanners recognise keys.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::globs::glob_matches;
use crate::identity::authority::{Authority, Basis};
use crate::ids::{Chance, KeyId};
use crate::limits::{LIST_ITEMS, RATE_PER_SECOND};
use crate::refusal::{Code, Refusal};

const PREFIX: &str = "ent_";
const PUBLIC_CHARS: usize = 12;
const SECRET_CHARS: usize = 44;
const CHECKSUM_CHARS: usize = 6;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A permission of a key; each handler names the scope that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum Scope {
    /// Read intents, their state, events, access lists and assignments.
    #[serde(rename = "intents:read")]
    IntentsRead,
    /// Create and change intents.
    #[serde(rename = "intents:write")]
    IntentsWrite,
    /// Read channels and messages.
    #[serde(rename = "channels:read")]
    ChannelsRead,
    /// Create channels and send messages.
    #[serde(rename = "channels:write")]
    ChannelsWrite,
    /// Read the directory of agents.
    #[serde(rename = "agents:read")]
    AgentsRead,
    /// Register agents, send heartbeats, change their status.
    #[serde(rename = "agents:write")]
    AgentsWrite,
    /// Read the caller's jobs, their events and results.
    #[serde(rename = "jobs:read")]
    JobsRead,
    /// Submit and cancel jobs.
    #[serde(rename = "jobs:write")]
    JobsWrite,
    /// Register agents that run jobs, and run them.
    #[serde(rename = "jobs:work")]
    JobsWork,
    /// Read the caller's mailboxes and the envelopes that the caller is a party to.
    #[serde(rename = "mail:read")]
    MailRead,
    /// Send and retrieve envelopes, register keys and subscribe to channels.
    #[serde(rename = "mail:write")]
    MailWrite,
    /// Read the binding moments that the caller asked, or is asked.
    #[serde(rename = "moments:read")]
    MomentsRead,
    /// Ask a person; answer the caller's binding moments.
    #[serde(rename = "moments:write")]
    MomentsWrite,
    /// Use tools through grants; read the caller's grants, delegate them and report on their use.
    #[serde(rename = "tools:use")]
    ToolsUse,
    /// Manage vaults: add credentials, grant their use and revoke grants.
    #[serde(rename = "tools:manage")]
    ToolsManage,
    /// Manage principals, keys and the access of every intent.
    #[serde(rename = "admin")]
    Admin,
}

impl Scope {
    /// All variants.
    pub const ALL: [Self; 16] = [
        Self::IntentsRead,
        Self::IntentsWrite,
        Self::ChannelsRead,
        Self::ChannelsWrite,
        Self::AgentsRead,
        Self::AgentsWrite,
        Self::JobsRead,
        Self::JobsWrite,
        Self::JobsWork,
        Self::MailRead,
        Self::MailWrite,
        Self::MomentsRead,
        Self::MomentsWrite,
        Self::ToolsUse,
        Self::ToolsManage,
        Self::Admin,
    ];

    /// Returns every scope except [`Self::Admin`], which is the default for a key.
    #[must_use]
    pub fn ordinary() -> Vec<Self> {
        Self::ALL.into_iter().filter(|scope| *scope != Self::Admin).collect()
    }

    /// Returns the scope's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IntentsRead => "intents:read",
            Self::IntentsWrite => "intents:write",
            Self::ChannelsRead => "channels:read",
            Self::ChannelsWrite => "channels:write",
            Self::AgentsRead => "agents:read",
            Self::AgentsWrite => "agents:write",
            Self::JobsRead => "jobs:read",
            Self::JobsWrite => "jobs:write",
            Self::JobsWork => "jobs:work",
            Self::MailRead => "mail:read",
            Self::MailWrite => "mail:write",
            Self::MomentsRead => "moments:read",
            Self::MomentsWrite => "moments:write",
            Self::ToolsUse => "tools:use",
            Self::ToolsManage => "tools:manage",
            Self::Admin => "admin",
        }
    }

    /// Parses a scope's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

/// The format of times and names in responses, for clients that cannot read the standard (OI-3.6, OI-5.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum Dialect {
    /// RFC 3339 with `Z`, every event type under its own name.
    #[serde(rename = "standard")]
    Standard,
    /// The format that the OpenIntent Python SDK 0.17 can read: naive times, only the event types it knows.
    #[serde(rename = "openintent-py")]
    OpenIntentPython,
}

impl Dialect {
    /// Returns the dialect's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::OpenIntentPython => "openintent-py",
        }
    }

    /// Parses a dialect's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Standard, Self::OpenIntentPython].into_iter().find(|dialect| dialect.as_str() == text)
    }
}

/// The record of a key: everything except its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The record's id; the key itself never serves as an id.
    pub id: KeyId,
    /// The public part of the key, which it is looked up by; not secret.
    pub public_id: String,
    /// The principal that it belongs to.
    pub principal_id: String,
    /// A description of its purpose.
    pub label: Option<String>,
    /// Its scopes.
    pub scopes: Vec<Scope>,
    /// The agents it may act as, besides its principal: globs with `*` for any run of characters.
    pub act_as: Vec<String>,
    /// The dialect of responses; `None` detects it from the request.
    pub dialect: Option<Dialect>,
    /// Requests per second; `None` uses the server's setting, 0 means no limit.
    pub rate_per_second: Option<u32>,
    /// The principal that made it.
    pub created_by: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The key that this one replaces.
    pub rotated_from: Option<KeyId>,
    /// When it was last used, to within a few seconds.
    pub last_used_at: Option<Timestamp>,
    /// The basis of a person's key; `None` for all others, and if it was not recorded.
    #[serde(default)]
    pub authority: Option<Authority>,
}

impl Key {
    /// Whether the key is valid at the given time: neither revoked nor expired.
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> bool {
        // Revocation ignores the time, because the clock of the server that revoked the key may be ahead.
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| end > now)
    }

    /// Whether the key may act as `agent`: its own principal, or a match of one of its globs.
    #[must_use]
    pub fn may_act_as(&self, agent: &str) -> bool {
        agent == self.principal_id || self.act_as.iter().any(|glob| glob_matches(glob, agent))
    }

    /// Whether the key may act as any agent at all (OI-1.1, "any agent" keys).
    #[must_use]
    pub fn any_agent(&self) -> bool {
        self.act_as.iter().any(|glob| glob == "*")
    }

    /// Returns the basis of a key made for `person` with this one: the same basis if the person makes it as
    /// itself, otherwise [`Basis::GivenKey`].
    #[must_use]
    pub fn hands_on(&self, as_itself: bool, person: &str) -> Authority {
        match &self.authority {
            Some(own) if as_itself && self.principal_id == person => own.clone(),
            _ => Authority { basis: Basis::GivenKey, let_in_by: self.lets_in(person) },
        }
    }

    /// Returns the principal that lets a person in with credentials made by this key: the key's principal or, if
    /// that is the person, the principal that let the person in.
    #[must_use]
    pub fn lets_in(&self, person: &str) -> Option<String> {
        if self.principal_id == person {
            return self.authority.as_ref().and_then(|own| own.let_in_by.clone());
        }
        Some(self.principal_id.clone())
    }
}

/// Input for a new key.
#[derive(Debug, Clone, Default)]
pub struct KeyAsk {
    /// A description of its purpose.
    pub label: Option<String>,
    /// Its scopes; `None` for [`Scope::ordinary`].
    pub scopes: Option<Vec<Scope>>,
    /// The agents it may act as, besides its principal.
    pub act_as: Vec<String>,
    /// The dialect of responses.
    pub dialect: Option<Dialect>,
    /// Requests per second.
    pub rate_per_second: Option<u32>,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

impl Key {
    /// Requires that a requested key for `principal_id` would have no power that this one lacks.
    ///
    /// It may have no other scope, and this key must be able to act as its principal and all its agents.
    /// Otherwise, the right to make keys would be unlimited.
    ///
    /// # Errors
    /// [`Code::ScopeMissing`], [`Code::MayNotActAs`].
    pub fn may_make(&self, ask: &KeyAsk, principal_id: &str) -> Result<(), Refusal> {
        let scopes = ask.scopes.clone().unwrap_or_else(Scope::ordinary);
        if let Some(scope) = scopes.into_iter().find(|scope| !self.scopes.contains(scope)) {
            return Err(Refusal::new(
                Code::ScopeMissing,
                format!(
                    "This key lacks the scope `{}` and cannot give it to another. Ask for fewer `scopes`, or use a key \
                     that has it.",
                    scope.as_str()
                ),
            ));
        }
        // A glob that matches another one's text covers all its matches, because the other's `*` can only
        // have been matched by a `*`.
        let asked = ask.act_as.iter().map(String::as_str).chain([principal_id]);
        if let Some(agent) = asked.into_iter().find(|agent| !self.may_act_as(agent)) {
            return Err(Refusal::new(
                Code::MayNotActAs,
                format!(
                    "The key of `{}` may not act as `{agent}` and cannot let another. Use a key whose act_as covers it.",
                    self.principal_id
                ),
            ));
        }
        Ok(())
    }

    /// Requires that rotating `other`, and so obtaining it, would give no power that this key lacks.
    ///
    /// # Errors
    /// As [`Self::may_make`].
    pub fn may_take_over(&self, other: &Self) -> Result<(), Refusal> {
        let powers =
            KeyAsk { scopes: Some(other.scopes.clone()), act_as: other.act_as.clone(), ..KeyAsk::default() };
        self.may_make(&powers, &other.principal_id)
    }
}

/// Creates the record of a new key for `principal_id`.
///
/// # Errors
/// Too many scopes or globs, an empty or overlong glob, a rate over its limit, or an end in the past.
pub fn create(
    ask: KeyAsk,
    public_id: String,
    principal_id: &str,
    created_by: &str,
    id: KeyId,
    now: Timestamp,
) -> Result<Key, Refusal> {
    if ask.expires_at.is_some_and(|end| end <= now) {
        return Err(Refusal::field(
            Code::AlreadyExpired,
            "expires_at",
            "past",
            "`expires_at` lies in the past.",
        ));
    }
    let scopes = ask.scopes.unwrap_or_else(Scope::ordinary);
    if scopes.is_empty() || scopes.len() > LIST_ITEMS || ask.act_as.len() > LIST_ITEMS {
        return Err(Refusal::new(
            Code::InvalidRequest,
            format!(
                "A key needs at least one scope, and takes at most {LIST_ITEMS} scopes and as many act_as globs."
            ),
        ));
    }
    if ask.rate_per_second.is_some_and(|rate| rate > RATE_PER_SECOND) {
        return Err(Refusal::field(
            Code::InvalidRequest,
            "rate_per_second",
            "too_large",
            format!("`rate_per_second` is at most {RATE_PER_SECOND}. Give 0 for a key without a limit."),
        ));
    }
    for glob in &ask.act_as {
        if glob != "*" {
            crate::identity::principals::check_name("act_as", glob)?;
        }
    }
    Ok(Key {
        id,
        public_id,
        principal_id: principal_id.to_owned(),
        label: ask.label,
        scopes,
        act_as: ask.act_as,
        dialect: ask.dialect,
        rate_per_second: ask.rate_per_second,
        created_by: created_by.to_owned(),
        created_at: now,
        expires_at: ask.expires_at,
        revoked_at: None,
        rotated_from: None,
        last_used_at: None,
        authority: None,
    })
}

/// A key as its holder presents it, without `Debug` and `Display`, so that it cannot be printed by accident.
pub struct Presented {
    /// The public part, to look the record up by.
    pub public_id: String,
    secret: String,
}

impl Presented {
    /// Creates a new key; its secret has 256 random bits.
    #[must_use]
    pub fn mint(chance: &dyn Chance) -> Self {
        let public_id = base62(chance.bits(), PUBLIC_CHARS);
        // 22 characters hold 128 bits.
        let secret = base62(chance.bits(), SECRET_CHARS / 2) + &base62(chance.bits(), SECRET_CHARS / 2);
        Self { public_id, secret }
    }

    /// Parses a presented key; `None` if its format or checksum is wrong.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (public_id, rest) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let well_formed = public_id.len() == PUBLIC_CHARS
            && rest.len() == SECRET_CHARS + CHECKSUM_CHARS
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !well_formed {
            return None;
        }
        let (secret, check) = rest.split_at(SECRET_CHARS);
        (checksum(public_id, secret) == check)
            .then(|| Self { public_id: public_id.to_owned(), secret: secret.to_owned() })
    }

    /// Returns the whole key, to be shown once to its new holder.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}{}", self.public_id, self.secret, checksum(&self.public_id, &self.secret))
    }
}

fn checksum(public_id: &str, secret: &str) -> String {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(public_id.as_bytes());
    hasher.update(secret.as_bytes());
    base62(u128::from(hasher.finalize()), CHECKSUM_CHARS)
}

/// Returns the lowest `chars` base-62 digits of a number.
fn base62(mut number: u128, chars: usize) -> String {
    let mut digits = vec![b'0'; chars];
    for digit in digits.iter_mut().rev() {
        let index = usize::try_from(number % 62).unwrap_or(0);
        *digit = BASE62.get(index).copied().unwrap_or(b'0');
        number /= 62;
    }
    digits.into_iter().map(char::from).collect()
}
