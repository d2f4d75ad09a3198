//! Coordinators of intents (RFC-0013): appointed by the intent's admins, kept alive by heartbeats. Table
//! `coordinators` (`coordinators/rows.rs`); their decisions are in `coordinators/records.rs`.
//!
//! Assignments with the role `coordinator` are the only source for coordinators that channels, tasks and the
//! writers' caches read. An appointment creates such an assignment in its own transaction, and its end
//! removes it; admins can still assign coordinators that send no heartbeats. An appointment is over the
//! instant it ends. The assignment is removed when that is recorded, by the next operation on the intent's
//! coordinators or by the sweep.

mod records;
mod rows;

use entente_domain::access::Level;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{CoordinatorId, IntentId};
use entente_domain::limits::COORDINATORS;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::coordinators as domain;
use entente_domain::openintent::coordinators::{
    Coordinator, CoordinatorAsk, CoordinatorChange, CoordinatorStatus,
};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::assignments::{Appointment, Assigner};
use entente_kernel::access::governance;
use entente_kernel::access::governance::Attempt;
use entente_kernel::access::{assignments, membership};
use entente_kernel::due::run_each;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{Caller, IntentTx, Outcome, not_found};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::Ctx;
use crate::tasks::visit;

pub use crate::coordinators::records::{RecordAsk, decide, decisions, decisions_of};

/// Appoints an agent; `replaces` names the coordinator that it replaces, if that one is still responsive.
///
/// # Errors
/// The caller does not manage the intent; the agent may not write to it; the role is taken.
pub async fn appoint(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: CoordinatorAsk,
    replaces: Option<CoordinatorId>,
    once: Option<&Idempotency>,
) -> Outcome<Coordinator> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    membership::require_manager(work.conn(), caller, intent_id, ctx.now()).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let membership = membership::find(work.conn(), &caller.agent, intent_id, ctx.now()).await?;
    let membership = membership.ok_or_else(|| not_found("intent"))?;
    let attempt = Attempt {
        intent_id,
        membership: &membership,
        agent: &caller.agent,
        operation: "appoint_coordinator",
    };
    let mut work = governance::admit_assignment(caller, work, attempt, &ask.agent_id, false).await?;
    let now = work.now();
    let mut made =
        domain::appoint(ask, intent_id, &caller.agent, CoordinatorId::mint(now, &*ctx.chance), now)?;
    let (conn, log) = work.parts();
    require_able(conn, &made).await?;
    let there = settle(conn, ctx, log).await?;
    let before = there.iter().find(|one| one.role == made.role);
    if let Some(named) = replaces.filter(|named| before.is_none_or(|one| one.id != *named)) {
        let message = format!(
            "`replaces` names {named}, which is not the coordinator in this role. Look at the list again."
        );
        return Err(Refusal::field(Code::Unprocessable, "replaces", "unknown", message).into());
    }
    let others = || there.iter().filter(|one| one.role != made.role);
    if others().any(|one| one.agent_id == made.agent_id) {
        let message =
            "The agent is appointed on this intent in another role already. It has one role at a time.";
        return Err(Refusal::new(Code::AlreadyExists, message).into());
    }
    if others().count() >= COORDINATORS {
        let message = format!("The intent has {COORDINATORS} coordinators, as many as it may.");
        return Err(Refusal::field(Code::TooLarge, "role", "too_many", message).into());
    }
    if let Some(before) = before {
        let over = before.replaced(replaces.is_some(), now)?;
        let silent = before.status == CoordinatorStatus::Unresponsive;
        let kind = if silent { Kind::CoordinatorFailedOver } else { Kind::CoordinatorReplaced };
        rows::update(conn, &over).await?;
        log.record(ctx, event_draft(kind, &caller.agent, &over, &json!({ "replaced_by": made.id })));
        lay_down(conn, ctx, log, &over, &caller.agent).await?;
    }
    let payload = event_payload(&made);
    let by = Assigner { agent: &caller.agent, assigned: membership.assigned };
    made.role_before = assignments::take_up(conn, ctx, log, &made.agent_id, &made.role, by, payload).await?;
    rows::insert(conn, &made).await?;
    work.finish(made).await
}

/// Requires that the intent is not resolved, and that the appointed agent may write to it.
async fn require_able(conn: &mut PgConnection, made: &Coordinator) -> Outcome<()> {
    let membership = membership::find(conn, &made.agent_id, made.intent_id, made.granted_at).await?;
    let membership = membership.ok_or_else(|| not_found("intent"))?;
    if membership.status.is_terminal() {
        let message = "The intent is completed or abandoned; there is nothing to coordinate any more.";
        return Err(Refusal::new(Code::IntentResolved, message).into());
    }
    if membership.access.reaches(Level::Write) {
        return Ok(());
    }
    let message =
        "The agent may not write to this intent, so it could not coordinate it. Grant it access first.";
    Err(Refusal::field(Code::Unprocessable, "agent_id", "no_access", message).into())
}

/// Returns an appointment.
///
/// # Errors
/// The appointment does not exist; also if its intent is not readable, as for any part of a closed intent (OI-7.3).
pub async fn get(ctx: &Ctx, caller: &Caller, id: CoordinatorId) -> Outcome<Coordinator> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    let found = rows::load(&mut conn, id).await?.ok_or_else(|| not_found("coordinator"))?;
    visit(&mut conn, ctx, caller, found.intent_id, "coordinator").await?;
    Ok(found)
}

/// Returns the last page of appointments on an intent before a given one, oldest first.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    before: Option<CoordinatorId>,
) -> Outcome<Vec<Coordinator>> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    membership::require(&mut conn, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    rows::list(&mut conn, intent_id, before).await
}

/// Records a heartbeat of the appointed agent; the log records heartbeats only now and then.
///
/// # Errors
/// The appointment does not exist or is not visible; the caller is not the appointed agent, or may no longer write to
/// the intent; the appointment is over.
pub async fn beat(ctx: &Ctx, caller: &Caller, id: CoordinatorId) -> Outcome<Coordinator> {
    caller.require(Scope::IntentsWrite)?;
    let mut conn = ctx.pool.acquire().await?;
    let found = rows::load(&mut conn, id).await?.ok_or_else(|| not_found("coordinator"))?;
    drop(conn);
    let mut work = IntentTx::begin(ctx, caller, found.intent_id, None).await?;
    let (conn, log) = work.parts();
    let membership = visit(conn, ctx, caller, found.intent_id, "coordinator").await?;
    require_own(caller, &found.agent_id)?;
    // An agent that may no longer write to the intent cannot send heartbeats, and so becomes unresponsive.
    membership.access.require(Level::Write)?;
    let there = settle(conn, ctx, log).await?;
    let current = match there.into_iter().find(|one| one.id == id) {
        Some(current) => current,
        None => rows::load(conn, id).await?.ok_or_else(|| not_found("coordinator"))?,
    };
    let (next, kind) = current.beat(log.now())?;
    rows::update(conn, &next).await?;
    if let Some(kind) = kind {
        log.record(ctx, event_draft(kind, &caller.agent, &next, &json!({})));
    }
    work.finish(next).await
}

/// Requires that the caller is the appointed agent: another's heartbeat would keep a dead appointment alive.
fn require_own(caller: &Caller, agent_id: &str) -> Outcome<()> {
    if caller.agent == agent_id {
        return Ok(());
    }
    let message = "Another agent is appointed; only that one beats and decides. Check who you act as.";
    Err(Refusal::new(Code::Forbidden, message).into())
}

/// Changes an appointment at the version that the caller has seen: pauses, resumes, bounds or ends it.
///
/// # Errors
/// The appointment does not exist or is not visible; the version is stale; the caller is neither an admin of the intent, nor
/// its supervisor, nor the appointed agent, which may only finish.
pub async fn change(
    ctx: &Ctx,
    caller: &Caller,
    id: CoordinatorId,
    seen: i64,
    change: CoordinatorChange,
) -> Outcome<Coordinator> {
    caller.require(Scope::IntentsWrite)?;
    let mut conn = ctx.pool.acquire().await?;
    let found = rows::load(&mut conn, id).await?.ok_or_else(|| not_found("coordinator"))?;
    drop(conn);
    let intent_id = found.intent_id;
    let mut work = IntentTx::begin(ctx, caller, intent_id, None).await?;
    let (conn, log) = work.parts();
    let membership = visit(conn, ctx, caller, intent_id, "coordinator").await?;
    let supervises =
        membership.access.manages() || caller.has(Scope::Admin) || caller.agent == found.supervisor_id;
    if !supervises {
        require_own(caller, &found.agent_id)?;
    }
    let there = settle(conn, ctx, log).await?;
    let current = match there.into_iter().find(|one| one.id == id) {
        Some(current) => current,
        None => rows::load(conn, id).await?.ok_or_else(|| not_found("coordinator"))?,
    };
    if current.version != seen {
        return Err(Refusal::version_conflict(current.version).into());
    }
    let (next, kinds) = current.changed(&change, supervises, log.now())?;
    rows::update(conn, &next).await?;
    let more = json!({ "reason": change.reason });
    for kind in kinds {
        log.record(ctx, event_draft(kind, &caller.agent, &next, &more));
    }
    if next.status.is_over() {
        lay_down(conn, ctx, log, &next, &caller.agent).await?;
    }
    work.finish(next).await
}

/// Applies elapsed deadlines to the coordinators of up to `limit` intents.
///
/// # Errors
/// A database error.
pub async fn expire_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let due = rows::due(&ctx.pool, ctx.now(), limit).await?;
    run_each(due.into_iter().map(|intent_id| pass_on(ctx, intent_id))).await
}

async fn pass_on(ctx: &Ctx, intent_id: IntentId) -> Outcome<u64> {
    let mut work = IntentTx::unattended(ctx, intent_id).await?;
    let (conn, log) = work.parts();
    settle(conn, ctx, log).await?;
    // None if another server already did it.
    let recorded = log.recorded.len() as u64;
    work.commit().await?;
    Ok(recorded)
}

/// Applies elapsed deadlines to the coordinators of the log's intent; returns those still appointed.
async fn settle(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
) -> Outcome<Vec<Coordinator>> {
    let mut left = Vec::new();
    for mut one in rows::active(conn, log.intent_id).await? {
        while let Some((next, kind)) = one.pass(log.now()) {
            rows::update(conn, &next).await?;
            log.record(ctx, event_draft(kind, SYSTEM, &next, &json!({})));
            if next.status.is_over() {
                lay_down(conn, ctx, log, &next, SYSTEM).await?;
            }
            one = next;
        }
        if !one.status.is_over() {
            left.push(one);
        }
    }
    Ok(left)
}

/// Ends the appointments on the log's intent, which is resolved.
pub(crate) async fn end_of_intent(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    actor: &str,
) -> Outcome<()> {
    for one in settle(conn, ctx, log).await? {
        let over = one.end_with_intent(log.now());
        rows::update(conn, &over).await?;
        log.record(
            ctx,
            event_draft(Kind::CoordinatorHandoff, actor, &over, &json!({ "reason": "intent_resolved" })),
        );
        lay_down(conn, ctx, log, &over, actor).await?;
    }
    Ok(())
}

/// Undoes the assignment that an appointment made.
async fn lay_down(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    over: &Coordinator,
    actor: &str,
) -> Outcome<()> {
    let role_before = over.role_before.as_deref();
    let appointment = Appointment { agent_id: &over.agent_id, role: &over.role, role_before };
    let more = json!({ "coordinator_id": over.id, "reason": "coordinator_ended" });
    assignments::lay_down(conn, ctx, log, appointment, actor, more).await
}

/// Builds the payload of events about an appointment.
fn event_payload(one: &Coordinator) -> Value {
    json!({
        "coordinator_id": one.id, "agent_id": one.agent_id, "role": one.role, "supervisor_id": one.supervisor_id,
        "status": one.status, "version": one.version, "expires_at": one.expires_at(),
    })
}

fn event_draft(kind: Kind, actor: &str, one: &Coordinator, more: &Value) -> Draft {
    let mut payload = event_payload(one);
    if let (Value::Object(payload), Value::Object(more)) = (&mut payload, more) {
        payload.extend(more.clone());
    }
    Draft::of(kind, actor, payload)
}
