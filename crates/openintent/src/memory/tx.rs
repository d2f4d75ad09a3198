//! Transaction that changes an agent's memory: it holds the lock of the memory and those of the affected
//! intents, with their logs and the changes to record.
//!
//! A writer of an entry holds the lock of its agent's memory and that of the entry's intent, if any. All
//! locks are advisory and are taken together, in order, before the first write, like all locks of intents: a
//! second server waits and then reads the first one's result. Ends of intents and tasks (`memory_entries.rs`)
//! hold only the intent's lock; they only archive, which changes no total.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::{IntentId, MemoryId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::memory::MemoryEntry;
use entente_domain::traces::Trace;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{AppError, Caller, Outcome, Tx, idempotency, lock_key};

use super::store::{self, Change, Store};
use crate::Ctx;
use crate::memory_entries::rows;

/// A memory change in progress.
pub(super) struct MemoryTx {
    pub tx: Tx,
    /// Time of all changes; it goes back along none of the logs.
    pub now: Timestamp,
    pub store: Store,
    owner: String,
    logs: BTreeMap<IntentId, IntentLog>,
    changes: Vec<Change>,
}

impl MemoryTx {
    /// Begins a transaction with the locks of an agent's memory, of these intents and of the caller's
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
        let mut logs = BTreeMap::new();
        for intent in intents {
            logs.insert(*intent, IntentLog::open(&mut tx, *intent, trace, ctx.now()).await?);
        }
        let now = logs.values().map(IntentLog::now).fold(ctx.now(), Timestamp::max);
        let store = store::load(&mut tx, owner).await?;
        Ok(Self { tx, now, store, owner: owner.to_owned(), logs, changes: Vec::new() })
    }

    /// Those of these intents that are not locked.
    pub fn missing(&self, intents: impl IntoIterator<Item = IntentId>) -> Vec<IntentId> {
        intents.into_iter().filter(|intent| !self.logs.contains_key(intent)).collect()
    }

    /// Inserts a new entry.
    pub async fn insert(&mut self, ctx: &Ctx, entry: &MemoryEntry) -> Outcome<()> {
        rows::insert(&mut self.tx, entry).await?;
        self.store.entries += 1;
        self.store.bytes += entry.bytes();
        self.tell(ctx, Kind::MemoryCreated, entry, &entry.agent_id, entry.is_shared())
    }

    /// Writes a changed entry and keeps its previous version.
    pub async fn update(&mut self, ctx: &Ctx, was: &MemoryEntry, entry: &MemoryEntry) -> Outcome<()> {
        store::keep(&mut self.tx, was).await?;
        rows::update(&mut self.tx, entry).await?;
        self.store.bytes += entry.bytes() - was.bytes();
        // Agents that could see it learn from one more event that it is hidden now.
        self.tell(ctx, Kind::MemoryUpdated, entry, &entry.updated_by, was.is_shared() || entry.is_shared())
    }

    /// Deletes entries.
    pub async fn remove(&mut self, ctx: &Ctx, kind: Kind, gone: &[MemoryEntry], by: &str) -> Outcome<()> {
        let ids: Vec<MemoryId> = gone.iter().map(|entry| entry.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        rows::delete(&mut self.tx, &ids).await?;
        for entry in gone {
            self.store.entries -= 1;
            self.store.bytes -= entry.bytes();
            // The end of an archived entry was recorded when it was archived.
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
        let log = self.logs.get_mut(&intent).ok_or_else(|| {
            AppError::Inconsistent(format!("{} was changed without the lock of its intent", entry.id))
        })?;
        log.record(ctx, Draft::of(kind, by, entry.described()));
        Ok(())
    }

    /// Writes the recorded changes and the totals.
    pub async fn save(&mut self) -> Outcome<()> {
        store::note(&mut self.tx, &self.owner, &self.changes).await?;
        store::save(&mut self.tx, &self.owner, self.store).await?;
        for log in self.logs.values().filter(|log| !log.recorded.is_empty()) {
            log.save(&mut self.tx).await?;
        }
        Ok(())
    }

    /// Commits and notifies followers.
    pub async fn commit(self, ctx: &Ctx) -> Outcome<()> {
        self.tx.commit().await?;
        for (intent, log) in self.logs {
            if !log.recorded.is_empty() {
                ctx.feed.notify_committed(intent);
            }
        }
        Ok(())
    }
}
