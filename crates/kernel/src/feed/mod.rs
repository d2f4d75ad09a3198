//! The live feed: what was committed, handed to whoever follows, without asking the database again.
//!
//! Deeds publish here after their commit. A follower holds a position, not a queue: it reads from its topic's ring, and
//! from the database (`src/app/streams.rs`) when the ring no longer reaches back to it. What is published here is a
//! convenience; the truth is in the database, and a missed or doubled publication does no harm. This module knows no
//! SQL and no HTTP.

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

/// Locks per map of topics: more than cores, so that writers of different intents do not meet.
const SHARDS: usize = 16;

/// Where a follower of many intents is: the writing transaction, and within it the intent and its line. Transactions
/// take the locks of all their intents before their first write, so this order agrees with every intent's own
/// (ARCHITECTURE.md, "One order").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The writing transaction.
    pub xid: i64,
    /// The intent.
    pub intent_id: IntentId,
    /// The number in the intent's line.
    pub seq: i64,
}

/// The topics of one intent's line.
pub type IntentTopic = Topic<i64>;
/// The topic of everything.
pub type HouseTopic = Topic<Place>;

/// The live feed of one server.
#[derive(Debug)]
pub struct Feed {
    intents: Vec<Mutex<HashMap<IntentId, Weak<IntentTopic>>>>,
    house: Arc<HouseTopic>,
    /// Something was committed, and somebody follows everything.
    activity: Notify,
    /// Something was committed, and somebody receives webhooks.
    stir: Notify,
    stirring: AtomicBool,
    /// Whether other servers share the database and want to be woken.
    has_peers: AtomicBool,
    touched: Mutex<HashSet<Touch>>,
    touch: Notify,
    /// Who waits for jobs.
    bells: Arc<Bells>,
    /// Followed intents of which something is known to be in the database that was not published.
    stale: Mutex<HashSet<IntentId>>,
    staleness: Notify,
}

impl Default for Feed {
    fn default() -> Self {
        Self::new()
    }
}

impl Feed {
    /// A feed that nobody follows yet.
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

    /// Follows an intent from a position on.
    pub fn follow(&self, intent: IntentId, position: i64) -> Follower<i64> {
        let mut topics = self.shard(intent).lock().unwrap_or_else(PoisonError::into_inner);
        let topic = topics.get(&intent).and_then(Weak::upgrade).unwrap_or_else(|| {
            let topic = Arc::new(Topic::new());
            topics.insert(intent, Arc::downgrade(&topic));
            topic
        });
        Topic::follow(&topic, position)
    }

    /// Follows everything from a place on.
    pub fn follow_house(&self, place: Place) -> Follower<Place> {
        let follower = Topic::follow(&self.house, place);
        self.activity.notify_one();
        follower
    }

    /// The topic of everything; its one writer is `kernel::streams::tail`.
    pub fn house(&self) -> &HouseTopic {
        &self.house
    }

    /// Whether anybody follows everything.
    pub fn house_is_followed(&self) -> bool {
        Arc::strong_count(&self.house) > 1
    }

    /// Resolves when something was committed while somebody follows everything, or somebody began to.
    pub async fn activity(&self) {
        self.activity.notified().await;
    }

    /// Publishes what a transaction has committed for one intent, in the order of its line. `records` is only asked
    /// for when somebody follows.
    pub fn publish(&self, intent: IntentId, records: impl FnOnce() -> Vec<Record>) {
        self.signal(intent);
        if let Some(topic) = self.topic(intent) {
            for record in records() {
                let seq = record.seq();
                topic.publish(seq - 1, seq, Some(Arc::new(Frame::new(Mark::Line(seq), record))));
            }
        }
    }

    /// Says that something was committed for an intent; who follows it will read it from the database.
    pub fn news(&self, intent: IntentId) {
        self.signal(intent);
        self.look_at(intent);
    }

    /// Says that an intent may have gone on without this server's doing.
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

    /// Wakes those who wait for a job, a session or work that went on, here and on the other servers.
    pub fn ring(&self, what: Touch) {
        self.bells.ring(&what);
        self.tell_peers(what);
    }

    /// The bells of jobs, sessions and work.
    pub fn bells(&self) -> &Arc<Bells> {
        &self.bells
    }

    /// Whether other servers share the database.
    pub fn has_peers(&self) -> bool {
        self.has_peers.load(Ordering::Relaxed)
    }

    /// Wakes those who read all lines behind the commits, where there are any.
    fn wake_readers(&self) {
        if self.house_is_followed() {
            self.activity.notify_one();
        }
        if self.stirring.load(Ordering::Relaxed) {
            self.stir.notify_one();
        }
    }

    /// Resolves when something was committed since the last time, if [`Self::set_stirring`] says that it matters.
    pub async fn stirred(&self) {
        self.stir.notified().await;
    }

    /// Says whether somebody receives webhooks.
    pub fn set_stirring(&self, matters: bool) {
        self.stirring.store(matters, Ordering::Relaxed);
    }

    /// Waits until a followed intent has something in the database that was not published, and takes all such intents.
    pub async fn stale(&self) -> HashSet<IntentId> {
        loop {
            self.staleness.notified().await;
            let stale = std::mem::take(&mut *self.stale.lock().unwrap_or_else(PoisonError::into_inner));
            if !stale.is_empty() {
                return stale;
            }
        }
    }

    /// The topic of an intent, if anybody follows it.
    pub fn topic(&self, intent: IntentId) -> Option<Arc<IntentTopic>> {
        let mut topics = self.shard(intent).lock().unwrap_or_else(PoisonError::into_inner);
        let topic = topics.get(&intent)?.upgrade();
        if topic.is_none() {
            topics.remove(&intent);
        }
        topic
    }

    /// The intents that somebody follows, for the look into the database that finds what was missed.
    pub fn followed(&self) -> Vec<IntentId> {
        let mut followed = Vec::new();
        for shard in &self.intents {
            let mut topics = shard.lock().unwrap_or_else(PoisonError::into_inner);
            topics.retain(|_, topic| topic.strong_count() > 0);
            followed.extend(topics.keys().copied());
        }
        followed
    }

    /// Says whether other servers share the database.
    pub fn set_peers(&self, present: bool) {
        self.has_peers.store(present, Ordering::Relaxed);
    }

    /// Takes what was touched since other servers last heard.
    pub fn take_touched(&self) -> HashSet<Touch> {
        std::mem::take(&mut *self.touched.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until something was committed that other servers should hear of, and takes what it touched.
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
