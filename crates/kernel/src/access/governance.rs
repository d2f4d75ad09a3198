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
use entente_domain::openintent::governance::GovernancePolicy;
use entente_domain::refusal::Refusal;
use entente_domain::refusal::violation::Violation;
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use crate::access::membership::Membership;
use crate::{AppError, Caller, Ctx, IntentTx, Outcome, Tx};

/// An attempted operation: its agent, its intent, and its name in the log.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// The intent that the operation works on.
    pub intent_id: IntentId,
    /// The agent's membership in the intent.
    pub membership: &'a Membership,
    /// The agent whose access `membership` describes.
    pub agent: &'a str,
    /// The operation's name.
    pub operation: &'static str,
}

/// Admits an operation that works on an intent, and returns its transaction unchanged; call it before the first
/// write.
///
/// # Errors
/// [`GovernanceViolation`](entente_domain::refusal::Code::GovernanceViolation), which is recorded in the log.
pub async fn admit<'a>(
    caller: &'a Caller,
    work: IntentTx<'a>,
    attempt: Attempt<'_>,
) -> Outcome<IntentTx<'a>> {
    let judge = |policy: &GovernancePolicy| policy.judge_write(attempt.agent, attempt.membership.assigned);
    match work.policy().map_or(Ok(()), judge) {
        Ok(()) => Ok(work),
        Err(refusal) => refuse(caller, work, attempt, refusal).await,
    }
}

/// As [`admit`], for an operation with a transaction of another kind.
///
/// # Errors
/// As [`admit`].
pub async fn admit_tx(ctx: &Ctx, caller: &Caller, mut tx: Tx, attempt: Attempt<'_>) -> Outcome<Tx> {
    match may_work(&mut tx, attempt.intent_id, attempt.membership, attempt.agent).await? {
        Ok(()) => Ok(tx),
        Err(refusal) if refusal.violation.is_none() => Err(refusal.into()),
        Err(refusal) => {
            tx.rollback().await?;
            record_violation(ctx, caller, attempt.intent_id, attempt.agent, attempt.operation, refusal).await
        }
    }
}

/// Records that the policy refused an operation of this agent, in a transaction of its own, after the operation was
/// rolled back.
///
/// # Errors
/// Always: the refusal.
pub async fn record_violation<T>(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    agent: &str,
    operation: &'static str,
    refusal: Refusal,
) -> Outcome<T> {
    let work = IntentTx::begin(ctx, caller, intent_id, None).await?;
    record(work, agent, operation, refusal).await
}

/// Whether the policy lets an agent work, for operations that check many agents at once and record no
/// violations.
///
/// # Errors
/// A database error; the stored policy is invalid.
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

/// As [`admit`], for the cost `adding` after `spent`.
///
/// # Errors
/// As [`admit`].
pub async fn admit_cost<'a>(
    caller: &'a Caller,
    work: IntentTx<'a>,
    attempt: Attempt<'_>,
    spent: Amount,
    adding: Amount,
) -> Outcome<IntentTx<'a>> {
    match work.policy().map_or(Ok(()), |policy| policy.judge_cost(spent, adding)) {
        Ok(()) => Ok(work),
        Err(refusal) => refuse(caller, work, attempt, refusal).await,
    }
}

/// As [`admit`], for assigning `agent` to the intent, or with `leaves` for removing it.
///
/// # Errors
/// As [`admit`].
pub async fn admit_assignment<'a>(
    caller: &'a Caller,
    work: IntentTx<'a>,
    attempt: Attempt<'_>,
    agent: &str,
    leaves: bool,
) -> Outcome<IntentTx<'a>> {
    let Some(policy) = work.policy() else { return Ok(work) };
    let manages =
        attempt.membership.access.manages() || attempt.membership.coordinates || caller.has(Scope::Admin);
    let judge = if leaves { GovernancePolicy::judge_removal } else { GovernancePolicy::judge_assignment };
    match judge(policy, attempt.agent, manages, agent) {
        Ok(()) => Ok(work),
        Err(refusal) => refuse(caller, work, attempt, refusal).await,
    }
}

/// Rolls the operation back, and records the violation.
///
/// # Errors
/// Always: the refusal.
pub async fn refuse<'a, T>(
    caller: &'a Caller,
    work: IntentTx<'a>,
    attempt: Attempt<'_>,
    refusal: Refusal,
) -> Outcome<T> {
    if refusal.violation.is_none() {
        return Err(refusal.into());
    }
    // None of the operation's writes may stay, only the record of the violation.
    record(work.restart(caller).await?, attempt.agent, attempt.operation, refusal).await
}

/// Records the violation in a fresh transaction, unless it was recorded shortly before.
async fn record<T>(
    mut work: IntentTx<'_>,
    agent: &str,
    operation: &'static str,
    refusal: Refusal,
) -> Outcome<T> {
    let (intent_id, now) = (work.log().intent_id, work.now());
    if let Some(violation) = refusal.violation.as_deref()
        && is_news(work.conn(), intent_id, agent, violation, now).await?
    {
        let mut payload = json!({ "operation": operation, "agent_id": agent, "message": refusal.message });
        if let (Some(members), Value::Object(said)) =
            (payload.as_object_mut(), serde_json::to_value(violation)?)
        {
            members.extend(said);
        }
        work.record(Draft::of(Kind::GovernanceViolation, agent, payload));
        work.commit().await?;
    }
    Err(AppError::Refused(refusal))
}

/// Loads an intent's policy; `None` if it has none, which `membership` tells without a query.
///
/// # Errors
/// A database error; the stored policy is invalid.
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
///
/// # Errors
/// As [`policy`].
pub async fn of_or_none(
    conn: &mut PgConnection,
    id: IntentId,
    membership: &Membership,
) -> Outcome<GovernancePolicy> {
    Ok(policy(conn, id, membership).await?.unwrap_or_default())
}

/// Returns the agents assigned to an intent.
///
/// # Errors
/// A database error.
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
