//! Endpoint leases, and the health of each receiver. Table `webhook_shifts`.

use std::collections::HashMap;

use crate::Pool;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{EndpointId, NodeId};
use sqlx::PgConnection;

use super::EndpointLease;
use crate::Outcome;

/// An endpoint's health.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// Number of consecutive failures.
    pub failures: u32,
    /// When they began.
    pub failing_since: Option<Timestamp>,
    /// When its pause ends.
    pub paused_until: Option<Timestamp>,
    /// The last error.
    pub last_error: Option<String>,
    /// When it occurred.
    pub last_error_at: Option<Timestamp>,
    /// When a delivery last succeeded.
    pub last_success_at: Option<Timestamp>,
}

impl Health {
    /// Records a success.
    pub(super) fn succeeded(&mut self, at: Timestamp) {
        *self =
            Self { last_error: self.last_error.take(), last_error_at: self.last_error_at, ..Self::default() };
        self.last_success_at = Some(at);
    }

    /// Records a failure.
    pub(super) fn failed(&mut self, at: Timestamp, error: Option<String>) {
        self.failures = self.failures.saturating_add(1);
        self.failing_since = self.failing_since.or(Some(at));
        self.last_error = error;
        self.last_error_at = Some(at);
    }
}

struct Row {
    endpoint_id: uuid::Uuid,
    failures: i32,
    failing_since: Option<Timestamp>,
    paused_until: Option<Timestamp>,
    last_error: Option<String>,
    last_error_at: Option<Timestamp>,
    last_success_at: Option<Timestamp>,
}

impl From<Row> for Health {
    fn from(row: Row) -> Self {
        Self {
            failures: u32::try_from(row.failures).unwrap_or(0),
            failing_since: row.failing_since,
            paused_until: row.paused_until,
            last_error: row.last_error,
            last_error_at: row.last_error_at,
            last_success_at: row.last_success_at,
        }
    }
}

/// Returns the health of these endpoints; those that were never sent anything are left out.
pub(crate) async fn health(
    conn: &mut PgConnection,
    ids: &[EndpointId],
) -> Outcome<HashMap<EndpointId, Health>> {
    let rows = sqlx::query_as!(
        Row,
        "-- endpoint_leases::health
         SELECT endpoint_id, failures, failing_since, paused_until, last_error, last_error_at, last_success_at
         FROM webhook_shifts WHERE endpoint_id = ANY ($1)",
        &ids.iter().map(|id| id.uuid()).collect::<Vec<_>>()
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.endpoint_id.into(), row.into())).collect())
}

pub(super) async fn claim(
    pool: &Pool,
    node: NodeId,
    now: Timestamp,
    until: Timestamp,
    limit: i64,
) -> Outcome<Vec<(EndpointId, i64)>> {
    let rows = sqlx::query!(
        "-- endpoint_leases::claim
         UPDATE webhook_shifts SET claimed_by = $1, claimed_until = $3, fence = fence + 1
         WHERE endpoint_id IN (
             SELECT endpoint_id FROM webhook_shifts
             WHERE due_at <= $2 AND (claimed_until IS NULL OR claimed_until <= $2)
             ORDER BY due_at LIMIT $4 FOR UPDATE SKIP LOCKED)
         RETURNING endpoint_id, fence",
        node.uuid(),
        now,
        until,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.endpoint_id.into(), row.fence)).collect())
}

/// Locks the row of a lease; `None` if another server holds it now.
pub(super) async fn lock(conn: &mut PgConnection, lease: &EndpointLease) -> Outcome<Option<Health>> {
    let row = sqlx::query_as!(
        Row,
        "-- endpoint_leases::lock
         SELECT endpoint_id, failures, failing_since, paused_until, last_error, last_error_at, last_success_at
         FROM webhook_shifts WHERE endpoint_id = $1 AND fence = $2 AND claimed_by = $3 FOR UPDATE",
        lease.endpoint_id.uuid(),
        lease.fence,
        lease.node.uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(Health::from))
}

pub(super) async fn prolong(
    conn: &mut PgConnection,
    lease: &EndpointLease,
    health: &Health,
    until: Timestamp,
) -> Outcome<()> {
    sqlx::query!(
        "-- endpoint_leases::prolong
         UPDATE webhook_shifts SET claimed_until = $2, failures = $3, failing_since = $4, paused_until = $5,
                last_error = $6, last_error_at = $7, last_success_at = $8
         WHERE endpoint_id = $1",
        lease.endpoint_id.uuid(),
        until,
        i32::try_from(health.failures).unwrap_or(i32::MAX),
        health.failing_since,
        health.paused_until,
        health.last_error,
        health.last_error_at,
        health.last_success_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Releases a lease whose row is locked; the next one is due no earlier than `from`.
///
/// Leases are claimed in the order of their due times, so an endpoint that was just served queues behind the
/// others, however long its deliveries have waited.
pub(super) async fn give_back(
    conn: &mut PgConnection,
    lease: &EndpointLease,
    live: bool,
    from: Timestamp,
) -> Outcome<()> {
    sqlx::query!(
        "-- endpoint_leases::give_back
         UPDATE webhook_shifts t SET claimed_by = NULL, claimed_until = NULL,
                due_at = CASE WHEN $2 THEN (
                    SELECT greatest(d.next_attempt_at, t.paused_until, $3) FROM webhook_deliveries d
                    WHERE d.endpoint_id = $1 AND d.status = 'waiting' ORDER BY d.next_attempt_at LIMIT 1) END
         WHERE t.endpoint_id = $1",
        lease.endpoint_id.uuid(),
        live,
        from
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Marks these endpoints as due at `at`, or after their pause.
pub(super) async fn poke(conn: &mut PgConnection, ids: &[uuid::Uuid], at: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- endpoint_leases::poke
         INSERT INTO webhook_shifts AS t (endpoint_id, due_at)
         SELECT id, $2 FROM UNNEST($1::uuid[]) AS u (id) ORDER BY id
         ON CONFLICT (endpoint_id) DO UPDATE
             SET due_at = least(t.due_at, greatest(excluded.due_at, t.paused_until))",
        ids,
        at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Clears an endpoint's failures and makes it due, after it was reactivated or got another URL.
pub(crate) async fn begin_again(conn: &mut PgConnection, id: EndpointId, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- endpoint_leases::begin_again
         UPDATE webhook_shifts SET due_at = $2, paused_until = NULL, failures = 0, failing_since = NULL
         WHERE endpoint_id = $1",
        id.uuid(),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stops sending to an endpoint.
pub(crate) async fn hold(conn: &mut PgConnection, id: EndpointId) -> Outcome<()> {
    sqlx::query!(
        "-- endpoint_leases::hold
         UPDATE webhook_shifts SET due_at = NULL WHERE endpoint_id = $1",
        id.uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes the health of a removed endpoint.
pub(super) async fn forget(conn: &mut PgConnection, id: EndpointId) -> Outcome<()> {
    sqlx::query!(
        "-- endpoint_leases::forget
         DELETE FROM webhook_shifts WHERE endpoint_id = $1",
        id.uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}
