//! Claims as observers see them (ARCP-W-11.2.3): the worker that runs a job, since when, and until when unless it sends a
//! heartbeat. Tokens are never shown. A job's claim is shown to callers that may see the job, a worker's jobs to those that
//! may see the worker: its principal, which holds them, and keys with the scope `admin`.

use std::collections::BTreeMap;

use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, WorkerId};
use entente_domain::limits::PAGE;
use entente_kernel::{Caller, Outcome};
use sqlx::PgConnection;
use uuid::Uuid;

use super::reading::sees;
use crate::Ctx;
use crate::columns::number;
use crate::workers;
use crate::workers::Worker;

/// The claim on a running job.
#[derive(Debug, Clone)]
pub struct Holding {
    /// Worker that runs the job.
    pub worker_id: WorkerId,
    /// Name of the worker; `None` if it has left.
    pub worker: Option<String>,
    /// Principal that registered the worker; `None` if it has left.
    pub principal: Option<String>,
    /// Time of the claim.
    pub since: Timestamp,
    /// Expiry of the claim, unless a heartbeat extends it.
    pub expires_at: Timestamp,
    /// When the worker last sent a sign of life; `None` if it has left.
    pub heartbeat_at: Option<Timestamp>,
}

/// A job that a worker runs.
#[derive(Debug, Clone)]
pub struct HeldJob {
    /// The job.
    pub job_id: JobId,
    /// Agent that the worker runs the job as.
    pub agent: String,
    /// Attempt number, starting at 1.
    pub attempt: u32,
    /// Time of the claim.
    pub since: Timestamp,
    /// Expiry of the claim, unless a heartbeat extends it.
    pub expires_at: Timestamp,
}

/// Returns the claims on those of these jobs that run and that the caller may see.
///
/// # Errors
/// The database query fails.
pub async fn holdings(ctx: &Ctx, caller: &Caller, jobs: &[Job]) -> Outcome<BTreeMap<JobId, Holding>> {
    let shown: Vec<&Job> = jobs.iter().filter(|job| runs(job) && sees(ctx, caller, job)).collect();
    if shown.is_empty() {
        return Ok(BTreeMap::new());
    }
    of_jobs(&mut *ctx.pool.acquire().await?, &shown).await
}

fn runs(job: &Job) -> bool {
    job.status == JobStatus::Running && job.claim.is_some()
}

/// Returns the claims on those of these jobs that run.
pub(super) async fn of_jobs(conn: &mut PgConnection, jobs: &[&Job]) -> Outcome<BTreeMap<JobId, Holding>> {
    let claims = jobs.iter().filter(|job| runs(job)).filter_map(|job| Some((job.id, job.claim.as_ref()?)));
    let claims: Vec<_> = claims.collect();
    if claims.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut ids: Vec<WorkerId> = claims.iter().map(|(_, claim)| claim.worker_id).collect();
    ids.sort_unstable();
    ids.dedup();
    let named = workers::named(conn, &ids).await?;
    let holding = claims.into_iter().map(|(job, claim)| {
        let known = named.get(&claim.worker_id);
        let holding = Holding {
            worker_id: claim.worker_id,
            worker: known.map(|known| known.name.clone()),
            principal: known.map(|known| known.principal.clone()),
            since: claim.since,
            expires_at: claim.expires_at,
            // A claim is a sign of life too, and so is the registration before it.
            heartbeat_at: known.map(|known| known.last_seen_at.max(claim.since)),
        };
        (job, holding)
    });
    Ok(holding.collect())
}

/// Returns the jobs that these workers run, the oldest claims first: at most 1,000 of all of them.
///
/// # Errors
/// The database query fails.
pub async fn held(ctx: &Ctx, workers: &[Worker]) -> Outcome<BTreeMap<WorkerId, Vec<HeldJob>>> {
    let ids: Vec<Uuid> = workers.iter().map(|worker| worker.id.uuid()).collect();
    let rows = sqlx::query!(
        r#"-- job_clock::of_workers
         SELECT job_id, agent, attempt, worker_id AS "worker_id!", claimed_at AS "claimed_at!",
                claim_expires_at AS "claim_expires_at!"
         FROM job_clock
         WHERE due_at IS NOT NULL AND status = 'running' AND worker_id = ANY($1) AND claimed_at IS NOT NULL
         ORDER BY claimed_at, job_id LIMIT $2"#,
        &ids,
        i64::from(PAGE)
    )
    .fetch_all(&ctx.pool)
    .await?;
    let mut held: BTreeMap<WorkerId, Vec<HeldJob>> = BTreeMap::new();
    for row in rows {
        held.entry(row.worker_id.into()).or_default().push(HeldJob {
            job_id: row.job_id.into(),
            agent: row.agent,
            attempt: number(row.attempt)?,
            since: row.claimed_at,
            expires_at: row.claim_expires_at,
        });
    }
    Ok(held)
}
