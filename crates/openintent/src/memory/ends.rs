//! Automatic ends in agents' memory: working memory ends with its task or intent, every entry at its expiry.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{IntentId, MemoryId, TaskId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::memory::MemoryEntry;
use serde_json::json;
use sqlx::PgConnection;

use super::rows;
use super::tx::MemoryTx;
use crate::Ctx;
use entente_kernel::Outcome;
use entente_kernel::due::run_each;
use entente_kernel::log::writer::IntentLog;

/// Archives the working memory of a resolved intent, within an operation that holds its lock.
pub(crate) async fn end_of_intent(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    actor: &str,
) -> Outcome<()> {
    archive(conn, ctx, log, None, actor).await
}

/// Archives the working memory of finished tasks, within an operation that holds their intent's lock.
pub(crate) async fn end_of_tasks(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    tasks: &[TaskId],
    actor: &str,
) -> Outcome<()> {
    archive(conn, ctx, log, Some(tasks), actor).await
}

async fn archive(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    tasks: Option<&[TaskId]>,
    actor: &str,
) -> Outcome<()> {
    for (task, entries) in rows::archive(conn, log.intent_id, tasks, log.now()).await? {
        let payload = json!({ "task_id": task, "entries": entries });
        log.record(ctx, Draft::of(Kind::MemoryArchived, actor, payload));
    }
    Ok(())
}

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
