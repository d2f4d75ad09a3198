//! Links between jobs and those that run them again. Table `job_reruns`.

use std::collections::BTreeMap;

use entente_domain::arcp::jobs::Job;
use entente_domain::ids::JobId;
use entente_kernel::Outcome;
use sqlx::PgConnection;
use uuid::Uuid;

use super::Extra;

/// Maximum number of jobs shown that run the same job again.
pub(super) const SHOWN: i64 = 100;

/// A request to run a job again.
#[derive(Debug, Clone)]
pub(in crate::jobs) struct Rerun {
    /// The job that is run again.
    pub source: JobId,
    /// Principal that asks for it.
    pub by: String,
    /// The request's key.
    pub key: Option<String>,
}

/// Neighbours of a job: the job that it runs again, and the jobs that run it again.
#[derive(Debug, Clone, Default)]
pub struct Links {
    /// The job that it runs again.
    pub rerun_of: Option<JobId>,
    /// The jobs that run it again, oldest first; the first 100.
    pub reruns: Vec<JobId>,
}

/// Inserts the links of new jobs.
pub(super) async fn insert(conn: &mut PgConnection, fresh: &[(&Job, &Extra)]) -> Outcome<()> {
    let reruns: Vec<_> =
        fresh.iter().filter_map(|(job, extra)| Some((job.id, extra.rerun.as_ref()?))).collect();
    if reruns.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- job_reruns::insert
         INSERT INTO job_reruns (job_id, source_id, requested_by, request_key)
         SELECT * FROM UNNEST($1::uuid[], $2::uuid[], $3::text[], $4::text[])",
        &reruns.iter().map(|(id, _)| id.uuid()).collect::<Vec<_>>(),
        &reruns.iter().map(|(_, rerun)| rerun.source.uuid()).collect::<Vec<_>>(),
        &reruns.iter().map(|(_, rerun)| rerun.by.as_str()).collect::<Vec<_>>() as &[&str],
        &reruns.iter().map(|(_, rerun)| rerun.key.as_deref()).collect::<Vec<_>>() as &[Option<&str>]
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Loads the jobs that these jobs run again.
pub(in crate::jobs) async fn sources(
    conn: &mut PgConnection,
    jobs: &[JobId],
) -> Outcome<BTreeMap<JobId, JobId>> {
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        "-- job_reruns::sources
         SELECT job_id, source_id FROM job_reruns WHERE job_id = ANY($1)",
        &ids
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.job_id.into(), row.source_id.into())).collect())
}

/// Returns those of these jobs that were run again at another request than the one of this caller and key.
pub(in crate::jobs) async fn run_again(
    conn: &mut PgConnection,
    jobs: &[JobId],
    by: &str,
    key: &str,
) -> Outcome<Vec<JobId>> {
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query_scalar!(
        "-- job_reruns::run_again
         SELECT DISTINCT source_id FROM job_reruns
         WHERE source_id = ANY($1) AND (requested_by, request_key) IS DISTINCT FROM ($2, $3)",
        &ids,
        by,
        key
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(JobId::from).collect())
}

/// Returns the job that runs another one again at the request of a caller with this key. It is found as long as it is kept, longer
/// than its idempotency key.
pub(in crate::jobs) async fn made_for(
    conn: &mut PgConnection,
    source: JobId,
    by: &str,
    key: &str,
) -> Outcome<Option<JobId>> {
    let found = sqlx::query_scalar!(
        "-- job_reruns::made_for
         SELECT job_id FROM job_reruns WHERE source_id = $1 AND requested_by = $2 AND request_key = $3
         ORDER BY job_id DESC LIMIT 1",
        source.uuid(),
        by,
        key
    )
    .fetch_optional(conn)
    .await?;
    Ok(found.map(JobId::from))
}

/// Returns the jobs that a caller's requests with this key have run again: the newest below an id, up to `limit`.
pub(in crate::jobs) async fn sources_of_key(
    conn: &mut PgConnection,
    by: &str,
    key: &str,
    below: Uuid,
    limit: i64,
) -> Outcome<Vec<JobId>> {
    let rows = sqlx::query_scalar!(
        "-- job_reruns::sources_of_key
         SELECT DISTINCT source_id FROM job_reruns
         WHERE requested_by = $1 AND request_key = $2 AND source_id < $3 ORDER BY source_id DESC LIMIT $4",
        by,
        key,
        below,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(JobId::from).collect())
}

/// Deletes the links of deleted jobs. Those to a deleted job stay with the jobs that run it again.
pub(super) async fn drop(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<()> {
    sqlx::query!("-- job_reruns::drop\n DELETE FROM job_reruns WHERE job_id = ANY($1)", ids)
        .execute(conn)
        .await?;
    Ok(())
}
