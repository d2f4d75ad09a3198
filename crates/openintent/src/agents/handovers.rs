//! Hand-overs: an agent's part of an intent passes to another agent in one transaction: its assignment, tasks and leases, with
//! the state of the work and references in the event. Claims and fencing tokens are renewed, so whatever the former agent still
//! sends under the old ones is refused.

use entente_domain::access::Level;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::agents::handovers::{HandedTask, HandoverAsk};
use entente_domain::openintent::leases::{Claimant, Lease};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::membership::{self, Membership};
use entente_kernel::access::{assignments, governance};
use entente_kernel::identity::agents;
use entente_kernel::{Caller, IntentTx, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::Ctx;
use crate::{leases, tasks};

/// The work that was handed over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Handover {
    /// The intent.
    pub intent_id: IntentId,
    /// The agent that handed over.
    pub from: String,
    /// The agent that took over.
    pub to: String,
    /// Its role on the intent.
    pub role: String,
    /// The tasks, with its new claims.
    pub tasks: Vec<HandedTask>,
    /// The leases, with its new fencing tokens.
    pub leases: Vec<Lease>,
    /// Number of the event in the intent's log.
    pub seq: i64,
}

/// Hands an agent's part of an intent over.
///
/// # Errors
/// The intent does not exist, is not writable or is resolved; the work is another agent's, and the caller does not manage the
/// intent; the other agent has left or may not write; a named task or lease is not the agent's; the intent's policy forbids it.
pub async fn hand_over(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: &HandoverAsk,
    once: Option<&Idempotency>,
) -> Outcome<Handover> {
    caller.require(Scope::IntentsWrite)?;
    ask.check()?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    let membership = work.require(Level::Write)?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    tasks::require_unresolved(&membership)?;
    let role = assignments::role(work.reading(), intent_id, &ask.from).await?;
    require_authority(caller, ask, &membership, role.as_deref())?;
    ctx.objection(caller, &ask.from, Some(intent_id)).map_or(Ok(()), Err)?;
    let attempt = governance::Attempt {
        intent_id,
        membership: &membership,
        agent: &caller.agent,
        operation: "hand_over",
    };
    let mut work = governance::admit_assignment(caller, work, attempt, &ask.to, false).await?;
    let (conn, log) = work.parts();
    require_present(conn, ctx, &ask.to).await?;
    let assignment = assignments::hand_over(conn, ctx, log, &caller.agent, &ask.from, &ask.to).await?;
    let until = require_writer(conn, ctx, intent_id, &ask.to).await?;
    let (named, note) = (ask.tasks.as_deref(), ask.note.as_deref());
    let tasks = tasks::hand_over(conn, ctx, log, &ask.from, &ask.to, named, note).await?;
    let to = Claimant { agent: &ask.to, until };
    let leases = leases::hand_over(conn, ctx, log, &ask.from, to, ask.leases.as_deref()).await?;
    let handover = Handover {
        intent_id,
        from: ask.from.clone(),
        to: ask.to.clone(),
        role: assignment.role,
        tasks,
        leases,
        seq: log.next_seq(),
    };
    log.record(ctx, Draft::of(Kind::HandoverMade, &caller.agent, payload(ask, &handover)?));
    work.finish(handover).await
}

/// Requires that the caller may pass this work on: its own, or anybody's if it manages the intent.
fn require_authority(
    caller: &Caller,
    ask: &HandoverAsk,
    membership: &Membership,
    role: Option<&str>,
) -> Result<(), Refusal> {
    let manages = membership.access.manages() || membership.coordinates;
    if ask.from != caller.agent && !manages {
        let message = format!(
            "This is the work of `{}`. An agent hands over its own work; that of others, who manages the intent.",
            ask.from
        );
        return Err(Refusal::new(Code::Forbidden, message));
    }
    // Coordinators see and manage all channels, so only a manager makes one.
    if role == Some("coordinator") { membership.access.require_manager() } else { Ok(()) }
}

fn refuse(kind: &str, message: String) -> Refusal {
    Refusal::field(Code::Unprocessable, "to", kind, message)
}

async fn require_present(conn: &mut PgConnection, ctx: &Ctx, to: &str) -> Outcome<()> {
    let record = agents::hold(conn, to).await?.map(|agent| agents::shown(ctx, agent));
    if record.is_some_and(|record| record.status.has_left()) {
        return Err(refuse("gone", format!("`{to}` has left. Choose another agent.")).into());
    }
    Ok(())
}

/// Requires that the agent may write to the intent; returns when its access ends.
async fn require_writer(
    conn: &mut PgConnection,
    ctx: &Ctx,
    intent_id: IntentId,
    to: &str,
) -> Outcome<Option<entente_domain::clock::Timestamp>> {
    let membership = membership::find(conn, to, intent_id, ctx.now()).await?;
    let access = membership.map(|membership| membership.access).filter(|access| access.reaches(Level::Write));
    let Some(access) = access else {
        let message = format!("`{to}` may not write to this intent. Grant it access first.");
        return Err(refuse("no_access", message).into());
    };
    Ok(access.until)
}

/// Payload of the event: all that the other agent needs to go on.
fn payload(ask: &HandoverAsk, handover: &Handover) -> Outcome<Value> {
    let state: Option<Value> =
        ask.state.as_ref().map(|state| serde_json::from_str(state.as_str())).transpose()?;
    let leases = handover.leases.iter().map(
        |lease| json!({ "lease_id": lease.id, "scope": lease.scope, "fencing_token": lease.fencing_token }),
    );
    Ok(json!({
        "from": handover.from, "to": handover.to, "role": handover.role, "note": ask.note, "state": state,
        "references": ask.references, "tasks": handover.tasks, "leases": leases.collect::<Vec<_>>(),
    }))
}
