//! The owner's view of an endpoint's deliveries, and the test delivery that checks whether the receiver
//! works.

use std::collections::HashMap;
use std::time::Duration;

use entente_domain::clock::{Timestamp, rfc3339};
use entente_domain::ids::{AttemptId, EndpointId};
use entente_domain::webhooks::{DeliveryStatus, PING};
use serde_json::json;
use sqlx::PgConnection;
use tokio::time::{Instant, sleep};

use super::rows::{Queue, queue};
use crate::webhooks::Post;
use crate::webhooks::endpoints;
use crate::{Caller, Ctx, Outcome, not_found, unknown};

/// The first and the longest interval between checks for a delivery's result: many may wait at once.
const LOOK: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// A delivery.
#[derive(Debug)]
pub struct Delivery {
    /// The header `webhook-id`.
    pub webhook_id: String,
    /// The type of its event.
    pub kind: String,
    /// Its status.
    pub status: DeliveryStatus,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When the next attempt is due.
    pub next_attempt_at: Option<Timestamp>,
    /// When it was finished.
    pub finished_at: Option<Timestamp>,
    /// Its attempts, oldest first.
    pub attempts: Vec<Attempt>,
}

/// An attempt at a delivery.
#[derive(Debug)]
pub struct Attempt {
    /// Its id.
    pub id: AttemptId,
    /// When it was made.
    pub at: Timestamp,
    /// The status of the receiver's answer.
    pub status: Option<u16>,
    /// The error, if it failed.
    pub error: Option<String>,
    /// Its duration in milliseconds.
    pub millis: u32,
    /// The beginning of the answer's body.
    pub response: Option<String>,
}

/// Filters for listing deliveries.
#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    /// Only deliveries in this status.
    pub status: Option<DeliveryStatus>,
    /// Only deliveries queued before this one.
    pub before: Option<String>,
    /// Maximum number of deliveries.
    pub limit: u32,
}

/// Lists an endpoint's deliveries with their attempts, newest first.
///
/// # Errors
/// The caller has no such endpoint.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    id: EndpointId,
    filter: &DeliveryFilter,
) -> Outcome<Vec<Delivery>> {
    let mut conn = ctx.pool.acquire().await?;
    endpoints::reachable(&mut conn, caller, id).await?;
    drop(conn);
    page(ctx, id, None, filter).await
}

async fn page(
    ctx: &Ctx,
    id: EndpointId,
    only: Option<&str>,
    filter: &DeliveryFilter,
) -> Outcome<Vec<Delivery>> {
    // One snapshot: a delivery's status is committed with its attempt, and must be read with it.
    let mut tx = ctx.snapshot().await?;
    let rows = sqlx::query!(
        "-- deliveries::page
         SELECT d.id, d.webhook_id, b.type, d.status, d.created_at, d.next_attempt_at, d.finished_at
         FROM webhook_deliveries d JOIN webhook_bodies b ON b.webhook_id = d.webhook_id
         WHERE d.endpoint_id = $1 AND ($2::text IS NULL OR d.webhook_id = $2) AND ($3::text IS NULL OR d.status = $3)
           AND ($4::text IS NULL OR d.id < (
               SELECT e.id FROM webhook_deliveries e WHERE e.endpoint_id = $1 AND e.webhook_id = $4))
         ORDER BY d.id DESC LIMIT $5",
        id.uuid(),
        only,
        filter.status.map(DeliveryStatus::as_str),
        filter.before,
        i64::from(filter.limit)
    )
    .fetch_all(&mut *tx)
    .await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
    let mut attempts = attempts(&mut tx, &ids).await?;
    tx.commit().await?;
    let shown = rows.into_iter().map(|row| {
        let status =
            DeliveryStatus::parse(&row.status).ok_or_else(|| unknown("delivery status", &row.status))?;
        Ok(Delivery {
            webhook_id: row.webhook_id,
            kind: row.r#type,
            status,
            created_at: row.created_at,
            next_attempt_at: (status == DeliveryStatus::Waiting).then_some(row.next_attempt_at),
            finished_at: row.finished_at,
            attempts: attempts.remove(&row.id).unwrap_or_default(),
        })
    });
    shown.collect()
}

async fn attempts(conn: &mut PgConnection, ids: &[i64]) -> Outcome<HashMap<i64, Vec<Attempt>>> {
    let rows = sqlx::query!(
        "-- deliveries::attempts
         SELECT id, delivery_id, at, status, error, millis, response FROM webhook_attempts
         WHERE delivery_id = ANY ($1) ORDER BY delivery_id, id",
        ids
    )
    .fetch_all(conn)
    .await?;
    let mut found: HashMap<i64, Vec<Attempt>> = HashMap::new();
    for row in rows {
        found.entry(row.delivery_id).or_default().push(Attempt {
            id: row.id.into(),
            at: row.at,
            status: row.status.and_then(|status| u16::try_from(status).ok()),
            error: row.error,
            millis: u32::try_from(row.millis).unwrap_or(0),
            response: row.response,
        });
    }
    Ok(found)
}

/// Queues a delivery that only tests the receiver; returns its `webhook-id`.
///
/// # Errors
/// The caller has no such endpoint, or the endpoint is not live.
pub async fn ping(ctx: &Ctx, caller: &Caller, id: EndpointId) -> Outcome<String> {
    let now = ctx.now();
    let mut tx = ctx.begin(&[]).await?;
    let stored = endpoints::changeable(&mut tx, caller, id).await?;
    endpoints::require_live(&stored.endpoint, now)?;
    let minted = AttemptId::mint(now, &*ctx.chance).to_string();
    let webhook_id = minted.replacen(AttemptId::PREFIX, PING, 1);
    let body = json!({ "type": PING, "timestamp": rfc3339(now), "data": { "endpoint_id": id } });
    let post = Post {
        webhook_id: webhook_id.clone(),
        kind: PING.to_owned(),
        body: body.to_string(),
        told: None,
        channel_id: None,
        trace_id: caller.trace.map(|trace| trace.id()),
        at: now,
    };
    let what = Queue { posts: vec![post], pairs: vec![(0, id)] };
    queue(&mut tx, &what, now, now, false).await?;
    tx.commit().await?;
    ctx.webhooks.wake();
    Ok(webhook_id)
}

/// Waits up to `limit` for the first attempt at a delivery; returns the delivery in any case.
///
/// # Errors
/// The delivery no longer exists.
pub async fn wait(ctx: &Ctx, id: EndpointId, webhook_id: &str, limit: Duration) -> Outcome<Delivery> {
    let deadline = Instant::now() + limit;
    let filter = DeliveryFilter { limit: 1, ..DeliveryFilter::default() };
    let (mut look, longest) = LOOK;
    loop {
        let found = page(ctx, id, Some(webhook_id), &filter).await?.pop();
        let found = found.ok_or_else(|| not_found("delivery"))?;
        if !found.attempts.is_empty() || Instant::now() >= deadline {
            return Ok(found);
        }
        sleep(look).await;
        look = (look * 2).min(longest);
    }
}
