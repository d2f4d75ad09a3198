//! Rows of deliveries: queueing, loading due ones, recording results. Tables `webhook_bodies`,
//! `webhook_deliveries`, `webhook_attempts`.

use crate::Pool;
use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{AttemptId, ChannelId, EndpointId, IntentId};
use entente_domain::webhooks::DeliveryStatus;
use sqlx::PgConnection;

use super::{Attempted, Begun, Due, Number, endpoint_leases};
use crate::webhooks::Post;
use crate::{Ctx, Outcome};

/// Maximum number of deliveries loaded at once for a lease, and the size of their bodies in bytes after which
/// no more are loaded: every lease in progress holds them in memory.
const BATCH: i64 = 32;
const BATCH_BYTES: i64 = 1 << 20;

/// Deliveries to queue: webhook bodies, and the endpoints of each by its index.
#[derive(Debug, Default)]
pub struct Queue {
    /// The webhook bodies.
    pub posts: Vec<Post>,
    /// Index of the body and the endpoint, in the order of the log.
    pub pairs: Vec<(usize, EndpointId)>,
}

/// Queues deliveries that become due at `due`, with `again` also those that are finished; returns the
/// endpoints with something to send.
///
/// # Errors
/// A database error.
pub async fn queue(
    conn: &mut PgConnection,
    what: &Queue,
    due: Timestamp,
    now: Timestamp,
    again: bool,
) -> Outcome<Vec<uuid::Uuid>> {
    if what.pairs.is_empty() {
        return Ok(Vec::new());
    }
    if again {
        // Existing rows get locked, so lock the endpoint's row before its deliveries, as leases do, to avoid
        // a deadlock. New rows are locked by nobody else, and leases need not wait until all of them are
        // written.
        endpoint_leases::poke(conn, &endpoints(what.pairs.iter().map(|(_, endpoint)| endpoint.uuid())), now)
            .await?;
    }
    insert_bodies(conn, &what.posts, now).await?;
    let ids = what.pairs.iter().map(|(post, _)| what.posts.get(*post).map(|post| post.webhook_id.as_str()));
    let queued = sqlx::query_scalar!(
        "-- deliveries::queue
         INSERT INTO webhook_deliveries AS d (endpoint_id, webhook_id, next_attempt_at, created_at)
         SELECT u.endpoint_id, u.webhook_id, $3, $4
         FROM UNNEST($1::uuid[], $2::text[]) WITH ORDINALITY AS u (endpoint_id, webhook_id, n) ORDER BY u.n
         ON CONFLICT (webhook_id, endpoint_id) DO UPDATE
             SET status = 'waiting', attempts = 0, next_attempt_at = excluded.next_attempt_at, finished_at = NULL,
                 position = NULL, replays = d.replays + 1
             WHERE $5 AND d.status <> 'waiting'
         RETURNING endpoint_id",
        &what.pairs.iter().map(|(_, endpoint)| endpoint.uuid()).collect::<Vec<_>>(),
        &ids.map(Option::unwrap_or_default).collect::<Vec<_>>() as &[&str],
        due,
        now,
        again
    )
    .fetch_all(&mut *conn)
    .await?;
    let woken = endpoints(queued.into_iter());
    if !again {
        endpoint_leases::poke(conn, &woken, now).await?;
    }
    Ok(woken)
}

/// Maximum clock difference between servers for which the order is kept; beyond it a clock was wrong, and new
/// deliveries do not wait for it.
const SKEW: TimeDelta = TimeDelta::minutes(1);

/// Returns when a delivery queued now is due: not before earlier ones, whatever the servers' clocks say.
#[must_use]
pub fn in_order(before: Option<Timestamp>, now: Timestamp) -> Timestamp {
    before.filter(|before| *before - now < SKEW).map_or(now, |before| before.max(now))
}

/// Returns when the last delivery for any of these endpoints was queued.
///
/// # Errors
/// A database error.
pub async fn latest(conn: &mut PgConnection, ids: &[EndpointId]) -> Outcome<Option<Timestamp>> {
    let at = sqlx::query_scalar!(
        "-- deliveries::latest
         SELECT max(d.created_at) FROM UNNEST($1::uuid[]) AS e (id) CROSS JOIN LATERAL (
             SELECT created_at FROM webhook_deliveries WHERE endpoint_id = e.id ORDER BY id DESC LIMIT 1) d",
        &ids.iter().map(|id| id.uuid()).collect::<Vec<_>>()
    );
    Ok(at.fetch_one(conn).await?)
}

fn endpoints(ids: impl Iterator<Item = uuid::Uuid>) -> Vec<uuid::Uuid> {
    let mut ids: Vec<uuid::Uuid> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Inserts bodies; an existing one gets a new timestamp, so that it is not purged at the same moment.
async fn insert_bodies(conn: &mut PgConnection, posts: &[Post], now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- deliveries::insert_bodies
         INSERT INTO webhook_bodies (webhook_id, type, body, intent_id, seq, channel_id, trace_id, created_at)
         SELECT u.id, u.type, u.body, u.intent_id, u.seq, u.channel_id, u.trace_id, $8
         FROM UNNEST($1::text[], $2::text[], $3::text[], $4::uuid[], $5::bigint[], $6::uuid[], $7::text[])
             AS u (id, type, body, intent_id, seq, channel_id, trace_id)
         ON CONFLICT (webhook_id) DO UPDATE SET created_at = excluded.created_at",
        &posts.iter().map(|post| post.webhook_id.as_str()).collect::<Vec<_>>() as &[&str],
        &posts.iter().map(|post| post.kind.as_str()).collect::<Vec<_>>() as &[&str],
        &posts.iter().map(|post| post.body.as_str()).collect::<Vec<_>>() as &[&str],
        &posts.iter().map(|post| post.told.map(|(intent, _)| intent.uuid())).collect::<Vec<_>>()
            as &[Option<uuid::Uuid>],
        &posts.iter().map(|post| post.told.map(|(_, seq)| seq)).collect::<Vec<_>>() as &[Option<i64>],
        &posts.iter().map(|post| post.channel_id.map(ChannelId::uuid)).collect::<Vec<_>>()
            as &[Option<uuid::Uuid>],
        &posts.iter().map(|post| post.trace_id.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A due delivery with its body.
#[derive(Debug)]
pub(super) struct Waiting {
    pub id: i64,
    pub webhook_id: String,
    attempts: i32,
    pub kind: String,
    pub body: String,
    intent_id: Option<uuid::Uuid>,
    seq: Option<i64>,
    pub channel_id: Option<uuid::Uuid>,
    trace_id: Option<String>,
    position: Option<i64>,
    producer_id: Option<i64>,
    producer_sequence: Option<i64>,
    replays: i32,
}

impl Waiting {
    /// The position of the record that it reports.
    pub fn told(&self) -> Option<(IntentId, i64)> {
        Some((self.intent_id?.into(), self.seq?))
    }

    pub fn due(self) -> Due {
        Due {
            id: self.id,
            webhook_id: self.webhook_id,
            body: self.body,
            intent_id: self.intent_id.map(IntentId::from),
            trace_id: self.trace_id,
            kind: self.kind,
            position: self.position,
            // Those of an earlier replay are of another message.
            number: self
                .producer_sequence
                .filter(|_| self.position.is_some())
                .map(|sequence| Number::unpacked(self.producer_id, sequence)),
            replays: u32::try_from(self.replays).unwrap_or(0),
            attempts: u32::try_from(self.attempts).unwrap_or(0),
        }
    }
}

pub(super) async fn due(
    conn: &mut PgConnection,
    endpoint: EndpointId,
    now: Timestamp,
) -> Outcome<Vec<Waiting>> {
    let rows = sqlx::query_as!(
        Waiting,
        "-- deliveries::due
         SELECT w.id, w.webhook_id, w.attempts, w.type AS kind, w.body, w.intent_id, w.seq, w.channel_id, w.trace_id,
                w.position, w.producer_id, w.producer_sequence, w.replays
         FROM (SELECT d.id, d.webhook_id, d.attempts, d.next_attempt_at, d.position, d.producer_id,
                      d.producer_sequence, d.replays, b.type, b.body, b.intent_id, b.seq, b.channel_id,
                      b.trace_id, sum(octet_length(b.body)) OVER (
                          ORDER BY d.next_attempt_at, d.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
               FROM webhook_deliveries d JOIN webhook_bodies b ON b.webhook_id = d.webhook_id
               WHERE d.endpoint_id = $1 AND d.status = 'waiting' AND d.next_attempt_at <= $2
               ORDER BY d.next_attempt_at, d.id LIMIT $3) w
         WHERE coalesce(w.before, 0) < $4 ORDER BY w.next_attempt_at, w.id",
        endpoint.uuid(),
        now,
        BATCH,
        BATCH_BYTES
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

pub(super) async fn drop_all(pool: &Pool, ids: &[i64], now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- deliveries::drop
         UPDATE webhook_deliveries SET status = 'dropped', finished_at = $2 WHERE id = ANY ($1) AND status = 'waiting'",
        ids,
        now
    )
    .execute(pool)
    .await?;
    Ok(())
}

pub(super) struct Change {
    pub id: i64,
    pub attempts: u32,
    pub status: DeliveryStatus,
    pub again: Option<Timestamp>,
}

pub(super) async fn change(conn: &mut PgConnection, changes: &[Change], now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- deliveries::change
         UPDATE webhook_deliveries d SET attempts = u.attempts, status = u.status,
                next_attempt_at = coalesce(u.again, d.next_attempt_at),
                finished_at = CASE WHEN u.status = 'waiting' THEN NULL ELSE $5::timestamptz END
         FROM UNNEST($1::bigint[], $2::integer[], $3::text[], $4::timestamptz[]) AS u (id, attempts, status, again)
         WHERE d.id = u.id",
        &changes.iter().map(|one| one.id).collect::<Vec<_>>(),
        &changes.iter().map(|one| i32::try_from(one.attempts).unwrap_or(i32::MAX)).collect::<Vec<_>>(),
        &changes.iter().map(|one| one.status.as_str()).collect::<Vec<_>>() as &[&str],
        &changes.iter().map(|one| one.again).collect::<Vec<_>>() as &[Option<Timestamp>],
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores where the broker's log ended before these deliveries were published, where an earlier place stays, and their numbers.
pub(super) async fn save_positions(conn: &mut PgConnection, begun: &[Begun]) -> Outcome<()> {
    let packed = |one: &Begun| one.number.map(Number::packed);
    sqlx::query!(
        "-- deliveries::save_positions
         UPDATE webhook_deliveries d SET position = coalesce(d.position, u.position), producer_id = u.producer_id,
                producer_sequence = u.producer_sequence
         FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS u (id, position, producer_id, producer_sequence)
         WHERE d.id = u.id",
        &begun.iter().map(|one| one.id).collect::<Vec<_>>(),
        &begun.iter().map(|one| one.position).collect::<Vec<_>>(),
        &begun.iter().map(|one| one.number?.producer).collect::<Vec<_>>() as &[Option<i64>],
        &begun.iter().map(packed).collect::<Vec<_>>() as &[Option<i64>]
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Takes the producers from the numbers of deliveries; their partitions stay.
pub(super) async fn discard_numbers(conn: &mut PgConnection, ids: &[i64]) -> Outcome<()> {
    sqlx::query!(
        "-- deliveries::discard_numbers
         UPDATE webhook_deliveries SET producer_id = NULL WHERE id = ANY ($1)",
        ids
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Moves the places of deliveries forward.
pub(super) async fn advance_positions(conn: &mut PgConnection, positions: &[(i64, i64)]) -> Outcome<()> {
    let (ids, places): (Vec<i64>, Vec<i64>) = positions.iter().copied().unzip();
    sqlx::query!(
        "-- deliveries::advance_positions
         UPDATE webhook_deliveries d SET position = u.position
         FROM UNNEST($1::bigint[], $2::bigint[]) AS u (id, position) WHERE d.id = u.id AND d.position < u.position",
        &ids,
        &places
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) async fn insert_attempts(
    conn: &mut PgConnection,
    made: &[Attempted],
    mint: impl Fn(Timestamp) -> AttemptId,
) -> Outcome<()> {
    sqlx::query!(
        "-- deliveries::insert_attempts
         INSERT INTO webhook_attempts (id, delivery_id, at, status, error, millis, response)
         SELECT * FROM UNNEST($1::uuid[], $2::bigint[], $3::timestamptz[], $4::integer[], $5::text[], $6::integer[],
                              $7::text[])",
        &made.iter().map(|one| mint(one.at).uuid()).collect::<Vec<_>>(),
        &made.iter().map(|one| one.id).collect::<Vec<_>>(),
        &made.iter().map(|one| one.at).collect::<Vec<_>>(),
        &made.iter().map(|one| one.status.map(i32::from)).collect::<Vec<_>>() as &[Option<i32>],
        &made.iter().map(|one| one.error.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &made.iter().map(|one| i32::try_from(one.millis).unwrap_or(i32::MAX)).collect::<Vec<_>>(),
        &made.iter().map(|one| one.response.as_deref()).collect::<Vec<_>>() as &[Option<&str>]
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Counts waiting deliveries, up to `most`.
pub(super) async fn waiting(conn: &mut PgConnection, most: i64) -> Outcome<i64> {
    let count = sqlx::query_scalar!(
        r#"-- deliveries::waiting
         SELECT count(*) AS "count!" FROM (SELECT 1 FROM webhook_deliveries WHERE status = 'waiting' LIMIT $1) w"#,
        most
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Whether more than `most` deliveries wait for an endpoint.
pub(super) async fn waits_more_than(conn: &mut PgConnection, id: EndpointId, most: i64) -> Outcome<bool> {
    let found = sqlx::query_scalar!(
        "-- deliveries::waits_more_than
         SELECT EXISTS (SELECT 1 FROM webhook_deliveries WHERE endpoint_id = $1 AND status = 'waiting' OFFSET $2)",
        id.uuid(),
        most
    )
    .fetch_one(conn)
    .await?;
    Ok(found == Some(true))
}

/// Deletes up to `limit` finished deliveries past their retention with their attempts, and bodies without
/// deliveries; returns the number of deliveries.
///
/// # Errors
/// A database error.
pub(super) async fn forget_finished(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let before = ctx.now() - ctx.settings.webhooks.retention;
    let mut tx = ctx.begin(&[]).await?;
    let ids = sqlx::query_scalar!(
        "-- deliveries::forget
         DELETE FROM webhook_deliveries WHERE id IN (
             SELECT id FROM webhook_deliveries WHERE finished_at < $1 ORDER BY finished_at LIMIT $2
             FOR UPDATE SKIP LOCKED)
         RETURNING id",
        before,
        limit
    )
    .fetch_all(&mut *tx)
    .await?;
    forget_attempts(&mut tx, &ids).await?;
    sqlx::query!(
        "-- deliveries::forget_bodies
         DELETE FROM webhook_bodies WHERE webhook_id IN (
             SELECT b.webhook_id FROM webhook_bodies b
             WHERE b.created_at < $1
               AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.webhook_id = b.webhook_id)
             ORDER BY b.created_at LIMIT $2 FOR UPDATE OF b SKIP LOCKED)",
        before,
        limit
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(ids.len() as u64)
}

async fn forget_attempts(conn: &mut PgConnection, ids: &[i64]) -> Outcome<()> {
    sqlx::query!(
        "-- deliveries::forget_attempts
         DELETE FROM webhook_attempts WHERE delivery_id = ANY ($1)",
        ids
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes up to `limit` deliveries of a removed endpoint, and finally its health; returns their number.
pub(crate) async fn forget_all(conn: &mut PgConnection, id: EndpointId, limit: i64) -> Outcome<u64> {
    let ids = sqlx::query_scalar!(
        "-- deliveries::forget_all
         DELETE FROM webhook_deliveries WHERE id IN (
             SELECT id FROM webhook_deliveries WHERE endpoint_id = $1 ORDER BY id LIMIT $2)
         RETURNING id",
        id.uuid(),
        limit
    )
    .fetch_all(&mut *conn)
    .await?;
    forget_attempts(conn, &ids).await?;
    if ids.is_empty() {
        endpoint_leases::forget(conn, id).await?;
    }
    Ok(ids.len() as u64)
}
