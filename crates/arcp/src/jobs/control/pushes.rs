//! Push notifications of A2A tasks (A2A §4.3): receivers that a client names for a job, each with its place in the job's
//! events, which are the outbox.
//!
//! One server at a time holds a receiver's lease, with a fencing token, and sends its updates one after the other; an update
//! that fails holds the later ones up, so a receiver sees them in order. `src/background/pushing.rs` sends.

use chrono::TimeDelta;
use entente_domain::a2a::pushes::{PushConfig, RECEIVERS_MOST, RECEIVERS_OF_PRINCIPAL_MOST};
use entente_domain::arcp::jobs::Job;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{JobId, KeyId, NodeId};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::webhooks::retries::{self, given_up};
use entente_kernel::webhooks::deliveries::lease_time;
use entente_kernel::webhooks::endpoints::grants;
use entente_kernel::{AppError, Caller, Outcome};
use sqlx::PgConnection;

use crate::Ctx;
use crate::jobs::log::Stored;
use crate::jobs::reading::{events, visible};
use crate::jobs::records::pushes::{self as rows, NewReceiver, Noted, Place, PushLease, Receiver};

/// Attempts at an update that its receiver rejects for its content. Then the next one is sent: the end of the task
/// should arrive although a piece of an artifact is too large.
const REJECTIONS: u32 = 3;

/// Statuses by which a receiver rejects an update for its content: too large, or not understood. Any other one may
/// concern the receiver or its address, so that the update may be taken later.
const REJECTED: [u16; 2] = [413, 422];

/// Part of a server's leases that the receivers of one principal may hold.
const SHARE: usize = 4;

/// A receiver with the events to send to it.
#[derive(Debug)]
pub struct Pending {
    /// Where to send.
    pub config: PushConfig,
    /// Context of the task.
    pub context: String,
    /// Place up to which the receiver knows the task.
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
    pub how: retries::Failed,
    /// The place after the update that failed; none for a task's end, which is never left out.
    pub beyond: Option<Place>,
}

/// Requires that the caller may add a receiver, to a job if it is there, before anything else is done.
///
/// # Errors
/// The caller may not read the job, has another's id, or the job or the principal has as many receivers as there may be.
pub async fn require_receiver(
    ctx: &Ctx,
    caller: &Caller,
    job: Option<JobId>,
    config: &PushConfig,
) -> Outcome<()> {
    caller.require(Scope::JobsWrite)?;
    let mut conn = ctx.pool.acquire().await?;
    match job {
        Some(job) => {
            visible(ctx, &mut conn, caller, job).await?;
            admitted(&mut conn, caller, job, config).await.map(drop)
        }
        None => require_room(&mut conn, caller).await,
    }
}

/// Creates or changes a receiver of a job's updates, and returns it. A new one begins at `place`.
///
/// # Errors
/// See [`require_receiver`].
pub async fn add_receiver(
    ctx: &Ctx,
    caller: &Caller,
    job: JobId,
    config: &PushConfig,
    context: &str,
    place: Place,
) -> Outcome<PushConfig> {
    caller.require(Scope::JobsWrite)?;
    let mut tx = ctx.begin(&[]).await?;
    visible(ctx, &mut tx, caller, job).await?;
    // One at a time for each job, so that the limit holds.
    rows::lock(&mut tx, job).await?;
    let config = admitted(&mut tx, caller, job, config).await?;
    let fence = i64::from(u32::try_from(ctx.chance.bits() & u128::from(u32::MAX)).unwrap_or(0));
    let receiver = NewReceiver { config: &config, context, place, fence };
    rows::put(&mut tx, caller, job, receiver, ctx.now()).await?;
    tx.commit().await?;
    Ok(config)
}

/// Returns the receiver with its id, if the caller may add it to the job or change it there.
async fn admitted(
    conn: &mut PgConnection,
    caller: &Caller,
    job: JobId,
    config: &PushConfig,
) -> Outcome<PushConfig> {
    let known = rows::load(conn, job).await?;
    let principal = &caller.grant.key.principal_id;
    // A principal's own receivers count, so that others who may read the job take nobody's place.
    let own = known.iter().filter(|known| known.principal_id == *principal).count();
    let config = named(config, job, principal, &known);
    match known.iter().find(|known| known.config.id == config.id) {
        Some(other) if other.principal_id != *principal => {
            let message = "Somebody else's receiver of this task has that id. Choose another one.";
            return Err(Refusal::new(Code::AlreadyExists, message).into());
        }
        Some(_) => {}
        None if own >= RECEIVERS_MOST => {
            let message = format!(
                "You have {RECEIVERS_MOST} receivers at this task, the most there are. Delete one first."
            );
            return Err(Refusal::new(Code::Unprocessable, message).into());
        }
        None => require_room(conn, caller).await?,
    }
    Ok(config)
}

/// Returns the receiver with the id that it has by default: always the same for one principal, and not another's.
fn named(config: &PushConfig, job: JobId, principal: &str, known: &[Receiver]) -> PushConfig {
    let task = job.to_string();
    let own = PushConfig::id_of(&task, principal);
    let has_own = known.iter().any(|one| one.config.id == own);
    let is_taken = known.iter().any(|one| one.config.id == task && one.principal_id != principal);
    config.clone().of_task(&task, if has_own || is_taken { &own } else { &task })
}

async fn require_room(conn: &mut PgConnection, caller: &Caller) -> Outcome<()> {
    if !rows::has_as_many(conn, &caller.grant.key.principal_id, RECEIVERS_OF_PRINCIPAL_MOST).await? {
        return Ok(());
    }
    let message = format!(
        "You have {RECEIVERS_OF_PRINCIPAL_MOST} receivers at tasks that are not over, the most there are. Delete some, or follow the task by a stream."
    );
    Err(Refusal::new(Code::Unprocessable, message).into())
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

/// Claims leases on up to `limit` of a server's `all` for receivers to which something has happened, longest waiting first. One
/// principal's hold a part of all, so that those that hang keep nobody else waiting.
///
/// # Errors
/// A database error.
pub async fn claim_pushes(ctx: &Ctx, node: NodeId, limit: usize, all: usize) -> Outcome<Vec<PushLease>> {
    let now = ctx.now();
    let many = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    rows::claim(&ctx.pool, node, now, now + lease_time(ctx), many(limit), many(all.div_ceil(SHARE))).await
}

/// Loads the events to send to a receiver; `None` if the lease is lost or the receiver is gone. Deletes a receiver with
/// a key that may no longer see the job.
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
        ctx.metrics.task_push("dropped");
        tracing::warn!(job.id = %lease.job, receiver = lease.id, reason = why, "a receiver of push notifications was deleted");
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
    let Some(failure) = failure else {
        let due = (!reached.told.is_terminal()).then_some(now);
        let noted = Noted { place: reached, due, failures: 0, failing_since: None, error: None };
        return Ok(rows::note(&ctx.pool, lease, &noted, now + lease_time(ctx)).await? && due.is_some());
    };
    let advanced = reached.is_beyond(before.place);
    let (failures, since) = if advanced { (0, None) } else { (before.failures, before.failing_since) };
    let (failures, since) = (failures.saturating_add(1), since.unwrap_or(now));
    let PushFailure { how: retries::Failed { failure, error, retry_after }, beyond } = failure;
    if failure.gone() || given_up(since, now) {
        drop_receiver::<()>(ctx, lease, &error).await?;
        return Ok(false);
    }
    let is_rejected = matches!(failure, retries::Failure::Status(status) if REJECTED.contains(&status));
    let left_out = beyond.filter(|_| is_rejected && failures >= REJECTIONS);
    ctx.metrics.task_push(if left_out.is_some() { "left_out" } else { "retried" });
    if failures == 1 || left_out.is_some() {
        tracing::warn!(job.id = %lease.job, receiver = lease.id, left_out = left_out.is_some(), reason = error, "a push notification failed");
    }
    let pause = retries::growing_pause(failures, failure, retry_after);
    let noted = Noted {
        place: left_out.unwrap_or(reached),
        due: Some(now + TimeDelta::seconds(i64::from(pause))),
        failures: if left_out.is_some() { 0 } else { failures },
        failing_since: left_out.is_none().then_some(since),
        error: Some(error),
    };
    rows::note(&ctx.pool, lease, &noted, now + lease_time(ctx)).await?;
    Ok(false)
}

/// Releases a lease. The receiver is idle if it was sent everything.
///
/// # Errors
/// A database error.
pub async fn end_push(ctx: &Ctx, lease: &PushLease) -> Outcome<()> {
    rows::release(&ctx.pool, lease).await
}
