//! Writes the rows of the table `credentials`. The meaning is in `credentials.rs` and its other modules;
//! `reading.rs` reads them.

use entente_domain::arcp::credentials::{MINT_SECONDS, State};
use entente_domain::canonical::sha256;
use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::ids::{CredentialId, JobId};
use entente_kernel::Outcome;
use sqlx::PgConnection;

use super::{Lost, Made, Minted, Prepared};
use crate::columns::column;

fn json(minted: &Minted) -> Option<String> {
    minted.constraints.as_ref().map(ToString::to_string)
}

/// Records that a value will be requested; returns false if another request was just recorded.
pub(super) async fn insert(
    conn: &mut PgConnection,
    prepared: &Prepared,
    job: JobId,
    now: Timestamp,
) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- credentials::insert
         INSERT INTO credentials (id, generation, job_id, provisioner, state, given, asked_at, due_at, attempts)
         VALUES ($1, $2, $3, $4, 'minting', false, $5, $6, 0) ON CONFLICT DO NOTHING",
        prepared.id.uuid(),
        column(prepared.generation),
        job.uuid(),
        prepared.provisioner,
        now,
        plus_seconds(now, MINT_SECONDS)
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Stores a minted value; returns whether it is still awaited.
pub(super) async fn store(conn: &mut PgConnection, made: &Made) -> Outcome<bool> {
    let Made { prepared, minted } = made;
    let hash = sha256(&minted.value);
    let done = sqlx::query!(
        "-- credentials::store
         UPDATE credentials SET state = 'live', due_at = NULL, upstream_id = $3, value = $4, value_hash = $5, endpoint = $6,
                profile = $7, constraints = $8
         WHERE id = $1 AND generation = $2 AND state = 'minting'",
        prepared.id.uuid(),
        column(prepared.generation),
        minted.upstream_id,
        minted.value,
        hash.as_slice(),
        minted.endpoint,
        minted.profile,
        json(minted)
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Queues an unwanted value for revocation, or records that it was never minted.
///
/// The upstream's answer is stored, because a revocation may need it, even if another server gave the value
/// up meanwhile without knowing it. A live value was committed, although the caller did not learn of it; the
/// end of its job revokes it.
pub(super) async fn lose(conn: &mut PgConnection, lost: &Lost, now: Timestamp) -> Outcome<()> {
    let known = lost.minted.as_ref();
    sqlx::query!(
        "-- credentials::lose
         UPDATE credentials SET state = CASE WHEN $3 AND state = 'minting' THEN 'revoked' ELSE 'revoking' END,
                due_at = CASE WHEN $3 AND state = 'minting' THEN NULL ELSE $4::timestamptz END,
                attempts = 0, last_error = $5, ended_at = coalesce(ended_at, $4),
                upstream_id = coalesce($6, upstream_id), value = coalesce($7, value)
         WHERE id = $1 AND generation = $2 AND state <> 'live' AND (state = 'minting' OR NOT $3)",
        lost.prepared.id.uuid(),
        column(lost.prepared.generation),
        lost.absent,
        now,
        lost.error,
        known.and_then(|minted| minted.upstream_id.as_deref()),
        known.map(|minted| minted.value.as_str())
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Queues the credentials of jobs and of their descendants for revocation; costs one look-up when no job has
/// any.
pub(super) async fn unneeded(conn: &mut PgConnection, jobs: &[JobId], now: Timestamp) -> Outcome<u64> {
    let ids: Vec<uuid::Uuid> = jobs.iter().map(|id| id.uuid()).collect();
    let done = sqlx::query!(
        "-- credentials::unneeded
         WITH RECURSIVE family (id) AS (
             SELECT id FROM unnest($1::uuid[]) AS u (id)
             WHERE EXISTS (SELECT 1 FROM credentials WHERE state IN ('minting', 'live'))
             UNION SELECT j.id FROM family f JOIN jobs j ON j.parent_id = f.id)
         UPDATE credentials SET state = 'revoking', due_at = $2, ended_at = $2
         WHERE job_id IN (SELECT id FROM family) AND state IN ('minting', 'live')",
        &ids,
        now
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Queues up to `limit` values for revocation whose job or parent job ended or whose job does not exist, in
/// case the operation that ended it missed them.
pub(super) async fn orphaned(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- credentials::orphaned
         UPDATE credentials SET state = 'revoking', due_at = $1, ended_at = $1
         WHERE (id, generation) IN (
             SELECT c.id, c.generation FROM credentials c
             LEFT JOIN job_clock own ON own.job_id = c.job_id
             LEFT JOIN jobs j ON j.id = c.job_id
             LEFT JOIN job_clock parent ON parent.job_id = j.parent_id
             WHERE c.state = 'live' AND (own.job_id IS NULL OR own.status = ANY ($3) OR parent.status = ANY ($3))
             ORDER BY c.id, c.generation LIMIT $2 FOR UPDATE OF c SKIP LOCKED)",
        now,
        limit,
        &["success", "error", "cancelled", "timed_out"].map(str::to_owned)
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Abandons up to `limit` values that were requested so long ago that the requesting server must be dead.
pub(super) async fn overdue(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- credentials::overdue
         UPDATE credentials SET state = 'revoking', due_at = $1, ended_at = $1,
                last_error = 'whoever asked for it did not live to hear the answer'
         WHERE (id, generation) IN (
             SELECT id, generation FROM credentials WHERE state = 'minting' AND due_at <= $1
             ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        now,
        limit
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Queues a replaced value for revocation; returns whether it was live.
pub(super) async fn replaced(
    conn: &mut PgConnection,
    id: CredentialId,
    generation: u32,
    now: Timestamp,
) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- credentials::replaced
         UPDATE credentials SET state = 'revoking', due_at = $3, ended_at = $3
         WHERE id = $1 AND generation = $2 AND state = 'live'",
        id.uuid(),
        column(generation),
        now
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Stores a value supplied by the worker; it is for the same endpoint as the previous one, with unknown
/// constraints.
pub(super) async fn give(
    conn: &mut PgConnection,
    id: CredentialId,
    prior: u32,
    generation: u32,
    value: &str,
    now: Timestamp,
) -> Outcome<bool> {
    let hash = sha256(value);
    let done = sqlx::query!(
        "-- credentials::give
         INSERT INTO credentials (id, generation, job_id, provisioner, state, given, asked_at, attempts, value, value_hash,
                                  endpoint, profile)
         SELECT id, $3, job_id, provisioner, 'live', true, $4, 0, $5, $6, endpoint, profile FROM credentials
         WHERE id = $1 AND generation = $2
         ON CONFLICT DO NOTHING",
        id.uuid(),
        column(prior),
        column(generation),
        now,
        value,
        hash.as_slice()
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Clears up to `limit` values that can no longer be asked for.
pub(super) async fn wipe(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- credentials::wipe
         UPDATE credentials SET value = NULL, due_at = NULL
         WHERE (id, generation) IN (
             SELECT id, generation FROM credentials WHERE state = 'revoked' AND due_at <= $1
             ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        now,
        limit
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Records the result of a revocation attempt; returns false if a newer attempt has begun.
pub(super) async fn attempted(
    conn: &mut PgConnection,
    id: CredentialId,
    generation: u32,
    attempts: u32,
    state: State,
    due_at: Option<Timestamp>,
    error: Option<&str>,
) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- credentials::attempted
         UPDATE credentials SET state = $4, due_at = $5, last_error = coalesce($6, last_error),
                value = CASE WHEN $4 = 'revoked' AND $5::timestamptz IS NULL THEN NULL ELSE value END
         WHERE id = $1 AND generation = $2 AND attempts = $3 AND state = 'revoking'",
        id.uuid(),
        column(generation),
        column(attempts),
        state.as_str(),
        due_at,
        error
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Retries the revocation of a credential's values that failed or wait for it.
pub(super) async fn again(conn: &mut PgConnection, id: CredentialId, now: Timestamp) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- credentials::again
         UPDATE credentials SET state = 'revoking', attempts = 0, due_at = $2
         WHERE id = $1 AND state IN ('revoking', 'stuck')",
        id.uuid(),
        now
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

pub(super) struct Waiting {
    pub id: uuid::Uuid,
    pub generation: i32,
    pub job_id: uuid::Uuid,
    pub provisioner: String,
    pub given: bool,
    pub asked_at: Timestamp,
    pub upstream_id: Option<String>,
    pub value: Option<String>,
    pub attempts: i32,
}

/// Claims up to `limit` values that are due for revocation; nobody else tries them before `until`.
pub(super) async fn claim(
    conn: &mut PgConnection,
    now: Timestamp,
    until: Timestamp,
    limit: i64,
) -> Outcome<Vec<Waiting>> {
    let rows = sqlx::query_as!(
        Waiting,
        "-- credentials::claim
         UPDATE credentials SET attempts = attempts + 1, due_at = $2
         WHERE (id, generation) IN (
             SELECT id, generation FROM credentials WHERE state = 'revoking' AND due_at <= $1
             ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED)
         RETURNING id, generation, job_id, provisioner, given, asked_at, upstream_id, value, attempts",
        now,
        until,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}
