//! Entries of agents' memory (RFC-0015) below the operations of `memory.rs`: their rows, and the archiving of working
//! memory when its task or intent ends. Table `memory_entries`, in `memory_entries/rows.rs`.

pub(crate) mod rows;

use entente_domain::ids::TaskId;
use entente_domain::log::events::{Draft, Kind};
use entente_kernel::Outcome;
use entente_kernel::log::writer::IntentLog;
use serde_json::json;
use sqlx::PgConnection;

/// Archives the working memory of a resolved intent, within an operation that holds its lock.
pub(crate) async fn end_of_intent(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    actor: &str,
) -> Outcome<()> {
    archive(conn, ctx, log, None, actor).await
}

/// Archives the working memory of finished tasks, within an operation that holds their intent's lock.
pub(crate) async fn end_of_tasks(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    tasks: &[TaskId],
    actor: &str,
) -> Outcome<()> {
    archive(conn, ctx, log, Some(tasks), actor).await
}

async fn archive(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
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
