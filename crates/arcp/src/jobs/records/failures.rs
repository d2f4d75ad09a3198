//! Jobs that ended without success, and which of them are dead letters: failed, not tried again by anything, and not resolved.
//! Table `job_failures`.

use std::collections::BTreeMap;

use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::jobs::wire::ErrorPayload;
use entente_domain::clock::Timestamp;
use entente_domain::ids::JobId;
use entente_kernel::Outcome;
use sqlx::PgConnection;
use uuid::Uuid;

/// The failed end of a job.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Error code (ARCP §12).
    pub code: String,
    /// Whether it is a dead letter.
    pub is_open: bool,
    /// When it was resolved.
    pub resolved_at: Option<Timestamp>,
    /// Principal that resolved it.
    pub resolved_by: Option<String>,
    /// Note of that principal.
    pub note: Option<String>,
}

/// Inserts the failed ends of jobs: each job with the payload of its end.
pub(in crate::jobs) async fn insert(conn: &mut PgConnection, ends: &[(&Job, &str)]) -> Outcome<()> {
    if ends.is_empty() {
        return Ok(());
    }
    let codes =
        ends.iter().map(|(_, payload)| serde_json::from_str(payload).map(|said: ErrorPayload| said.code));
    let codes = codes.collect::<Result<Vec<Fault>, _>>()?;
    sqlx::query!(
        "-- job_failures::insert
         INSERT INTO job_failures (job_id, principal, code, is_open)
         SELECT * FROM UNNEST($1::uuid[], $2::text[], $3::text[], $4::boolean[]) ON CONFLICT (job_id) DO NOTHING",
        &ends.iter().map(|(job, _)| job.id.uuid()).collect::<Vec<_>>(),
        &ends.iter().map(|(job, _)| job.principal.as_str()).collect::<Vec<_>>() as &[&str],
        &codes.iter().map(|code| code.wire()).collect::<Vec<_>>() as &[&str],
        &codes.iter().map(|code| *code != Fault::Cancelled).collect::<Vec<_>>()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Loads the failures of these jobs.
pub(in crate::jobs) async fn load(
    conn: &mut PgConnection,
    jobs: &[JobId],
) -> Outcome<BTreeMap<JobId, Failure>> {
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        "-- job_failures::load
         SELECT job_id, code, is_open, resolved_at, resolved_by, note FROM job_failures WHERE job_id = ANY($1)",
        &ids
    )
    .fetch_all(conn)
    .await?;
    let read = rows.into_iter().map(|row| {
        let (code, is_open, note) = (row.code, row.is_open, row.note);
        (
            row.job_id.into(),
            Failure { code, is_open, resolved_at: row.resolved_at, resolved_by: row.resolved_by, note },
        )
    });
    Ok(read.collect())
}

/// Resolves a dead letter; returns whether it was one. A resolved one stays as it is.
pub(in crate::jobs) async fn resolve(
    conn: &mut PgConnection,
    id: JobId,
    by: &str,
    note: Option<&str>,
    now: Timestamp,
) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- job_failures::resolve
         UPDATE job_failures SET is_open = false, resolved_at = $4, resolved_by = $2, note = $3
         WHERE job_id = $1 AND is_open",
        id.uuid(),
        by,
        note,
        now
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Resolves the dead letters of jobs that these jobs run again.
pub(super) async fn resolve_rerun(conn: &mut PgConnection, jobs: &[Uuid], now: Timestamp) -> Outcome<()> {
    // Two batches lock rows in one order.
    let letters = sqlx::query!(
        "-- job_failures::of_reruns
         SELECT f.job_id, r.job_id AS rerun_id, r.requested_by FROM job_reruns r JOIN job_failures f ON f.job_id = r.source_id
         WHERE r.job_id = ANY($1) AND f.is_open ORDER BY f.job_id FOR UPDATE OF f",
        jobs
    )
    .fetch_all(&mut *conn)
    .await?;
    if letters.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- job_failures::resolve_rerun
         UPDATE job_failures f SET is_open = false, resolved_at = $4, resolved_by = r.by, note = r.note
         FROM UNNEST($1::uuid[], $2::text[], $3::text[]) AS r (job_id, by, note) WHERE f.job_id = r.job_id",
        &letters.iter().map(|letter| letter.job_id).collect::<Vec<_>>(),
        &letters.iter().map(|letter| letter.requested_by.as_str()).collect::<Vec<_>>() as &[&str],
        &letters
            .iter()
            .map(|letter| format!("Run again as {}.", JobId::from(letter.rerun_id)))
            .collect::<Vec<_>>(),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes the failures of deleted jobs.
pub(super) async fn drop(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<()> {
    sqlx::query!("-- job_failures::drop\n DELETE FROM job_failures WHERE job_id = ANY($1)", ids)
        .execute(conn)
        .await?;
    Ok(())
}
