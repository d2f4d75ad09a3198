//! Values by key that live as long as somebody uses them, such as one lock for each address. Each use has a guard; the
//! last guard of a key removes its value.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as Lock, OwnedMutexGuard};

/// A value with the number of its guards.
#[derive(Debug)]
struct Entry<V> {
    value: Arc<V>,
    guards: usize,
}

/// The values in use, by key.
type Entries<K, V> = Mutex<HashMap<K, Entry<V>>>;

fn locked<K, V>(entries: &Entries<K, V>) -> MutexGuard<'_, HashMap<K, Entry<V>>> {
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Values by key, each as long as somebody holds it.
#[derive(Debug)]
pub struct Keyed<K: Hash + Eq, V>(Arc<Entries<K, V>>);

impl<K: Hash + Eq, V> Default for Keyed<K, V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Hash + Eq + Clone, V> Keyed<K, V> {
    /// Returns a key's value, which lives at least as long as the guard; the first one creates it.
    #[must_use]
    pub fn hold(&self, key: K) -> Held<K, V>
    where
        V: Default,
    {
        let mut entries = locked(&self.0);
        let entry = entries.entry(key.clone()).or_insert_with(|| Entry { value: Arc::default(), guards: 0 });
        entry.guards += 1;
        Held { value: Arc::clone(&entry.value), entries: Arc::clone(&self.0), key }
    }

    /// Returns a key's value if somebody holds it.
    #[must_use]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
    {
        locked(&self.0).get(key).map(|entry| Arc::clone(&entry.value))
    }

    /// Returns the keys that somebody holds.
    #[must_use]
    pub fn keys(&self) -> Vec<K> {
        locked(&self.0).keys().cloned().collect()
    }
}

/// The guard of a value.
#[derive(Debug)]
pub struct Held<K: Hash + Eq, V> {
    value: Arc<V>,
    entries: Arc<Entries<K, V>>,
    key: K,
}

impl<K: Hash + Eq, V> Deref for Held<K, V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.value
    }
}

impl<K: Hash + Eq, V> Drop for Held<K, V> {
    fn drop(&mut self) {
        let mut entries = locked(&self.entries);
        let Some(entry) = entries.get_mut(&self.key) else { return };
        entry.guards -= 1;
        if entry.guards == 0 {
            entries.remove(&self.key);
        }
    }
}

/// Turns by key: one at a time for each key, in the order of the requests.
#[derive(Debug)]
pub struct Turns<K: Hash + Eq>(Keyed<K, Lock<()>>);

impl<K: Hash + Eq> Default for Turns<K> {
    fn default() -> Self {
        Self(Keyed::default())
    }
}

impl<K: Hash + Eq + Clone> Turns<K> {
    /// Waits for the key's turn, which lasts until it is dropped.
    pub async fn take(&self, key: K) -> KeyedTurn<K> {
        let held = self.0.hold(key);
        let lock = Arc::clone(&held.value).lock_owned().await;
        KeyedTurn { _lock: lock, _held: held }
    }
}

/// A turn that was taken.
#[derive(Debug)]
#[must_use = "the turn ends when it is dropped"]
pub struct KeyedTurn<K: Hash + Eq> {
    // Dropped before the guard: as long as the lock is taken, the key gets no other one.
    _lock: OwnedMutexGuard<()>,
    _held: Held<K, Lock<()>>,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_value_lives_as_long_as_somebody_holds_it() {
        let all: Keyed<&str, AtomicU32> = Keyed::default();
        let (first, second) = (all.hold("a"), all.hold("a"));
        first.store(1, Ordering::Relaxed);
        assert_eq!(second.load(Ordering::Relaxed), 1);
        drop(first);
        assert_eq!(all.keys(), ["a"], "one guard is left");
        assert!(all.get("a").is_some());
        drop(second);
        assert!(all.keys().is_empty() && all.get("a").is_none());
        assert_eq!(all.hold("a").load(Ordering::Relaxed), 0, "it begins anew");
    }

    #[tokio::test]
    async fn a_key_has_one_turn_at_a_time() {
        let turns = Turns::default();
        let first = turns.take("a").await;
        assert!(turns.take("b").now_or_never().is_some(), "another key does not wait");
        let mut second = Box::pin(turns.take("a"));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(turns.take("a").now_or_never().is_none(), "this one gives up");
        drop(first);
        let second = second.now_or_never().expect("it is the next one's turn");
        assert_eq!(turns.0.keys(), ["a"]);
        drop(second);
        assert!(turns.0.keys().is_empty(), "nobody leaves an entry behind");
    }
}
