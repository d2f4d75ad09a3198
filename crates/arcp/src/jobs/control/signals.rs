//! Signals to jobs that are not over (beyond ARCP): sent by their submitter or an operator, delivered in order to the worker that
//! holds the job, and to the next one until a worker acknowledges them.

use std::time::Duration;

use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::jobs::ask::no_job;
use entente_domain::arcp::jobs::signals::{AT_ONCE, SignalAsk, UNACKNOWLEDGED};
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::JobId;
use entente_domain::limits::PAGE;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{Caller, Outcome};
use sqlx::PgConnection;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::Ctx;
use crate::jobs::claim_tokens::token_digest;
use crate::jobs::locked::over;
use crate::jobs::reading::{conceal, observable, visible};
use crate::jobs::records::signals::{self, Signal};
use crate::jobs::{rows, writes};

/// Seconds after which a sender may try again, while too many signals wait.
const TRY_AGAIN_SECONDS: u32 = 5;

/// Signals for the worker of a job.
#[derive(Debug)]
pub struct Delivered {
    /// The signals, in order.
    pub signals: Vec<Signal>,
    /// Number of the last acknowledged signal.
    pub acked: i64,
    /// Time by which the job has to stop, if it was cancelled.
    pub cancel_due_at: Option<Timestamp>,
}

/// Sends a signal to a job that waits or runs.
///
/// # Errors
/// There is no such job; it is over; too many of its signals are not acknowledged; the key was used for another signal.
pub async fn send(ctx: &Ctx, caller: &Caller, id: JobId, ask: SignalAsk) -> Outcome<Signal> {
    caller.require(Scope::JobsWrite)?;
    ask.check()?;
    let mut tx = ctx.begin(&[]).await?;
    let job = locked(&mut tx, id).await?.filter(|job| observable(ctx, caller, job)).ok_or_else(no_job)?;
    // A signal is input: it has work done, like a message.
    ctx.stops.objection(caller, &caller.agent, job.intent_id).map_or(Ok(()), Err)?;
    if job.principal != caller.agent && !caller.has(Scope::Admin) {
        let message = "Only the submitter of a job or an operator sends it signals.";
        return Err(Refusal::new(Code::PermissionDenied, message).into());
    }
    let payload = ask.payload.map(|payload| payload.get().to_owned());
    if let Some(key) = &ask.key
        && let Some(before) = signals::by_key(&mut tx, id, &caller.agent, key).await?
    {
        if before.name == ask.name && before.payload == payload {
            return Ok(before);
        }
        let message = "This `key` was used for another signal of the job. Use a new key for a new signal.";
        return Err(Refusal::new(Code::IdempotencyMismatch, message).into());
    }
    if job.status.is_terminal() {
        return Err(over().into());
    }
    let marks = signals::marks(&mut tx, id).await?;
    if marks.sent - marks.acked >= UNACKNOWLEDGED {
        let message = format!(
            "{UNACKNOWLEDGED} signals of the job wait for its worker. Send more when it has taken some."
        );
        let mut refusal = Refusal::new(Code::RateLimited, message);
        refusal.retry_after_seconds = Some(TRY_AGAIN_SECONDS);
        return Err(refusal.into());
    }
    let seq = writes::next_signal(&mut tx, id).await?;
    let (name, sender, sent_at) = (ask.name, caller.agent.clone(), ctx.now());
    let signal = Signal { seq, name, payload, sender, sent_at, acked_at: None, acked_in: None };
    signals::insert(&mut tx, id, &signal, ask.key.as_deref()).await?;
    tx.commit().await?;
    // The worker's heartbeats and its requests for signals wait for this.
    ctx.feed.wake(WakeKey::Stop(id));
    Ok(signal)
}

async fn locked(conn: &mut PgConnection, id: JobId) -> Outcome<Option<Job>> {
    Ok(rows::lock(conn, &[id]).await?.remove(&id))
}

/// Returns the signals of a job after a number, with their acknowledgements, to those who may see all of the job.
///
/// # Errors
/// There is no such job, or the caller may not see it.
pub async fn sent(ctx: &Ctx, caller: &Caller, id: JobId, after: i64, limit: u32) -> Outcome<Vec<Signal>> {
    let mut conn = ctx.pool.acquire().await?;
    visible(ctx, &mut conn, caller, id).await?;
    signals::after(&mut conn, id, after, i64::from(limit.min(PAGE))).await
}

/// Returns the signals of a claimed job after a number, by default those that are not acknowledged.
///
/// If there is none, waits until one comes, the job has to stop, the time is up or the server is `stopping`.
///
/// # Errors
/// The claim is lost.
pub async fn wait(
    ctx: &Ctx,
    caller: &Caller,
    id: JobId,
    token: &str,
    after: Option<i64>,
    wait: Duration,
    stopping: &CancellationToken,
) -> Outcome<Delivered> {
    caller.require(Scope::JobsWork)?;
    let until = Instant::now() + wait;
    let mut listener = ctx.feed.wakeups().listener();
    listener.add(WakeKey::Stop(id));
    loop {
        let delivered = deliver(ctx, id, token, after).await;
        let delivered = conceal(ctx, caller, id, delivered).await?;
        let waited = async {
            tokio::select! {
                rung = timeout_at(until, listener.rung()) => rung.is_ok(),
                () = stopping.cancelled() => false,
            }
        };
        let news = !delivered.signals.is_empty() || delivered.cancel_due_at.is_some();
        if news || wait.is_zero() || !waited.await {
            return Ok(delivered);
        }
        caller.require_key(ctx.now())?;
    }
}

async fn deliver(ctx: &Ctx, id: JobId, token: &str, after: Option<i64>) -> Outcome<Delivered> {
    let mut conn = ctx.pool.acquire().await?;
    let job = rows::load(&mut conn, &[id]).await?.pop().ok_or_else(no_job)?;
    job.hold(&token_digest(token), ctx.now())?;
    let marks = signals::marks(&mut conn, id).await?;
    let after = after.unwrap_or(0).max(marks.acked);
    let signals =
        if marks.sent > after { signals::after(&mut conn, id, after, AT_ONCE).await? } else { Vec::new() };
    Ok(Delivered { signals, acked: marks.acked, cancel_due_at: job.cancel.map(|cancel| cancel.due_at) })
}

/// Acknowledges the signals of a claimed job up to a number; returns the number of the last acknowledged one.
///
/// # Errors
/// The claim is lost; the job has no signal of that number.
pub async fn acknowledge(ctx: &Ctx, caller: &Caller, id: JobId, token: &str, upto: i64) -> Outcome<i64> {
    caller.require(Scope::JobsWork)?;
    let done = acknowledge_held(ctx, id, token, upto).await;
    conceal(ctx, caller, id, done).await
}

async fn acknowledge_held(ctx: &Ctx, id: JobId, token: &str, upto: i64) -> Outcome<i64> {
    let mut tx = ctx.begin(&[]).await?;
    let job = locked(&mut tx, id).await?.ok_or_else(no_job)?;
    let now = ctx.now();
    job.hold(&token_digest(token), now)?;
    let marks = signals::marks(&mut tx, id).await?;
    if upto > marks.sent {
        let message = format!(
            "The job has {} signals; `seq` is the number of the last one that you have taken.",
            marks.sent
        );
        return Err(Refusal::field(Code::InvalidRequest, "seq", "range", message).into());
    }
    if upto > marks.acked {
        writes::signals_acknowledged(&mut tx, id, upto).await?;
        signals::acknowledge(&mut tx, id, upto, job.attempt, now).await?;
        tx.commit().await?;
    }
    Ok(upto.max(marks.acked))
}
