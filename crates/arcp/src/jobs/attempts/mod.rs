//! Attempts at jobs: the effects of a change on them, and their history. Table `job_attempts`; `checkpoints.rs` has
//! the progress that one attempt leaves to the next.

pub(super) mod checkpoints;

use std::collections::BTreeMap;

use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::retries::{Failed, Retried};
use entente_domain::arcp::jobs::wire::ErrorPayload;
use entente_domain::arcp::jobs::{Claim, Job, JobStatus};
use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, WorkerId};
use entente_kernel::log::writer::digest;
use entente_kernel::{Caller, Outcome, unknown};
use sqlx::PgConnection;
use uuid::Uuid;

use self::checkpoints::Checkpoint;
use super::log::{self, Stored};
use super::reading::visible;
use crate::Ctx;
use crate::columns::{column, number};
use crate::workers;

/// An attempt that ended without ending its job.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    job_id: JobId,
    attempt: u32,
    claim: Claim,
    ended_at: Timestamp,
    /// The failure and the digest of its report; `None` if the worker was lost.
    failed: Option<(Failed, Digest)>,
}

impl Attempt {
    /// The present attempt at a job, which ends now; `None` if nobody holds it.
    pub fn of(job: &Job, now: Timestamp, failed: Option<(Failed, Digest)>) -> Option<Self> {
        let claim = job.claim.clone()?;
        Some(Self { job_id: job.id, attempt: job.attempt, claim, ended_at: now, failed })
    }
}

/// Effects of a change on the attempts at a job.
#[derive(Debug, Clone, Default)]
pub(super) struct AttemptChange {
    /// Attempts that ended without ending the job.
    pub ended: Vec<Attempt>,
    /// Whether the job's time in the queue changed.
    pub put_off: bool,
    /// Checkpoint to store.
    pub checkpoint: Option<String>,
}

/// Stores attempts.
pub(super) async fn insert(conn: &mut PgConnection, attempts: &[Attempt]) -> Outcome<()> {
    for one in attempts {
        let failed = one.failed.as_ref();
        sqlx::query!(
            "-- job_attempts::insert
             INSERT INTO job_attempts (job_id, attempt, worker_id, claimed_at, ended_at, code, message, next_at, claim_token, report)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT (job_id, attempt) DO NOTHING",
            one.job_id.uuid(),
            column(one.attempt),
            one.claim.worker_id.uuid(),
            one.claim.since,
            one.ended_at,
            failed.map(|(failed, _)| failed.fault.wire()),
            failed.map(|(failed, _)| failed.message.as_str()),
            failed.map_or(one.ended_at, |(failed, _)| failed.next_at),
            one.claim.token.as_slice(),
            failed.map(|(_, report)| report.as_slice())
        )
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

/// Loads the reports of failures that were retried into those of these locked jobs that have some.
pub(super) async fn recall(conn: &mut PgConnection, jobs: &mut BTreeMap<JobId, Job>) -> Outcome<()> {
    let ids: Vec<Uuid> = jobs.values().filter(|job| job.failures > 0).map(|job| job.id.uuid()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query!(
        r#"-- job_attempts::recall
         SELECT job_id, claim_token, report AS "report!" FROM job_attempts WHERE job_id = ANY($1) AND report IS NOT NULL"#,
        &ids
    )
    .fetch_all(conn)
    .await?;
    for row in rows {
        if let Some(job) = jobs.get_mut(&row.job_id.into()) {
            job.retried.push(Retried { token: digest(row.claim_token)?, report: digest(row.report)? });
        }
    }
    Ok(())
}

/// Deletes the attempts and the checkpoints of jobs.
pub(super) async fn forget(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<()> {
    sqlx::query!("-- job_attempts::forget\n DELETE FROM job_attempts WHERE job_id = ANY($1)", ids)
        .execute(&mut *conn)
        .await?;
    checkpoints::forget(conn, ids).await
}

/// How an attempt went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = JobAttemptOutcome)]
pub enum AttemptOutcome {
    /// It runs.
    Running,
    /// Its worker was lost.
    Lost,
    /// Its worker reported a failure.
    Failed,
    /// It ended the job with a result.
    Success,
    /// The job was cancelled.
    Cancelled,
    /// The job timed out.
    TimedOut,
}

impl AttemptOutcome {
    /// Its wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Lost => "lost",
            Self::Failed => "failed",
            Self::Success => "success",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
        }
    }
}

/// An attempt at a job as shown to an observer.
#[derive(Debug, Clone)]
pub struct Tried {
    /// Its number, from 1.
    pub attempt: u32,
    /// Worker that claimed the job.
    pub worker_id: WorkerId,
    /// The worker's name; `None` if it has left.
    pub worker: Option<String>,
    /// Time of the claim.
    pub claimed_at: Timestamp,
    /// Time of the attempt's end.
    pub ended_at: Option<Timestamp>,
    /// How it went.
    pub outcome: AttemptOutcome,
    /// Code and words of the failure.
    pub error: Option<(Fault, String)>,
    /// When the next attempt could begin, if one followed.
    pub next_at: Option<Timestamp>,
}

/// The attempts at a job.
#[derive(Debug, Clone)]
pub struct History {
    /// The job.
    pub job: Job,
    /// The attempts, oldest first.
    pub attempts: Vec<Tried>,
    /// The checkpoint, without its content.
    pub checkpoint: Option<Checkpoint>,
}

/// Returns the attempts at a job. One that its worker handed back counts as none (ARCP-W-11.2.3).
///
/// # Errors
/// There is no such job, or the caller may not see it.
pub async fn history(ctx: &Ctx, caller: &Caller, id: JobId) -> Outcome<History> {
    let mut conn = ctx.pool.acquire().await?;
    let job = visible(ctx, &mut conn, caller, id).await?;
    let rows = sqlx::query!(
        "-- job_attempts::of_job
         SELECT attempt, worker_id, claimed_at, ended_at, code, message, next_at FROM job_attempts
         WHERE job_id = $1 ORDER BY attempt",
        id.uuid()
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut attempts = Vec::with_capacity(rows.len() + 1);
    for row in rows {
        let error = match (row.code, row.message) {
            (Some(code), Some(message)) => {
                Some((Fault::parse(&code).ok_or_else(|| unknown("fault", &code))?, message))
            }
            _ => None,
        };
        attempts.push(Tried {
            attempt: number(row.attempt)?,
            worker_id: row.worker_id.into(),
            worker: None,
            claimed_at: row.claimed_at,
            ended_at: Some(row.ended_at),
            outcome: if error.is_some() { AttemptOutcome::Failed } else { AttemptOutcome::Lost },
            error,
            next_at: Some(row.next_at),
        });
    }
    let end = if job.status.is_terminal() { log::ends(&mut conn, &[id]).await?.pop() } else { None };
    attempts.extend(present(&job, end.as_ref()));
    let mut ids: Vec<WorkerId> = attempts.iter().map(|one| one.worker_id).collect();
    ids.sort_unstable();
    ids.dedup();
    let names = workers::named(&mut conn, &ids).await?;
    for one in &mut attempts {
        one.worker = names.get(&one.worker_id).map(|known| known.name.clone());
    }
    let checkpoint = checkpoints::of_job(&mut conn, id).await?;
    Ok(History { job, attempts, checkpoint })
}

/// The present attempt, or the one that ended the job.
fn present(job: &Job, end: Option<&Stored>) -> Option<Tried> {
    let claim = job.claim.as_ref()?;
    let said = end.and_then(|end| serde_json::from_str::<ErrorPayload>(&end.body).ok());
    let outcome = match job.status {
        JobStatus::Pending | JobStatus::Running => AttemptOutcome::Running,
        JobStatus::Success => AttemptOutcome::Success,
        JobStatus::Error => AttemptOutcome::Failed,
        JobStatus::Cancelled => AttemptOutcome::Cancelled,
        JobStatus::TimedOut => AttemptOutcome::TimedOut,
    };
    Some(Tried {
        attempt: job.attempt,
        worker_id: claim.worker_id,
        worker: None,
        claimed_at: claim.since,
        ended_at: job.ended_at,
        outcome,
        error: said.map(|said| (said.code, said.message)),
        next_at: None,
    })
}
