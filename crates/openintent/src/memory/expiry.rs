//! Expiry in agents' memory: the sweep deletes every entry whose time is over.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{IntentId, MemoryId};
use entente_domain::log::events::Kind;
use entente_domain::openintent::memory::MemoryEntry;
use entente_kernel::Outcome;
use entente_kernel::due::run_each;

use super::tx::MemoryTx;
use crate::Ctx;
use crate::memory_entries::rows;

/// Deletes up to `limit` expired entries, which are already hidden; groups them by agent and intent.
///
/// # Errors
/// The database query fails.
pub async fn expire_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let mut connection = ctx.pool.acquire().await?;
    let mut due: BTreeMap<(String, Option<IntentId>), Vec<MemoryId>> = BTreeMap::new();
    for (agent, intent, id) in rows::due(&mut connection, ctx.now(), limit).await? {
        due.entry((agent, intent)).or_default().push(id);
    }
    drop(connection);
    run_each(due.into_iter().map(|((agent, intent), ids)| expire(ctx, agent, intent, ids))).await
}

async fn expire(ctx: &Ctx, agent: String, intent: Option<IntentId>, ids: Vec<MemoryId>) -> Outcome<u64> {
    let intents: BTreeSet<IntentId> = intent.into_iter().collect();
    let mut work = MemoryTx::open(ctx, &agent, &intents, None, None).await?;
    let now = work.now;
    // Another server was faster, or the expiry was extended.
    let over: Vec<MemoryEntry> =
        rows::load_all(&mut work.tx, &ids).await?.into_iter().filter(|entry| entry.is_due(now)).collect();
    if over.is_empty() {
        return Ok(0);
    }
    work.remove(ctx, Kind::MemoryExpired, &over, SYSTEM).await?;
    work.save().await?;
    work.commit(ctx).await?;
    Ok(over.len() as u64)
}
