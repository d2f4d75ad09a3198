//! The bench on which an agent's memory is changed: its lock and those of the intents that hear of it, the lines of these,
//! and what is to be told.
//!
//! Whoever writes an entry holds the lock of its agent's memory, and that of its intent if it has one. All locks are
//! advisory and are taken at once, in order, before anything is written, as those of intents always are: a second server
//! that does the same waits, and then reads what the first did. What ends with an intent or a task (`ends.rs`) holds the
//! intent's lock alone and only archives, which no count depends on.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::clock::Timestamp;
use entente_domain::events::{Draft, Kind};
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::{IntentId, MemoryId};
use entente_domain::memory::MemoryEntry;
use entente_domain::traces::Trace;

use super::rows;
use super::store::{self, Change, Store};
use crate::lines::Line;
use crate::{AppError, Caller, Ctx, Outcome, Tx, idempotency, lock_key};

/// An agent's memory while it is changed.
pub(super) struct Bench {
    pub tx: Tx,
    /// The time of what is done: it goes back along none of the lines.
    pub now: Timestamp,
    pub store: Store,
    owner: String,
    lines: BTreeMap<IntentId, Line>,
    changes: Vec<Change>,
}

impl Bench {
    /// Begins a transaction that holds the lock of an agent's memory, those of these intents, and that of the caller's
    /// idempotency key.
    pub async fn open(
        ctx: &Ctx,
        owner: &str,
        intents: &BTreeSet<IntentId>,
        trace: Option<Trace>,
        once: Option<(&Caller, &Idempotency)>,
    ) -> Outcome<Self> {
        let mut locks: Vec<i64> = intents.iter().copied().map(lock_key).collect();
        locks.push(store::lock_key(owner));
        locks.extend(once.map(|(caller, once)| idempotency::lock_key(caller.principal(), &once.key)));
        let mut tx = ctx.begin_locked(locks).await?;
        let mut lines = BTreeMap::new();
        for intent in intents {
            lines.insert(*intent, Line::open(&mut tx, *intent, trace, ctx.now()).await?);
        }
        let now = lines.values().map(Line::now).fold(ctx.now(), Timestamp::max);
        let store = store::load(&mut tx, owner).await?;
        Ok(Self { tx, now, store, owner: owner.to_owned(), lines, changes: Vec::new() })
    }

    /// Which of these intents' locks are not held.
    pub fn missing(&self, intents: impl IntoIterator<Item = IntentId>) -> Vec<IntentId> {
        intents.into_iter().filter(|intent| !self.lines.contains_key(intent)).collect()
    }

    /// Writes a new entry.
    pub async fn insert(&mut self, ctx: &Ctx, entry: &MemoryEntry) -> Outcome<()> {
        rows::insert(&mut self.tx, entry).await?;
        self.store.entries += 1;
        self.store.bytes += entry.bytes();
        self.tell(ctx, Kind::MemoryCreated, entry, &entry.agent_id, entry.is_shared())
    }

    /// Writes an entry after a change of it, and keeps what it was.
    pub async fn update(&mut self, ctx: &Ctx, was: &MemoryEntry, entry: &MemoryEntry) -> Outcome<()> {
        store::keep(&mut self.tx, was).await?;
        rows::update(&mut self.tx, entry).await?;
        self.store.bytes += entry.bytes() - was.bytes();
        // Who could see it hears that it is out of sight now, as one more version.
        self.tell(ctx, Kind::MemoryUpdated, entry, &entry.updated_by, was.is_shared() || entry.is_shared())
    }

    /// Takes entries away.
    pub async fn remove(&mut self, ctx: &Ctx, kind: Kind, gone: &[MemoryEntry], by: &str) -> Outcome<()> {
        let ids: Vec<MemoryId> = gone.iter().map(|entry| entry.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        rows::delete(&mut self.tx, &ids).await?;
        for entry in gone {
            self.store.entries -= 1;
            self.store.bytes -= entry.bytes();
            // That what is archived is over was told when it was archived.
            self.tell(ctx, kind, entry, by, entry.is_shared() && entry.archived_at.is_none())?;
        }
        Ok(())
    }

    fn tell(&mut self, ctx: &Ctx, kind: Kind, entry: &MemoryEntry, by: &str, aloud: bool) -> Outcome<()> {
        self.store.changes += 1;
        self.changes.push(Change {
            number: self.store.changes,
            what: kind.wire().trim_start_matches("memory.").to_owned(),
            entry_id: entry.id,
            namespace: entry.namespace.clone(),
            key: entry.key.clone(),
            memory_type: entry.memory_type,
            version: entry.version,
            changed_by: by.to_owned(),
            changed_at: self.now,
        });
        let Some(intent) = entry.intent_id.filter(|_| aloud) else { return Ok(()) };
        let line = self.lines.get_mut(&intent).ok_or_else(|| {
            AppError::Inconsistent(format!("{} was changed without the lock of its intent", entry.id))
        })?;
        line.record(ctx, Draft::of(kind, by, entry.described()));
        Ok(())
    }

    /// Writes what is to be told, and then how much there is.
    pub async fn save(&mut self) -> Outcome<()> {
        store::note(&mut self.tx, &self.owner, &self.changes).await?;
        store::save(&mut self.tx, &self.owner, self.store).await?;
        for line in self.lines.values().filter(|line| !line.recorded.is_empty()) {
            line.save(&mut self.tx).await?;
        }
        Ok(())
    }

    /// Commits what was saved, and has the feed tell those who follow.
    pub async fn commit(self, ctx: &Ctx) -> Outcome<()> {
        self.tx.commit().await?;
        for (intent, line) in self.lines {
            if !line.recorded.is_empty() {
                ctx.feed.news(intent);
            }
        }
        Ok(())
    }
}
