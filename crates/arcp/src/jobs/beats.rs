//! Heartbeats of workers (ARCP-W-11.2.4): they extend claims and return instructions to the worker.

use std::collections::BTreeMap;
use std::time::Duration;

use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{JobId, WorkerId};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{Caller, Outcome};
use sqlx::PgConnection;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::claim_tokens::token_digest;
use super::records::signals::{self, Signal};
use super::writes;
use crate::Ctx;
use crate::workers;
use crate::workers::{Directive, SLOTS};

/// Response to a worker's heartbeat.
#[derive(Debug)]
pub struct Beat {
    /// Whether the worker continues.
    pub directive: Directive,
    /// Jobs that the worker has to stop, each with the time after which the server ends it.
    pub cancel: BTreeMap<JobId, Timestamp>,
    /// Jobs whose claims are lost, to be dropped silently.
    pub lost: Vec<JobId>,
    /// New expiry of the other claims.
    pub claim_expires_at: Timestamp,
    /// Signals of held jobs that the worker does not know yet.
    pub signals: BTreeMap<JobId, Vec<Signal>>,
}

/// A job that a worker reports as held.
#[derive(Debug, Clone)]
pub struct Held {
    /// The job.
    pub job_id: JobId,
    /// Claim token.
    pub token: String,
    /// Whether the worker already knows that it has to stop.
    pub stopping: bool,
    /// Number of the last signal that the worker knows of; `None` if it takes none.
    pub signals_after: Option<i64>,
}

/// Request of a heartbeat.
#[derive(Debug, Clone)]
pub struct BeatAsk {
    /// The worker.
    pub worker: WorkerId,
    /// Reported state of the worker.
    pub state: Option<String>,
    /// Jobs held by the worker.
    pub held: Vec<Held>,
    /// Last directive known to the worker.
    pub obeyed: Directive,
    /// How long the response may wait for news.
    pub wait: Duration,
}

/// Extends a worker's claims.
///
/// A response that may wait is sent as soon as there is news for the worker or the server is `stopping`.
///
/// # Errors
/// The caller has no such worker; the request names too many jobs.
pub async fn beat(ctx: &Ctx, caller: &Caller, ask: &BeatAsk, stopping: &CancellationToken) -> Outcome<Beat> {
    // Wait less than a claim lasts: the claims are extended only before the wait.
    let until = Instant::now() + ask.wait.min(ctx.state.jobs.claim / 3);
    let mut listener = ctx.feed.wakeups().listener();
    ask.held.iter().for_each(|one| listener.add(WakeKey::Stop(one.job_id)));
    listener.add(WakeKey::Worker(ask.worker));
    loop {
        let beat = beat_once(ctx, caller, ask).await?;
        let known = |id: &JobId| ask.held.iter().any(|one| one.job_id == *id && one.stopping);
        let news = !beat.lost.is_empty()
            || !beat.signals.is_empty()
            || beat.directive != ask.obeyed
            || !beat.cancel.keys().all(known);
        let waited = async {
            tokio::select! {
                rung = timeout_at(until, listener.rung()) => rung.is_ok(),
                () = stopping.cancelled() => false,
            }
        };
        if news || ask.wait.is_zero() || !waited.await {
            return Ok(beat);
        }
        caller.require_key(ctx.now())?;
    }
}

async fn beat_once(ctx: &Ctx, caller: &Caller, ask: &BeatAsk) -> Outcome<Beat> {
    let mut conn = ctx.pool.writing().await?;
    let beat = beat_within(ctx, &mut conn, caller, ask).await?;
    conn.done().await?;
    Ok(beat)
}

/// Extends a worker's claims once, in a transaction or a statement that the caller ends.
///
/// # Errors
/// As [`beat`].
pub async fn beat_within(
    ctx: &Ctx,
    conn: &mut PgConnection,
    caller: &Caller,
    ask: &BeatAsk,
) -> Outcome<Beat> {
    caller.require(Scope::JobsWork)?;
    let held = &ask.held;
    if i64::try_from(held.len()).is_ok_and(|held| held > SLOTS) {
        let message = format!("`jobs` has more than {SLOTS} items, more than a worker has slots.");
        return Err(Refusal::field(Code::InvalidRequest, "jobs", "too_long", message).into());
    }
    let now = ctx.now();
    let directive = workers::seen(conn, caller, ask.worker, ask.state.as_deref(), now).await?;
    let until = now + ctx.state.jobs.claim;
    let claims: Vec<(JobId, Digest)> =
        held.iter().map(|one| (one.job_id, token_digest(&one.token))).collect();
    let kept =
        if held.is_empty() { BTreeMap::new() } else { writes::extend(conn, &claims, until, now).await? };
    let signalled = held.iter().filter_map(|one| {
        let (kept, after) = (kept.get(&one.job_id)?, one.signals_after?);
        let after = after.max(kept.signals_acked);
        (kept.signals_sent > after).then_some((one.job_id, after))
    });
    let signals = signals::waiting(conn, &signalled.collect::<Vec<_>>()).await?;
    Ok(Beat {
        directive,
        signals,
        cancel: kept.iter().filter_map(|(id, kept)| Some((*id, kept.cancel_due_at?))).collect(),
        lost: held.iter().map(|one| one.job_id).filter(|id| !kept.contains_key(id)).collect(),
        claim_expires_at: until,
    })
}
