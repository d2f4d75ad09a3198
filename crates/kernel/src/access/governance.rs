//! Enforces an intent's governance policy (RFC-0013). The policy is stored in the intent's own row; its meaning is
//! `entente_domain::openintent::governance`. Table `governance_violations`.
//!
//! An operation that works on an intent calls [`admit`] once it holds the intent's lock and knows its agent's
//! access; without a policy this needs no query. An operation that the policy refuses is rolled back. A new
//! transaction records the violation in the log, unless the same one was recorded shortly before.

use entente_domain::amounts::Amount;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::limits::{VIOLATION_PAUSE_SECONDS, VIOLATIONS_TOLD};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::governance::{GovernancePolicy, Violation};
use entente_domain::refusal::Refusal;
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use crate::access::membership::Membership;
use crate::log::writer::IntentLog;
use crate::{AppError, Caller, Ctx, Outcome, Tx};

/// An attempted operation: its agent, its intent, and its name in the log.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
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
pub async fn admit(ctx: &Ctx, caller: &Caller, mut tx: Tx, attempt: Attempt<'_>) -> Outcome<Tx> {
    match may_work(&mut tx, attempt.intent_id, attempt.membership, attempt.agent).await? {
        Ok(()) => Ok(tx),
        Err(refusal) => refuse(ctx, caller, tx, attempt, refusal).await,
    }
}

/// Whether the policy lets an agent work, for operations that check many agents at once and record no
/// violations.
pub async fn may_work(
    conn: &mut PgConnection,
    intent_id: IntentId,
    membership: &Membership,
    agent: &str,
) -> Outcome<Result<(), Refusal>> {
    Ok(policy(conn, intent_id, membership)
        .await?
        .map_or(Ok(()), |policy| policy.judge_write(agent, membership.assigned)))
}

/// As [`admit`], for the cost `adding` after `spent`; called under the intent's lock.
///
/// # Errors
/// As [`admit`].
pub async fn admit_cost(
    ctx: &Ctx,
    caller: &Caller,
    mut tx: Tx,
    attempt: Attempt<'_>,
    spent: Amount,
    adding: Amount,
) -> Outcome<Tx> {
    let Some(policy) = policy(&mut tx, attempt.intent_id, attempt.membership).await? else { return Ok(tx) };
    match policy.judge_cost(spent, adding) {
        Ok(()) => Ok(tx),
        Err(refusal) => refuse(ctx, caller, tx, attempt, refusal).await,
    }
}

/// As [`admit`], for assigning `agent` to the intent, or with `leaves` for removing it.
///
/// # Errors
/// As [`admit`].
pub async fn admit_assignment(
    ctx: &Ctx,
    caller: &Caller,
    mut tx: Tx,
    attempt: Attempt<'_>,
    agent: &str,
    leaves: bool,
) -> Outcome<Tx> {
    let Some(policy) = policy(&mut tx, attempt.intent_id, attempt.membership).await? else { return Ok(tx) };
    let manages =
        attempt.membership.access.manages() || attempt.membership.coordinates || caller.has(Scope::Admin);
    let judge = if leaves { GovernancePolicy::judge_removal } else { GovernancePolicy::judge_assignment };
    match judge(&policy, attempt.agent, manages, agent) {
        Ok(()) => Ok(tx),
        Err(refusal) => refuse(ctx, caller, tx, attempt, refusal).await,
    }
}

/// Rolls the operation back, and records the violation.
pub async fn refuse<T>(
    ctx: &Ctx,
    caller: &Caller,
    tx: Tx,
    attempt: Attempt<'_>,
    refusal: Refusal,
) -> Outcome<T> {
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
pub async fn policy(
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

/// As [`policy`], with the default policy, which allows everything, if there is none.
pub async fn of_or_none(
    conn: &mut PgConnection,
    id: IntentId,
    membership: &Membership,
) -> Outcome<GovernancePolicy> {
    Ok(policy(conn, id, membership).await?.unwrap_or_default())
}

/// Returns the agents assigned to an intent.
pub async fn assigned(conn: &mut PgConnection, id: IntentId) -> Outcome<Vec<String>> {
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
