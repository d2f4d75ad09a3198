//! Claims: workers take jobs, keep them, and give them back (contract 11.2). A job goes to one worker at a time; its token
//! fences off whoever had it before.

use std::collections::BTreeMap;
use std::time::Duration;

use entente_core::budgets::Budget;
use entente_core::clock::Timestamp;
use entente_core::events::{Draft, Kind};
use entente_core::faults::Fault;
use entente_core::ids::{IntentId, JobId, ResultId, WorkerId};
use entente_core::jobs::JobStatus;
use entente_core::jobs::wire::Credential;
use entente_core::refusal::{Code, Refusal};
use futures_util::future::select_all;
use serde_json::json;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::hold::Hold;
use super::reading::conceal;
use super::reports::token_digest;
use super::writes::{self, Taken, Tokens};
use super::{budgets, rows};
use crate::app::lines::Line;
use crate::app::workers::{self, Directive};
use crate::app::{Caller, Ctx, Outcome, credentials, lock_key};
use crate::feed::Touch;

/// Jobs that are claimed in one request at the most.
pub const CLAIMS: i64 = 1_000;

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

/// Takes jobs that wait, the oldest first; waits for one when there is none.
///
/// # Errors
/// There is no such worker of the caller's; it names agents that are not its.
pub async fn claim(ctx: &Ctx, caller: &Caller, ask: ClaimAsk) -> Outcome<Vec<Claimed>> {
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
    let agents = ask.agents.unwrap_or(worker.agents);
    let until = Instant::now() + ask.wait;
    loop {
        // First the ear, then the look: what comes in between is heard.
        let queues: Vec<_> = agents.iter().map(|agent| ctx.feed.bells().queue(agent)).collect();
        let heard = select_all(queues.iter().map(|queue| Box::pin(queue.notified())));
        let taken = take(ctx, worker.id, &agents, ask.max).await?;
        if !taken.is_empty() || ask.wait.is_zero() || timeout_at(until, heard).await.is_err() {
            return Ok(taken);
        }
        caller.require_key(ctx.now())?;
        // It may have left meanwhile, or been told to claim nothing more.
        let mut conn = ctx.pool.acquire().await?;
        if workers::mine(&mut conn, caller, ask.worker_id).await?.directive != Directive::Run {
            return Ok(Vec::new());
        }
    }
}

async fn take(ctx: &Ctx, worker: WorkerId, agents: &[String], max: i64) -> Outcome<Vec<Claimed>> {
    let mut conn = ctx.pool.acquire().await?;
    let now = ctx.now();
    let tokens = Tokens::mint(ctx, max);
    let until = now + ctx.settings.jobs.claim;
    let mut taken = writes::take(&mut conn, worker, agents, max, &tokens, until).await?;
    let left = max - i64::try_from(taken.len()).unwrap_or(max);
    if left > 0 {
        // Those that work for an intent are taken under its lock, for its log tells of them.
        let waiting = rows::waiting_for_intents(&mut conn, agents, left).await?;
        if !waiting.is_empty() {
            drop(conn);
            let tokens = Tokens::mint(ctx, left);
            let more = take_with_intents(ctx, worker, &waiting, &tokens, until).await?;
            taken.extend(more);
            conn = ctx.pool.acquire().await?;
        }
    }
    let counted: Vec<JobId> =
        taken.iter().filter(|row| !row.payers.is_empty()).map(|row| row.job_id.into()).collect();
    let mut budgets = budgets::load(&mut conn, &counted).await?;
    let ids: Vec<JobId> = taken.iter().map(|row| row.job_id.into()).collect();
    let mut credentials = credentials::of_jobs(&mut conn, &ids).await?;
    for row in &taken {
        ctx.feed.ring(Touch::Job(row.job_id.into()));
    }
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
            result_id: ResultId::mint(now, &*ctx.chance),
        })
    });
    claimed.collect()
}

async fn take_with_intents(
    ctx: &Ctx,
    worker: WorkerId,
    waiting: &[(JobId, IntentId)],
    tokens: &Tokens,
    until: Timestamp,
) -> Outcome<Vec<Taken>> {
    let mut intents: Vec<IntentId> = waiting.iter().map(|(_, intent)| *intent).collect();
    intents.sort_unstable();
    intents.dedup();
    let ids: Vec<Uuid> = waiting.iter().map(|(id, _)| id.uuid()).collect();
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
    tx.commit().await?;
    lines.keys().for_each(|intent| ctx.feed.news(*intent));
    Ok(rows)
}

/// What a worker is told with its heartbeat.
#[derive(Debug)]
pub struct Beat {
    /// To go on, or not.
    pub directive: Directive,
    /// Which of its jobs it is to stop.
    pub cancel: Vec<JobId>,
    /// Which of them it has lost: to be dropped without a word.
    pub lost: Vec<JobId>,
    /// Until when it holds the others.
    pub claim_expires_at: Timestamp,
}

/// Keeps a worker's claims. With `wait` the answer comes as soon as one of its jobs is to stop or is lost, at the latest then.
///
/// # Errors
/// There is no such worker of the caller's.
pub async fn beat(
    ctx: &Ctx,
    caller: &Caller,
    worker: WorkerId,
    state: Option<&str>,
    held: &[(JobId, String)],
    wait: Duration,
) -> Outcome<Beat> {
    caller.require(entente_core::keys::Scope::JobsWork)?;
    let until = Instant::now() + wait;
    let mut listener = ctx.feed.bells().listener();
    held.iter().for_each(|(id, _)| listener.add(Touch::Stop(*id)));
    loop {
        let beat = beat_once(ctx, caller, worker, state, held).await?;
        let news = !beat.cancel.is_empty() || !beat.lost.is_empty() || beat.directive != Directive::Run;
        if news || wait.is_zero() || timeout_at(until, listener.rung()).await.is_err() {
            return Ok(beat);
        }
        caller.require_key(ctx.now())?;
    }
}

async fn beat_once(
    ctx: &Ctx,
    caller: &Caller,
    worker: WorkerId,
    state: Option<&str>,
    held: &[(JobId, String)],
) -> Outcome<Beat> {
    let mut conn = ctx.pool.acquire().await?;
    let now = ctx.now();
    let directive = workers::seen(&mut conn, caller, worker, state, now).await?;
    let until = now + ctx.settings.jobs.claim;
    let kept =
        if held.is_empty() { BTreeMap::new() } else { writes::extend(&mut conn, held, until, now).await? };
    Ok(Beat {
        directive,
        cancel: kept.iter().filter(|(_, cancel)| **cancel).map(|(id, _)| *id).collect(),
        lost: held.iter().map(|(id, _)| *id).filter(|id| !kept.contains_key(id)).collect(),
        claim_expires_at: until,
    })
}

/// Gives a job back: another worker may take it, at once. What was set aside of its budget comes back with it.
///
/// # Errors
/// The claim is lost.
pub async fn release(ctx: &Ctx, caller: &Caller, id: JobId, token: &str) -> Outcome<JobStatus> {
    caller.require(entente_core::keys::Scope::JobsWork)?;
    let done = release_held(ctx, id, token).await;
    conceal(ctx, caller, id, done).await
}

async fn release_held(ctx: &Ctx, id: JobId, token: &str) -> Outcome<JobStatus> {
    give_back(ctx, &[id], |hold, id| {
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

/// A worker leaves: what it still holds goes to others, and it is forgotten.
///
/// # Errors
/// There is no such worker of the caller's.
pub async fn leave(ctx: &Ctx, caller: &Caller, worker: WorkerId) -> Outcome<()> {
    let mut conn = ctx.pool.acquire().await?;
    workers::mine(&mut conn, caller, worker).await?;
    let held = sqlx::query_scalar!(
        "-- job_clock::of_worker
         SELECT job_id FROM job_clock WHERE due_at IS NOT NULL AND worker_id = $1 AND status = 'running' ORDER BY job_id",
        worker.uuid()
    )
    .fetch_all(&mut *conn)
    .await?;
    drop(conn);
    for id in held.into_iter().map(JobId::from) {
        give_back(ctx, &[id], |hold, id| {
            let job = hold.job(id)?;
            let mine = job.claim.as_ref().is_some_and(|claim| claim.worker_id == worker);
            if mine && job.status == JobStatus::Running {
                match job.cancel.clone() {
                    Some(cancel) => hold.fail(id, Fault::Cancelled, &cancel.reason, None, None)?,
                    None => hold.requeue(id)?,
                }
            }
            Ok(())
        })
        .await?;
    }
    let mut conn = ctx.pool.acquire().await?;
    workers::forget(&mut conn, worker).await
}

async fn give_back<T>(
    ctx: &Ctx,
    ids: &[JobId],
    what: impl FnOnce(&mut Hold, JobId) -> Outcome<T>,
) -> Outcome<T> {
    let mut conn = ctx.pool.acquire().await?;
    let intents = rows::intents(&mut conn, ids).await?;
    drop(conn);
    let mut tx = ctx.begin_locked(intents.iter().copied().map(lock_key).collect()).await?;
    let mut hold = Hold::take(&mut tx, ids, &intents, ctx.now()).await?;
    let done = match ids.first() {
        Some(id) => what(&mut hold, *id)?,
        None => return Err(super::hold::over().into()),
    };
    hold.save(ctx, &mut tx).await?;
    tx.commit().await?;
    hold.announce(ctx);
    Ok(done)
}
