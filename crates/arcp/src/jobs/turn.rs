//! Jobs in a turn (`crates/bridges/src/turns.rs`): reports on claimed jobs and a claim of new ones, as parts of one
//! transaction, which the turn begins and commits. The transaction holds the locks of the intents of all reported jobs.

use std::collections::HashSet;

use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::jobs::ends::End;
use entente_domain::canonical::Digest;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::refusal::Refusal;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{AppError, Caller, Outcome, try_locks};
use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::authority::{check_cost, settle_on};
use super::claim_tokens::token_digest;
use super::claims::gates;
use super::claims::keys::TokenSource;
use super::claims::{
    ClaimAsk, Claimed, ROUNDS, chosen_within, claimant, locks_of, of_unstopped_intents, pass_over,
    queued_within, repeated, stopped_submitters, unstopped,
};
use super::delegation::refuse_children;
use super::locked::LockedJobs;
use super::reading::conceal;
use super::reports::{CallBounds, EventAsk, Report, Reported, judge, told};
use super::{log, rows};
use crate::Ctx;
use crate::workers::Directive;

/// A report on a claimed job.
#[derive(Debug, Clone)]
pub struct JobReport(Content);

#[derive(Debug, Clone)]
enum Content {
    /// Events, a checkpoint, or the end.
    Report(Report),
    /// The cost of a reservation.
    Settlement { job_id: JobId, token: Digest, reservation: String, cost: Budget },
}

impl JobReport {
    /// Checks events of a job, and the progress that is stored with them.
    ///
    /// # Errors
    /// An event is invalid, or asks for a child job.
    pub fn of_events(
        job_id: JobId,
        token: &str,
        events: Vec<EventAsk>,
        checkpoint: Option<&RawValue>,
    ) -> Result<Self, Refusal> {
        refuse_children(&events)?;
        Report::with_checkpoint(job_id, token, events, checkpoint).map(Content::Report).map(Self)
    }

    /// Checks the end of a job.
    ///
    /// # Errors
    /// The result is too large; the code of an error is unknown.
    pub fn of_end(job_id: JobId, token: &str, end: End) -> Result<Self, Refusal> {
        Report::of_end(job_id, token, end).map(Content::Report).map(Self)
    }

    /// Checks the settlement of a reservation: its amounts are put back, and `cost` is charged instead.
    ///
    /// # Errors
    /// A cost is below zero.
    pub fn of_settlement(
        job_id: JobId,
        token: &str,
        reservation: String,
        cost: Budget,
    ) -> Result<Self, Refusal> {
        check_cost(&cost)?;
        Ok(Self(Content::Settlement { job_id, token: token_digest(token), reservation, cost }))
    }

    /// The job.
    #[must_use]
    pub fn job_id(&self) -> JobId {
        match &self.0 {
            Content::Report(report) => report.job_id,
            Content::Settlement { job_id, .. } => *job_id,
        }
    }
}

/// Returns the intents of these jobs, whose locks the transaction has to hold.
///
/// # Errors
/// A database error.
pub async fn intents_of(conn: &mut PgConnection, jobs: &[JobId]) -> Outcome<Vec<IntentId>> {
    if jobs.is_empty() { Ok(Vec::new()) } else { rows::intents(conn, jobs).await }
}

/// Reports that a transaction has written.
pub struct Reports {
    /// A response to each.
    pub reported: Vec<Reported>,
    locked: LockedJobs,
}

/// Why reports were not stored.
#[derive(Debug)]
pub struct ReportFailure {
    /// Index of the report that was refused, if it was one.
    pub index: Option<usize>,
    /// The failure; see [`concealed`].
    pub failure: AppError,
}

impl From<AppError> for ReportFailure {
    fn from(failure: AppError) -> Self {
        Self { index: None, failure }
    }
}

/// Locks jobs in the order of their ids, before the reports on some of them and the heartbeat that extends the others.
///
/// # Errors
/// A database error.
pub async fn lock_within(conn: &mut PgConnection, jobs: &[JobId]) -> Outcome<()> {
    if !jobs.is_empty() {
        rows::lock(conn, jobs).await?;
    }
    Ok(())
}

/// Stores the reports in order; none of them if one is refused, which the caller rolls back for.
///
/// # Errors
/// The first report that is refused; a database error.
pub async fn report_within(
    ctx: &Ctx,
    conn: &mut PgConnection,
    caller: &Caller,
    intents: &[IntentId],
    reports: &[JobReport],
) -> Result<Reports, ReportFailure> {
    caller.require(Scope::JobsWork).map_err(AppError::from)?;
    let mut jobs: Vec<JobId> = reports.iter().map(JobReport::job_id).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let mut locked = LockedJobs::take(conn, &jobs, intents, ctx.now()).await?;
    let named = reports.iter().filter_map(|report| match &report.0 {
        Content::Report(report) => Some(report.event_keys().map(|key| (report.job_id, key.to_owned()))),
        Content::Settlement { .. } => None,
    });
    let known = log::known(conn, &named.flatten().collect::<Vec<_>>()).await?;
    let told = reports.iter().filter_map(|report| match &report.0 {
        Content::Report(report) => Some(report),
        Content::Settlement { .. } => None,
    });
    let stopped = ctx.stops.objection(caller, &caller.agent, None);
    let bounds = CallBounds::load(ctx, conn, &locked, told).await?.of_worker(stopped);
    let mut reported = Vec::with_capacity(reports.len());
    for (index, report) in reports.iter().enumerate() {
        match apply(&mut locked, report, &known, &bounds) {
            Ok(response) => reported.push(response),
            Err(failure) => return Err(ReportFailure { index: Some(index), failure }),
        }
    }
    locked.save(ctx, conn).await?;
    Ok(Reports { reported, locked })
}

fn apply(
    locked: &mut LockedJobs,
    report: &JobReport,
    known: &HashSet<(JobId, String)>,
    bounds: &CallBounds,
) -> Outcome<Reported> {
    let (change, reported) = match &report.0 {
        Content::Report(report) => judge(locked, report, known, bounds)?,
        Content::Settlement { job_id, token, reservation, cost } => {
            let mut change = locked.change(*job_id)?;
            change.job().hold(token, change.now())?;
            settle_on(&mut change, reservation, cost)?;
            let reported = told(&change, Vec::new());
            (change, reported)
        }
    };
    locked.apply(change);
    Ok(reported)
}

/// Returns the failure of a report on a job as the caller may know it, after the transaction was rolled back.
pub async fn concealed(ctx: &Ctx, caller: &Caller, job_id: JobId, failure: AppError) -> AppError {
    match conceal::<()>(ctx, caller, job_id, Err(failure)).await {
        Err(failure) => failure,
        Ok(()) => AppError::Inconsistent("a failed report has no failure".to_owned()),
    }
}

impl Reports {
    /// Wakes the waiters of all changes, after the commit.
    pub async fn announce(&self, ctx: &Ctx) {
        self.locked.announce(ctx);
        gates::after(ctx, self.locked.changed()).await;
    }
}

/// Jobs that a transaction has claimed.
#[derive(Default)]
pub struct Claims {
    /// The jobs.
    pub claimed: Vec<Claimed>,
    logs: Vec<IntentLog>,
}

/// Claims jobs whose turn it is, without waiting: for a job of an intent that somebody else has locked, the next claim comes.
///
/// # Errors
/// The caller has no such worker, or it is not registered for a named agent; claims of the agent are stopped; another claim of the
/// worker had the key.
pub async fn claim_within(
    ctx: &Ctx,
    conn: &mut PgConnection,
    caller: &Caller,
    ask: &ClaimAsk,
) -> Outcome<Claims> {
    let worker = claimant(conn, caller, ask).await?;
    ctx.stops.objection(caller, &caller.agent, None).map_or(Ok(()), Err)?;
    if worker.directive != Directive::Run {
        return Ok(Claims::default());
    }
    let mut source = TokenSource::new(ctx, worker.id, ask.key.as_ref());
    let (mut agents, mut without) = (unstopped(ctx, &ask.agents_of(&worker)), stopped_submitters(ctx));
    let (mut claimed, mut logs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let left = ask.max - i64::try_from(claimed.len()).unwrap_or(ask.max);
        let queued = queued_within(ctx, conn, &mut source, &agents, &without, left).await?;
        let (more, mut chosen, _cut) = queued.ok_or_else(Idempotency::mismatch)?;
        claimed.extend(more);
        of_unstopped_intents(ctx, &mut chosen);
        let locks: Vec<i64> = chosen.iter().flat_map(locks_of).collect();
        if !locks.is_empty() {
            // To wait for a lock now could close a circle: the transaction holds others already.
            let held = try_locks(conn, &locks).await?;
            chosen.retain(|one| locks_of(one).iter().all(|lock| held.contains(lock)));
        }
        if chosen.is_empty() {
            break;
        }
        let taken =
            chosen_within(ctx, conn, &mut source, &chosen).await?.ok_or_else(Idempotency::mismatch)?;
        claimed.extend(taken.claimed);
        logs.extend(taken.logs);
        let is_full = i64::try_from(claimed.len()).unwrap_or(ask.max) >= ask.max;
        if taken.closed.is_empty() || is_full {
            break;
        }
        pass_over(taken.closed, &mut agents, &mut without);
        if agents.is_empty() {
            break;
        }
    }
    Ok(Claims { claimed, logs })
}

/// Returns the jobs that an earlier turn with the claim's key took, those that the worker still holds: none if it has left.
///
/// # Errors
/// A database error.
pub async fn claimed_before(ctx: &Ctx, caller: &Caller, ask: &ClaimAsk) -> Outcome<Vec<Claimed>> {
    let worker = claimant(&mut *ctx.pool.acquire().await?, caller, ask).await;
    match worker {
        Ok(worker) => Ok(repeated(ctx, worker.id, ask.key.as_ref()).await?.unwrap_or_default()),
        Err(AppError::Refused(_)) => Ok(Vec::new()),
        Err(failure) => Err(failure),
    }
}

impl Claims {
    /// Publishes the claims, after the commit.
    pub fn announce(&self, ctx: &Ctx) {
        self.claimed.iter().for_each(|job| ctx.feed.wake(WakeKey::Job(job.job_id)));
        self.logs.iter().for_each(|log| ctx.feed.publish_log(log));
    }
}
