//! Deadlocks: finds them while agents wait, and records each once, and its end. Table `deadlocks`.
//!
//! Every server looks, one at a time (`src/background/sweeps.rs`), while any call blocks. The table's key decides which server
//! records a deadlock, in one transaction with its events: one in the log of each intent that a part of it happens on, with
//! that part only; if there is none that the readers of an intent may see, one in the system log.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::canonical::Digest;
use entente_domain::clock::{Timestamp, rfc3339};
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{DeadlockId, IntentId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::waits::{Deadlock, Wait, deadlocks};
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{AppError, Outcome, Tx, try_locks};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::searched;
use crate::Ctx;

/// The advisory lock of the search: only tried, because one server's search is enough.
const LOCK: i64 = 0x656e_7465_6e74_6506;

/// Maximum number of logs that have the event of one deadlock: their locks are held together.
const LOGS: usize = 100;

/// A deadlock that is recorded.
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    /// Tells it from others; see [`Deadlock::fingerprint`].
    pub fingerprint: Digest,
    /// Its id.
    pub id: DeadlockId,
    /// The logs that have its event.
    pub logs: Vec<IntentId>,
    /// When it was found.
    pub found_at: Timestamp,
}

/// Records the deadlocks that are new, and the ends of those that are over; returns their number.
///
/// # Errors
/// A database error.
pub async fn look(ctx: &Ctx) -> Outcome<u64> {
    let mut tx = ctx.pool.begin().await?;
    if try_locks(&mut tx, &[LOCK]).await?.is_empty() {
        return Ok(0);
    }
    let known = recorded(&mut tx).await?;
    let waits = searched(&mut tx, ctx.now()).await?;
    // Gives the connection back before the records: the keys of the table keep two servers apart there.
    tx.rollback().await?;
    let found: BTreeMap<Digest, Deadlock> =
        deadlocks(&waits).into_iter().map(|one| (one.fingerprint(&waits), one)).collect();
    let mut done = 0;
    for one in known.iter().filter(|one| !found.contains_key(&one.fingerprint)) {
        done += u64::from(clear(ctx, one).await?);
    }
    let known: BTreeSet<Digest> = known.iter().map(|one| one.fingerprint).collect();
    for (fingerprint, one) in found.iter().filter(|(fingerprint, _)| !known.contains(*fingerprint)) {
        done += u64::from(record(ctx, *fingerprint, one, &waits).await?);
    }
    Ok(done)
}

/// Records a deadlock; returns whether no other server has done so.
async fn record(ctx: &Ctx, fingerprint: Digest, one: &Deadlock, waits: &[Wait]) -> Outcome<bool> {
    let mut waits: Vec<&Wait> = one.waits.iter().filter_map(|at| waits.get(*at)).collect();
    waits.sort_by_key(|wait| (&wait.from, &wait.to, wait.kind));
    let public = waits.iter().filter(|wait| wait.public).filter_map(|wait| wait.intent_id);
    let mut logs: Vec<IntentId> = public.collect::<BTreeSet<_>>().into_iter().take(LOGS).collect();
    if logs.is_empty() {
        logs.push(IntentId::SYSTEM);
    }
    let id = DeadlockId::mint(ctx.now(), &*ctx.chance);
    let recorded = Recorded { fingerprint, id, logs, found_at: ctx.now() };
    let mut tx = ctx.begin(&recorded.logs).await?;
    if !insert(&mut tx, &recorded, &one.agents).await? {
        return Ok(false);
    }
    append(ctx, tx, &recorded.logs, |log| {
        Draft::of(Kind::DeadlockFound, SYSTEM, found_payload(id, log, &waits))
    })
    .await?;
    let agents = one.agents.join(", ");
    tracing::warn!(deadlock.id = %id, agents, "agents wait for one another, and none of them goes on");
    Ok(true)
}

/// Returns the payload of a deadlock's event in a log: the waits on the log's intent that all its readers may see, and
/// the number of the others. In the system log it has all waits.
fn found_payload(id: DeadlockId, log: IntentId, waits: &[&Wait]) -> Value {
    let is_system = log == IntentId::SYSTEM;
    let of_log: Vec<&Wait> = waits
        .iter()
        .copied()
        .filter(|wait| is_system || wait.public && wait.intent_id == Some(log))
        .collect();
    let ends = of_log.iter().flat_map(|wait| std::iter::once(&wait.from).chain(&wait.to));
    let agents: BTreeSet<&String> = ends.collect();
    let shown = |wait: &&Wait| {
        let mut shown = json!({
            "from": wait.from, "to": wait.to, "kind": wait.kind, "ref": wait.reference, "since": rfc3339(wait.since),
        });
        if is_system {
            shown["intent_id"] = json!(wait.intent_id);
        }
        shown
    };
    json!({
        "deadlock_id": id, "agents": agents, "waits": of_log.iter().map(shown).collect::<Vec<_>>(),
        "elsewhere": waits.len() - of_log.len(),
    })
}

/// Records the end of a deadlock; returns whether no other server has done so.
async fn clear(ctx: &Ctx, one: &Recorded) -> Outcome<bool> {
    let mut tx = ctx.begin(&one.logs).await?;
    if !delete(&mut tx, one).await? {
        return Ok(false);
    }
    let payload = json!({ "deadlock_id": one.id, "found_at": rfc3339(one.found_at) });
    append(ctx, tx, &one.logs, |_| Draft::of(Kind::DeadlockCleared, SYSTEM, payload.clone())).await?;
    Ok(true)
}

/// Appends an event to each of these logs, commits, and tells their followers.
async fn append(ctx: &Ctx, mut tx: Tx, logs: &[IntentId], event: impl Fn(IntentId) -> Draft) -> Outcome<()> {
    let mut written = Vec::new();
    for intent in logs {
        let mut log = IntentLog::open(&mut tx, *intent, None, ctx.now()).await?;
        log.record(ctx, event(*intent));
        log.save(&mut tx).await?;
        written.push(log);
    }
    tx.commit().await?;
    written.iter().for_each(|log| ctx.feed.publish_log(log));
    Ok(())
}

/// Returns the deadlocks that are recorded and not over.
pub(super) async fn recorded(conn: &mut PgConnection) -> Outcome<Vec<Recorded>> {
    let rows = sqlx::query!(
        "-- deadlocks::recorded\n SELECT fingerprint, id, intents, found_at FROM deadlocks ORDER BY found_at"
    )
    .fetch_all(conn)
    .await?;
    let recorded = rows.into_iter().map(|row| {
        let fingerprint = Digest::try_from(row.fingerprint.as_slice())
            .map_err(|_length| AppError::Inconsistent("a deadlock's fingerprint is no SHA-256".to_owned()))?;
        let logs = row.intents.into_iter().map(IntentId::from).collect();
        Ok(Recorded { fingerprint, id: row.id.into(), logs, found_at: row.found_at })
    });
    recorded.collect()
}

async fn insert(conn: &mut PgConnection, one: &Recorded, agents: &[String]) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- deadlocks::insert
         INSERT INTO deadlocks (fingerprint, id, agents, intents, found_at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
        one.fingerprint.as_slice(),
        one.id.uuid(),
        agents,
        &one.logs.iter().map(|intent| intent.uuid()).collect::<Vec<_>>(),
        one.found_at
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

async fn delete(conn: &mut PgConnection, one: &Recorded) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- deadlocks::delete
         DELETE FROM deadlocks WHERE fingerprint = $1 AND id = $2",
        one.fingerprint.as_slice(),
        one.id.uuid()
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}
