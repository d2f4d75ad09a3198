//! Governance (RFC-0013): sets an intent's policy, and judges changes of its status. The kernel enforces the policy on
//! all other operations (`kernel/src/access/governance.rs`).

use entente_domain::access::Level;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ApprovalId, IntentId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::approvals;
use entente_domain::openintent::governance::GovernancePolicy;
use entente_domain::openintent::intents::{Intent, IntentStatus, governed_payload};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::governance;
use entente_kernel::access::governance::Attempt;
use entente_kernel::access::membership;
use entente_kernel::access::membership::Membership;
use entente_kernel::intents;
use entente_kernel::{Caller, IntentTx, Outcome, not_found};
use serde_json::{Map, Value};
use sqlx::PgConnection;

use crate::Ctx;
use crate::{escalations, suspensions};

/// Returns an intent and its parsed policy.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn get(ctx: &Ctx, caller: &Caller, id: IntentId) -> Outcome<(Intent, GovernancePolicy)> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    membership::require(&mut connection, &caller.agent, id, Level::Read, ctx.now()).await?;
    let intent = intents::load(&mut connection, id).await?.ok_or_else(|| not_found("intent"))?;
    let seen = suspensions::seen(&mut connection, ctx, vec![intent]).await?;
    let intent = seen.into_iter().next().ok_or_else(|| not_found("intent"))?;
    let policy = intent.governance_policy.as_ref().map(GovernancePolicy::kept).unwrap_or_default();
    Ok((intent, policy))
}

/// Sets an intent's policy at the version that the caller has seen, or removes it (`None`); from then on it
/// applies to work already in progress too.
///
/// # Errors
/// The intent does not exist or the caller does not manage it; the version is stale; it is resolved; the
/// policy is invalid.
pub async fn set(
    ctx: &Ctx,
    caller: &Caller,
    id: IntentId,
    seen: i64,
    policy: Option<Map<String, Value>>,
) -> Outcome<Intent> {
    caller.require(Scope::IntentsWrite)?;
    let read = policy.as_ref().map(GovernancePolicy::read).transpose()?;
    let mut work = IntentTx::begin(ctx, caller, id, None).await?;
    let membership = membership::require(work.conn(), &caller.agent, id, Level::Read, ctx.now()).await?;
    require_manager(&membership)?;
    if let Some(person) = read.as_ref().and_then(|policy| policy.escalate_to.as_deref()) {
        escalations::require_person(work.conn(), "escalate_to", person).await?;
    }
    let (conn, log) = work.parts();
    let intent = intents::load(conn, id).await?.ok_or_else(|| not_found("intent"))?;
    let intent = suspensions::settle(conn, ctx, log, intent).await?;
    intent.require_version(seen)?;
    if policy.is_none() && intent.governance_policy.is_none() {
        // There is no policy to remove, so the request is already fulfilled.
        return Ok(intent);
    }
    if intent.status.is_terminal() {
        let message =
            format!("The intent is {}; its governance is part of what was.", intent.status.as_str());
        return Err(Refusal::new(Code::IntentResolved, message).into());
    }
    let next = intent.governed(policy, log.now());
    intents::set_policy(conn, &next).await?;
    let set = next.governance_policy.is_some();
    let kind = if set { Kind::GovernancePolicySet } else { Kind::GovernancePolicyRemoved };
    log.record(ctx, Draft::of(kind, &caller.agent, governed_payload(&next)));
    work.finish(next).await
}

/// Requires a manager: on an open intent all agents are admins, but the policy restricts everybody.
fn require_manager(membership: &Membership) -> Result<(), Refusal> {
    membership.access.require(Level::Admin)?;
    if membership.access.manages() {
        return Ok(());
    }
    Err(Refusal::new(
        Code::Forbidden,
        "Only the intent's creator and those with an admin entry on its access list govern it. Ask one of them.",
    ))
}

/// Checks the parts of a new intent's policy that depend on stored rows.
pub(crate) async fn check_new(conn: &mut PgConnection, policy: Option<&Map<String, Value>>) -> Outcome<()> {
    match policy.and_then(|policy| GovernancePolicy::kept(policy).escalate_to) {
        Some(person) => escalations::require_person(conn, "escalate_to", &person).await,
        None => Ok(()),
    }
}

/// As [`governance::admit`], for a change of status; also returns the approvals that it uses up.
///
/// # Errors
/// As [`governance::admit`].
pub(crate) async fn admit_status<'a>(
    caller: &'a Caller,
    mut work: IntentTx<'a>,
    attempt: Attempt<'_>,
    status: IntentStatus,
    reason: Option<&str>,
) -> Outcome<(IntentTx<'a>, Vec<ApprovalId>)> {
    let id = attempt.intent_id;
    let Some(policy) = governance::policy(work.conn(), id, attempt.membership).await? else {
        return Ok((work, Vec::new()));
    };
    let mut judged = policy.judge_write(attempt.agent, attempt.membership.assigned);
    judged = judged.and_then(|()| policy.judge_reason(reason));
    // A completed intent needs no second approval to stay completed.
    let completes = status == IntentStatus::Completed && attempt.membership.status != IntentStatus::Completed;
    let judged = match judged {
        Ok(()) if completes => {
            let open = crate::approvals::open(work.conn(), id, approvals::COMPLETE).await?;
            approvals::judge_completion(&policy, &open, &governance::assigned(work.conn(), id).await?)
        }
        Ok(()) => Ok(Vec::new()),
        Err(refusal) => Err(refusal),
    };
    match judged {
        Ok(used) => Ok((work, used)),
        Err(refusal) => governance::refuse(caller, work, attempt, refusal).await,
    }
}
