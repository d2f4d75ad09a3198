//! Claims: workers take jobs and give them back (contract 11.2); that they keep them is `beats.rs`. A job goes to one worker at a time; its token
//! fences off whoever had it before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use entente_domain::budgets::Budget;
use entente_domain::clock::Timestamp;
use entente_domain::events::{Draft, Kind};
use entente_domain::faults::Fault;
use entente_domain::ids::{IntentId, JobId, ResultId, WorkerId};
use entente_domain::jobs::wire::Credential;
use entente_domain::jobs::{JobStatus, OnLost};
use entente_domain::keys::Scope;
use entente_domain::refusal::{Code, Refusal};
use futures_util::future::select_all;
use serde_json::json;
use sqlx::PgConnection;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::hold::Hold;
use super::reading::conceal;
use super::reports::token_digest;
use super::writes::{self, Taken, Tokens};
use super::{budgets, rows};
use crate::feed::Touch;
use crate::lines::Line;
use crate::workers::{self, Directive};
use crate::{Caller, Ctx, Outcome, credentials};

/// Jobs that are claimed in one request at the most: each may have an input of 768 KiB.
pub const CLAIMS: i64 = 100;

/// A job that a worker has taken.
#[derive(Debug)]
pub struct Claimed {
    /// The job.
    pub job_id: JobId,
    /// As which agent it is to be run.
    pub agent: String,
    /// What it is to work on, as it came.
    pub input: Option<String>,
    /// What it may touch, as JSON.
    pub lease: String,
    /// When that ends.
    pub expires_at: Option<Timestamp>,
    /// What it has left.
    pub budget: Option<Budget>,
    /// What was provisioned for it.
    pub credentials: Vec<Credential>,
    /// The trace.
    pub trace_id: String,
    /// Its parent.
    pub parent_id: Option<JobId>,
    /// The delegation's name.
    pub delegate_id: Option<String>,
    /// The intent that it works for.
    pub intent_id: Option<IntentId>,
    /// Who submitted it.
    pub principal: String,
    /// The how-manieth time it was claimed.
    pub attempt: u32,
    /// When it is timed out.
    pub deadline: Option<Timestamp>,
    /// What every report must carry.
    pub claim_token: String,
    /// Until when it is the worker's, unless it is heard of.
    pub claim_expires_at: Timestamp,
    /// Under which name a result can be streamed.
    pub result_id: ResultId,
}

/// What a worker asks for.
#[derive(Debug, Clone)]
pub struct ClaimAsk {
    /// Who asks.
    pub worker_id: WorkerId,
    /// Of which agents; all of the worker's when nothing is said.
    pub agents: Option<Vec<String>>,
    /// How many at the most.
    pub max: i64,
    /// How long to wait when there are none.
    pub wait: Duration,
}

/// Takes jobs that wait, the oldest first; waits for one when there is none, until the server is `stopping` or nobody waits for the
/// answer any more.
///
/// # Errors
/// There is no such worker of the caller's; it names agents that are not its.
pub async fn claim(
    ctx: &Ctx,
    caller: &Caller,
    ask: ClaimAsk,
    stopping: &CancellationToken,
) -> Outcome<Vec<Claimed>> {
    let mut conn = ctx.pool.acquire().await?;
    let worker = workers::mine(&mut conn, caller, ask.worker_id).await?;
    drop(conn);
    if !(1..=CLAIMS).contains(&ask.max) {
        let message = format!("`max` must be a number from 1 to {CLAIMS}.");
        return Err(Refusal::field(Code::InvalidRequest, "max", "range", message).into());
    }
    if let Some(foreign) = ask.agents.iter().flatten().find(|agent| !worker.agents.contains(agent)) {
        let message =
            format!("The worker was not registered for `{foreign}`. Register it again with that agent.");
        return Err(Refusal::new(Code::PermissionDenied, message).into());
    }
    if worker.directive != Directive::Run {
        return Ok(Vec::new());
    }
    let mut agents = ask.agents.unwrap_or(worker.agents);
    agents.sort_unstable();
    agents.dedup();
    let until = Instant::now() + ask.wait;
    // The bell that woke it: it may have been for a job that is still there afterwards.
    let mut woken_by: Option<&str> = None;
    loop {
        // First the ear, then the look: what comes in between is heard.
        let queues: Vec<_> = agents.iter().map(|agent| ctx.feed.bells().queue(agent)).collect();
        let heard = select_all(queues.iter().map(|queue| Box::pin(queue.notified())));
        let (taken, cut) = take(ctx, worker.id, &agents, ask.max).await?;
        if !taken.is_empty() || ask.wait.is_zero() {
            if cut {
                pass_on(ctx, &taken, woken_by);
            }
            return Ok(taken);
        }
        tokio::select! {
            biased;
            // Whoever waits asks again, and is answered by another server; whoever has hung up takes nothing. A bell that rang
            // meanwhile is heard by the next.
            () = stopping.cancelled() => return Ok(taken),
            heard = timeout_at(until, heard) => match heard {
                Ok(((), index, _others)) => woken_by = agents.get(index).map(String::as_str),
                Err(_nothing_came) => return Ok(taken),
            },
        }
        caller.require_key(ctx.now())?;
        // It may have left meanwhile, or been told to claim nothing more.
        let mut conn = ctx.pool.acquire().await?;
        if workers::mine(&mut conn, caller, ask.worker_id).await?.directive != Directive::Run {
            agents.iter().for_each(|agent| ctx.feed.bells().ring(&Touch::Work(agent.clone())));
            return Ok(Vec::new());
        }
    }
}

/// A bell is for one: whoever could take only a part of what waits passes it on.
fn pass_on(ctx: &Ctx, taken: &[Claimed], woken_by: Option<&str>) {
    let agents: BTreeSet<&str> = taken.iter().map(|job| job.agent.as_str()).chain(woken_by).collect();
    agents.into_iter().for_each(|agent| ctx.feed.bells().ring(&Touch::Work(agent.to_owned())));
}

/// Takes jobs that wait; and whether it was cut short, so that there may be others.
async fn take(ctx: &Ctx, worker: WorkerId, agents: &[String], max: i64) -> Outcome<(Vec<Claimed>, bool)> {
    let mut taken = take_plain(ctx, worker, agents, max).await?;
    let left = max - i64::try_from(taken.len()).unwrap_or(max);
    let mut cut = left <= 0;
    if !cut {
        match take_of_intents(ctx, worker, agents, left).await {
            Ok((more, full)) => {
                taken.extend(more);
                cut = full;
            }
            Err(failure) if taken.is_empty() => return Err(failure),
            // What was taken is the worker's; the others wait for the next.
            Err(failure) => {
                tracing::warn!(error = %failure, "jobs of intents could not be claimed");
                cut = true;
            }
        }
    }
    for job in &taken {
        ctx.feed.ring(Touch::Job(job.job_id));
    }
    Ok((taken, cut))
}

/// Takes jobs without an intent. What cannot be handed over whole is not taken.
async fn take_plain(ctx: &Ctx, worker: WorkerId, agents: &[String], max: i64) -> Outcome<Vec<Claimed>> {
    let (now, tokens) = (ctx.now(), Tokens::mint(ctx, max));
    let until = now + ctx.settings.jobs.claim;
    let mut tx = ctx.pool.begin().await?;
    let taken = writes::take(&mut tx, worker, agents, max, &tokens, until).await?;
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    let claimed = dress(ctx, &mut tx, taken, until).await?;
    tx.commit().await?;
    Ok(claimed)
}

/// Takes jobs that work for intents, under the locks of those, for their logs tell of it; and whether it saw as many as it
/// may take. Of those that it saw somebody else may have had some before.
async fn take_of_intents(
    ctx: &Ctx,
    worker: WorkerId,
    agents: &[String],
    max: i64,
) -> Outcome<(Vec<Claimed>, bool)> {
    let mut conn = ctx.pool.acquire().await?;
    let waiting = rows::waiting_for_intents(&mut conn, agents, max).await?;
    drop(conn);
    if waiting.is_empty() {
        return Ok((Vec::new(), false));
    }
    let full = i64::try_from(waiting.len()).unwrap_or(max) >= max;
    Ok((take_with_intents(ctx, worker, &waiting, &Tokens::mint(ctx, max)).await?, full))
}

/// What a worker needs of the jobs that it has taken.
async fn dress(
    ctx: &Ctx,
    conn: &mut PgConnection,
    taken: Vec<Taken>,
    until: Timestamp,
) -> Outcome<Vec<Claimed>> {
    let counted: Vec<JobId> =
        taken.iter().filter(|row| !row.payers.is_empty()).map(|row| row.job_id.into()).collect();
    let mut budgets = budgets::load(conn, &counted).await?;
    let ids: Vec<JobId> = taken.iter().map(|row| row.job_id.into()).collect();
    let mut credentials = credentials::of_jobs(conn, &ids).await?;
    let claimed = taken.into_iter().map(|row| {
        let job_id = JobId::from(row.job_id);
        Ok(Claimed {
            job_id,
            agent: row.agent,
            input: row.input,
            lease: row.lease,
            expires_at: row.expires_at,
            budget: budgets.remove(&job_id),
            credentials: credentials.remove(&job_id).unwrap_or_default(),
            trace_id: row.trace_id,
            parent_id: row.parent_id.map(JobId::from),
            delegate_id: row.delegate_id,
            intent_id: row.intent_id.map(IntentId::from),
            principal: row.principal,
            attempt: rows::number(row.attempt)?,
            deadline: row.deadline,
            claim_token: row.token.unwrap_or_default(),
            claim_expires_at: until,
            result_id: ResultId::mint(ctx.now(), &*ctx.chance),
        })
    });
    claimed.collect()
}

async fn take_with_intents(
    ctx: &Ctx,
    worker: WorkerId,
    waiting: &[(JobId, IntentId)],
    tokens: &Tokens,
) -> Outcome<Vec<Claimed>> {
    let mut intents: Vec<IntentId> = waiting.iter().map(|(_, intent)| *intent).collect();
    intents.sort_unstable();
    intents.dedup();
    let ids: Vec<Uuid> = waiting.iter().map(|(id, _)| id.uuid()).collect();
    let until = ctx.now() + ctx.settings.jobs.claim;
    let mut tx = ctx.begin(&intents).await?;
    let rows = writes::take_these(&mut tx, worker, &ids, tokens, until).await?;
    let mut lines: BTreeMap<IntentId, Line> = BTreeMap::new();
    for row in &rows {
        let Some(intent) = row.intent_id.map(IntentId::from) else { continue };
        if let std::collections::btree_map::Entry::Vacant(place) = lines.entry(intent) {
            place.insert(Line::open(&mut tx, intent, None, ctx.now()).await?);
        }
        let payload = json!({
            "job_id": JobId::from(row.job_id), "agent": row.agent, "principal": row.principal,
            "status": JobStatus::Running, "attempt": row.attempt,
        });
        let actor = row.agent.split('@').next().unwrap_or_default();
        let draft =
            Draft { trace_id: Some(row.trace_id.clone()), ..Draft::of(Kind::JobRunning, actor, payload) };
        if let Some(line) = lines.get_mut(&intent) {
            line.record(ctx, draft);
        }
    }
    for line in lines.values() {
        line.save(&mut tx).await?;
    }
    let claimed = dress(ctx, &mut tx, rows, until).await?;
    tx.commit().await?;
    lines.keys().for_each(|intent| ctx.feed.news(*intent));
    Ok(claimed)
}

/// Gives a job back: another worker may take it, at once. What was set aside of its budget comes back with it.
///
/// # Errors
/// The claim is lost.
pub async fn release(ctx: &Ctx, caller: &Caller, id: JobId, token: &str) -> Outcome<JobStatus> {
    caller.require(Scope::JobsWork)?;
    let done = release_held(ctx, id, token).await;
    conceal(ctx, caller, id, done).await
}

async fn release_held(ctx: &Ctx, id: JobId, token: &str) -> Outcome<JobStatus> {
    give_back(ctx, id, |hold, id| {
        hold.job(id)?.hold(&token_digest(token), hold.now())?;
        let cancelled = hold.job(id)?.cancel.clone();
        if let Some(cancel) = cancelled {
            hold.fail(id, Fault::Cancelled, &cancel.reason, None, None)?;
        } else {
            hold.requeue(id)?;
            // Nobody was lost over it.
            let job = hold.change(id)?;
            job.attempt = job.attempt.saturating_sub(1);
        }
        Ok(hold.job(id)?.status)
    })
    .await
}

/// Gives jobs back whose worker hung up while they became its own: others may take them at once, and it counts as no attempt.
/// What cannot be given back is another's when the claim runs out.
pub async fn return_unheard(ctx: &Ctx, caller: &Caller, claimed: &[Claimed]) {
    for job in claimed {
        match release(ctx, caller, job.job_id, &job.claim_token).await {
            Ok(_status) => tracing::info!(job = %job.job_id, "a job came back: its worker had hung up"),
            Err(failure) => {
                tracing::warn!(job = %job.job_id, error = %failure, "a job could not be taken back from a worker that hung up");
            }
        }
    }
}

/// A worker leaves: what it still holds goes to others, and it is forgotten.
///
/// # Errors
/// There is no such worker of the caller's.
pub async fn leave(ctx: &Ctx, caller: &Caller, worker: WorkerId) -> Outcome<()> {
    let mut conn = ctx.pool.acquire().await?;
    workers::mine(&mut conn, caller, worker).await?;
    // First, so that a claim that is just waiting takes nothing more in its name.
    workers::forget(&mut conn, worker).await?;
    let held = sqlx::query_scalar!(
        "-- job_clock::of_worker
         SELECT job_id FROM job_clock WHERE due_at IS NOT NULL AND worker_id = $1 AND status = 'running' ORDER BY job_id",
        worker.uuid()
    )
    .fetch_all(&mut *conn)
    .await?;
    drop(conn);
    for id in held.into_iter().map(JobId::from) {
        give_back(ctx, id, |hold, id| {
            let job = hold.job(id)?;
            let mine = job.claim.as_ref().is_some_and(|claim| claim.worker_id == worker);
            if mine && job.status == JobStatus::Running {
                match (job.cancel.clone(), job.on_lost) {
                    (Some(cancel), _) => hold.fail(id, Fault::Cancelled, &cancel.reason, None, None)?,
                    (None, OnLost::Fail) => {
                        hold.fail(id, Fault::InternalError, "Its worker left.", None, None)?;
                    }
                    (None, OnLost::Requeue) => {
                        hold.requeue(id)?;
                        // It went of its own accord: nobody was lost.
                        let job = hold.change(id)?;
                        job.attempt = job.attempt.saturating_sub(1);
                    }
                }
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn give_back<T>(ctx: &Ctx, id: JobId, what: impl FnOnce(&mut Hold, JobId) -> Outcome<T>) -> Outcome<T> {
    let (tx, mut hold) = Hold::begin(ctx, id).await?;
    let done = what(&mut hold, id)?;
    hold.conclude(ctx, tx).await?;
    Ok(done)
}
