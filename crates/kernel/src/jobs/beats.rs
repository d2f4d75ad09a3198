//! Heartbeats of workers (contract 11.2): they move the ends of claims on, and bring what the worker is to do.

use std::collections::BTreeMap;
use std::time::Duration;

use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, WorkerId};
use entente_domain::keys::Scope;
use entente_domain::refusal::{Code, Refusal};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::writes;
use crate::feed::Touch;
use crate::workers::{self, Directive};
use crate::{Caller, Ctx, Outcome};

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

/// Jobs that a heartbeat may name: as many as a worker has slots.
const HELD: usize = 10_000;

/// A job that a worker says that it holds.
#[derive(Debug, Clone)]
pub struct Held {
    /// The job.
    pub job_id: JobId,
    /// Its claim's token.
    pub token: String,
    /// Whether the worker knows already that it is to stop.
    pub stopping: bool,
}

/// A sign that a worker is there.
#[derive(Debug, Clone)]
pub struct BeatAsk {
    /// The worker.
    pub worker: WorkerId,
    /// What it says of itself.
    pub state: Option<String>,
    /// The jobs that it holds.
    pub held: Vec<Held>,
    /// The directive that it knows of.
    pub obeyed: Directive,
    /// How long the answer may wait for news.
    pub wait: Duration,
}

/// Keeps a worker's claims. An answer that may wait comes as soon as there is news for the worker, or the server is
/// `stopping`.
///
/// # Errors
/// There is no such worker of the caller's; it names too many jobs.
pub async fn beat(ctx: &Ctx, caller: &Caller, ask: &BeatAsk, stopping: &CancellationToken) -> Outcome<Beat> {
    caller.require(Scope::JobsWork)?;
    if ask.held.len() > HELD {
        let message = format!("`jobs` has more than {HELD} items, more than a worker has slots.");
        return Err(Refusal::field(Code::InvalidRequest, "jobs", "too_long", message).into());
    }
    // Never so long that the claims, which are moved on at the beginning, run out meanwhile.
    let until = Instant::now() + ask.wait.min(ctx.settings.jobs.claim / 3);
    let mut listener = ctx.feed.bells().listener();
    ask.held.iter().for_each(|one| listener.add(Touch::Stop(one.job_id)));
    listener.add(Touch::Worker(ask.worker));
    loop {
        let beat = beat_once(ctx, caller, ask).await?;
        let known = |id: &JobId| ask.held.iter().any(|one| one.job_id == *id && one.stopping);
        let news = !beat.lost.is_empty() || beat.directive != ask.obeyed || !beat.cancel.iter().all(known);
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
    let held = &ask.held;
    let mut conn = ctx.pool.acquire().await?;
    let now = ctx.now();
    let directive = workers::seen(&mut conn, caller, ask.worker, ask.state.as_deref(), now).await?;
    let until = now + ctx.settings.jobs.claim;
    let kept =
        if held.is_empty() { BTreeMap::new() } else { writes::extend(&mut conn, held, until, now).await? };
    Ok(Beat {
        directive,
        cancel: kept.iter().filter(|(_, cancel)| **cancel).map(|(id, _)| *id).collect(),
        lost: held.iter().map(|one| one.job_id).filter(|id| !kept.contains_key(id)).collect(),
        claim_expires_at: until,
    })
}
