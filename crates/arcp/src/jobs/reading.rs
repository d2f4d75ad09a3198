//! Reading jobs (ARCP §6.6, §7.6): lists, single jobs, events. A job that the caller may not see counts as
//! missing.

use chrono::TimeDelta;
use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::jobs::ask::no_job;
use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::arcp::versions::AgentRef;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, JobId, floor};
use entente_domain::limits::PAGE;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{AppError, Caller, Outcome};
use sqlx::PgConnection;
use uuid::Uuid;

use super::holding::{self, Holding};
use super::log::{self, Stored};
use super::records::{self, Beside};
use super::rows::{Row, select};
use super::{budgets, rows};
use crate::Ctx;
use crate::inventory;

/// Whether the caller may observe a job: its own, or any with the scope `admin` or under an open policy.
pub(crate) fn observable(ctx: &Ctx, caller: &Caller, job: &Job) -> bool {
    job.principal == caller.agent || caller.has(Scope::Admin) || ctx.state.jobs.policy.lists()
}

/// Whether the caller may see all of a job that it may observe: its own, or any with the scope `admin` or under a policy
/// by which others' jobs can be followed.
pub(super) fn sees(ctx: &Ctx, caller: &Caller, job: &Job) -> bool {
    job.principal == caller.agent || caller.has(Scope::Admin) || ctx.state.jobs.policy.subscribes()
}

/// Filter of a list of jobs.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    /// Only jobs in one of these statuses.
    pub statuses: Vec<JobStatus>,
    /// Only jobs of this agent, or of this version of it.
    pub agent: Option<AgentRef>,
    /// Only jobs accepted after this time.
    pub created_after: Option<Timestamp>,
    /// Only jobs accepted before this time.
    pub created_before: Option<Timestamp>,
    /// Maximum number of jobs.
    pub limit: u32,
    /// Cursor returned with the previous page.
    pub cursor: Option<String>,
}

/// Lists the jobs that the caller may observe, newest first, with the cursor of the next page.
///
/// # Errors
/// The cursor or the limit is invalid.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &JobFilter) -> Outcome<(Vec<Job>, Option<String>)> {
    caller.require(Scope::JobsRead)?;
    if filter.limit == 0 || filter.limit > PAGE {
        let message = format!("`limit` must be a number from 1 to {PAGE}.");
        return Err(Refusal::field(Code::InvalidRequest, "limit", "range", message).into());
    }
    let (from, below) = bounds(filter)?;
    let statuses: Vec<&str> = filter.statuses.iter().map(|status| status.as_str()).collect();
    let (name, exact) = match &filter.agent {
        None => (None, None),
        Some(agent) if agent.version.is_some() => (None, Some(agent.to_string())),
        Some(agent) => (Some(format!("{}@", agent.name)), None),
    };
    let everybody = ctx.state.jobs.policy.lists();
    let mut conn = ctx.pool.acquire().await?;
    macro_rules! page_select {
        ($name:literal, $whose:literal $(, $principal:expr)?) => {
            select!(
                $name,
                $whose + "j.id < $1 AND j.id >= $8 AND c.status <> 'preparing'
               AND (cardinality($2::text[]) = 0 OR c.status = ANY($2)) AND ($3::text IS NULL OR j.agent = $3)
               AND ($4::text IS NULL OR starts_with(j.agent, $4)) AND ($5::timestamptz IS NULL OR j.created_at > $5)
               AND ($6::timestamptz IS NULL OR j.created_at < $6) ORDER BY j.id DESC LIMIT $7",
                below,
                &statuses as &[&str],
                exact,
                name,
                filter.created_after,
                filter.created_before,
                i64::from(filter.limit) + 1,
                from
                $(, $principal)?
            )
            .fetch_all(&mut *conn)
            .await?
        };
    }
    let rows = if everybody {
        page_select!("jobs::list_all", "WHERE ")
    } else {
        page_select!("jobs::list", "WHERE j.principal = $9 AND ", caller.agent)
    };
    let mut jobs = rows.into_iter().map(Job::try_from).collect::<Outcome<Vec<Job>>>()?;
    let more = jobs.len() > filter.limit as usize;
    jobs.truncate(filter.limit as usize);
    let next = jobs.last().filter(|_| more).map(|job| job.id.to_string().replacen("job_", "cur_", 1));
    Ok((jobs, next))
}

/// Range of ids of a page: from the first, below the second.
fn bounds(filter: &JobFilter) -> Result<(Uuid, Uuid), Refusal> {
    let wrong = |_no_id| {
        let message = "`cursor` is none of this list's. Begin without one.";
        Refusal::field(Code::InvalidRequest, "cursor", "value", message)
    };
    let after: Option<JobId> = filter
        .cursor
        .as_deref()
        .map(|text| text.replacen("cur_", "job_", 1).parse().map_err(wrong))
        .transpose()?;
    // Ids contain their creation time, so the times and the cursor bound the range of the index.
    let newest = filter.created_before.map_or(Uuid::max(), |at| floor(at + TimeDelta::milliseconds(1)));
    Ok((filter.created_after.map_or(Uuid::nil(), floor), after.map_or(newest, |id| id.uuid().min(newest))))
}

/// A job as shown to an observer.
#[derive(Debug)]
pub struct Description {
    /// The job.
    pub job: Job,
    /// Remaining budget.
    pub remaining: Budget,
    /// End event, if the job has ended.
    pub terminal: Option<Stored>,
    /// Claim on the job, if it runs.
    pub holding: Option<Holding>,
    /// Its records beside its own row.
    pub beside: Beside,
}

/// Returns one job.
///
/// # Errors
/// There is no such job, or the caller may not see it.
pub async fn describe(ctx: &Ctx, caller: &Caller, id: JobId) -> Outcome<Description> {
    let mut conn = ctx.pool.acquire().await?;
    let job = visible(ctx, &mut conn, caller, id).await?;
    let remaining = budgets::load(&mut conn, &[id]).await?.remove(&id).unwrap_or_default();
    let terminal = if job.status.is_terminal() { log::ends(&mut conn, &[id]).await?.pop() } else { None };
    let holding = holding::of_jobs(&mut conn, &[&job]).await?.remove(&id);
    let beside = records::load(&mut conn, id).await?;
    Ok(Description { job, remaining, terminal, holding, beside })
}

/// Loads a job that the caller may observe.
///
/// # Errors
/// As [`describe`].
pub(crate) async fn visible(ctx: &Ctx, conn: &mut PgConnection, caller: &Caller, id: JobId) -> Outcome<Job> {
    caller.require(Scope::JobsRead)?;
    let job = rows::load(conn, &[id]).await?.pop();
    let job = job.filter(|job| observable(ctx, caller, job)).ok_or_else(no_job)?;
    if sees(ctx, caller, &job) {
        return Ok(job);
    }
    let message = "The policy here lists others' jobs, and shows no more of them.";
    Err(Refusal::new(Code::PermissionDenied, message).into())
}

/// A job of an intent, with the parts that its reader may see.
#[derive(Debug)]
pub struct IntentJob {
    /// The job.
    pub job: Job,
    /// Its input as it was submitted; `None` for others than its submitter.
    pub input: Option<String>,
    /// Its records beside its own row.
    pub beside: Beside,
}

/// Loads the next jobs of an intent that the caller may see all of, in the order of their ids; and the id after which the
/// next page begins, `None` on the last one.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn of_intent(
    ctx: &Ctx,
    conn: &mut PgConnection,
    caller: &Caller,
    intent: IntentId,
    after: JobId,
    limit: i64,
) -> Outcome<(Vec<IntentJob>, Option<JobId>)> {
    let rows = select!(
        "jobs::of_intent",
        "WHERE j.intent_id = $1 AND j.id > $2 AND c.status <> 'preparing' ORDER BY j.id LIMIT $3",
        intent.uuid(),
        after.uuid(),
        limit
    )
    .fetch_all(&mut *conn)
    .await?;
    let jobs = rows.into_iter().map(Job::try_from).collect::<Outcome<Vec<Job>>>()?;
    let more = i64::try_from(jobs.len()).is_ok_and(|count| count == limit);
    let next = jobs.last().map(|job| job.id).filter(|_| more);
    let mut shown = Vec::new();
    for job in jobs.into_iter().filter(|job| sees(ctx, caller, job)) {
        let own = job.principal == caller.agent;
        let input = if own { rows::input(conn, job.id).await? } else { None };
        let beside = records::load(conn, job.id).await?;
        shown.push(IntentJob { job, input, beside });
    }
    Ok((shown, next))
}

/// Events of a job after a number, oldest first: up to `limit`, and little more than `bytes` bytes.
///
/// # Errors
/// As [`describe`]; there is no such job any more if an event after the number was deleted.
pub async fn events(
    ctx: &Ctx,
    caller: &Caller,
    id: JobId,
    after: i64,
    limit: u32,
    bytes: i64,
) -> Outcome<(Job, Vec<Stored>)> {
    let mut conn = ctx.pool.acquire().await?;
    let job = visible(ctx, &mut conn, caller, id).await?;
    let events = log::after(&mut conn, id, after, i64::from(limit), bytes).await?;
    // Retention takes the oldest events of a large job first (`retention.rs`). From then on the job is gone, and no reader gets
    // the rest as if it were all.
    let next = after.max(0).saturating_add(1);
    let first = events.first().map(|event| event.job_seq);
    if limit > 0 && first.map_or(next <= job.last_seq, |first| first > next) {
        return Err(no_job().into());
    }
    Ok((job, events))
}

/// Replaces "the claim is lost" by "no such job" for a caller that may not know of the job.
///
/// A worker of the job's agent may once have held it and gets the true error. To others a wrong token reveals
/// nothing (ARCP §6.6).
pub(super) async fn conceal<T>(ctx: &Ctx, caller: &Caller, id: JobId, done: Outcome<T>) -> Outcome<T> {
    let Err(AppError::Refused(refusal)) = &done else { return done };
    if refusal.code != Code::ClaimLost {
        return done;
    }
    let mut conn = ctx.pool.acquire().await?;
    let job = rows::load(&mut conn, &[id]).await?.pop().ok_or_else(no_job)?;
    let name = job.agent.split('@').next().unwrap_or_default();
    let agent = inventory::known(&mut conn, &[name]).await?.remove(name);
    let works = agent.is_some_and(|agent| inventory::require_owner(caller, name, &agent).is_ok());
    if works || observable(ctx, caller, &job) { done } else { Err(no_job().into()) }
}
