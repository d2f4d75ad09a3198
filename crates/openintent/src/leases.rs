//! Leases: exclusive holds on scopes of an intent (RFC-0003); `entente_domain::openintent::leases` defines which scopes
//! overlap. Table `leases`, in `leases/rows.rs`; `leases/ending.rs` ends leases other than by their holder,
//! `leases/waiting.rs` has the queue for them.
//!
//! All of it happens under the intent's lock, which orders competing requests; the table's unique index would
//! stop the second if the lock ever failed. An expired lease holds nothing from that instant on, whether the
//! next change or the sweep records its end.

mod ending;
mod handover;
mod rows;
mod waiting;

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{IntentId, LeaseId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::leases as domain;
use entente_domain::openintent::leases::queue;
use entente_domain::openintent::leases::{Claimant, EndReason, Lease, LeaseAsk, LeaseStatus, NewLease};
use entente_domain::openintent::patch::Change;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::membership;
use entente_kernel::access::membership::Membership;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::operations::{Asked, Operation};
use entente_kernel::{AppError, Caller, IntentTx, Outcome};
use serde_json::json;
use sqlx::PgConnection;

pub use ending::expire_due;
pub(crate) use ending::{end_of_agent, end_of_intent, end_without_access};
pub(crate) use handover::hand_over;
pub(crate) use rows::intents_of_holder;
pub use waiting::{WAIT_SECONDS, acquire_in_turn, waiting};

use crate::Ctx;
use crate::leases::ending::{end, record_ends};
use crate::leases::rows::{AcquiredLease, LeasesOfIntent, active, active_and_waiting_on, load, update};

/// Acquires a lease, after ending the expired ones on the intent.
///
/// # Errors
/// The intent does not exist, is not writable or is resolved; an overlapping scope is held; the request is
/// invalid.
pub async fn acquire(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: LeaseAsk,
    once: Option<&Idempotency>,
) -> Outcome<Lease> {
    caller.require(Scope::IntentsWrite)?;
    ctx.operate(caller, intent_id, Acquire(ask), once).await
}

/// A lease to acquire.
struct Acquire(LeaseAsk);

impl Operation for Acquire {
    type Answer = Lease;
    type Rows = LeasesOfIntent;

    const NAME: &'static str = "acquire_lease";

    async fn read(
        conn: &mut PgConnection,
        asked: &[Asked<'_, Self>],
        now: Timestamp,
    ) -> Outcome<Vec<LeasesOfIntent>> {
        let intents: Vec<IntentId> = asked.iter().map(|one| one.intent_id).collect();
        let found = active_and_waiting_on(conn, &intents, now).await?;
        Ok(intents.iter().map(|id| found.get(id).cloned().unwrap_or_default()).collect())
    }

    async fn apply(&self, caller: &Caller, work: &mut IntentTx<'_>, rows: LeasesOfIntent) -> Outcome<Lease> {
        let membership = work.require(Level::Write)?;
        if let Some(done) = work.repeated()? {
            return Ok(done);
        }
        check_unresolved(&membership)?;
        work.admit()?;
        let (ctx, intent_id, now) = (work.ctx(), work.intent_id(), work.now());
        let LeasesOfIntent { leases, mut waits } = rows;
        waits.retain(|wait| wait.until > now);
        let (held, due): (Vec<Lease>, Vec<Lease>) = leases.into_iter().partition(|lease| lease.in_force(now));
        let ended = record_ends(ctx, work.log(), &due, EndReason::Expired, SYSTEM);
        // Number of the lease's event: it grows along the log, so the token grows with every holder.
        let fencing_token = work.log().next_seq();
        let new = NewLease { id: LeaseId::mint(now, &*ctx.chance), intent_id, fencing_token };
        let claimant = claimant(caller, &membership);
        let lease = domain::acquire(&self.0, claimant, &held, new, now)?;
        queue::in_turn(&self.0, claimant, &held, &waits)?;
        if waits.iter().any(|wait| wait.agent_id == caller.agent && wait.path == lease.path) {
            waiting::forget(work.conn(), intent_id, &caller.agent, &lease.path).await?;
        }
        work.defer(AcquiredLease { lease: lease.clone(), ended });
        work.record(Draft::of(Kind::LeaseAcquired, &caller.agent, event_payload(&lease)));
        Ok(lease)
    }
}

fn check_unresolved(membership: &Membership) -> Result<(), Refusal> {
    if !membership.status.is_terminal() {
        return Ok(());
    }
    let message =
        format!("The intent is {}; nothing on it can be held any more.", membership.status.as_str());
    Err(Refusal::new(Code::IntentResolved, message))
}

fn claimant<'a>(caller: &'a Caller, membership: &Membership) -> Claimant<'a> {
    Claimant { agent: &caller.agent, until: membership.access.until }
}

/// Renews a lease of the caller: its duration starts anew now.
///
/// # Errors
/// The intent does not exist or is not writable; the caller has no such lease; it has ended.
pub async fn renew(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    id: LeaseId,
    duration_seconds: i64,
) -> Outcome<Lease> {
    caller.require(Scope::IntentsWrite)?;
    ctx.operate(caller, intent_id, Renew { id, duration_seconds }, None).await
}

/// A lease to renew.
struct Renew {
    id: LeaseId,
    duration_seconds: i64,
}

impl Operation for Renew {
    type Answer = Lease;
    type Rows = ();

    const NAME: &'static str = "renew_lease";

    async fn apply(&self, caller: &Caller, work: &mut IntentTx<'_>, (): ()) -> Outcome<Lease> {
        let membership = work.require(Level::Write)?;
        work.admit()?;
        let intent_id = work.intent_id();
        let own = load(work.reading(), intent_id, self.id).await?;
        let lease = own.filter(|lease| lease.agent_id == caller.agent).ok_or_else(not_yours)?;
        let lease = domain::renew(&lease, self.duration_seconds, claimant(caller, &membership), work.now())?;
        update(work.conn(), std::slice::from_ref(&lease)).await?;
        let mut payload = event_payload(&lease);
        payload["renewed"] = true.into();
        work.record(Draft::of(Kind::LeaseAcquired, &caller.agent, payload));
        Ok(lease)
    }
}

/// Ends a lease: its holder releases it, or an agent with admin granted on the intent revokes it.
///
/// Repeating it changes nothing.
///
/// # Errors
/// The intent does not exist or is not readable; the caller has no such lease.
pub async fn release(ctx: &Ctx, caller: &Caller, intent_id: IntentId, id: LeaseId) -> Outcome<Lease> {
    caller.require(Scope::IntentsWrite)?;
    ctx.operate(caller, intent_id, Release(id), None).await
}

/// A lease to end.
struct Release(LeaseId);

impl Operation for Release {
    type Answer = Lease;
    type Rows = ();

    const NAME: &'static str = "release_lease";

    async fn apply(&self, caller: &Caller, work: &mut IntentTx<'_>, (): ()) -> Outcome<Lease> {
        let membership = work.require(Level::Read)?;
        let intent_id = work.intent_id();
        let found = load(work.reading(), intent_id, self.0).await?;
        let mine = |lease: &Lease| lease.agent_id == caller.agent;
        let lease = found.filter(|lease| mine(lease) || membership.access.manages()).ok_or_else(not_yours)?;
        if !lease.in_force(work.now()) {
            return Ok(lease);
        }
        let reason = if mine(&lease) { EndReason::Released } else { EndReason::Revoked };
        let (ctx, (conn, log)) = (work.ctx(), work.parts());
        Ok(end(conn, ctx, log, &[lease], reason, &caller.agent).await?.remove(0))
    }
}

/// Refusal for a missing lease and for another agent's lease alike (OI-6.4).
fn not_yours() -> AppError {
    AppError::Refused(Refusal::new(
        Code::NotFound,
        "Lease not found or not owned by you. List the intent's leases, and check who you act as.",
    ))
}

/// Lists the last [`PAGE`](entente_domain::limits::PAGE) leases on an intent, oldest first; by current
/// status, or all.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    status: Option<LeaseStatus>,
) -> Outcome<Vec<Lease>> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    let now = ctx.now();
    membership::require(&mut connection, &caller.agent, intent_id, Level::Read, now).await?;
    if status == Some(LeaseStatus::Active) {
        // Leases in force never exceed a page, however long the history is.
        let mut held = active(&mut connection, intent_id).await?;
        held.retain(|lease| lease.in_force(now));
        held.sort_unstable_by_key(|lease| lease.fencing_token);
        return Ok(held);
    }
    rows::list(&mut connection, intent_id, status, now).await
}

/// Checks within an operation that a change of the intent's state touches no scope held by another agent.
///
/// Without leases it costs one index lookup.
///
/// # Errors
/// The change touches a scope held by another agent; the fencing token is of no lease that the agent holds.
pub async fn guard(
    conn: &mut PgConnection,
    log: &IntentLog,
    agent: &str,
    change: &Change,
    fencing_token: Option<i64>,
) -> Outcome<()> {
    let mut held = active(conn, log.intent_id).await?;
    held.retain(|lease| lease.in_force(log.now()));
    Ok(domain::guard(&held, agent, change, fencing_token)?)
}

fn event_payload(lease: &Lease) -> serde_json::Value {
    json!({
        "lease_id": lease.id, "agent_id": lease.agent_id, "scope": lease.scope, "fencing_token": lease.fencing_token,
        "expires_at": entente_domain::clock::rfc3339(lease.expires_at),
    })
}
