//! Fan-out: queues each record for the webhook endpoints that receive it. Table `webhook_cursor`.
//!
//! The logs are the outbox: nothing is written for a receiver when a record is written. One server at a time
//! reads the records after the cursor (`feed/reader.rs`), queues those that each receiver's
//! owner may see, and moves the cursor in the same transaction. A crash repeats a step or continues after it;
//! each delivery is queued once either way.

use entente_domain::clock::Timestamp;
use sqlx::PgConnection;

use crate::feed::reader;
use crate::log::{GlobalPosition, Record};
use crate::webhooks::deliveries;
use crate::webhooks::deliveries::Queue;
use crate::webhooks::endpoints::Audience;
use crate::{Ctx, Outcome, try_locks};

/// The advisory lock for moving the cursor: only tried, so that the other servers do not wait for it.
const LOCK: i64 = 0x656e_7465_6e74_6501;

/// Limit of deliveries queued in one transaction, which only its last record may exceed, so that it is short.
const ROWS: usize = 2_000;

struct Cursor {
    place: Option<GlobalPosition>,
    moved_at: Option<Timestamp>,
}

/// Fans out the next page of the logs; returns true when there may be more.
///
/// # Errors
/// A database error.
pub async fn step(ctx: &Ctx) -> Outcome<bool> {
    let mut audience = ctx.webhooks.audience.lock().await;
    let mut tx = ctx.pool.begin().await?;
    audience.refresh(ctx, &mut tx).await?;
    let cursor = load(&mut tx).await?;
    if audience.listeners.is_empty() && cursor.place.is_none() {
        tx.rollback().await?;
        return Ok(false);
    }
    if try_locks(&mut tx, &[LOCK]).await?.is_empty() {
        return Ok(false);
    }
    let cursor = load(&mut tx).await?;
    if audience.listeners.is_empty() {
        save(&mut tx, None, cursor.moved_at).await?;
        tx.commit().await?;
        return Ok(false);
    }
    let beginning = match cursor.place {
        Some(place) => Some(place),
        None => audience.beginning(ctx, &mut tx).await?,
    };
    let Some(place) = beginning else {
        tx.rollback().await?;
        return Ok(false);
    };
    if audience.left_at != Some(place) {
        audience.forget_memberships();
    }
    let stretch = reader::outbox(ctx, place).await?;
    if stretch.reached == place && cursor.place.is_some() {
        tx.rollback().await?;
        return Ok(false);
    }
    // Endpoints that are still unknown after this were created after everything just read.
    audience.refresh(ctx, &mut tx).await?;
    let (queue, reached) = matched(ctx, &mut audience, &mut tx, stretch.records, stretch.reached).await?;
    let now = ctx.now();
    let due = deliveries::in_order(cursor.moved_at, now);
    let woken = deliveries::queue(&mut tx, &queue, due, now, false).await?;
    save(&mut tx, Some(reached), Some(due)).await?;
    tx.commit().await?;
    audience.left_at = Some(reached);
    let last = queue.posts.last().map_or(now, |post| post.at);
    ctx.metrics.webhook_lag.set((now - last).as_seconds_f64().max(0.0));
    if !woken.is_empty() {
        ctx.webhooks.wake();
    }
    Ok(reached > place)
}

/// Matches records with receivers; returns the queue, and the position that it covers.
async fn matched(
    ctx: &Ctx,
    audience: &mut Audience,
    conn: &mut PgConnection,
    records: Vec<(GlobalPosition, Record)>,
    end: GlobalPosition,
) -> Outcome<(Queue, GlobalPosition)> {
    audience.load_memberships(ctx, conn, records.iter().map(|(_, record)| record)).await?;
    let mut queue = Queue::default();
    for (place, record) in records {
        let post = (ctx.webhooks.encode)(&record, ctx.settings.strict);
        let mut wanted = Vec::new();
        // A record that a listener does not receive may still change its view.
        let mut moved = false;
        for one in &mut audience.listeners {
            moved |= one.visibility.notice(&record);
        }
        if moved {
            audience.load_memberships(ctx, conn, std::iter::once(&record)).await?;
        }
        for one in &mut audience.listeners {
            if let Some(post) = &post
                && one.begins.is_some_and(|begins| begins < place)
                && one.hears(ctx, &record, &post.kind).await?
            {
                wanted.push(one.endpoint.id);
            }
        }
        let Some(post) = post.filter(|_| !wanted.is_empty()) else { continue };
        let index = queue.posts.len();
        queue.posts.push(post);
        queue.pairs.extend(wanted.into_iter().map(|endpoint| (index, endpoint)));
        if queue.pairs.len() >= ROWS {
            return Ok((queue, place));
        }
    }
    Ok((queue, end))
}

/// Returns the position of the fan-out, after which no record may be deleted yet; `None` if there are no
/// receivers.
///
/// # Errors
/// A database error.
pub async fn reached(conn: &mut PgConnection) -> Outcome<Option<GlobalPosition>> {
    Ok(load(conn).await?.place)
}

async fn load(conn: &mut PgConnection) -> Outcome<Cursor> {
    let row = sqlx::query!("-- fanout::load\n SELECT global, global_seq, moved_at FROM webhook_cursor")
        .fetch_one(conn)
        .await?;
    let place = GlobalPosition::stored(row.global, row.global_seq);
    Ok(Cursor { place, moved_at: row.moved_at })
}

async fn save(
    conn: &mut PgConnection,
    place: Option<GlobalPosition>,
    moved_at: Option<Timestamp>,
) -> Outcome<()> {
    sqlx::query!(
        "-- fanout::save
         UPDATE webhook_cursor SET global = $1, global_seq = $2, moved_at = $3",
        place.map(|place| place.global),
        place.map(|place| place.seq),
        moved_at
    )
    .execute(conn)
    .await?;
    Ok(())
}
