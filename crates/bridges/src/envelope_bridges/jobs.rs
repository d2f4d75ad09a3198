//! Turns tasks into jobs (ARCP §7.1), and cancels jobs that are no longer needed. `answers.rs` reports the
//! results.
//!
//! A job is submitted under an idempotency key derived from the task. If the server dies before it records
//! the job, the next attempt submits it again and gets the same job.

use entente_aee::envelopes;
use entente_aee::envelopes::StoredEnvelope;
use entente_aee::mailboxes::Known;
use entente_aee::policy::snapshot;
use entente_aee::{exchanges, ingest, mailboxes};
use entente_arcp::jobs;
use entente_arcp::jobs::{Canceller, Origin};
use entente_domain::access::Level;
use entente_domain::aee::envelopes::EnvelopeType;
use entente_domain::aee::envelopes::drafts::failure;
use entente_domain::aee::envelopes::pairing::PairStatus;
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::ask::Submit;
use entente_domain::bridges::{self as domain, Jobs};
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::traces::Trace;
use entente_kernel::access::membership;
use entente_kernel::{AppError, Caller, Outcome};

use super::answers::{Answer, admitted, prepared, trace_id};
use super::finds::{self, Found};
use super::rows::{self, Carried, Source};
use super::run::{BridgeRun, STRETCH};

/// Creates jobs for the next page of tasks.
pub(super) async fn begin(run: &BridgeRun<'_>, bridge: &Jobs) -> Outcome<u64> {
    let mut conn = run.ctx.pool.acquire().await?;
    let from = run.kept.place;
    let found = finds::items(&mut conn, &bridge.entity, from, i64::from(STRETCH)).await?;
    let ids: Vec<&str> = found.iter().map(|one| one.envelope_id.as_str()).collect();
    let envelopes = envelopes::load_all(&mut conn, &ids).await?;
    let made = rows::of_bridges(&mut conn, &envelopes).await?;
    let waiting = exchanges::of(&mut conn, &ids).await?;
    drop(conn);
    let now = run.ctx.now();
    let waits = |id: &str| {
        waiting.iter().any(|pair| {
            pair.task_id == id && pair.respondent == bridge.entity && pair.status_at(now) == PairStatus::Open
        })
    };
    for one in &found {
        let envelope = envelopes.get(&one.envelope_id).filter(|envelope| {
            envelope.kind == EnvelopeType::Task
                && bridge.takes(&envelope.purpose)
                && !one.taken
                && !made.contains(&envelope.id)
                && waits(&envelope.id)
        });
        match envelope {
            Some(task) => begin_one(run, bridge, one, task).await?,
            None => rows::advance(&mut *run.ctx.pool.acquire().await?, run.kept, one.place).await?,
        }
    }
    Ok(found.len() as u64)
}

async fn begin_one(run: &BridgeRun<'_>, bridge: &Jobs, at: &Found, task: &StoredEnvelope) -> Outcome<()> {
    let intent_id = match intent(run, bridge, task).await {
        Err(AppError::Refused(refusal)) => return refuse(run, bridge, at, task, &refusal).await,
        found => found?,
    };
    let asked = Submit {
        agent: bridge.agent.clone(),
        input: Some(domain::input(bridge.input, &task.body)?),
        lease_request: bridge.lease.clone(),
        idempotency_key: Some(domain::key(&run.kept.name, &task.id)),
        max_runtime_sec: domain::runtime(task.receipt.received_at, task.receipt.deadline),
        intent_id,
        ..Submit::default()
    };
    let submitter = on_behalf(run, task);
    match run.job_writer.submit(&submitter, asked, Origin::Rest).await {
        Ok(submitted) => note(run, bridge, at, task, submitted.job.id).await,
        Err(AppError::Refused(refusal)) if passing(&refusal) => Err(AppError::Refused(refusal)),
        Err(AppError::Refused(refusal)) => refuse(run, bridge, at, task, &refusal).await,
        Err(failure) => Err(failure),
    }
}

/// Whether the same submission may succeed later.
fn passing(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::Unavailable | Code::RateLimited)
}

/// Returns the bridge's caller, with the trace of the task's thread.
fn on_behalf(run: &BridgeRun<'_>, task: &StoredEnvelope) -> Caller {
    run.caller.clone().traced(Trace::of_id(&trace_id(task), &*run.ctx.chance))
}

/// Returns the intent of a task's job: the one that the task names, or else the bridge's. The submission requires that
/// the bridge's caller may write to it.
///
/// The sender must be able to write to an intent that it names: otherwise everybody who may send a task would write to
/// each intent of the bridge's agent. A signature of the core does not cover the task's word, so it does not count
/// (AEE-W-9.3).
async fn intent(run: &BridgeRun<'_>, bridge: &Jobs, task: &StoredEnvelope) -> Outcome<Option<String>> {
    let named = domain::named_intent(&task.body).filter(|_| task.receipt.verified.scope.is_none());
    let Some(named) = named else { return Ok(bridge.intent_id.map(|id| id.to_string())) };
    // The submission refuses a text that is no id.
    if let Ok(id) = named.parse::<IntentId>() {
        let mut conn = run.ctx.pool.acquire().await?;
        membership::require(&mut conn, &task.sender, id, Level::Write, run.ctx.now()).await?;
    }
    Ok(Some(named))
}

/// Records the task's job, and takes the task out of the mailbox.
async fn note(
    run: &BridgeRun<'_>,
    bridge: &Jobs,
    at: &Found,
    task: &StoredEnvelope,
    job: JobId,
) -> Outcome<()> {
    let ctx = run.ctx;
    let mut tx = ctx.pool.begin().await?;
    let (target, now) = (job.to_string(), ctx.now());
    let (bridge_name, source) = (&run.kept.name, Source::Envelope(&task.id));
    let carried = Carried { bridge: bridge_name, source, target: &target, at: now, job: Some(job) };
    rows::carried(&mut tx, &carried).await?;
    mailboxes::take_out(&mut tx, &bridge.entity, at.place, now).await?;
    rows::advance(&mut tx, run.kept, at.place).await?;
    tx.commit().await?;
    Ok(())
}

/// Answers a task that cannot become a job with the reason.
async fn refuse(
    run: &BridgeRun<'_>,
    bridge: &Jobs,
    at: &Found,
    task: &StoredEnvelope,
    refusal: &Refusal,
) -> Outcome<()> {
    let ctx = run.ctx;
    let now = ctx.now();
    let payload = failure(Fault::from(refusal.code).wire(), &refusal.message, false);
    // Dated by the task's arrival, so that a retry writes the same envelope.
    let source = format!("{}/refused", task.id);
    let at_arrival = task.receipt.received_at;
    let answer = Answer { kind: EnvelopeType::Error, payload, source: &source, at: at_arrival, job: None };
    let answer = prepared(run, bridge, task, answer)?;
    let book = snapshot::latest(&ctx.aee).await?;
    let mut tx = ctx.pool.begin().await?;
    // Recorded under the task's id, so that the task is not turned into a job later.
    let answer = admitted(run, &book, Source::Envelope(&task.id), answer, &mut tx).await?;
    // Locks both mailboxes at once, in the global order: the answer's recipient, and this one.
    let own = [bridge.entity.as_str()];
    let mut known = Known::default();
    let put = ingest::put_beside(&ctx.aee, &mut tx, &mut known, answer.as_slice(), &own, now).await?;
    mailboxes::take_out(&mut tx, &bridge.entity, at.place, now).await?;
    rows::advance(&mut tx, run.kept, at.place).await?;
    tx.commit().await?;
    put.announce(&ctx.aee);
    Ok(())
}

/// Cancels jobs whose tasks expired or were answered by somebody else.
pub(super) async fn call_off(run: &BridgeRun<'_>, bridge: &Jobs) -> Outcome<u64> {
    let (ctx, caller) = (run.ctx, &run.caller);
    let mut conn = ctx.pool.acquire().await?;
    let now = ctx.now();
    let stale = rows::stale(&mut conn, &run.kept.name, &bridge.entity, now, i64::from(STRETCH)).await?;
    drop(conn);
    for one in &stale {
        let job = jobs::describe(&ctx.arcp, caller, one.job_id).await?.job;
        let reason = Some(format!("Nobody waits any more for the task `{}`.", one.source));
        let by =
            if caller.has(Scope::Admin) { Canceller::Operator } else { Canceller::Session(job.session_id) };
        match jobs::cancel(&ctx.arcp, caller, job.id, by, reason, None).await {
            Ok(_) => {}
            // The job just ended, or this bridge may no longer cancel it: either way there is nothing to
            // report.
            Err(AppError::Refused(_)) => {
                let mut conn = ctx.pool.acquire().await?;
                rows::tell(&mut conn, &run.kept.name, &one.source, one.told, false).await?;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(stale.len() as u64)
}
