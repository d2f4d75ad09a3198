//! The live feed: delivers committed records to followers without another database query.
//!
//! Operations publish here after their commit. A follower holds a position, not a queue: it reads from its
//! topic's ring, and from the database (`streams.rs`) when the ring no longer reaches back to it. The feed is
//! a convenience; the database is authoritative, and a missed or repeated publication does no harm. This
//! module knows no SQL and no HTTP.

pub mod streams;
pub mod turns;

mod bells;
mod frame;
mod topic;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use entente_domain::ids::IntentId;
use tokio::sync::Notify;

pub use bells::{Bells, Listener, Touch};
pub use frame::{Family, Frame, Mark, Record, Wire};
pub use topic::{Follower, Glance, Topic};

/// Locks per map of topics: more than cores, so that writers of different intents do not contend.
const SHARDS: usize = 16;

/// The position of a follower of many intents: the writing transaction, and within it the intent and its log.
///
/// Transactions lock all their intents before their first write, so this order agrees with every intent's own
/// (ARCHITECTURE.md, "One order").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The writing transaction.
    pub xid: i64,
    /// The intent.
    pub intent_id: IntentId,
    /// The position in the intent's log.
    pub seq: i64,
}

/// The topic of one intent's log.
pub type IntentTopic = Topic<i64>;
/// The topic of all intents.
pub type HouseTopic = Topic<Place>;

/// The live feed of one server.
#[derive(Debug)]
pub struct Feed {
    intents: Vec<Mutex<HashMap<IntentId, Weak<IntentTopic>>>>,
    house: Arc<HouseTopic>,
    /// Signals a commit while all intents are followed.
    activity: Notify,
    /// Signals a commit while there are receivers of webhooks.
    stir: Notify,
    stirring: AtomicBool,
    /// Whether other servers share the database and need wake-ups.
    has_peers: AtomicBool,
    touched: Mutex<HashSet<Touch>>,
    touch: Notify,
    /// Wake-ups for jobs, sessions and work.
    bells: Arc<Bells>,
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
            house: Arc::new(Topic::new()),
            activity: Notify::new(),
            stir: Notify::new(),
            stirring: AtomicBool::new(false),
            has_peers: AtomicBool::new(false),
            touched: Mutex::default(),
            touch: Notify::new(),
            bells: Arc::default(),
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
            topic
        });
        Topic::follow(&topic, position)
    }

    /// Follows all intents from a position.
    pub fn follow_house(&self, place: Place) -> Follower<Place> {
        let follower = Topic::follow(&self.house, place);
        self.activity.notify_one();
        follower
    }

    /// Returns the topic of all intents; its only writer is `kernel::streams::tail`.
    pub fn house(&self) -> &HouseTopic {
        &self.house
    }

    /// Whether anybody follows all intents.
    pub fn house_is_followed(&self) -> bool {
        Arc::strong_count(&self.house) > 1
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
            for record in records() {
                let seq = record.seq();
                topic.publish(seq - 1, seq, Some(Arc::new(Frame::new(Mark::Line(seq), record))));
            }
        }
    }

    /// Announces a commit for an intent without its records; followers read them from the database.
    pub fn news(&self, intent: IntentId) {
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
        self.tell_peers(Touch::Intent(intent));
        self.wake_readers();
    }

    fn tell_peers(&self, what: Touch) {
        if self.has_peers.load(Ordering::Relaxed) {
            self.touched.lock().unwrap_or_else(PoisonError::into_inner).insert(what);
            self.touch.notify_one();
        }
    }

    /// Wakes the tasks waiting for this key, here and on other servers.
    pub fn ring(&self, what: Touch) {
        self.bells.ring(&what);
        self.tell_peers(what);
    }

    /// Returns the wake-up registry.
    pub fn bells(&self) -> &Arc<Bells> {
        &self.bells
    }

    /// Whether other servers share the database.
    pub fn has_peers(&self) -> bool {
        self.has_peers.load(Ordering::Relaxed)
    }

    /// Wakes the readers of all logs, if there are any.
    fn wake_readers(&self) {
        if self.house_is_followed() {
            self.activity.notify_one();
        }
        if self.stirring.load(Ordering::Relaxed) {
            self.stir.notify_one();
        }
    }

    /// Resolves at the next commit, if enabled by [`Self::set_stirring`].
    pub async fn stirred(&self) {
        self.stir.notified().await;
    }

    /// Sets whether there are receivers of webhooks.
    pub fn set_stirring(&self, matters: bool) {
        self.stirring.store(matters, Ordering::Relaxed);
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
            topics.retain(|_, topic| topic.strong_count() > 0);
            followed.extend(topics.keys().copied());
        }
        followed
    }

    /// Sets whether other servers share the database.
    pub fn set_peers(&self, present: bool) {
        self.has_peers.store(present, Ordering::Relaxed);
    }

    /// Takes the keys touched since other servers were last notified.
    pub fn take_touched(&self) -> HashSet<Touch> {
        std::mem::take(&mut *self.touched.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until there are keys to notify other servers of, and takes them.
    pub async fn touched(&self) -> HashSet<Touch> {
        loop {
            self.touch.notified().await;
            let touched = self.take_touched();
            if !touched.is_empty() {
                return touched;
            }
        }
    }
}
