//! The live feed: delivers committed records to followers without another database query.
//!
//! Operations publish here after their commit. A follower holds a position, not a queue: it reads from its
//! topic's ring, and from the database (`reader.rs`) when the ring no longer reaches back to it. The feed is
//! a convenience; the database is authoritative, and a missed or repeated publication does no harm. This
//! file knows no SQL and no HTTP.

pub mod changes;
pub mod reader;
pub mod streams;

mod frame;
mod topic;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use entente_domain::canonical;
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Event, Kind};
use tokio::sync::Notify;

use crate::log::writer::IntentLog;
use crate::log::{GlobalPosition, Record};
use crate::wakeups::inboxes::InboxSignals;
use crate::wakeups::interest::Shards;
use crate::wakeups::{WakeKey, Wakeups};
pub use frame::{Family, Frame, Opening, ResumeToken, Wire};
pub use topic::{Follower, FollowerRead, Topic};

/// Locks per map of topics: more than cores, so that writers of different intents do not contend.
const SHARDS: usize = 16;

/// The topic of one intent's log.
pub type IntentTopic = Topic<i64>;
/// The topic of all intents.
pub type GlobalTopic = Topic<GlobalPosition>;

/// The live feed of one server.
#[derive(Debug)]
pub struct Feed {
    intents: Vec<Mutex<HashMap<IntentId, Weak<IntentTopic>>>>,
    global: Arc<GlobalTopic>,
    /// Signals a commit while all intents are followed.
    activity: Notify,
    /// Signals a commit while there are receivers of webhooks.
    stir: Notify,
    webhook_wakeup_enabled: AtomicBool,
    /// Wakes the follower that writes agents' inboxes.
    inboxes: InboxSignals,
    /// Number of announced commits of this server.
    commits: AtomicU64,
    /// Whether other servers share the database.
    has_peers: AtomicBool,
    /// Whether wake-ups of other servers do not arrive at the moment.
    bus_away: AtomicBool,
    touched: Mutex<HashSet<WakeKey>>,
    touch: Notify,
    /// Wake-ups by [`WakeKey`].
    wakeups: Arc<Wakeups>,
    /// Followed intents with committed records that were not published here.
    stale: Mutex<HashSet<IntentId>>,
    staleness: Notify,
}

impl Default for Feed {
    fn default() -> Self {
        Self::new()
    }
}

impl Feed {
    /// Creates a feed without followers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            intents: (0..SHARDS).map(|_| Mutex::default()).collect(),
            global: Arc::new(Topic::new()),
            activity: Notify::new(),
            stir: Notify::new(),
            webhook_wakeup_enabled: AtomicBool::new(false),
            inboxes: InboxSignals::default(),
            commits: AtomicU64::new(0),
            has_peers: AtomicBool::new(false),
            bus_away: AtomicBool::new(false),
            touched: Mutex::default(),
            touch: Notify::new(),
            wakeups: Arc::default(),
            stale: Mutex::default(),
            staleness: Notify::new(),
        }
    }

    fn shard(&self, intent: IntentId) -> &Mutex<HashMap<IntentId, Weak<IntentTopic>>> {
        let index = usize::from(intent.uuid().as_bytes()[15]) % self.intents.len();
        // The index is below the length by construction.
        &self.intents[index]
    }

    /// Follows an intent from a position.
    pub fn follow(&self, intent: IntentId, position: i64) -> Follower<i64> {
        let mut topics = self.shard(intent).lock().unwrap_or_else(PoisonError::into_inner);
        let topic = topics.get(&intent).and_then(Weak::upgrade).unwrap_or_else(|| {
            let topic = Arc::new(Topic::new());
            topics.insert(intent, Arc::downgrade(&topic));
            self.wakeups.interest().add(Shards::of(&WakeKey::Intent(intent)));
            topic
        });
        Topic::follow(&topic, position)
    }

    /// Follows all intents from a position.
    pub(crate) fn follow_global(&self, place: GlobalPosition) -> Follower<GlobalPosition> {
        self.wakeups.interest().add(Shards::ALL);
        let follower = Topic::follow(&self.global, place);
        self.activity.notify_one();
        follower
    }

    /// Returns the topic of all intents; its only writer is `feed::streams::tail`.
    pub(crate) fn global(&self) -> &GlobalTopic {
        &self.global
    }

    /// Whether anybody follows all intents.
    pub fn globally_followed(&self) -> bool {
        self.global.is_followed()
    }

    /// Resolves at a commit while all intents are followed, or when somebody starts to follow them.
    pub async fn activity(&self) {
        self.activity.notified().await;
    }

    /// Publishes a transaction's records of one intent, in the order of its log; `records` is only called if
    /// the intent is followed.
    pub fn publish(&self, intent: IntentId, records: impl FnOnce() -> Vec<Record>) {
        self.signal(intent);
        if let Some(topic) = self.topic(intent) {
            records().into_iter().for_each(|record| push(&topic, record));
        }
    }

    /// Publishes the events that a committed operation recorded on an intent. It only announces the commit, as
    /// [`Self::notify_committed`] does, if the ring does not end right before them, or if followers need more than the
    /// events: receipts, or the intent before a change.
    pub fn publish_log(&self, log: &IntentLog) {
        self.signal(log.intent_id);
        if log.recorded.iter().any(|event| event.event_type == Kind::LeaseReleased.wire()) {
            self.wake(WakeKey::Leases(log.intent_id));
        }
        let Some(topic) = self.topic(log.intent_id) else { return };
        match records_after(topic.head(), log) {
            Some(records) => records.into_iter().for_each(|record| push(&topic, record)),
            None => self.look_at(log.intent_id),
        }
    }

    /// Announces a commit for an intent without its records; followers read them from the database.
    pub fn notify_committed(&self, intent: IntentId) {
        self.signal(intent);
        self.look_at(intent);
    }

    /// Announces that another server may have written to an intent.
    pub fn look_at(&self, intent: IntentId) {
        if self.topic(intent).is_some() {
            self.stale.lock().unwrap_or_else(PoisonError::into_inner).insert(intent);
            self.staleness.notify_one();
        }
        self.wake_readers();
    }

    fn signal(&self, intent: IntentId) {
        self.tell_peers(WakeKey::Intent(intent));
        self.wake_readers();
    }

    fn tell_peers(&self, what: WakeKey) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        if self.wakeups.interest().is_wanted(&what) {
            self.touched.lock().unwrap_or_else(PoisonError::into_inner).insert(what);
            self.touch.notify_one();
        }
    }

    /// Wakes the tasks waiting for this key, here and on other servers.
    pub fn wake(&self, what: WakeKey) {
        match &what {
            WakeKey::Mailbox(entity) => self.inboxes.mail(entity),
            WakeKey::Job(_) => self.inboxes.stir(),
            _ => {}
        }
        self.wakeups.ring(&what);
        self.tell_peers(what);
    }

    /// Returns the wake-up registry.
    pub fn wakeups(&self) -> &Arc<Wakeups> {
        &self.wakeups
    }

    /// Whether other servers share the database.
    pub(crate) fn has_peers(&self) -> bool {
        self.has_peers.load(Ordering::Relaxed)
    }

    /// Wakes the readers of all logs, if there are any.
    fn wake_readers(&self) {
        if self.globally_followed() {
            self.activity.notify_one();
        }
        if self.webhook_wakeup_enabled.load(Ordering::Relaxed) {
            self.stir.notify_one();
        }
        self.inboxes.stir();
    }

    /// Returns the signals to the follower that writes agents' inboxes.
    pub fn inboxes(&self) -> &InboxSignals {
        &self.inboxes
    }

    /// Resolves at the next commit, if enabled by [`Self::set_webhook_wakeup`].
    pub async fn webhook_wakeup(&self) {
        self.stir.notified().await;
    }

    /// Sets whether there are receivers of webhooks.
    pub fn set_webhook_wakeup(&self, matters: bool) {
        self.webhook_wakeup_enabled.store(matters, Ordering::Relaxed);
    }

    /// Waits until followed intents have committed records that were not published here; takes and returns
    /// these intents.
    pub async fn stale(&self) -> HashSet<IntentId> {
        loop {
            self.staleness.notified().await;
            let stale = std::mem::take(&mut *self.stale.lock().unwrap_or_else(PoisonError::into_inner));
            if !stale.is_empty() {
                return stale;
            }
        }
    }

    /// Returns the topic of an intent, if it is followed.
    pub fn topic(&self, intent: IntentId) -> Option<Arc<IntentTopic>> {
        let mut topics = self.shard(intent).lock().unwrap_or_else(PoisonError::into_inner);
        let topic = topics.get(&intent)?.upgrade();
        if topic.is_none() {
            topics.remove(&intent);
        }
        topic
    }

    /// Returns the followed intents, for the poll that finds missed records.
    pub fn followed(&self) -> Vec<IntentId> {
        let mut followed = Vec::new();
        for shard in &self.intents {
            let mut topics = shard.lock().unwrap_or_else(PoisonError::into_inner);
            // Only followers own a topic: one without an owner is followed by nobody.
            topics.retain(|_, topic| topic.strong_count() > 0);
            followed.extend(topics.keys().copied());
        }
        followed
    }

    /// Returns the number of announced commits of this server, so that the order over everything is brought up to date also
    /// while nobody reads it.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Counts anew which wake-ups this server wants from the others: all of them while all intents are followed.
    pub fn recount_interest(&self) {
        self.wakeups.interest().recount(|| {
            if self.globally_followed() {
                return Shards::ALL;
            }
            let followed = self.followed().into_iter().map(|intent| Shards::of(&WakeKey::Intent(intent)));
            followed.fold(self.wakeups.shards(), Shards::and)
        });
    }

    /// Sets whether other servers share the database.
    pub fn set_peers(&self, present: bool) {
        self.has_peers.store(present, Ordering::Relaxed);
    }

    /// Sets whether wake-ups of other servers do not arrive at the moment.
    pub fn set_bus_away(&self, away: bool) {
        self.bus_away.store(away, Ordering::Relaxed);
    }

    /// Returns whether wake-ups of other servers do not arrive at the moment; then their changes are found by polling.
    pub fn is_bus_away(&self) -> bool {
        self.bus_away.load(Ordering::Relaxed)
    }

    /// Takes the keys touched since other servers were last notified.
    pub fn take_touched(&self) -> HashSet<WakeKey> {
        std::mem::take(&mut *self.touched.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until there are keys to notify other servers of, and takes them.
    pub async fn touched(&self) -> HashSet<WakeKey> {
        loop {
            self.touch.notified().await;
            let touched = self.take_touched();
            if !touched.is_empty() {
                return touched;
            }
        }
    }
}

/// Adds a record to the ring of its intent.
fn push(topic: &IntentTopic, record: Record) {
    let seq = record.seq();
    topic.publish(seq - 1, seq, Some(Arc::new(Frame::new(ResumeToken::IntentLog(seq), record))));
}

/// Returns the records of an operation that directly follow the end of a ring, if its events are all of them.
///
/// After a gap each follower would read from the database by itself; `feed::streams::fill` reads once for all.
fn records_after(head: Option<i64>, log: &IntentLog) -> Option<Vec<Record>> {
    let (before, events) = log.events_alone()?;
    if head != Some(before) {
        return None;
    }
    events.iter().map(record).collect()
}

/// Returns the record of an event, if followers need no more than the event.
fn record(event: &Event) -> Option<Record> {
    if changes::changes_intent(event) {
        return None;
    }
    Some(Record::Event { event: read_again(event)?, change: None })
}

/// Returns an event as it is read again: canonical JSON writes some numbers of a payload or a proof otherwise.
#[must_use]
pub fn read_again(event: &Event) -> Option<Event> {
    let payload = serde_json::from_str(&canonical::text(&event.payload).ok()?).ok()?;
    let proof = match &event.proof {
        Some(proof) => Some(serde_json::from_str(&canonical::text(proof).ok()?).ok()?),
        None => None,
    };
    Some(Event { payload, proof, ..event.clone() })
}
