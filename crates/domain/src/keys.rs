//! API keys: their form, what they allow and whether they are in force. Hashing and storing is the server's
//! (`src/app/keys.rs`).
//!
//! A key is `ent_<public id>_<secret><checksum>`: 12 base-62 characters to find it by, 44 of secret (256 bits), 6 of
//! CRC-32 so that a mistyped or made-up key is refused without any look-up, and secret scanners know one when they
//! see it.

use serde::{Deserialize, Serialize};

use crate::authority::Authority;
use crate::clock::Timestamp;
pub use crate::globs::glob_matches;
use crate::ids::{Chance, KeyId};
use crate::limits::{LIST_ITEMS, RATE_PER_SECOND};
use crate::refusal::{Code, Refusal};

const PREFIX: &str = "ent_";
const PUBLIC_CHARS: usize = 12;
const SECRET_CHARS: usize = 44;
const CHECKSUM_CHARS: usize = 6;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What a key may be used for. A handler names the scope that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum Scope {
    /// Read intents, their state, events, access lists and assignments.
    #[serde(rename = "intents:read")]
    IntentsRead,
    /// Create and change them.
    #[serde(rename = "intents:write")]
    IntentsWrite,
    /// Read channels and messages.
    #[serde(rename = "channels:read")]
    ChannelsRead,
    /// Create channels and send.
    #[serde(rename = "channels:write")]
    ChannelsWrite,
    /// Read the directory of agents.
    #[serde(rename = "agents:read")]
    AgentsRead,
    /// Register agents, send heartbeats, change their status.
    #[serde(rename = "agents:write")]
    AgentsWrite,
    /// Read one's jobs, their events and results.
    #[serde(rename = "jobs:read")]
    JobsRead,
    /// Submit and cancel jobs.
    #[serde(rename = "jobs:write")]
    JobsWrite,
    /// Register agents that run jobs, and run them.
    #[serde(rename = "jobs:work")]
    JobsWork,
    /// Read one's mailboxes and the envelopes that one is a party to.
    #[serde(rename = "mail:read")]
    MailRead,
    /// Send envelopes, take them out, register keys and listen to channels.
    #[serde(rename = "mail:write")]
    MailWrite,
    /// Read the binding moments that one asked, or is asked.
    #[serde(rename = "moments:read")]
    MomentsRead,
    /// Ask a person; answer what one is asked.
    #[serde(rename = "moments:write")]
    MomentsWrite,
    /// Use tools through grants; see one's grants, pass them on and report on their use.
    #[serde(rename = "tools:use")]
    ToolsUse,
    /// Keep vaults: put credentials in, grant their use and take it back.
    #[serde(rename = "tools:manage")]
    ToolsManage,
    /// Manage principals, keys and the access of every intent.
    #[serde(rename = "admin")]
    Admin,
}

impl Scope {
    /// Every scope.
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

    /// Every scope but [`Self::Admin`]: what a key gets when nothing is said.
    #[must_use]
    pub fn ordinary() -> Vec<Self> {
        Self::ALL.into_iter().filter(|scope| *scope != Self::Admin).collect()
    }

    /// The scope as it is written.
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

    /// Reads a scope; `None` when there is no such scope.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

/// In which form a client wants times and names that its library cannot read otherwise (contract 3.6, 5.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum Dialect {
    /// RFC 3339 with `Z`, every event type under its own name.
    #[serde(rename = "standard")]
    Standard,
    /// What the OpenIntent Python SDK 0.17 can read: naive times, only the event types it knows.
    #[serde(rename = "openintent-py")]
    OpenIntentPython,
}

impl Dialect {
    /// The dialect as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::OpenIntentPython => "openintent-py",
        }
    }

    /// Reads a dialect; `None` when there is no such dialect.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Standard, Self::OpenIntentPython].into_iter().find(|dialect| dialect.as_str() == text)
    }
}

/// The record of a key: everything about it but its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The record's id; the key itself is never an id of anything.
    pub id: KeyId,
    /// The part of the key that it is found by; no secret.
    pub public_id: String,
    /// Whose key it is.
    pub principal_id: String,
    /// What it is for, in words.
    pub label: Option<String>,
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// Which agents it may act as, besides its principal: globs with `*` for any run of characters.
    pub act_as: Vec<String>,
    /// The dialect to answer in; `None` recognises it from the request.
    pub dialect: Option<Dialect>,
    /// Requests per second; `None` is the server's setting, 0 is without limit.
    pub rate_per_second: Option<u32>,
    /// Who made it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The key that this one takes over from.
    pub rotated_from: Option<KeyId>,
    /// When it was last used, to within a few seconds.
    pub last_used_at: Option<Timestamp>,
    /// A person's key: on what it rests. `None` for all others, and where nobody has noted it.
    #[serde(default)]
    pub authority: Option<Authority>,
}

impl Key {
    /// Whether the key opens anything at this moment: neither revoked nor past its end.
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> bool {
        // Revoked is revoked, whatever this server's clock makes of the time at which another one did it.
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| end > now)
    }

    /// Whether the key may act as `agent`: its own principal, or one that a glob matches (design §3).
    #[must_use]
    pub fn may_act_as(&self, agent: &str) -> bool {
        agent == self.principal_id || self.act_as.iter().any(|glob| glob_matches(glob, agent))
    }

    /// Whether the key may act as any agent at all (contract 1.1, "any agent" keys).
    #[must_use]
    pub fn any_agent(&self) -> bool {
        self.act_as.iter().any(|glob| glob == "*")
    }
}

/// What is asked for a new key.
#[derive(Debug, Clone, Default)]
pub struct KeyAsk {
    /// What it is for, in words.
    pub label: Option<String>,
    /// What it may be used for; `None` for [`Scope::ordinary`].
    pub scopes: Option<Vec<Scope>>,
    /// Which agents it may act as, besides its principal.
    pub act_as: Vec<String>,
    /// The dialect to answer in.
    pub dialect: Option<Dialect>,
    /// Requests per second.
    pub rate_per_second: Option<u32>,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

impl Key {
    /// Requires that a key for `principal_id` as asked would have no power that this one lacks: no other scope, nobody
    /// else to act as, and its principal is one whom this key may act as. Else whoever may make keys could do anything.
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
        // A glob of this key that matches the letters of another one covers all that the other does: the other's `*`
        // can only have met a `*`.
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

    /// Requires that taking over `other`, by rotating it, would give no power that this key lacks.
    ///
    /// # Errors
    /// As [`Self::may_make`].
    pub fn may_take_over(&self, other: &Self) -> Result<(), Refusal> {
        let powers =
            KeyAsk { scopes: Some(other.scopes.clone()), act_as: other.act_as.clone(), ..KeyAsk::default() };
        self.may_make(&powers, &other.principal_id)
    }
}

/// Makes the record of a new key for `principal_id`.
///
/// # Errors
/// Too many scopes or globs, an empty or overlong glob, a rate over its limit, an end in the past.
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
            crate::principals::check_name("act_as", glob)?;
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

/// A key as its holder presents it. It has no `Debug` and no `Display`: nothing can print it by accident.
pub struct Presented {
    /// The part to look the record up by.
    pub public_id: String,
    secret: String,
}

impl Presented {
    /// Mints a new key; its secret has 256 bits of chance.
    #[must_use]
    pub fn mint(chance: &dyn Chance) -> Self {
        let public_id = base62(chance.bits(), PUBLIC_CHARS);
        // 22 characters hold 128 bits.
        let secret = base62(chance.bits(), SECRET_CHARS / 2) + &base62(chance.bits(), SECRET_CHARS / 2);
        Self { public_id, secret }
    }

    /// Reads a presented key; `None` when its form or its checksum is wrong.
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

    /// The whole key, to be shown once to its new holder.
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

/// The lowest `chars` base-62 digits of a number.
fn base62(mut number: u128, chars: usize) -> String {
    let mut digits = vec![b'0'; chars];
    for digit in digits.iter_mut().rev() {
        let index = usize::try_from(number % 62).unwrap_or(0);
        *digit = BASE62.get(index).copied().unwrap_or(b'0');
        number /= 62;
    }
    digits.into_iter().map(char::from).collect()
}
