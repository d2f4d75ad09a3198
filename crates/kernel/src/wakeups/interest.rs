//! Interest: which wake-ups the servers want from each other. Keys are hashed into shards; each server publishes the
//! shards of the keys that somebody waits for there, and a server sends a wake-up only if another one wants its shard.
//! So a server without followers costs the others nothing. Whoever misses a wake-up because its interest had not
//! arrived yet finds the change by the poll (`src/background/feeding.rs`).

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use entente_domain::ids::{IntentId, NodeId};
use tokio::sync::Notify;

use super::WakeKey;

/// Number of shards: one bit each of a 64-bit number.
const SHARDS: u64 = 64;

/// The shard of the system's log, which every server wants because of revoked keys.
const SYSTEM: u64 = SHARDS - 1;

/// Time for which an announcement outweighs a row that was read meanwhile.
const FRESH: Duration = Duration::from_secs(5);

/// A set of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shards(u64);

impl Shards {
    /// No shard.
    pub const NONE: Self = Self(0);
    /// All shards.
    pub const ALL: Self = Self(u64::MAX);
    /// The shards that every server wants.
    pub const LEAST: Self = Self(1 << SYSTEM);

    /// Returns the set of one key's shard.
    #[must_use]
    pub fn of(key: &WakeKey) -> Self {
        Self(1 << shard(key))
    }

    /// Returns both sets together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns this set without the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether the sets have a shard in common.
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the numbers of the shards.
    pub fn numbers(self) -> impl Iterator<Item = u8> {
        (0..64_u8).filter(move |number| self.0 & (1 << number) != 0)
    }

    /// Returns the set as it is stored.
    #[must_use]
    pub fn stored(self) -> i64 {
        i64::from_ne_bytes(self.0.to_ne_bytes())
    }

    /// Returns the set that was stored.
    #[must_use]
    pub fn from_stored(stored: i64) -> Self {
        Self(u64::from_ne_bytes(stored.to_ne_bytes()))
    }

    /// Parses an announcement (see [`fmt::Display`]).
    #[must_use]
    pub fn announced(word: &str) -> Option<Self> {
        u64::from_str_radix(word.strip_prefix('~')?, 16).ok().map(Self)
    }
}

impl fmt::Display for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "~{:016x}", self.0)
    }
}

/// Returns the number of a key's shard: the same on every server.
#[must_use]
pub fn shard(key: &WakeKey) -> u8 {
    if *key == WakeKey::Intent(IntentId::SYSTEM) {
        return SYSTEM.to_le_bytes()[0];
    }
    // FNV-1a, because the standard library's hash may change between releases.
    let hash = key.to_string().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash % SYSTEM).to_le_bytes()[0]
}

#[derive(Debug)]
struct Own {
    /// Shards that this server wants.
    wanted: Shards,
    /// Shards added since the last count.
    added: Shards,
    /// Shards that the last count found.
    counted: Shards,
}

#[derive(Debug)]
struct Peer {
    wants: Shards,
    announced_at: Option<Instant>,
}

/// The interest of this server and of the others.
#[derive(Debug)]
pub struct Interest {
    own: Mutex<Own>,
    widened: Notify,
    peers: Mutex<HashMap<NodeId, Peer>>,
    /// Shards that any other server wants.
    others: AtomicU64,
}

impl Default for Interest {
    fn default() -> Self {
        Self {
            own: Mutex::new(Own { wanted: Shards::LEAST, added: Shards::NONE, counted: Shards::NONE }),
            widened: Notify::new(),
            peers: Mutex::default(),
            others: AtomicU64::new(0),
        }
    }
}

impl Interest {
    /// Adds to the shards that this server wants; [`Self::widened`] resolves if some are new.
    pub fn add(&self, shards: Shards) {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.added = own.added.and(shards);
        let wanted = own.wanted.and(shards);
        if std::mem::replace(&mut own.wanted, wanted) != wanted {
            self.widened.notify_one();
        }
    }

    /// Resolves when this server wants more than before.
    pub async fn widened(&self) {
        self.widened.notified().await;
    }

    /// Returns the shards that this server wants.
    #[must_use]
    pub fn wanted(&self) -> Shards {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).wanted
    }

    /// Counts anew the shards that this server wants, by `count`, which returns those that somebody waits for now. A
    /// shard is given up after two counts without it, so that repeated requests do not announce it again and again.
    pub fn recount(&self, count: impl FnOnce() -> Shards) {
        let before = {
            let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
            own.added = Shards::NONE;
            own.counted
        };
        // Outside of the lock, because whoever begins to wait holds a lock that the count needs.
        let counted = count();
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.wanted = Shards::LEAST.and(counted).and(before).and(own.added);
        own.counted = counted.and(own.added);
    }

    /// Returns whether another server wants wake-ups of this key.
    #[must_use]
    pub fn is_wanted(&self, key: &WakeKey) -> bool {
        let others = self.others.load(Ordering::Relaxed);
        others != 0 && Shards(others).meets(Shards::of(key))
    }

    /// Adds the shards that another server announced; its row says which ones it no longer wants.
    pub fn heard(&self, node: NodeId, wants: Shards) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = peers.entry(node).or_insert(Peer { wants: Shards::NONE, announced_at: None });
        peer.wants = peer.wants.and(wants);
        peer.announced_at = Some(Instant::now());
        self.sum(&peers);
    }

    /// Replaces the other servers by those of the database.
    pub fn set_peers(&self, read: impl IntoIterator<Item = (NodeId, Shards)>) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *peers);
        for (node, wants) in read {
            // The row may have been read before the announcement was written to it.
            let fresh = before
                .remove(&node)
                .filter(|known| known.announced_at.is_some_and(|at| at.elapsed() < FRESH));
            let announced_at = fresh.as_ref().and_then(|known| known.announced_at);
            let wants = fresh.map_or(wants, |known| known.wants.and(wants));
            peers.insert(node, Peer { wants, announced_at });
        }
        self.sum(&peers);
    }

    fn sum(&self, peers: &HashMap<NodeId, Peer>) {
        let all = peers.values().fold(Shards::NONE, |all, peer| all.and(peer.wants));
        self.others.store(all.0, Ordering::Relaxed);
    }
}
