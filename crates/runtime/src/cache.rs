//! Caches with a maximum number of entries. A full cache drops its least recently used entry, and nothing else. Each
//! cache counts its lookups, evictions and entries in the metrics.
//!
//! A count that limits somebody does not belong into a cache: whoever adds enough entries would reset it. The counts
//! of log lines per address (`crates/kernel/src/refused.rs`) may be dropped, because `ALL_LINES` bounds their sum.

use std::borrow::Borrow;
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::{CacheLabels, CacheLookupLabels, Metrics};

/// Metrics of one cache; caches with the same name share them.
#[derive(Debug, Default)]
struct Counts {
    hits: Counter,
    misses: Counter,
    evictions: Counter,
    entries: Gauge,
}

impl Counts {
    fn new(cache: &'static str, metrics: &Metrics) -> Self {
        let lookups =
            |result| metrics.cache_lookups.get_or_create_owned(&CacheLookupLabels { cache, result });
        let labels = CacheLabels { cache };
        Self {
            hits: lookups("hit"),
            misses: lookups("miss"),
            evictions: metrics.cache_evictions.get_or_create_owned(&labels),
            entries: metrics.cache_entries.get_or_create_owned(&labels),
        }
    }

    fn looked(&self, hit: bool) {
        let lookups = if hit { &self.hits } else { &self.misses };
        lookups.inc();
    }

    fn removed(&self, count: usize) {
        self.entries.dec_by(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

/// A cache with one owner, without a lock.
#[derive(Debug)]
pub struct OwnedCache<K: Hash + Eq, V> {
    entries: LruCache<K, V>,
    counts: Counts,
}

impl<K: Hash + Eq, V> OwnedCache<K, V> {
    /// Creates an empty cache; `name` is its label in the metrics.
    #[must_use]
    pub fn new(name: &'static str, capacity: usize, metrics: &Metrics) -> Self {
        Self::counted(capacity, Counts::new(name, metrics))
    }

    /// Creates an empty cache that no metric shows, for a single use.
    #[must_use]
    pub fn uncounted(capacity: usize) -> Self {
        Self::counted(capacity, Counts::default())
    }

    fn counted(capacity: usize, counts: Counts) -> Self {
        let capacity = NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN);
        // Sparse: it takes memory for its entries only, and not for its capacity.
        Self { entries: LruCache::sparse(capacity), counts }
    }

    /// Returns an entry, which is then the most recently used one.
    pub fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let found = self.entries.get(key);
        self.counts.looked(found.is_some());
        found
    }

    /// Returns the value that `read` takes from an entry; an entry from which it takes none, such as an outdated one,
    /// counts as a miss.
    pub fn find<Q: Hash + Eq + ?Sized, T>(&mut self, key: &Q, read: impl FnOnce(&V) -> Option<T>) -> Option<T>
    where
        K: Borrow<Q>,
    {
        let found = self.entries.get(key).and_then(read);
        self.counts.looked(found.is_some());
        found
    }

    /// Returns an entry without a use of it: nothing is counted, and the order of the entries stays.
    #[must_use]
    pub fn peek<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.peek(key)
    }

    /// Like [`Self::peek`], for a change of the entry.
    pub fn peek_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.peek_mut(key)
    }

    /// Adds or replaces an entry; returns the entry that a full cache drops for it.
    pub fn put(&mut self, key: K, value: V) -> Option<(K, V)> {
        if let Some(known) = self.entries.get_mut(&key) {
            *known = value;
            return None;
        }
        let evicted = self.entries.push(key, value);
        if evicted.is_some() {
            self.counts.evictions.inc();
        } else {
            self.counts.entries.inc();
        }
        evicted
    }

    /// Removes and returns an entry.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let removed = self.entries.pop(key);
        self.counts.removed(usize::from(removed.is_some()));
        removed
    }

    /// Removes the entries that `keep` rejects.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        let before = self.entries.len();
        self.entries.retain(|key, value| keep(key, value));
        self.counts.removed(before - self.entries.len());
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.retain(|_, _| false);
    }

    /// Returns the values, most recently used first.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().map(|(_, value)| value)
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<K: Hash + Eq, V> Drop for OwnedCache<K, V> {
    fn drop(&mut self) {
        self.counts.removed(self.entries.len());
    }
}

/// A cache that tasks share.
#[derive(Debug)]
pub struct Cache<K: Hash + Eq, V>(Mutex<OwnedCache<K, V>>);

impl<K: Hash + Eq, V> Cache<K, V> {
    /// Creates an empty cache; `name` is its label in the metrics.
    #[must_use]
    pub fn new(name: &'static str, capacity: usize, metrics: &Metrics) -> Self {
        Self(Mutex::new(OwnedCache::new(name, capacity, metrics)))
    }

    fn lock(&self) -> MutexGuard<'_, OwnedCache<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a copy of an entry, which is then the most recently used one.
    #[must_use]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        V: Clone,
    {
        self.lock().get(key).cloned()
    }

    /// As [`OwnedCache::find`]; `read` runs while the cache is locked.
    #[must_use]
    pub fn find<Q: Hash + Eq + ?Sized, T>(&self, key: &Q, read: impl FnOnce(&V) -> Option<T>) -> Option<T>
    where
        K: Borrow<Q>,
    {
        self.lock().find(key, read)
    }

    /// Adds or replaces an entry.
    pub fn put(&self, key: K, value: V) {
        let _evicted = self.lock().put(key, value);
    }

    /// Removes an entry.
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let _removed = self.lock().remove(key);
    }

    /// Removes the entries that `keep` rejects.
    pub fn retain(&self, keep: impl FnMut(&K, &V) -> bool) {
        self.lock().retain(keep);
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines of `/metrics` about caches, without comments and the prefix `entente_cache_`.
    fn shown(metrics: &Metrics) -> Vec<String> {
        let text = metrics.text();
        let mut lines: Vec<String> =
            text.lines().filter_map(|line| line.strip_prefix("entente_cache_")).map(str::to_owned).collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_full_cache_drops_its_least_recently_used_entry_only() {
        let cache = Cache::new("sample", 3, &Metrics::new());
        (1..=3).for_each(|n| cache.put(n, n * 10));
        assert_eq!(cache.get(&1), Some(10));
        cache.put(2, 21);
        cache.put(4, 40);
        assert_eq!((cache.get(&3), cache.len()), (None, 3), "it was used before the others");
        assert_eq!([1, 2, 4].map(|n| cache.get(&n)), [Some(10), Some(21), Some(40)]);
        cache.remove(&2);
        cache.put(5, 50);
        assert_eq!([1, 4, 5].map(|n| cache.get(&n)), [Some(10), Some(40), Some(50)], "there was room");
        cache.retain(|key, _| *key == 4);
        assert_eq!([1, 4, 5].map(|n| cache.get(&n)), [None, Some(40), None]);
    }

    #[test]
    fn an_entry_that_is_only_peeked_at_is_not_used() {
        let mut cache = OwnedCache::uncounted(2);
        cache.put("old", 1);
        cache.put("new", 2);
        if let Some(value) = cache.peek_mut("old") {
            *value = 3;
        }
        assert_eq!(cache.peek("old"), Some(&3));
        assert_eq!(cache.put("newest", 4), Some(("old", 3)));
        assert_eq!(cache.values().copied().collect::<Vec<_>>(), [4, 2]);
    }

    #[test]
    fn each_cache_counts() {
        let metrics = Metrics::new();
        let cache = Cache::new("sample", 2, &metrics);
        let mut other = OwnedCache::new("sample", 2, &metrics);
        let _third = OwnedCache::<u8, u8>::new("empty", 2, &metrics);
        other.put(1, 1);
        (1..=3).for_each(|n| cache.put(n, n));
        cache.put(3, 4);
        assert_eq!((cache.get(&1), cache.get(&3)), (None, Some(4)));
        assert_eq!(cache.find(&3, |value| (*value > 4).then_some(())), None, "an outdated entry is a miss");
        assert_eq!(other.peek(&1), Some(&1));
        let expected = [
            r#"entries{cache="empty"} 0"#,
            r#"entries{cache="sample"} 3"#,
            r#"evictions_total{cache="empty"} 0"#,
            r#"evictions_total{cache="sample"} 1"#,
            r#"lookups_total{cache="empty",result="hit"} 0"#,
            r#"lookups_total{cache="empty",result="miss"} 0"#,
            r#"lookups_total{cache="sample",result="hit"} 1"#,
            r#"lookups_total{cache="sample",result="miss"} 2"#,
        ];
        assert_eq!(shown(&metrics), expected);
        other.clear();
        cache.remove(&3);
        cache.remove(&9);
        assert_eq!(shown(&metrics)[1], r#"entries{cache="sample"} 1"#);
        drop(cache);
        assert_eq!(shown(&metrics)[1], r#"entries{cache="sample"} 0"#, "its entries are gone with it");
    }
}
