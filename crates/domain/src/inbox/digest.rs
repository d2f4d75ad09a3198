//! The digest: many entries as counts, with the newest of each source.

use std::collections::BTreeMap;

use super::EntryKind;

/// Sources in one digest; the entries of the others are counted together.
pub const SOURCES: usize = 50;

/// An entry of the level `digest`, as far as it is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Its place.
    pub place: i64,
    /// Kind of its object.
    pub kind: EntryKind,
    /// Where it comes from: a channel, or a sender.
    pub source: String,
}

/// The entries of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestSource {
    /// Kind of the objects.
    pub kind: EntryKind,
    /// Where they come from.
    pub source: String,
    /// Number of entries.
    pub count: u64,
    /// Place of the newest one.
    pub newest: i64,
}

/// The summary of many entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    /// Number of entries.
    pub count: u64,
    /// The sources, the one with the newest entry first.
    pub sources: Vec<DigestSource>,
    /// Number of entries of sources that are not listed.
    pub others: u64,
}

impl Digest {
    /// Counts entries.
    #[must_use]
    pub fn of(entries: impl IntoIterator<Item = Counted>) -> Self {
        let mut found: BTreeMap<(EntryKind, String), (u64, i64)> = BTreeMap::new();
        for entry in entries {
            let (count, newest) = found.entry((entry.kind, entry.source)).or_default();
            *count += 1;
            *newest = (*newest).max(entry.place);
        }
        let mut sources: Vec<DigestSource> = found
            .into_iter()
            .map(|((kind, source), (count, newest))| DigestSource { kind, source, count, newest })
            .collect();
        sources.sort_by_key(|one| std::cmp::Reverse(one.newest));
        let others = sources.iter().skip(SOURCES).map(|one| one.count).sum();
        let count = sources.iter().map(|one| one.count).sum();
        sources.truncate(SOURCES);
        Self { count, sources, others }
    }
}
