//! Running ended jobs again: one, or all that a search finds, as new jobs of the same principals that are linked to the old ones.

use entente_domain::arcp::jobs::ask::no_job;
use entente_domain::arcp::jobs::reruns::{self, AGAIN, Asked, Version};
use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::limits::IDEMPOTENCY_KEY_BYTES;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::traces::Trace;
use entente_kernel::{AppError, Caller, IntentTx, Outcome, try_locks};
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::search::{JobSearch, count, cursor, ids};
use crate::Ctx;
use crate::jobs::acceptance::{Origin, Submission, Submitted};
use crate::jobs::reading::observable;
use crate::jobs::records::{self, labels};
use crate::jobs::rows;
use crate::jobs::submit::submit_and_wait;
use crate::jobs::writer::JobWriter;
use crate::limits;

/// Submissions of one request at a time: they meet in the job writer's commits.
const AT_ONCE: usize = 16;

/// Lock of requests that run many jobs again: two at a time could both run the same job.
const LOCK: i64 = 0x656e_7465_6e74_6504;

/// How jobs are run again.
#[derive(Debug, Clone, Default)]
pub struct RerunAsk {
    /// The version that runs them.
    pub version: Version,
    /// Idempotency key: under the same key of the same caller a job is run again once.
    pub key: Option<String>,
}

/// A job that runs another one again.
#[derive(Debug, Clone, Copy)]
pub struct Rerun {
    /// The job that is run again.
    pub source: JobId,
    /// The new job.
    pub job_id: JobId,
    /// Whether the same request was accepted before.
    pub repeated: bool,
}

/// Result of running all jobs again that a search finds.
#[derive(Debug, Default)]
pub struct Again {
    /// Number of jobs that the search finds, on all pages; a lower bound unless `is_complete`.
    pub found: i64,
    /// Whether all of them were counted.
    pub is_complete: bool,
    /// Jobs of this page that are run again, or would be: a dry run makes none.
    pub selected: Vec<JobId>,
    /// The new jobs.
    pub reruns: Vec<Rerun>,
    /// Jobs of this page that another request has run again already.
    pub skipped: Vec<JobId>,
    /// Jobs of this page that cannot be run again, and why.
    pub refused: Vec<(JobId, Refusal)>,
    /// Cursor of the next page.
    pub next_cursor: Option<String>,
}

/// Runs an ended job again: a new job of the same principal, with the same input, authority, intent and labels. A dead letter is
/// resolved by it.
///
/// # Errors
/// There is no such job; it is not over, or was delegated; its agent takes no jobs.
pub async fn rerun(job_writer: &JobWriter, caller: &Caller, id: JobId, ask: &RerunAsk) -> Outcome<Submitted> {
    caller.require(Scope::JobsWrite)?;
    check_key(ask.key.as_deref())?;
    let ctx = &job_writer.ctx;
    // Whoever paid for the old job pays for the new one; but a stopped caller starts nothing.
    ctx.stops.objection(caller, &caller.agent, None).map_or(Ok(()), Err)?;
    let mut conn = ctx.pool.acquire().await?;
    let job = rows::load(&mut conn, &[id]).await?.pop();
    let job = job.filter(|job| observable(ctx, caller, job)).ok_or_else(no_job)?;
    drop(conn);
    if job.principal != caller.agent && !caller.has(Scope::Admin) {
        let message = "Only the submitter of a job or an operator runs it again. Submit a job of your own.";
        return Err(Refusal::new(Code::PermissionDenied, message).into());
    }
    reruns::require_again(&job)?;
    record(ctx, caller, std::slice::from_ref(&job), ask).await?;
    submit_again(job_writer, caller, &job, ask).await
}

fn check_key(key: Option<&str>) -> Result<(), Refusal> {
    let is_key = |key: &str| {
        !key.is_empty() && key.chars().count() <= IDEMPOTENCY_KEY_BYTES && !key.chars().any(char::is_control)
    };
    if key.is_none_or(is_key) {
        return Ok(());
    }
    let message = format!(
        "`idempotency_key` must have 1 to {IDEMPOTENCY_KEY_BYTES} characters, none of them a control character."
    );
    Err(Refusal::field(Code::InvalidRequest, "idempotency_key", "length", message))
}

/// Records in the system log that somebody runs others' jobs again. This comes before the submissions, so that none is without
/// its record.
async fn record(ctx: &Ctx, caller: &Caller, jobs: &[Job], ask: &RerunAsk) -> Outcome<()> {
    let others: Vec<&Job> = jobs.iter().filter(|job| job.principal != caller.agent).collect();
    if others.is_empty() {
        return Ok(());
    }
    let mut principals: Vec<&str> = others.iter().map(|job| job.principal.as_str()).collect();
    principals.sort_unstable();
    principals.dedup();
    let ids: Vec<JobId> = others.iter().map(|job| job.id).collect();
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let payload = json!({ "job_ids": ids, "principals": principals, "idempotency_key": ask.key });
    work.record(Draft::of(Kind::JobRerun, &caller.agent, payload));
    work.commit().await?;
    Ok(())
}

/// Returns the job of an earlier request with the same key, if its idempotency key is forgotten.
async fn made_before(
    conn: &mut PgConnection,
    caller: &Caller,
    job: &Job,
    ask: &RerunAsk,
) -> Outcome<Option<Job>> {
    let Some(key) = &ask.key else { return Ok(None) };
    let Some(made) = records::reruns::made_for(conn, job.id, &caller.agent, key).await? else {
        return Ok(None);
    };
    let made = rows::load(conn, &[made]).await?.pop();
    Ok(made.filter(|made| made.idempotency_key.is_none()))
}

async fn submit_again(
    job_writer: &JobWriter,
    caller: &Caller,
    job: &Job,
    ask: &RerunAsk,
) -> Outcome<Submitted> {
    let ctx = &job_writer.ctx;
    let mut conn = ctx.pool.acquire().await?;
    if let Some(made) = made_before(&mut conn, caller, job, ask).await? {
        return Ok(Submitted::new(made, true));
    }
    let asked = asked(&mut conn, job.id).await?;
    let labels = labels::load(&mut conn, &[job.id]).await?.remove(&job.id).unwrap_or_default();
    drop(conn);
    let key = ask.key.as_deref().map(|key| reruns::job_key(job, &caller.agent, key));
    let mut again = reruns::again(job, asked, labels, ask.version, key, ctx.now())?;
    let max_priority =
        limits::max_priority(&ctx.pool, again.priority, &job.principal, job.owner.as_deref()).await?;
    again.priority = again.priority.map(|before| max_priority.map_or(before, |most| before.min(most)));
    let rerun = records::reruns::Rerun { source: job.id, by: caller.agent.clone(), key: ask.key.clone() };
    let submission = Submission {
        ask: again,
        principal: job.principal.clone(),
        // Whoever paid for the old job pays for the new one.
        key: job.key_id.zip(job.owner.clone()),
        // Without a trace of the request, the new job is found under the old one's.
        trace: caller.trace.or_else(|| Trace::of_id(&job.trace_id, &*ctx.chance)),
        origin: Origin::Rest,
        rerun: Some(rerun),
        max_priority,
        full: if caller.has(Scope::Admin) {
            None
        } else {
            ctx.quotas.bar(job.owner.as_ref().unwrap_or(&job.principal))
        },
    };
    submit_and_wait(job_writer, submission).await
}

/// Returns the input and the start of a job as submitted.
pub(super) async fn asked(conn: &mut PgConnection, id: JobId) -> Outcome<Asked> {
    let row = sqlx::query!("-- jobs::asked\n SELECT input, start_at FROM jobs WHERE id = $1", id.uuid())
        .fetch_optional(conn)
        .await?;
    let Some(row) = row else { return Ok(Asked::default()) };
    Ok(Asked { input: row.input.map(RawValue::from_string).transpose()?, start_at: row.start_at })
}

/// Runs the jobs again that a search finds: a page of them, which may have failed or timed out unless it names other statuses.
///
/// Jobs that another request has run again are skipped. A retry of the same page under the same key makes no further jobs.
///
/// # Errors
/// The request has no key; the search is invalid, or includes jobs that are not over. A failure in between, for an outage for
/// example, leaves jobs behind: the same request again finds them by the key.
pub async fn rerun_found(
    job_writer: &JobWriter,
    caller: &Caller,
    search: JobSearch,
    ask: &RerunAsk,
    is_dry: bool,
) -> Outcome<Again> {
    caller.require(Scope::JobsWrite)?;
    caller.require(Scope::JobsRead)?;
    check_key(ask.key.as_deref())?;
    let key = match ask.key.as_deref() {
        None if is_dry => "",
        None => {
            let message =
                "`idempotency_key` is missing: without it, a repeated request would run every job twice.";
            return Err(Refusal::field(Code::InvalidRequest, "idempotency_key", "missing", message).into());
        }
        Some(key) => key,
    };
    let search = check(search)?;
    if is_dry {
        return Ok(select(&job_writer.ctx, caller, &search, key).await?.0);
    }
    job_writer.ctx.stops.objection(caller, &caller.agent, None).map_or(Ok(()), Err)?;
    let mut guard = job_writer.ctx.begin_guard().await?;
    if try_locks(&mut guard, &[LOCK]).await?.is_empty() {
        let message = "Another request runs jobs again just now. Send this one again when it is done.";
        return Err(Refusal::new(Code::Unavailable, message).into());
    }
    let (mut again, selected) = select(&job_writer.ctx, caller, &search, key).await?;
    if !selected.is_empty() {
        submit_all(job_writer, caller, &selected, ask, &mut again).await?;
    }
    guard.rollback().await?;
    Ok(again)
}

/// Selects the jobs of a page that are run again.
async fn select(ctx: &Ctx, caller: &Caller, search: &JobSearch, key: &str) -> Outcome<(Again, Vec<Job>)> {
    let counts = count(ctx, caller, search).await?;
    let mut conn = ctx.pool.acquire().await?;
    let (mut ids, mut next_cursor) = ids(ctx, &mut conn, caller, search).await?;
    if search.dead_letter == Some(true) && !key.is_empty() {
        // Jobs that the same request has run again are no open letters any more, and belong to its page all the same.
        let limit = i64::from(search.limit);
        let below = search.below()?;
        ids.extend(records::reruns::sources_of_key(&mut conn, &caller.agent, key, below, limit).await?);
        ids.sort_unstable_by(|one, other| other.cmp(one));
        ids.dedup();
        if ids.len() > search.limit as usize {
            ids.truncate(search.limit as usize);
            next_cursor = ids.last().map(|last| cursor(last.uuid()));
        }
    }
    let jobs = rows::load(&mut conn, &ids).await?;
    let skipped = records::reruns::run_again(&mut conn, &ids, &caller.agent, key).await?;
    drop(conn);
    let mut again = Again {
        found: counts.by_status.iter().map(|(_, count)| count).sum(),
        is_complete: counts.is_complete,
        next_cursor,
        ..Again::default()
    };
    let may = |job: &Job| job.principal == caller.agent || caller.has(Scope::Admin);
    let mut selected = Vec::new();
    for job in jobs.into_iter().filter(may) {
        match reruns::require_again(&job) {
            Err(refusal) => again.refused.push((job.id, refusal)),
            Ok(()) if skipped.contains(&job.id) => again.skipped.push(job.id),
            Ok(()) => selected.push(job),
        }
    }
    again.selected = selected.iter().map(|job| job.id).collect();
    Ok((again, selected))
}

/// Runs these jobs again, and notes the new jobs and the refused ones.
async fn submit_all(
    job_writer: &JobWriter,
    caller: &Caller,
    selected: &[Job],
    ask: &RerunAsk,
    again: &mut Again,
) -> Outcome<()> {
    record(&job_writer.ctx, caller, selected, ask).await?;
    let mut done = stream::iter(selected)
        .map(|job| async move { (job.id, submit_again(job_writer, caller, job, ask).await) })
        .buffered(AT_ONCE);
    while let Some((source, submitted)) = done.next().await {
        match submitted {
            Ok(made) => again.reruns.push(Rerun { source, job_id: made.job.id, repeated: made.repeated }),
            Err(AppError::Refused(refusal)) if refusal.code != Code::Unavailable => {
                again.refused.push((source, refusal));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

fn check(mut search: JobSearch) -> Result<JobSearch, Refusal> {
    if search.limit == 0 || search.limit > AGAIN {
        let message =
            format!("`limit` must be a number from 1 to {AGAIN}. The next page goes on where it ends.");
        return Err(Refusal::field(Code::InvalidRequest, "limit", "range", message));
    }
    if let Some(open) = search.statuses.iter().find(|status| !status.is_terminal()) {
        let message = format!("`status` names `{}`. Only jobs that are over are run again.", open.as_str());
        return Err(Refusal::field(Code::InvalidRequest, "status", "value", message));
    }
    if search.statuses.is_empty() {
        search.statuses = vec![JobStatus::Error, JobStatus::TimedOut];
    }
    Ok(search)
}
