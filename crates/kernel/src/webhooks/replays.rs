//! Replays: past records of the log, delivered again to an endpoint from a given time on. Table `webhook_replays`.
//!
//! A replay reads the logs again, page by page, and queues the records that the endpoint's owner can see now, under
//! the same ids. A receiver that was down, disabled or not registered yet catches up, and recognises the records that
//! it already has.

use std::time::Duration;

use entente_domain::clock::{Timestamp, rfc3339};
use entente_domain::ids::{EndpointId, IntentId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::webhooks::EndpointKind;
use serde_json::json;
use sqlx::PgConnection;

use crate::feed::reader;
use crate::log::{GlobalPosition, Record, order};
use crate::webhooks::deliveries;
use crate::webhooks::deliveries::Queue;
use crate::webhooks::endpoints;
use crate::{Caller, Ctx, IntentTx, Outcome, try_locks};

/// Advisory lock of the server that runs replays.
const LOCK: i64 = 0x656e_7465_6e74_6503;

/// Maximum deliveries that wait for an endpoint while more of its replay is queued.
///
/// A long replay to a slow receiver uses no more space than this and does not block other replays.
const ROOM: i64 = 2_000;

/// Assumed difference between the clocks of servers: the search starts this much earlier.
const SKEW: Duration = Duration::from_mins(1);

struct Replay {
    endpoint_id: EndpointId,
    since: Timestamp,
    place: Option<GlobalPosition>,
    /// The event of the system log before which the replay ends.
    until_seq: i64,
}

/// Starts a replay of the records since a time; replaces a running replay of the endpoint.
///
/// # Errors
/// Fails if the caller has no such endpoint, or if nothing is delivered to it.
pub async fn begin(ctx: &Ctx, caller: &Caller, id: EndpointId, since: Timestamp) -> Outcome<()> {
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let stored = endpoints::changeable(work.conn(), caller, id).await?;
    endpoints::require_live(&stored.endpoint, work.now())?;
    if stored.endpoint.kind == EndpointKind::Mailbox {
        let message =
            "What came to a mailbox before is read from it: GET /api/v1/aee/mailboxes/{entity}?after=…";
        return Err(Refusal::new(Code::Unprocessable, message).into());
    }
    insert(work.conn(), id, since).await?;
    let payload =
        json!({ "endpoint_id": id, "agent_id": stored.endpoint.agent_id, "replay_since": rfc3339(since) });
    work.record(Draft::of(Kind::EndpointChanged, &caller.agent, payload));
    work.commit().await
}

/// Processes one page of one replay; returns true if there may be more.
///
/// # Errors
/// Returns database errors.
pub async fn step(ctx: &Ctx) -> Outcome<bool> {
    let mut tx = ctx.pool.begin().await?;
    let Some(replay) = next(&mut tx).await? else {
        tx.rollback().await?;
        return Ok(false);
    };
    let id = replay.endpoint_id;
    let now = ctx.now();
    let stored = endpoints::find(&mut tx, id).await?.filter(|stored| stored.endpoint.live(now));
    let visibility = match &stored {
        Some(stored) => endpoints::powers(&mut tx, stored, now).await?,
        None => None,
    };
    let (Some(stored), Some(mut visibility)) = (stored, visibility) else {
        forget(&mut tx, id).await?;
        tx.commit().await?;
        return Ok(true);
    };
    let place = match replay.place {
        Some(place) => place,
        None => beginning(ctx, &mut tx, replay.since - SKEW).await?,
    };
    let stretch = reader::global(ctx, place).await?;
    let until = order::places_in_system(&mut tx, &[replay.until_seq]).await?.remove(&replay.until_seq);
    let mut queue = Queue::default();
    for (at, record) in &stretch.records {
        let Some(post) = (ctx.webhooks.encode)(record, ctx.settings.strict) else { continue };
        let endpoint = &stored.endpoint;
        let asked =
            endpoint.intent_id.is_none_or(|only| only == record.intent_id()) && endpoint.wants(&post.kind);
        if asked
            && until.is_some_and(|until| *at < until)
            && told_at(record) >= replay.since
            && visibility.sees(ctx, record).await?
        {
            queue.pairs.push((queue.posts.len(), id));
            queue.posts.push(post);
        }
    }
    let woken = deliveries::queue(&mut tx, &queue, now, now, true).await?;
    let reached = stretch.reached;
    let over = until.is_some_and(|until| reached >= until) || stretch.records.is_empty() && reached == place;
    if over {
        forget(&mut tx, id).await?;
    } else {
        save(&mut tx, id, reached).await?;
    }
    tx.commit().await?;
    if !woken.is_empty() {
        ctx.webhooks.wake();
    }
    Ok(over || reached > place)
}

fn told_at(record: &Record) -> Timestamp {
    match record {
        Record::Message { message, .. } => message.created_at,
        Record::Event { event, .. } => event.created_at,
        Record::Receipt { receipt, .. } => receipt.at,
    }
}

/// Finds a position before which everything was written before `since`.
///
/// It uses binary search, because times grow with the numbers of the order, and only those are indexed.
async fn beginning(ctx: &Ctx, conn: &mut PgConnection, since: Timestamp) -> Outcome<GlobalPosition> {
    let last = order::advance(&mut *ctx.pool.acquire().await?).await?.logs.global;
    let (mut low, mut high) = (0, last + 1);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if written_before(conn, middle).await?.is_none_or(|at| at < since) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(GlobalPosition { global: low, seq: 0 })
}

/// Returns the time of the last entry before a number of the order.
async fn written_before(conn: &mut PgConnection, global: i64) -> Outcome<Option<Timestamp>> {
    let at = sqlx::query_scalar!(
        "-- replays::written_before
         SELECT at FROM log_order WHERE global < $1 ORDER BY global DESC LIMIT 1",
        global
    )
    .fetch_optional(conn)
    .await?;
    Ok(at)
}

/// Selects a random replay among those with room at their endpoint, so that none waits for the end of another.
///
/// Returns `None` also if another server holds the lock.
async fn next(conn: &mut PgConnection) -> Outcome<Option<Replay>> {
    let row = sqlx::query!(
        "-- replays::next
         SELECT r.endpoint_id FROM webhook_replays r
         WHERE NOT EXISTS (SELECT 1 FROM webhook_deliveries d
                           WHERE d.endpoint_id = r.endpoint_id AND d.status = 'waiting' OFFSET $1)
         ORDER BY random() LIMIT 1",
        ROOM
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    if try_locks(conn, &[LOCK]).await?.is_empty() {
        return Ok(None);
    }
    // Another server may have advanced it before the lock was acquired.
    let row = sqlx::query!(
        "-- replays::again
         SELECT since, global, global_seq, until_seq FROM webhook_replays WHERE endpoint_id = $1",
        row.endpoint_id
    )
    .fetch_optional(conn)
    .await?
    .map(|current| Replay {
        endpoint_id: row.endpoint_id.into(),
        since: current.since,
        place: GlobalPosition::stored(current.global, current.global_seq),
        until_seq: current.until_seq,
    });
    Ok(row)
}

async fn insert(conn: &mut PgConnection, id: EndpointId, since: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- replays::insert
         INSERT INTO webhook_replays (endpoint_id, since) VALUES ($1, $2)
         ON CONFLICT (endpoint_id) DO UPDATE SET since = excluded.since, global = NULL, global_seq = NULL,
             until_seq = excluded.until_seq",
        id.uuid(),
        since
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn save(conn: &mut PgConnection, id: EndpointId, place: GlobalPosition) -> Outcome<()> {
    sqlx::query!(
        "-- replays::save
         UPDATE webhook_replays SET global = $2, global_seq = $3 WHERE endpoint_id = $1",
        id.uuid(),
        place.global,
        place.seq
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn forget(conn: &mut PgConnection, id: EndpointId) -> Outcome<()> {
    sqlx::query!("-- replays::forget\n DELETE FROM webhook_replays WHERE endpoint_id = $1", id.uuid())
        .execute(conn)
        .await?;
    Ok(())
}
