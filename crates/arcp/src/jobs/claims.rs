//! Claims: workers take jobs and give them back (ARCP-W-11.2.3); `beats.rs` extends claims. `claims/queue.rs` has the order. One worker holds
//! a job at a time; the claim token fences off earlier holders.

pub(super) mod gates;
pub(super) mod keys;
pub(super) mod queue;
pub(super) mod tokens;
pub(super) mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::limits::Gate;
use entente_domain::arcp::jobs::wire::Credential;
use entente_domain::arcp::jobs::{JobStatus, OnLost};
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, JobId, ResultId, WorkerId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::subjects::{SubjectKind, unversioned};
use entente_kernel::log::writer::IntentLog;
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{AppError, Caller, Outcome, lock_key};
use futures_util::future::select_all;
use serde_json::json;
use sqlx::PgConnection;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use self::keys::{ClaimKey, TokenSource};
use self::queue::{Chosen, Taken, With};
use self::tokens::token_digest;
use super::locked::{JobChange, LockedJobs};
use super::reading::conceal;
use super::records::signals::{self, Signal};
use super::{budgets, writes};
use crate::Ctx;
use crate::credentials;
use crate::workers;
use crate::workers::{Directive, Worker};

/// Maximum number of jobs in one claim request: each may have an input of 768 KiB.
const CLAIMS: i64 = 100;
/// Maximum number of looks at the queue of one claim: each passes over the jobs behind gates that the one before found
/// closed.
pub(super) const ROUNDS: usize = 32;
/// Maximum number of jobs that one claim parks because their concurrency key is full.
const PARKED: i64 = 5_000;

/// A job claimed by a worker.
#[derive(Debug)]
pub struct Claimed {
    /// The job.
    pub job_id: JobId,
    /// Agent that runs the job.
    pub agent: String,
    /// Input as submitted.
    pub input: Option<String>,
    /// Authority of the job, as JSON.
    pub lease: String,
    /// Expiry of that authority.
    pub expires_at: Option<Timestamp>,
    /// Remaining budget.
    pub budget: Option<Budget>,
    /// Provisioned credentials.
    pub credentials: Vec<Credential>,
    /// Trace id.
    pub trace_id: String,
    /// Parent job.
    pub parent_id: Option<JobId>,
    /// Name of the delegation.
    pub delegate_id: Option<String>,
    /// Intent of the job.
    pub intent_id: Option<IntentId>,
    /// Principal that submitted the job.
    pub principal: String,
    /// Attempt number, starting at 1.
    pub attempt: u32,
    /// Progress that an earlier attempt stored, as JSON.
    pub checkpoint: Option<String>,
    /// Time at which the job times out.
    pub deadline: Option<Timestamp>,
    /// Token that every report must carry.
    pub claim_token: String,
    /// Expiry of the claim, unless a heartbeat extends it.
    pub claim_expires_at: Timestamp,
    /// Name under which the result can be streamed.
    pub result_id: ResultId,
    /// Signals that no worker has acknowledged, as many as fit into the answer.
    pub signals: Vec<Signal>,
}

/// Request to claim jobs.
#[derive(Debug, Clone)]
pub struct ClaimAsk {
    /// Claiming worker.
    pub worker_id: WorkerId,
    /// Agents to claim for; defaults to all of the worker's.
    pub agents: Option<Vec<String>>,
    /// Maximum number of jobs.
    pub max: i64,
    /// How long to wait for a job.
    pub wait: Duration,
    /// Key under which the claim may be repeated.
    pub key: Option<ClaimKey>,
}

/// Claims pending jobs in the order of their turns (`claims/queue.rs`).
///
/// If there is none, waits until one comes, the time is up, the server is `stopping` or the client
/// disconnects. A claim with the key of an earlier one returns the jobs of that one which the worker still holds.
///
/// # Errors
/// The caller has no such worker; the worker is not registered for a named agent.
pub async fn claim(
    ctx: &Ctx,
    caller: &Caller,
    ask: &ClaimAsk,
    stopping: &CancellationToken,
) -> Outcome<Vec<Claimed>> {
    let worker = claimant(&mut *ctx.pool.acquire().await?, caller, ask).await?;
    if let Some(earlier) = repeated(ctx, worker.id, ask.key.as_ref()).await? {
        return Ok(earlier);
    }
    if worker.directive != Directive::Run {
        return Ok(Vec::new());
    }
    let mut source = TokenSource::new(ctx, worker.id, ask.key.as_ref());
    let agents = ask.agents_of(&worker);
    let until = Instant::now() + ask.wait;
    // The notification that woke this request, by agent: its job may still be pending afterwards.
    let mut woken_by: Option<&str> = None;
    loop {
        // Register for notifications before looking, so that none is missed in between.
        let queues: Vec<_> = agents.iter().map(|agent| ctx.feed.wakeups().queue(agent)).collect();
        let heard = select_all(queues.iter().map(|queue| Box::pin(queue.notified())));
        ctx.stops.objection(caller, &caller.agent, None).map_or(Ok(()), Err)?;
        let running = unstopped(ctx, &agents);
        let Some((taken, cut)) = take(ctx, &mut source, &running, ask.max).await? else {
            // Another request with this key was faster.
            return Ok(repeated(ctx, worker.id, ask.key.as_ref()).await?.unwrap_or_default());
        };
        if !taken.is_empty() || ask.wait.is_zero() {
            if cut {
                pass_on(ctx, &taken, woken_by);
            }
            return Ok(taken);
        }
        tokio::select! {
            biased;
            // A waiting client asks again and another server answers; a disconnected one claims nothing. A
            // concurrent notification goes to the next waiter.
            () = stopping.cancelled() => return Ok(taken),
            heard = timeout_at(until, heard) => match heard {
                Ok(((), index, _others)) => woken_by = agents.get(index).map(String::as_str),
                Err(_nothing_came) => return Ok(taken),
            },
        }
        caller.require_key(ctx.now())?;
        // The worker may have left meanwhile, or been told to claim nothing more.
        let mut conn = ctx.pool.acquire().await?;
        if workers::mine(&mut conn, caller, ask.worker_id).await?.directive != Directive::Run {
            agents.iter().for_each(|agent| ctx.feed.wakeups().ring(&WakeKey::Work(agent.clone())));
            return Ok(Vec::new());
        }
    }
}

impl ClaimAsk {
    /// Agents to claim for, each once.
    pub(super) fn agents_of(&self, worker: &Worker) -> Vec<String> {
        let mut agents = self.agents.clone().unwrap_or_else(|| worker.agents.clone());
        agents.sort_unstable();
        agents.dedup();
        agents
    }
}

/// Returns the caller's worker, if it may claim this.
pub(super) async fn claimant(conn: &mut PgConnection, caller: &Caller, ask: &ClaimAsk) -> Outcome<Worker> {
    let worker = workers::mine(conn, caller, ask.worker_id).await?;
    if !(1..=CLAIMS).contains(&ask.max) {
        let message = format!("`max` must be a number from 1 to {CLAIMS}.");
        return Err(Refusal::field(Code::InvalidRequest, "max", "range", message).into());
    }
    if let Some(foreign) = ask.agents.iter().flatten().find(|agent| !worker.agents.contains(agent)) {
        let message =
            format!("The worker was not registered for `{foreign}`. Register it again with that agent.");
        return Err(Refusal::new(Code::PermissionDenied, message).into());
    }
    Ok(worker)
}

/// Those of these agents that are not stopped.
pub(super) fn unstopped(ctx: &Ctx, agents: &[String]) -> Vec<String> {
    let stops = ctx.stops.current();
    let stopped = stops.names(SubjectKind::Agent);
    agents.iter().filter(|agent| !stopped.iter().any(|name| name == unversioned(agent))).cloned().collect()
}

/// Those whose jobs wait because of a stop. Jobs of stopped keys, and of keys that act as others, wait only once the sweep has
/// seen them.
pub(super) fn stopped_submitters(ctx: &Ctx) -> Vec<String> {
    let stops = ctx.stops.current();
    [SubjectKind::Principal, SubjectKind::Agent].into_iter().flat_map(|kind| stops.names(kind)).collect()
}

/// Leaves out the jobs of stopped intents.
pub(super) fn of_unstopped_intents(ctx: &Ctx, chosen: &mut Vec<Chosen>) {
    let stops = ctx.stops.current();
    if !stops.is_empty() {
        let stopped = stops.names(SubjectKind::Intent);
        chosen.retain(|one| one.intent_id.is_none_or(|id| !stopped.contains(&id.to_string())));
    }
}

/// Passes a notification on: it wakes one waiter, which may have taken only a part of the pending jobs.
fn pass_on(ctx: &Ctx, taken: &[Claimed], woken_by: Option<&str>) {
    let agents: BTreeSet<&str> = taken.iter().map(|job| job.agent.as_str()).chain(woken_by).collect();
    agents.into_iter().for_each(|agent| ctx.feed.wakeups().ring(&WakeKey::Work(agent.to_owned())));
}

/// Claims the jobs whose turn it is; the flag says whether it stopped early, so that more may be pending. `None` if another
/// request with the claim's key took jobs.
async fn take(
    ctx: &Ctx,
    source: &mut TokenSource<'_>,
    agents: &[String],
    max: i64,
) -> Outcome<Option<(Vec<Claimed>, bool)>> {
    let (mut agents, mut without) = (agents.to_vec(), stopped_submitters(ctx));
    let (mut taken, mut cut) = (Vec::new(), false);
    for _ in 0..ROUNDS {
        let left = max - i64::try_from(taken.len()).unwrap_or(max);
        let (more, mut chosen, full) = match take_queued(ctx, source, &agents, &without, left).await {
            Ok(Some(found)) => found,
            Ok(None) if taken.is_empty() => return Ok(None),
            Ok(None) => break,
            Err(failure) if taken.is_empty() => return Err(failure),
            // The claimed jobs belong to the worker; the rest wait for the next request.
            Err(failure) => {
                tracing::warn!(error = %failure, "no more jobs could be claimed");
                cut = true;
                break;
            }
        };
        of_unstopped_intents(ctx, &mut chosen);
        taken.extend(more);
        cut = full;
        if chosen.is_empty() {
            break;
        }
        match take_under_locks(ctx, source, &chosen).await {
            Ok(Some((more, closed))) => {
                taken.extend(more);
                if closed.is_empty() || i64::try_from(taken.len()).unwrap_or(max) >= max {
                    break;
                }
                pass_over(closed, &mut agents, &mut without);
                if agents.is_empty() {
                    break;
                }
            }
            Ok(None) if taken.is_empty() => return Ok(None),
            Ok(None) => break,
            Err(failure) if taken.is_empty() => return Err(failure),
            // The claimed jobs belong to the worker; the rest wait for the next request.
            Err(failure) => {
                tracing::warn!(error = %failure, "jobs of intents or with limits could not be claimed");
                cut = true;
                break;
            }
        }
    }
    for job in &taken {
        ctx.feed.wake(WakeKey::Job(job.job_id));
    }
    Ok(Some((taken, cut)))
}

/// Leaves out the agents and principals behind closed gates, to make room for others.
pub(super) fn pass_over(closed: BTreeSet<Gate>, agents: &mut Vec<String>, without: &mut Vec<String>) {
    for gate in closed {
        match gate {
            Gate::Agent(name) => agents.retain(|agent| gates::name_of(agent) != name),
            Gate::Principal(name) => without.push(name),
            Gate::Key(..) => {}
        }
    }
}

/// Claims jobs that need no locks, and returns the others whose turn it is, too: those of intents, and those that a limit
/// counts. Claims nothing if details cannot be loaded.
async fn take_queued(
    ctx: &Ctx,
    source: &mut TokenSource<'_>,
    agents: &[String],
    without: &[String],
    max: i64,
) -> Outcome<Option<(Vec<Claimed>, Vec<Chosen>, bool)>> {
    let mut tx = ctx.pool.begin().await?;
    let found = queued_within(ctx, &mut tx, source, agents, without, max).await?;
    match &found {
        None => tx.rollback().await?,
        // Nothing is locked, so nobody waits for the end of the transaction.
        Some((claimed, chosen, _)) if claimed.is_empty() && chosen.is_empty() => {}
        Some(_) => tx.commit().await?,
    }
    Ok(found)
}

/// As [`take_queued`], in a transaction that the caller commits.
pub(super) async fn queued_within(
    ctx: &Ctx,
    conn: &mut PgConnection,
    source: &mut TokenSource<'_>,
    agents: &[String],
    without: &[String],
    max: i64,
) -> Outcome<Option<(Vec<Claimed>, Vec<Chosen>, bool)>> {
    let (now, tokens) = (ctx.now(), source.tokens(ctx, max));
    let until = now + ctx.state.jobs.claim;
    let with = With { worker: source.worker(), tokens: &tokens, from: now, until };
    let queued = queue::take(ctx, conn, agents, without, &with).await?;
    if queued.count() == 0 {
        return Ok(Some((Vec::new(), Vec::new(), false)));
    }
    let cut = i64::try_from(queued.count()).unwrap_or(max) >= max;
    if !source.note(conn, &queued.taken, now).await? {
        return Ok(None);
    }
    let claimed = dress(ctx, conn, queued.taken, until).await?;
    Ok(Some((claimed, queued.chosen, cut)))
}

/// Returns the jobs of a worker's earlier claim with this key, those that it still holds; `None` if there was none. The
/// question is a sign of life, which extends the claims.
pub(super) async fn repeated(
    ctx: &Ctx,
    worker: WorkerId,
    key: Option<&ClaimKey>,
) -> Outcome<Option<Vec<Claimed>>> {
    let Some(key) = key else { return Ok(None) };
    // In a statement of its own: a claim may hold one of these jobs and wait for the row of the key.
    let Some(mut earlier) = keys::repeat(&ctx.pool, worker, key).await? else { return Ok(None) };
    let mut tx = ctx.pool.begin().await?;
    let now = ctx.now();
    let until = now + ctx.state.jobs.claim;
    let (mut held, mut claims) = (Vec::new(), Vec::new());
    for (taken, digest) in queue::held(&mut tx, worker, &earlier.jobs, now).await? {
        if let Some(token) = earlier.tokens.remove(&digest) {
            claims.push((taken.job_id, digest));
            held.push(Taken { token, ..taken });
        }
    }
    writes::extend(&mut tx, &claims, until, now).await?;
    let claimed = dress(ctx, &mut tx, held, until).await?;
    tx.commit().await?;
    Ok(Some(claimed))
}

/// Loads the details that a worker needs of its claimed jobs.
async fn dress(
    ctx: &Ctx,
    conn: &mut PgConnection,
    taken: Vec<Taken>,
    until: Timestamp,
) -> Outcome<Vec<Claimed>> {
    let counted: Vec<JobId> =
        taken.iter().filter(|row| !row.payers.is_empty()).map(|row| row.job_id).collect();
    let mut budgets = budgets::load(conn, &counted).await?;
    let ids: Vec<JobId> = taken.iter().map(|row| row.job_id).collect();
    let mut credentials = credentials::of_jobs(conn, &ids).await?;
    let signalled: Vec<(JobId, i64)> =
        taken.iter().filter(|row| row.signals).map(|row| (row.job_id, row.signals_acked)).collect();
    let mut signals = signals::waiting(conn, &signalled).await?;
    let claimed = taken.into_iter().map(|row| Claimed {
        job_id: row.job_id,
        agent: row.agent,
        input: row.input,
        lease: row.lease,
        expires_at: row.expires_at,
        budget: budgets.remove(&row.job_id),
        credentials: credentials.remove(&row.job_id).unwrap_or_default(),
        trace_id: row.trace_id,
        parent_id: row.parent_id,
        delegate_id: row.delegate_id,
        intent_id: row.intent_id,
        principal: row.principal,
        attempt: row.attempt,
        checkpoint: row.checkpoint,
        deadline: row.deadline,
        claim_token: row.token,
        claim_expires_at: until,
        result_id: ResultId::mint(ctx.now(), &*ctx.chance),
        signals: signals.remove(&row.job_id).unwrap_or_default(),
    });
    Ok(claimed.collect())
}

/// Claims jobs under the locks of their intents, because the logs record each claim, and of the gates that count them.
/// Returns the gates that were closed to some. `None` if another request with the claim's key took jobs.
async fn take_under_locks(
    ctx: &Ctx,
    source: &mut TokenSource<'_>,
    chosen: &[Chosen],
) -> Outcome<Option<(Vec<Claimed>, BTreeSet<Gate>)>> {
    let mut tx = ctx.begin_locked(chosen.iter().flat_map(locks_of).collect()).await?;
    let Some(taken) = chosen_within(ctx, &mut tx, source, chosen).await? else {
        tx.rollback().await?;
        return Ok(None);
    };
    tx.commit().await?;
    taken.logs.iter().for_each(|log| ctx.feed.publish_log(log));
    Ok(Some((taken.claimed, taken.closed)))
}

/// Locks under which a chosen job is claimed: of its intent and of its gates.
pub(super) fn locks_of(chosen: &Chosen) -> Vec<i64> {
    let gates = gates::gates_of(chosen).into_iter().map(|gate| gates::lock_of(&gate));
    chosen.intent_id.map(lock_key).into_iter().chain(gates).collect()
}

/// Jobs claimed under locks.
pub(super) struct TakenUnderLocks {
    pub claimed: Vec<Claimed>,
    /// Gates that were closed to some.
    pub closed: BTreeSet<Gate>,
    /// Logs of the intents, to be published after the commit.
    pub logs: Vec<IntentLog>,
}

/// As [`take_under_locks`], in a transaction that holds the locks and that the caller commits.
pub(super) async fn chosen_within(
    ctx: &Ctx,
    conn: &mut PgConnection,
    source: &mut TokenSource<'_>,
    chosen: &[Chosen],
) -> Outcome<Option<TakenUnderLocks>> {
    let tokens = source.tokens(ctx, i64::try_from(chosen.len()).unwrap_or(CLAIMS));
    let now = ctx.now();
    let until = now + ctx.state.jobs.claim;
    let judged = gates::judge(conn, chosen, now).await?;
    let with = With { worker: source.worker(), tokens: &tokens, from: now, until };
    let rows = queue::take_these(conn, &judged.admitted, &judged.counted(), &with).await?;
    if !source.note(conn, &rows, now).await? {
        return Ok(None);
    }
    gates::fill(conn, &judged, &rows, now).await?;
    let full = |gate: &Gate| matches!(gate, Gate::Key(..)).then(|| gate.to_string());
    let full: Vec<String> = judged.closed.iter().filter_map(full).collect();
    if !full.is_empty() {
        writes::park(conn, &full, PARKED).await?;
    }
    let logs = record(ctx, conn, &rows).await?.into_values().collect();
    let claimed = dress(ctx, conn, rows, until).await?;
    Ok(Some(TakenUnderLocks { claimed, closed: judged.closed, logs }))
}

/// Records claims in the logs of the jobs' intents, which are locked.
async fn record(
    ctx: &Ctx,
    conn: &mut PgConnection,
    rows: &[Taken],
) -> Outcome<BTreeMap<IntentId, IntentLog>> {
    let mut logs: BTreeMap<IntentId, IntentLog> = BTreeMap::new();
    for row in rows {
        let Some(intent) = row.intent_id else { continue };
        if let std::collections::btree_map::Entry::Vacant(place) = logs.entry(intent) {
            place.insert(IntentLog::open(conn, intent, None, ctx.now()).await?);
        }
        let payload = json!({
            "job_id": row.job_id, "agent": row.agent, "principal": row.principal,
            "status": JobStatus::Running, "attempt": row.attempt,
        });
        let actor = gates::name_of(&row.agent);
        let draft =
            Draft { trace_id: Some(row.trace_id.clone()), ..Draft::of(Kind::JobRunning, actor, payload) };
        if let Some(log) = logs.get_mut(&intent) {
            log.record(ctx, draft);
        }
    }
    for log in logs.values() {
        log.save(conn).await?;
    }
    Ok(logs)
}

/// Gives a job back for other workers to claim at once, or ends it if it was cancelled. A job that must not run twice
/// (`on_lost`) ends, too: its worker may have begun.
///
/// Its reservations are put back.
///
/// # Errors
/// The claim is lost.
pub async fn release(ctx: &Ctx, caller: &Caller, id: JobId, token: &str) -> Outcome<JobStatus> {
    caller.require(Scope::JobsWork)?;
    let done = release_held(ctx, id, token, true).await;
    conceal(ctx, caller, id, done).await
}

async fn release_held(ctx: &Ctx, id: JobId, token: &str, has_begun: bool) -> Outcome<JobStatus> {
    give_back(ctx, id, |change| {
        change.job().hold(&token_digest(token), change.now())?;
        match (change.job().cancel.clone(), change.job().on_lost) {
            (Some(cancel), _) => change.fail(Fault::Cancelled, &cancel.reason, None, None)?,
            (None, OnLost::Fail) if has_begun => {
                change.fail(Fault::InternalError, "Its worker gave it back.", None, None)?;
            }
            (None, _) => change.hand_back(),
        }
        Ok(change.job().status)
    })
    .await
}

/// Gives back jobs after their worker disconnected during the claim; this counts as no attempt.
///
/// A job that cannot be given back becomes available when its claim expires. A claim that the worker has repeated meanwhile
/// was heard after all.
pub async fn return_unheard(ctx: &Ctx, ask: &ClaimAsk, claimed: &[Claimed]) {
    if let Some(key) = &ask.key {
        match keys::forget(&ctx.pool, ask.worker_id, key).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(failure) => {
                tracing::warn!(error = %failure, "the jobs of an unheard claim stay with their worker until they expire");
                return;
            }
        }
    }
    for job in claimed {
        match release_held(ctx, job.job_id, &job.claim_token, false).await {
            Ok(_status) => tracing::info!(job = %job.job_id, "a job came back: its worker had hung up"),
            Err(failure) => {
                tracing::warn!(job = %job.job_id, error = %failure, "a job could not be taken back from a worker that hung up");
            }
        }
    }
}

/// Removes a worker; its jobs are requeued, or ended if cancelled or if their `on_lost` policy says so.
///
/// # Errors
/// The caller has no such worker.
pub async fn leave(ctx: &Ctx, caller: &Caller, worker: WorkerId) -> Outcome<()> {
    let mut conn = ctx.pool.writing().await?;
    workers::mine(&mut conn, caller, worker).await?;
    // Remove the worker first, so that a concurrent claim takes nothing more in its name.
    workers::forget(&mut conn, worker).await?;
    let held = sqlx::query_scalar!(
        "-- job_clock::of_worker
         SELECT job_id FROM job_clock WHERE due_at IS NOT NULL AND worker_id = $1 AND status = 'running' ORDER BY job_id",
        worker.uuid()
    )
    .fetch_all(&mut *conn)
    .await?;
    conn.done().await?;
    for id in held.into_iter().map(JobId::from) {
        give_back(ctx, id, |change| {
            let job = change.job();
            let mine = job.claim.as_ref().is_some_and(|claim| claim.worker_id == worker);
            if mine && job.status == JobStatus::Running {
                match (job.cancel.clone(), job.on_lost) {
                    (Some(cancel), _) => change.fail(Fault::Cancelled, &cancel.reason, None, None)?,
                    (None, OnLost::Fail) => {
                        change.fail(Fault::InternalError, "Its worker left.", None, None)?;
                    }
                    (None, OnLost::Requeue) => change.hand_back(),
                }
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn give_back<T>(ctx: &Ctx, id: JobId, judge: impl FnOnce(&mut JobChange) -> Outcome<T>) -> Outcome<T> {
    let (tx, mut locked) = LockedJobs::begin(ctx, id).await?;
    let change = locked.change(id).map_err(AppError::from);
    match change.and_then(|mut change| Ok((judge(&mut change)?, change))) {
        Ok((done, change)) => {
            locked.apply(change);
            locked.conclude(ctx, tx).await?;
            Ok(done)
        }
        Err(refusal) => {
            // A dropped transaction ends some time after the answer, and claims skip locked jobs: the claim that
            // follows this answer would miss a waiting job.
            tx.rollback().await?;
            Err(refusal)
        }
    }
}
