//! Wake-ups for tasks that wait for a change of one of the things in [`WakeKey`]. A wake-up carries no data: the
//! change is committed, and the woken task reads it from the database, so spurious and repeated wake-ups do no harm.
//! This module knows no SQL. [`interest`] says which of them other servers want.

pub mod inboxes;
pub mod interest;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use entente_domain::arcp::versions::AgentRef;
use entente_domain::ids::{IntentId, JobId, MomentId, SessionId, WorkerId};
use entente_runtime::keyed::{Held, Keyed};
use tokio::sync::Notify;

use self::interest::{Interest, Shards};

/// A wake-up key: the thing that changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WakeKey {
    /// An intent's log.
    Intent(IntentId),
    /// A job.
    Job(JobId),
    /// A job that its worker should stop or drop.
    Stop(JobId),
    /// Another notice to a worker.
    Worker(WorkerId),
    /// A session's own events.
    Session(SessionId),
    /// A job of this agent that waits for a worker.
    Work(String),
    /// The mailbox of an entity.
    Mailbox(String),
    /// A binding moment.
    Moment(MomentId),
    /// The binding moments that somebody asked or is to answer.
    Inbox(String),
    /// The leases on an intent, for those who wait for one.
    Leases(IntentId),
    /// The inbox of an agent.
    AgentInbox(String),
}

impl fmt::Display for WakeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Intent(id) => id.fmt(f),
            Self::Job(id) => id.fmt(f),
            Self::Stop(id) => write!(f, "!{id}"),
            Self::Worker(id) => id.fmt(f),
            Self::Session(id) => id.fmt(f),
            Self::Work(agent) => write!(f, "@{agent}"),
            // An entity's name may be any text, but the words of a notification contain no blanks.
            Self::Mailbox(entity) => write!(f, "#{}", URL_SAFE_NO_PAD.encode(entity)),
            Self::Moment(id) => id.fmt(f),
            Self::Inbox(party) => write!(f, "?{}", URL_SAFE_NO_PAD.encode(party)),
            Self::Leases(id) => write!(f, "%{id}"),
            Self::AgentInbox(agent) => write!(f, "^{}", URL_SAFE_NO_PAD.encode(agent)),
        }
    }
}

/// The text is no wake-up key known to this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown;

impl FromStr for WakeKey {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        if let Some(agent) = text.strip_prefix('@') {
            return AgentRef::parse(agent).map(|agent| Self::Work(agent.to_string())).ok_or(Unknown);
        }
        let name = |name| URL_SAFE_NO_PAD.decode(name).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some(entity) = text.strip_prefix('#') {
            return name(entity).map(Self::Mailbox).ok_or(Unknown);
        }
        if let Some(party) = text.strip_prefix('?') {
            return name(party).map(Self::Inbox).ok_or(Unknown);
        }
        if let Some(agent) = text.strip_prefix('^') {
            return name(agent).map(Self::AgentInbox).ok_or(Unknown);
        }
        if let Some(job) = text.strip_prefix('!') {
            return job.parse().map(Self::Stop).map_err(|_no_id| Unknown);
        }
        if let Some(intent) = text.strip_prefix('%') {
            return intent.parse().map(Self::Leases).map_err(|_no_id| Unknown);
        }
        let intent = || text.parse().map(Self::Intent);
        let job = || text.parse().map(Self::Job);
        let session = || text.parse().map(Self::Session);
        let worker = || text.parse().map(Self::Worker);
        let moment = || text.parse().map(Self::Moment);
        let found = intent().or_else(|_| job()).or_else(|_| session()).or_else(|_| worker());
        found.or_else(|_| moment()).map_err(|_none| Unknown)
    }
}

/// The wake-up registry of one server.
#[derive(Debug, Default)]
pub struct Wakeups {
    listeners: Mutex<HashMap<WakeKey, Vec<Weak<Notify>>>>,
    /// The queues of waiting workers, by agent: one worker is woken per job.
    queues: Keyed<String, Notify>,
    /// The last known position of each key with listeners.
    seen: Mutex<HashMap<WakeKey, i64>>,
    /// Which wake-ups the servers want from each other.
    interest: Interest,
}

impl Wakeups {
    /// Wakes all listeners of a key; for [`WakeKey::Work`] one waiting worker.
    pub fn ring(&self, what: &WakeKey) {
        if let WakeKey::Work(agent) = what {
            if let Some(queue) = self.queues.get(agent) {
                queue.notify_one();
            }
            return;
        }
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = listeners.get_mut(what) else { return };
        known.retain(|listener| listener.upgrade().inspect(|listener| listener.notify_one()).is_some());
        if known.is_empty() {
            listeners.remove(what);
        }
    }

    /// Creates a listener without keys.
    #[must_use]
    pub fn listener(self: &Arc<Self>) -> Listener {
        Listener { wakeups: Arc::clone(self), ear: Arc::default(), hears: HashSet::new() }
    }

    /// Returns the keys with listeners, for the poll that finds missed wake-ups.
    pub fn listened(&self) -> Vec<WakeKey> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Wakes the listeners of keys that changed since the last poll, and forgets keys without listeners.
    pub fn look(&self, found: Vec<(WakeKey, i64)>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let moved: Vec<WakeKey> = found
            .iter()
            .filter(|(touch, seq)| seen.get(touch) != Some(seq))
            .map(|(touch, _)| touch.clone())
            .collect();
        *seen = found.into_iter().collect();
        drop(seen);
        moved.iter().for_each(|touch| self.ring(touch));
    }

    /// Returns the agents with waiting workers.
    pub fn awaited(&self) -> Vec<String> {
        self.queues.keys()
    }

    /// Returns the queue in which workers wait for an agent's jobs. A wake-up that finds no waiting worker is kept for
    /// the next one, as long as somebody holds the queue; whoever holds it anew looks for jobs before waiting.
    #[must_use]
    pub fn queue(&self, agent: &str) -> Held<String, Notify> {
        self.interest.add(Shards::of(&WakeKey::Work(agent.to_owned())));
        self.queues.hold(agent.to_owned())
    }

    /// Returns which wake-ups the servers want from each other.
    #[must_use]
    pub fn interest(&self) -> &Interest {
        &self.interest
    }

    /// Returns the shards of all keys that somebody waits for here.
    #[must_use]
    pub fn shards(&self) -> Shards {
        let listened = self.listened().into_iter().chain(self.awaited().into_iter().map(WakeKey::Work));
        listened.fold(Shards::NONE, |all, key| all.and(Shards::of(&key)))
    }
}

/// A listener for some keys; dropping it ends that.
#[derive(Debug)]
pub struct Listener {
    wakeups: Arc<Wakeups>,
    ear: Arc<Notify>,
    hears: HashSet<WakeKey>,
}

impl Listener {
    /// Adds a key; later wake-ups of it resolve [`Self::rung`].
    pub fn add(&mut self, what: WakeKey) {
        if !self.hears.insert(what.clone()) {
            return;
        }
        self.wakeups.interest.add(Shards::of(&what));
        let mut listeners = self.wakeups.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.entry(what).or_default().push(Arc::downgrade(&self.ear));
    }

    /// Removes a key.
    pub fn remove(&mut self, what: &WakeKey) {
        self.hears.remove(what);
        self.forget([what]);
    }

    /// Resolves at the first wake-up since the last time.
    pub async fn rung(&self) {
        self.ear.notified().await;
    }

    fn forget<'a>(&self, what: impl IntoIterator<Item = &'a WakeKey>) {
        let mut listeners = self.wakeups.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        for touch in what {
            let Some(known) = listeners.get_mut(touch) else { continue };
            // The registry owns no listener: one without an owner is gone.
            known.retain(|listener| {
                listener.strong_count() > 0 && !std::ptr::eq(listener.as_ptr(), Arc::as_ptr(&self.ear))
            });
            if known.is_empty() {
                listeners.remove(touch);
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let hears = std::mem::take(&mut self.hears);
        self.forget(&hears);
    }
}
