//! Retry policies of intents (RFC-0010). Table `retry_policies`; `failures.rs` applies them to failures.

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, RetryPolicyId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::intents::IntentStatus;
use entente_domain::openintent::retry_policies::{RetryPolicy, Rules, Strategy};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::governance;
use entente_kernel::access::governance::Attempt;
use entente_kernel::access::membership;
use entente_kernel::{AppError, Caller, IntentTx, Outcome, not_found, unknown};
use serde_json::json;
use sqlx::PgConnection;

use super::rows::end_of_intent;
use crate::Ctx;

/// Returns an intent's retry policy.
///
/// # Errors
/// Fails if the intent does not exist or is not readable, or if it has no retry policy.
pub async fn get(ctx: &Ctx, caller: &Caller, intent_id: IntentId) -> Outcome<RetryPolicy> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    membership::require(&mut connection, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    Ok(load(&mut connection, intent_id).await?.ok_or_else(|| not_found("retry policy"))?.policy)
}

/// Sets an intent's retry policy; equal rules change nothing.
///
/// A change restarts the count of failures, and allows another handover to the fallback agent.
///
/// # Errors
/// Fails if the intent does not exist or is not writable, if a rule is invalid, or if the fallback agent may not
/// write to the intent.
pub async fn set(ctx: &Ctx, caller: &Caller, intent_id: IntentId, rules: Rules) -> Outcome<RetryPolicy> {
    caller.require(Scope::IntentsWrite)?;
    rules.check()?;
    let work = IntentTx::begin(ctx, caller, intent_id, None).await?;
    let membership = work.require(Level::Write)?;
    let attempt =
        Attempt { intent_id, membership: &membership, agent: &caller.agent, operation: "set_retry_policy" };
    let mut work = governance::admit(caller, work, attempt).await?;
    if let Some(agent) = &rules.fallback_agent_id {
        // The server may assign this agent later.
        work = governance::admit_assignment(caller, work, attempt, agent, false).await?;
    }
    if let Some(agent) = &rules.fallback_agent_id
        && membership::writers(work.conn(), &[(intent_id, agent)], ctx.now()).await?.is_empty()
    {
        let message = "The agent of `fallback_agent_id` may not write on this intent. Grant it access first.";
        return Err(Refusal::field(Code::Unprocessable, "fallback_agent_id", "access", message).into());
    }
    let before = load(work.conn(), intent_id).await?.map(|stored| stored.policy);
    if let Some(same) = before.as_ref().filter(|before| before.rules == rules) {
        return Ok(same.clone());
    }
    let now = work.now();
    let policy = RetryPolicy {
        id: before.as_ref().map_or_else(|| RetryPolicyId::mint(now, &*ctx.chance), |before| before.id),
        intent_id,
        rules,
        set_by: caller.agent.clone(),
        created_at: before.map_or(now, |before| before.created_at),
        updated_at: now,
    };
    let rules = &policy.rules;
    if rules.strategy == Strategy::None || rules.max_retries == 0 {
        // Without retries none may stay scheduled; this resolves no failure, as when the intent is abandoned. If
        // retries remain, the scheduled ones stay, because their agents wait for the notification.
        end_of_intent(work.conn(), intent_id, IntentStatus::Abandoned, now).await?;
    }
    let payload = json!({
        "about": "retry_policy", "retry_policy_id": policy.id, "strategy": rules.strategy,
        "max_retries": rules.max_retries, "base_delay_ms": rules.base_delay_ms, "max_delay_ms": rules.max_delay_ms,
        "jitter": rules.jitter, "fallback_agent_id": rules.fallback_agent_id,
        "failure_threshold": rules.failure_threshold,
    });
    work.record(Draft::of(Kind::Comment, &caller.agent, payload));
    let (conn, log) = work.parts();
    save(conn, &policy, log.tail.seq).await?;
    work.commit().await?;
    Ok(policy)
}

/// A retry policy with its internal state.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The policy.
    pub policy: RetryPolicy,
    /// Position in the intent's log after which failures count.
    pub since_seq: i64,
    /// Whether the work was handed over to the fallback agent.
    pub handed_over: bool,
}

/// Loads an intent's retry policy.
pub(crate) async fn load(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Option<Stored>> {
    let row = sqlx::query!(
        "-- retry_policies::load
         SELECT id, strategy, max_retries, base_delay_ms, max_delay_ms, jitter, fallback_agent_id, failure_threshold, set_by,
                created_at, updated_at, since_seq, handed_over_at
         FROM retry_policies WHERE intent_id = $1",
        intent_id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let strategy = Strategy::parse(&row.strategy).ok_or_else(|| unknown("retry strategy", &row.strategy))?;
    let rules = Rules {
        strategy,
        max_retries: number(row.max_retries)?,
        base_delay_ms: number(row.base_delay_ms)?,
        max_delay_ms: number(row.max_delay_ms)?,
        jitter: row.jitter,
        fallback_agent_id: row.fallback_agent_id,
        failure_threshold: number(row.failure_threshold)?,
    };
    let policy = RetryPolicy {
        id: row.id.into(),
        intent_id,
        rules,
        set_by: row.set_by,
        created_at: row.created_at,
        updated_at: row.updated_at,
    };
    Ok(Some(Stored { policy, since_seq: row.since_seq, handed_over: row.handed_over_at.is_some() }))
}

fn number(stored: i32) -> Outcome<u32> {
    u32::try_from(stored).map_err(|e| AppError::Inconsistent(e.to_string()))
}

fn column(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

async fn save(conn: &mut PgConnection, policy: &RetryPolicy, seq: i64) -> Outcome<()> {
    let rules = &policy.rules;
    sqlx::query!(
        "-- retry_policies::save
         INSERT INTO retry_policies (intent_id, id, strategy, max_retries, base_delay_ms, max_delay_ms, jitter,
                                     fallback_agent_id, failure_threshold, set_by, created_at, updated_at, since_seq)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         ON CONFLICT (intent_id) DO UPDATE SET strategy = excluded.strategy, max_retries = excluded.max_retries,
             base_delay_ms = excluded.base_delay_ms, max_delay_ms = excluded.max_delay_ms, jitter = excluded.jitter,
             fallback_agent_id = excluded.fallback_agent_id, failure_threshold = excluded.failure_threshold,
             set_by = excluded.set_by, updated_at = excluded.updated_at, since_seq = excluded.since_seq,
             handed_over_at = NULL",
        policy.intent_id.uuid(),
        policy.id.uuid(),
        rules.strategy.as_str(),
        column(rules.max_retries),
        column(rules.base_delay_ms),
        column(rules.max_delay_ms),
        rules.jitter,
        rules.fallback_agent_id,
        column(rules.failure_threshold),
        policy.set_by,
        policy.created_at,
        policy.updated_at,
        seq
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records the handover to the fallback agent.
pub(crate) async fn hand_over(conn: &mut PgConnection, intent_id: IntentId, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- retry_policies::hand_over
         UPDATE retry_policies SET handed_over_at = $2 WHERE intent_id = $1",
        intent_id.uuid(),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}
