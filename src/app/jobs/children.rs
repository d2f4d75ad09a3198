//! Children of jobs (ARCP §9.4, §10): authority that was delegated does not outlive the job that it came from.

use entente_core::clock::Timestamp;
use entente_core::ids::JobId;
use entente_core::jobs::Job;
use sqlx::PgConnection;
use uuid::Uuid;

use super::rows::{Row, select};
use crate::app::Outcome;

/// Has the open children of jobs that failed stopped: by the sweep, at once, whatever their workers do.
pub(super) async fn stop(conn: &mut PgConnection, parents: &[JobId], now: Timestamp) -> Outcome<()> {
    if parents.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = parents.iter().map(|id| id.uuid()).collect();
    sqlx::query!(
        "-- job_clock::stop_children
         WITH open AS (
             SELECT c.job_id FROM jobs j JOIN job_clock c ON c.job_id = j.id
             WHERE j.parent_id = ANY($1) AND c.ended_at IS NULL ORDER BY c.job_id FOR UPDATE OF c)
         UPDATE job_clock c SET cancel_reason = coalesce(c.cancel_reason, 'The job that delegated it has ended.'),
             cancel_due_at = $2, due_at = $2
         FROM open o WHERE o.job_id = c.job_id",
        &ids,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The child that a job has made under this name.
pub(super) async fn named(conn: &mut PgConnection, parent: JobId, delegate_id: &str) -> Outcome<Option<Job>> {
    let row = select!(
        "jobs::child_named",
        "WHERE j.parent_id = $1 AND j.delegate_id = $2 ORDER BY j.id LIMIT 1",
        parent.uuid(),
        delegate_id
    )
    .fetch_optional(conn)
    .await?;
    row.map(Job::try_from).transpose()
}
