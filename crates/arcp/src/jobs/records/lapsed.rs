//! Reservations that a claim or a job left unsettled at its end: the cost under them is still charged. Table
//! `lapsed_reservations`.

use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, ReservationId};
use entente_kernel::{Outcome, Pool};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::jobs::budgets::Reservation;

/// A reservation that has lapsed.
#[derive(Debug)]
pub(in crate::jobs) struct Lapsed {
    /// Model that the call used.
    pub model: Option<String>,
    /// Whether this is the first settlement.
    pub is_first: bool,
}

/// Inserts reservations, each with the token of the claim under which it was made.
pub(in crate::jobs) async fn insert(
    conn: &mut PgConnection,
    lapsed: &[(Reservation, Digest)],
    now: Timestamp,
) -> Outcome<()> {
    if lapsed.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- lapsed_reservations::insert
         INSERT INTO lapsed_reservations (id, job_id, claim_token, model, lapsed_at)
         SELECT l.id, l.job_id, l.claim_token, l.model, $5
         FROM UNNEST($1::uuid[], $2::uuid[], $3::bytea[], $4::text[]) AS l (id, job_id, claim_token, model)",
        &lapsed.iter().map(|(one, _)| one.id.uuid()).collect::<Vec<_>>(),
        &lapsed.iter().map(|(one, _)| one.job_id.uuid()).collect::<Vec<_>>(),
        &lapsed.iter().map(|(_, token)| token.to_vec()).collect::<Vec<_>>(),
        &lapsed.iter().map(|(one, _)| one.model.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Notes that a reservation is settled after all; `None` if no claim with this token had it.
pub(in crate::jobs) async fn settle(
    conn: &mut PgConnection,
    job: JobId,
    id: ReservationId,
    token: &Digest,
    now: Timestamp,
) -> Outcome<Option<Lapsed>> {
    let row = sqlx::query!(
        r#"-- lapsed_reservations::settle
         WITH found AS (
             SELECT id, model, settled_at FROM lapsed_reservations
             WHERE id = $1 AND job_id = $2 AND claim_token = $3 FOR UPDATE),
         noted AS (
             UPDATE lapsed_reservations l SET settled_at = $4 FROM found f WHERE l.id = f.id AND f.settled_at IS NULL)
         SELECT model, settled_at IS NULL AS "is_first!" FROM found"#,
        id.uuid(),
        job.uuid(),
        &token[..],
        now
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Lapsed { model: row.model, is_first: row.is_first }))
}

/// Deletes up to `limit` of them that lapsed before a time; returns how many.
pub(in crate::jobs) async fn forget(pool: &Pool, before: Timestamp, limit: i64) -> Outcome<u64> {
    let gone = sqlx::query!(
        "-- lapsed_reservations::forget
         DELETE FROM lapsed_reservations WHERE id IN (
             SELECT id FROM lapsed_reservations WHERE lapsed_at < $1 ORDER BY lapsed_at LIMIT $2)",
        before,
        limit
    )
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}

/// Deletes those of deleted jobs.
pub(in crate::jobs) async fn drop(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<()> {
    sqlx::query!(
        "-- lapsed_reservations::drop\n DELETE FROM lapsed_reservations WHERE job_id = ANY($1)",
        ids
    )
    .execute(conn)
    .await?;
    Ok(())
}
