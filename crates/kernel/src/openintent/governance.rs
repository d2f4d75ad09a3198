//! Governance (RFC-0013): sets an intent's policy and enforces it. The policy is stored in the intent's own
//! row (`intents.rs`); its meaning is `entente_domain::openintent::governance`. Table `governance_violations`.
//!
//! An operation that works on an intent calls [`admit`] once it holds the intent's lock and knows its agent's
//! access; without a policy this needs no query. An operation that the policy refuses is rolled back. A new
//! transaction records the violation in the log, unless the same one was recorded shortly before.

use entente_domain::access::Level;
use entente_domain::amounts::Amount;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ApprovalId, IntentId};
use entente_domain::limits::{VIOLATION_PAUSE_SECONDS, VIOLATIONS_TOLD};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::approvals;
use entente_domain::openintent::governance::{GovernancePolicy, Violation};
use entente_domain::openintent::intents::{Intent, IntentStatus, governed_payload};
use entente_domain::refusal::{Code, Refusal};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use crate::access::membership;
use crate::access::membership::Membership;
use crate::log::writer::IntentLog;
use crate::openintent::{escalations, intents, suspensions};
use crate::{AppError, Caller, Ctx, Outcome, Tx, not_found};

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
    let mut tx = ctx.begin(&[id]).await?;
    let membership = membership::require(&mut tx, &caller.agent, id, Level::Read, ctx.now()).await?;
    require_manager(&membership)?;
    if let Some(person) = read.as_ref().and_then(|policy| policy.escalate_to.as_deref()) {
        escalations::require_person(&mut tx, "escalate_to", person).await?;
    }
    let mut log = IntentLog::open(&mut tx, id, caller.trace, ctx.now()).await?;
    let intent = intents::load(&mut tx, id).await?.ok_or_else(|| not_found("intent"))?;
    let intent = suspensions::settle(&mut tx, ctx, &mut log, intent).await?;
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
    intents::set_policy(&mut tx, &next).await?;
    let set = next.governance_policy.is_some();
    let kind = if set { Kind::GovernancePolicySet } else { Kind::GovernancePolicyRemoved };
    log.record(ctx, Draft::of(kind, &caller.agent, governed_payload(&next)));
    log.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(id);
    Ok(next)
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

/// An attempted operation: its agent, its intent, and its name in the log.
#[derive(Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub intent_id: IntentId,
    pub membership: &'a Membership,
    /// The agent whose access `membership` describes.
    pub agent: &'a str,
    /// The operation's name.
    pub operation: &'static str,
}

/// Admits an operation that works on an intent, and returns the transaction unchanged; call it under the
/// intent's lock and before the first write.
///
/// # Errors
/// [`Code::GovernanceViolation`], which is recorded in the log.
pub(crate) async fn admit(ctx: &Ctx, caller: &Caller, mut tx: Tx, attempt: Attempt<'_>) -> Outcome<Tx> {
    match may_work(&mut tx, attempt.intent_id, attempt.membership, attempt.agent).await? {
        Ok(()) => Ok(tx),
        Err(refusal) => refuse(ctx, caller, tx, attempt, refusal).await,
    }
}

/// Whether the policy lets an agent work, for operations that check many agents at once and record no
/// violations.
pub(crate) async fn may_work(
    conn: &mut PgConnection,
    intent_id: IntentId,
    membership: &Membership,
    agent: &str,
) -> Outcome<Result<(), Refusal>> {
    Ok(of(conn, intent_id, membership)
        .await?
        .map_or(Ok(()), |policy| policy.judge_write(agent, membership.assigned)))
}

/// As [`admit`], for an additional cost after `spent`; called under the intent's lock.
///
/// # Errors
/// As [`admit`].
pub(crate) async fn admit_cost(
    ctx: &Ctx,
    caller: &Caller,
    mut tx: Tx,
    attempt: Attempt<'_>,
    (spent, adding): (Amount, Amount),
) -> Outcome<Tx> {
    let Some(policy) = of(&mut tx, attempt.intent_id, attempt.membership).await? else { return Ok(tx) };
    match policy.judge_cost(spent, adding) {
        Ok(()) => Ok(tx),
        Err(refusal) => refuse(ctx, caller, tx, attempt, refusal).await,
    }
}

/// As [`admit`], for assigning `agent` to the intent, or with `leaves` for removing it.
///
/// # Errors
/// As [`admit`].
pub(crate) async fn admit_assignment(
    ctx: &Ctx,
    caller: &Caller,
    mut tx: Tx,
    attempt: Attempt<'_>,
    agent: &str,
    leaves: bool,
) -> Outcome<Tx> {
    let Some(policy) = of(&mut tx, attempt.intent_id, attempt.membership).await? else { return Ok(tx) };
    let manages =
        attempt.membership.access.manages() || attempt.membership.coordinates || caller.has(Scope::Admin);
    let judge = if leaves { GovernancePolicy::judge_removal } else { GovernancePolicy::judge_assignment };
    match judge(&policy, attempt.agent, manages, agent) {
        Ok(()) => Ok(tx),
        Err(refusal) => refuse(ctx, caller, tx, attempt, refusal).await,
    }
}

/// As [`admit`], for a change of status; also returns the approvals that it uses up.
///
/// # Errors
/// As [`admit`].
pub(crate) async fn admit_status(
    ctx: &Ctx,
    caller: &Caller,
    mut tx: Tx,
    attempt: Attempt<'_>,
    status: IntentStatus,
    reason: Option<&str>,
) -> Outcome<(Tx, Vec<ApprovalId>)> {
    let id = attempt.intent_id;
    let Some(policy) = of(&mut tx, id, attempt.membership).await? else { return Ok((tx, Vec::new())) };
    let mut judged = policy.judge_write(attempt.agent, attempt.membership.assigned);
    judged = judged.and_then(|()| policy.judge_reason(reason));
    // A completed intent needs no second approval to stay completed.
    let completes = status == IntentStatus::Completed && attempt.membership.status != IntentStatus::Completed;
    let judged = match judged {
        Ok(()) if completes => {
            let open = crate::openintent::approvals::open(&mut tx, id, approvals::COMPLETE).await?;
            approvals::judge_completion(&policy, &open, &assigned(&mut tx, id).await?)
        }
        Ok(()) => Ok(Vec::new()),
        Err(refusal) => Err(refusal),
    };
    match judged {
        Ok(used) => Ok((tx, used)),
        Err(refusal) => refuse(ctx, caller, tx, attempt, refusal).await,
    }
}

/// Rolls the operation back, and records the violation.
async fn refuse<T>(ctx: &Ctx, caller: &Caller, tx: Tx, attempt: Attempt<'_>, refusal: Refusal) -> Outcome<T> {
    let Some(violation) = refusal.violation.as_deref() else { return Err(refusal.into()) };
    let Attempt { intent_id, agent, operation, .. } = attempt;
    // None of the operation's writes may stay, only the record of the violation.
    tx.rollback().await?;
    let mut tx = ctx.begin(&[intent_id]).await?;
    let mut log = IntentLog::open(&mut tx, intent_id, caller.trace, ctx.now()).await?;
    if is_news(&mut tx, intent_id, agent, violation, log.now()).await? {
        let mut payload = json!({ "operation": operation, "agent_id": agent, "message": refusal.message });
        if let (Some(members), Value::Object(said)) =
            (payload.as_object_mut(), serde_json::to_value(violation)?)
        {
            members.extend(said);
        }
        log.record(ctx, Draft::of(Kind::GovernanceViolation, agent, payload));
        log.save(&mut tx).await?;
        tx.commit().await?;
        ctx.feed.notify_committed(intent_id);
    }
    Err(AppError::Refused(refusal))
}

/// Loads an intent's policy; `None` if it has none, which `membership` tells without a query.
async fn of(
    conn: &mut PgConnection,
    id: IntentId,
    membership: &Membership,
) -> Outcome<Option<GovernancePolicy>> {
    if !membership.governed {
        return Ok(None);
    }
    let text = sqlx::query_scalar!(
        "-- governance::policy
         SELECT governance_policy FROM intents WHERE id = $1",
        id.uuid()
    )
    .fetch_one(conn)
    .await?;
    let given: Option<Map<String, Value>> = text.as_deref().map(serde_json::from_str).transpose()?;
    Ok(given.as_ref().map(GovernancePolicy::kept))
}

/// As [`of`], with the default policy, which allows everything, if there is none.
pub(crate) async fn of_or_none(
    conn: &mut PgConnection,
    id: IntentId,
    membership: &Membership,
) -> Outcome<GovernancePolicy> {
    Ok(of(conn, id, membership).await?.unwrap_or_default())
}

/// Returns the agents assigned to an intent.
pub(crate) async fn assigned(conn: &mut PgConnection, id: IntentId) -> Outcome<Vec<String>> {
    let agents = sqlx::query_scalar!(
        "-- governance::assigned
         SELECT agent_id FROM assignments WHERE intent_id = $1 ORDER BY agent_id",
        id.uuid()
    )
    .fetch_all(conn)
    .await?;
    Ok(agents)
}

/// Whether to record a violation: each agent and rule at most once in a while, and a limited number per
/// intent.
///
/// Called under the intent's lock, so that only one of two simultaneous violations is recorded.
async fn is_news(
    conn: &mut PgConnection,
    id: IntentId,
    agent: &str,
    violation: &Violation,
    now: Timestamp,
) -> Outcome<bool> {
    let since = now - std::time::Duration::from_secs(VIOLATION_PAUSE_SECONDS.into());
    sqlx::query!(
        "-- governance::forget
         DELETE FROM governance_violations WHERE intent_id = $1 AND told_at <= $2",
        id.uuid(),
        since
    )
    .execute(&mut *conn)
    .await?;
    let told = sqlx::query!(
        "-- governance::tell
         INSERT INTO governance_violations (intent_id, agent, rule, told_at)
         SELECT $1::uuid, $2::text, $3::text, $4::timestamptz
         WHERE (SELECT count(*) FROM governance_violations WHERE intent_id = $1) < $5
         ON CONFLICT DO NOTHING",
        id.uuid(),
        agent,
        violation.rule.as_str(),
        now,
        i64::try_from(VIOLATIONS_TOLD).unwrap_or(i64::MAX)
    )
    .execute(conn)
    .await?;
    Ok(told.rows_affected() == 1)
}
