//! Who asks: a verified key, and the agent that it acts as.
//!
//! A key is looked up once per server; after that it is remembered by its SHA-256 (design §3).
//! What is remembered here is never the truth: a revoked key is forgotten at once on the server that revoked it, and
//! within a second on the others (`keys::refresh`). Looking keys up is `keys.rs`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::keys::{Key, Scope};
use entente_domain::principals::{Kind, check_name};
use entente_domain::rate::{Allowance, Verdict, judge};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::traces::Trace;
use tokio_util::sync::CancellationToken;

use super::shares::{OpenRequest, Share, StreamPermit};
use super::turnstile::Turnstile;
use crate::refused::Watch;

/// Keys remembered at the most, verified and refused ones together.
const REMEMBERED: usize = 20_000;

/// How long a key that opened nothing is refused without a look-up: long enough to blunt guessing, short enough not to
/// annoy whoever presents a key just before it is made.
const REFUSED_FOR: Duration = Duration::from_secs(2);

/// A burst may spend this many seconds' worth of a key's rate.
const BURST_SECONDS: u32 = 2;

/// A verified key.
#[derive(Debug)]
pub struct Grant {
    /// Its record.
    pub key: Key,
    /// What kind of being its principal is.
    pub kind: Kind,
    /// The last change of the key that this knows of.
    changed_seq: i64,
    void: CancellationToken,
    full_at: AtomicU64,
    used_at: AtomicI64,
    /// What it has under way.
    pub(super) share: Share,
}

impl Grant {
    /// A grant for a key that was just verified.
    #[must_use]
    pub fn new(key: Key, kind: Kind, changed_seq: i64) -> Self {
        Self {
            key,
            kind,
            changed_seq,
            void: CancellationToken::new(),
            full_at: AtomicU64::new(0),
            used_at: AtomicI64::new(0),
            share: Share::default(),
        }
    }

    /// Whether the key still opens anything.
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> bool {
        !self.void.is_cancelled() && self.key.in_force(now)
    }

    /// Resolves when the key is revoked or rotated, wherever that was done. When it ends by itself, its time says so.
    pub async fn voided(&self) {
        self.void.cancelled().await;
    }

    /// Judges one more request with this key at `since_start`; `usual` is the server's rate, 0 for no limit.
    /// `None`: there is no limit.
    pub fn admit(&self, usual: u32, since_start: Duration) -> Option<(Allowance, Verdict)> {
        let per_second = self.key.rate_per_second.unwrap_or(usual);
        if per_second == 0 {
            return None;
        }
        let allowance = Allowance { per_second, burst: per_second.saturating_mul(BURST_SECONDS) };
        let now = u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX);
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let verdict = judge(allowance, full_at, now);
            let Verdict::Pass { full_at: next, .. } = verdict else { return Some((allowance, verdict)) };
            match self.full_at.compare_exchange_weak(full_at, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some((allowance, verdict)),
                Err(changed) => full_at = changed,
            }
        }
    }
}

/// What is remembered of a presented key.
#[derive(Debug, Clone)]
pub enum Memory {
    /// It was verified.
    Verified(Arc<Grant>),
    /// It opened nothing, a moment ago.
    Refused,
}

#[derive(Debug)]
enum Remembered {
    Verified(Arc<Grant>),
    Refused(Instant),
}

/// The keys that this server remembers, by the SHA-256 of the presented key.
#[derive(Debug, Default)]
pub struct Grants {
    known: RwLock<HashMap<Digest, Remembered>>,
    /// The last change of keys that this server has heard of.
    seen: AtomicI64,
    /// Whose turn it is to have a password checked.
    pub(crate) passwords: Turnstile,
    /// Whose turn it is to have a key of an earlier release verified.
    pub(crate) old_keys: Turnstile,
    /// Who is told of keys, passwords and links that opened nothing.
    pub watch: Watch,
}

impl Grants {
    /// What is remembered of a presented key; `None` when it has to be looked up.
    #[must_use]
    pub fn recall(&self, presented: &Digest) -> Option<Memory> {
        match self.known.read().unwrap_or_else(PoisonError::into_inner).get(presented)? {
            Remembered::Verified(grant) => Some(Memory::Verified(Arc::clone(grant))),
            Remembered::Refused(at) => (at.elapsed() < REFUSED_FOR).then_some(Memory::Refused),
        }
    }

    /// Remembers a verified key; the grant that counts. Of two first requests that verify a key at once both get the same
    /// one: another would have places and a rate of its own, and no revocation would reach it.
    pub fn remember(&self, presented: Digest, grant: Arc<Grant>) -> Arc<Grant> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(Remembered::Verified(there)) = known.get(&presented) {
            if there.changed_seq >= grant.changed_seq {
                return Arc::clone(there);
            }
            there.void.cancel();
        }
        insert(&mut known, presented, Remembered::Verified(Arc::clone(&grant)));
        grant
    }

    /// Remembers that a key opened nothing.
    pub fn refuse(&self, presented: Digest) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        insert(&mut known, presented, Remembered::Refused(Instant::now()));
    }

    /// Forgets keys that have changed since they were verified, by their public ids; whoever still holds one of them
    /// finds it void.
    pub fn forget(&self, changed: &HashMap<String, i64>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, what| {
            let Remembered::Verified(grant) = what else { return true };
            let kept = changed.get(&grant.key.public_id).is_none_or(|change| *change <= grant.changed_seq);
            if !kept {
                grant.void.cancel();
            }
            kept
        });
    }

    /// The last change of keys that was heard of.
    pub fn seen(&self) -> i64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Says up to which change keys were heard of.
    pub fn set_seen(&self, changed_seq: i64) {
        self.seen.fetch_max(changed_seq, Ordering::AcqRel);
    }

    /// When each key was last used, for those used since the last call.
    pub fn take_uses(&self) -> Vec<(uuid::Uuid, Timestamp)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let uses = known.values().filter_map(|what| match what {
            Remembered::Verified(grant) => {
                let used = grant.used_at.swap(0, Ordering::AcqRel);
                let at = chrono::DateTime::from_timestamp_micros(used)?;
                (used != 0).then_some((grant.key.id.uuid(), at))
            }
            Remembered::Refused(_) => None,
        });
        uses.collect()
    }
}

fn insert(known: &mut HashMap<Digest, Remembered>, presented: Digest, what: Remembered) {
    if known.len() >= REMEMBERED {
        known.retain(|_, what| matches!(what, Remembered::Verified(_)));
    }
    if known.len() >= REMEMBERED {
        // More keys in use than can be remembered: begin anew rather than grow without bound. Those that an open stream or
        // a request holds stay, so that a revocation still reaches their holders; connections bound their number.
        known.retain(|_, what| matches!(what, Remembered::Verified(grant) if Arc::strong_count(grant) > 1));
    }
    known.insert(presented, what);
}

/// Who asks.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The key.
    pub grant: Arc<Grant>,
    /// The agent that it acts as.
    pub agent: String,
    /// Whether the request named the agent itself (`X-Agent-ID`).
    named: bool,
    /// The trace that the request belongs to (`traceparent`, RFC-0020).
    pub trace: Option<Trace>,
    /// The request, which counts among those that the key has under way.
    request: Option<Arc<OpenRequest>>,
}

impl Caller {
    /// A caller with this key, acting as the agent of `X-Agent-ID`, or as its principal.
    ///
    /// # Errors
    /// [`Code::MayNotActAs`] when the key may not; a name that is none.
    pub fn new(grant: Arc<Grant>, agent: Option<&str>, now: Timestamp) -> Result<Self, Refusal> {
        grant.used_at.store(now.timestamp_micros(), Ordering::Release);
        let Some(agent) = agent else {
            let principal = grant.key.principal_id.clone();
            return Ok(Self { grant, agent: principal, named: false, trace: None, request: None });
        };
        check_name("X-Agent-ID", agent)?;
        if !grant.key.may_act_as(agent) {
            return Err(may_not_act_as(&grant.key, agent));
        }
        Ok(Self { grant, agent: agent.to_owned(), named: true, trace: None, request: None })
    }

    /// The same caller, whose request belongs to a trace.
    #[must_use]
    pub fn traced(self, trace: Option<Trace>) -> Self {
        Self { trace, ..self }
    }

    /// The same caller, whose request is this one.
    #[must_use]
    pub fn within(self, request: Arc<OpenRequest>) -> Self {
        Self { request: Some(request), ..self }
    }

    /// Takes one of the key's places for streams and those who wait. From now on the request counts there alone.
    ///
    /// # Errors
    /// [`Code::TooManyStreams`] when all `limit` are taken.
    pub fn waits(&self, limit: usize) -> Result<StreamPermit, Refusal> {
        let permit = self.grant.open_stream(limit)?;
        self.request.iter().for_each(|request| request.end());
        Ok(permit)
    }

    /// The same caller acting as another agent, which [`Self::speaker`] has allowed.
    #[must_use]
    pub fn acting_as(&self, agent: String) -> Self {
        Self { agent, named: true, ..self.clone() }
    }

    /// The key's principal.
    #[must_use]
    pub fn principal(&self) -> &str {
        &self.grant.key.principal_id
    }

    /// Whether it speaks for its key's own principal.
    #[must_use]
    pub fn is_itself(&self) -> bool {
        self.agent == self.principal()
    }

    /// Requires that the key still opens anything, for a request that has waited since it was presented.
    ///
    /// # Errors
    /// [`Code::Unauthenticated`].
    pub fn require_key(&self, now: Timestamp) -> Result<(), Refusal> {
        if self.grant.in_force(now) { Ok(()) } else { Err(unauthenticated()) }
    }

    /// Requires a scope of the key.
    ///
    /// # Errors
    /// [`Code::ScopeMissing`].
    pub fn require(&self, scope: Scope) -> Result<(), Refusal> {
        if self.has(scope) {
            return Ok(());
        }
        Err(Refusal::new(
            Code::ScopeMissing,
            format!(
                "This key lacks the scope `{}`. Use a key that has it; an admin can make one.",
                scope.as_str()
            ),
        ))
    }

    /// Requires that the caller may rotate a key: itself, or as an admin one that is not stronger. A weak key that could
    /// rotate another one of its principal would get that one's powers.
    ///
    /// # Errors
    /// [`Code::ScopeMissing`], [`Code::MayNotActAs`].
    pub fn require_power_over(&self, key: &Key) -> Result<(), Refusal> {
        if key.id == self.grant.key.id {
            return Ok(());
        }
        self.require(Scope::Admin)?;
        self.grant.key.may_take_over(key)
    }

    /// Whether the key has a scope.
    #[must_use]
    pub fn has(&self, scope: Scope) -> bool {
        self.grant.key.scopes.contains(&scope)
    }

    /// The agent that a body's `member` names, if the key may act as it (contract 1.1): the acting agent itself;
    /// another one when the request named none, or the key may act as any. Without a name, the acting agent.
    ///
    /// # Errors
    /// [`Code::MayNotActAs`]; with `strict`, a service that names no agent at all (contract 2).
    pub fn speaker(&self, member: &str, name: Option<&str>, strict: bool) -> Result<String, Refusal> {
        let Some(name) = name else {
            if strict && !self.named && self.grant.kind == Kind::Service {
                return Err(Refusal::field(
                    Code::InvalidRequest,
                    member,
                    "missing",
                    format!("Say who acts: with the X-Agent-ID header or with `{member}`."),
                ));
            }
            return Ok(self.agent.clone());
        };
        check_name(member, name)?;
        let key = &self.grant.key;
        let free = key.any_agent() || (!self.named && key.may_act_as(name));
        if name == self.agent || free { Ok(name.to_owned()) } else { Err(may_not_act_as(key, name)) }
    }

    /// The names that the caller may speak under, as patterns of SQL's `LIKE`: to ask the database for what
    /// [`Self::speaker`] lets pass.
    #[must_use]
    pub(crate) fn names(&self) -> Vec<String> {
        let key = &self.grant.key;
        let globs = key.act_as.iter().filter(|glob| !self.named || *glob == "*");
        let own = std::iter::once(&self.agent).chain((!self.named).then_some(&key.principal_id));
        own.map(|name| like(name)).chain(globs.map(|glob| like(glob).replace('*', "%"))).collect()
    }

    /// Whether the key reads messages on behalf of every agent (contract 1.6; never in strict mode).
    #[must_use]
    pub fn sees_all(&self, strict: bool) -> bool {
        !strict && self.grant.key.any_agent()
    }
}

/// A name as a pattern of SQL's `LIKE` that is like nothing else.
pub(crate) fn like(name: &str) -> String {
    name.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

/// What opens nothing, whatever the reason. The text is the one that clients of the reference server know (contract 3.2).
pub(super) fn unauthenticated() -> Refusal {
    Refusal::new(Code::Unauthenticated, "Invalid or missing API key")
}

fn may_not_act_as(key: &Key, agent: &str) -> Refusal {
    Refusal::new(
        Code::MayNotActAs,
        format!(
            "The key of `{}` may not act as `{agent}`. Use that agent's own key, or one whose act_as covers it.",
            key.principal_id
        ),
    )
}
