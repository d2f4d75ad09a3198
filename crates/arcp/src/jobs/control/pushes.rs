//! Push notifications of A2A tasks (A2A §4.3): receivers that a client names for a job, each with its place in the job's
//! events, which are the outbox.
//!
//! One server at a time holds a receiver's lease, with a fencing token, and sends its updates one after the other; an update
//! that fails holds the later ones up, so a receiver sees them in order. `src/background/pushing.rs` sends.

use chrono::TimeDelta;
use entente_domain::a2a::pushes::{PushConfig, RECEIVERS_MOST};
use entente_domain::arcp::jobs::Job;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{JobId, KeyId, NodeId};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::webhooks::retries::{self, given_up};
use entente_kernel::webhooks::endpoints::grants;
use entente_kernel::{AppError, Caller, Outcome};
use sqlx::PgConnection;

use crate::Ctx;
use crate::jobs::log::Stored;
use crate::jobs::reading::{events, visible};
use crate::jobs::records::pushes::{self as rows, Noted, Place, PushLease};

/// Seconds that a lease lasts beyond the time limit of one request: short, because a dead server keeps it that long.
const LEASE_SECONDS: i64 = 10;

/// Shortest pause in seconds after a failure.
const PAUSE_SECONDS: u32 = 1;

/// Attempts at an update that its receiver rejects. Then the next one is sent: the end of the task should arrive although a
/// piece of an artifact is too large.
const REJECTIONS: u32 = 3;

/// A receiver with what it is to be sent.
#[derive(Debug)]
pub struct Pending {
    /// Where to send.
    pub config: PushConfig,
    /// Context of the task.
    pub context: String,
    /// What the receiver knows.
    pub place: Place,
    /// The job.
    pub job: Job,
    /// Its events after the place, oldest first.
    pub events: Vec<Stored>,
    failures: u32,
    failing_since: Option<Timestamp>,
}

/// A failed attempt.
#[derive(Debug)]
pub struct PushFailure {
    /// How it failed.
    pub how: retries::Failure,
    /// The same in words.
    pub why: String,
    /// Seconds after which the receiver asks to be retried.
    pub retry_after: Option<u32>,
    /// The place after the update that failed.
    pub beyond: Place,
}

/// Creates or changes a receiver of a job's updates. A new one begins at `place`.
///
/// # Errors
/// The caller may not read the job, has another's id, or the job has [`RECEIVERS_MOST`] receivers.
pub async fn add_receiver(
    ctx: &Ctx,
    caller: &Caller,
    job: JobId,
    config: &PushConfig,
    context: &str,
    place: Place,
) -> Outcome<()> {
    caller.require(Scope::JobsWrite)?;
    let mut tx = ctx.begin(&[]).await?;
    visible(ctx, &mut tx, caller, job).await?;
    // One at a time for each job, so that the limit holds.
    rows::lock(&mut tx, job).await?;
    let known = rows::load(&mut tx, job).await?;
    match known.iter().find(|known| known.config.id == config.id) {
        Some(other) if other.principal_id != caller.grant.key.principal_id => {
            let message = "Somebody else's receiver of this task has that id. Choose another one.";
            return Err(Refusal::new(Code::AlreadyExists, message).into());
        }
        None if known.len() >= RECEIVERS_MOST => {
            let message =
                format!("The task has {RECEIVERS_MOST} receivers, the most there are. Delete one first.");
            return Err(Refusal::new(Code::Unprocessable, message).into());
        }
        Some(_) | None => {}
    }
    rows::put(&mut tx, caller, job, (config, context, place), ctx.now()).await?;
    tx.commit().await?;
    Ok(())
}

/// Returns the caller's receivers of a job's updates, oldest first; an operator sees all.
///
/// # Errors
/// There is no such job, or the caller may not see it.
pub async fn receivers(ctx: &Ctx, caller: &Caller, job: JobId) -> Outcome<Vec<PushConfig>> {
    let mut conn = ctx.pool.acquire().await?;
    visible(ctx, &mut conn, caller, job).await?;
    let known = rows::load(&mut conn, job).await?.into_iter();
    Ok(known.filter(|one| is_theirs(caller, &one.principal_id)).map(|one| one.config).collect())
}

/// Deletes a receiver; returns whether the caller had one with this id.
///
/// # Errors
/// There is no such job, or the caller may not see it.
pub async fn remove_receiver(ctx: &Ctx, caller: &Caller, job: JobId, id: &str) -> Outcome<bool> {
    caller.require(Scope::JobsWrite)?;
    let mut tx = ctx.begin(&[]).await?;
    visible(ctx, &mut tx, caller, job).await?;
    let known = rows::load(&mut tx, job).await?;
    let is_known = known.iter().any(|one| one.config.id == id && is_theirs(caller, &one.principal_id));
    if is_known {
        rows::delete(&mut tx, job, id).await?;
    }
    tx.commit().await?;
    Ok(is_known)
}

fn is_theirs(caller: &Caller, principal: &str) -> bool {
    caller.grant.key.principal_id == principal || caller.has(Scope::Admin)
}

/// Claims leases on up to `limit` receivers for whom something has happened, longest waiting first.
///
/// # Errors
/// A database error.
pub async fn claim_pushes(ctx: &Ctx, node: NodeId, limit: usize) -> Outcome<Vec<PushLease>> {
    let now = ctx.now();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    rows::claim(&ctx.pool, node, now, now + lasting(ctx), limit).await
}

fn lasting(ctx: &Ctx) -> TimeDelta {
    let attempt = i64::try_from(ctx.settings.webhooks.timeout.as_secs()).unwrap_or(i64::MAX);
    TimeDelta::seconds(attempt.saturating_add(LEASE_SECONDS))
}

/// Loads what a receiver is to be sent; `None` if the lease is lost or the receiver is gone. A receiver whose key may no longer
/// see the job is deleted.
///
/// # Errors
/// A database error.
pub async fn load_push(ctx: &Ctx, lease: &PushLease, most: u32, bytes: i64) -> Outcome<Option<Pending>> {
    let now = ctx.now();
    let mut conn = ctx.pool.acquire().await?;
    let Some(held) = rows::held(&mut conn, lease).await? else { return Ok(None) };
    let found = caller(&mut conn, held.key_id, &held.agent_id, now).await?;
    drop(conn);
    let Some(caller) = found else { return drop_receiver(ctx, lease, "its key has ended").await };
    match events(ctx, &caller, lease.job, held.place.seq, most, bytes).await {
        Ok((job, events)) => Ok(Some(Pending {
            config: held.config,
            context: held.context,
            place: held.place,
            job,
            events,
            failures: held.failures,
            failing_since: held.failing_since,
        })),
        Err(AppError::Refused(_)) => drop_receiver(ctx, lease, "its key may no longer see the task").await,
        Err(failure) => Err(failure),
    }
}

async fn caller(conn: &mut PgConnection, key: KeyId, agent: &str, now: Timestamp) -> Outcome<Option<Caller>> {
    let grant = grants(conn, &[key], now).await?.remove(&key);
    Ok(grant.and_then(|grant| Caller::new(grant, Some(agent), now).ok()))
}

async fn drop_receiver<T>(ctx: &Ctx, lease: &PushLease, why: &str) -> Outcome<Option<T>> {
    if rows::delete_held(&ctx.pool, lease).await? {
        tracing::info!(job.id = %lease.job, receiver = lease.id, reason = why, "a receiver of push notifications was deleted");
    }
    Ok(None)
}

/// Records how far a receiver has been sent to, and the failure that stopped it; prolongs the lease. Returns whether to go on.
///
/// # Errors
/// A database error.
pub async fn record_push(
    ctx: &Ctx,
    lease: &PushLease,
    before: &Pending,
    reached: Place,
    failure: Option<PushFailure>,
) -> Outcome<bool> {
    let now = ctx.now();
    let advanced = reached.seq > before.place.seq;
    let Some(failure) = failure else {
        let due = (!reached.told.is_terminal()).then_some(now);
        let noted = Noted { place: reached, due, failures: 0, failing_since: None, error: None };
        return Ok(rows::note(&ctx.pool, lease, &noted, now + lasting(ctx)).await? && due.is_some());
    };
    let (failures, since) = if advanced { (0, None) } else { (before.failures, before.failing_since) };
    let (failures, since) = (failures.saturating_add(1), since.unwrap_or(now));
    if failure.how.gone() || given_up(since, now) {
        drop_receiver::<()>(ctx, lease, &failure.why).await?;
        return Ok(false);
    }
    let is_skipped = !failure.how.of_receiver() && failures >= REJECTIONS;
    let pause = retries::pause(failures, failure.how, failure.retry_after).max(PAUSE_SECONDS);
    let place = if is_skipped { failure.beyond } else { reached };
    let is_over = is_skipped && place.told.is_terminal();
    let noted = Noted {
        place,
        due: (!is_over).then_some(now + TimeDelta::seconds(i64::from(pause))),
        failures: if is_skipped { 0 } else { failures },
        failing_since: (!is_skipped).then_some(since),
        error: Some(failure.why),
    };
    rows::note(&ctx.pool, lease, &noted, now + lasting(ctx)).await?;
    Ok(false)
}

/// Releases a lease.
///
/// # Errors
/// A database error.
pub async fn end_push(ctx: &Ctx, lease: &PushLease) -> Outcome<()> {
    rows::release(&ctx.pool, lease).await
}
