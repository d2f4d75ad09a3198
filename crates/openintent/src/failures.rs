//! Failed attempts at intents (RFC-0010), and the retries that they cause. The rows are in `failures/rows.rs`, the
//! rules of retries in `failures/retry_policies.rs`.
//!
//! A due retry is announced to its agent as an assignment, because agents act on assignments (OI-11.5.2). Each
//! agent has at most one pending retry per intent, so many failures do not cause many retries.

pub mod retry_policies;
mod rows;

use entente_domain::access::Level;
use entente_domain::clock::rfc3339;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{FailureId, IntentId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::failures as domain;
use entente_domain::openintent::failures::{Case, Failure, FailureAsk, Next};
use entente_kernel::access::assignments;
use entente_kernel::access::assignments::Retry;
use entente_kernel::access::governance;
use entente_kernel::access::governance::Attempt;
use entente_kernel::access::membership;
use entente_kernel::due::run_each;
use entente_kernel::{Caller, IntentTx, Outcome};
use serde_json::{Value, json};

pub(crate) use rows::end_of_intent;

use crate::Ctx;
use crate::failures::rows::{Due, announced, call_off, count, insert, load, take_due};

/// Records a failed attempt of the caller, and decides on the next step by the intent's policy.
///
/// A fallback agent is assigned at once. The same agent is told to retry after its pause, if it is assigned
/// to the intent.
///
/// # Errors
/// The intent does not exist or is not writable; the failure is invalid.
pub async fn record(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: FailureAsk,
    once: Option<&Idempotency>,
) -> Outcome<Failure> {
    caller.require(Scope::IntentsWrite)?;
    let agent = &caller.agent;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    let membership = membership::require(work.conn(), agent, intent_id, Level::Write, ctx.now()).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let attempt = Attempt { intent_id, membership: &membership, agent, operation: "record_failure" };
    let mut work = governance::admit(caller, work, attempt).await?;
    let (conn, log) = work.parts();
    let governed = governance::of_or_none(conn, intent_id, &membership).await?;
    let now = log.now();
    let stored = retry_policies::load(conn, intent_id).await?;
    let since = stored.as_ref().map_or(0, |stored| stored.since_seq);
    let fallback = stored.as_ref().filter(|stored| !stored.handed_over);
    let fallback = fallback.and_then(|stored| stored.policy.rules.fallback_agent_id.as_deref());
    // The governance policy may be newer than the retry policy: an agent that it bars from work is no
    // fallback.
    let fallback = fallback.filter(|agent| governed.judge_write(agent, true).is_ok());
    let asked: Vec<(IntentId, &str)> = fallback.map(|agent| (intent_id, agent)).into_iter().collect();
    let case = Case {
        agent_id: agent,
        failures: count(conn, intent_id, agent, since).await? + 1,
        rules: stored.as_ref().map(|stored| &stored.policy.rules),
        fallback_free: !membership::writers(conn, &asked, now).await?.is_empty(),
        over: membership.status.is_terminal(),
    };
    let id = FailureId::mint(now, &*ctx.chance);
    let chance = u64::try_from(ctx.chance.bits() >> 64).unwrap_or(0);
    let mut made = domain::record(ask, &case, intent_id, id, chance, now)?;
    call_off(conn, intent_id, agent).await?;
    log.record(ctx, Draft::of(Kind::FailureRecorded, agent, event_payload(&made)));
    let seq = log.tail.seq;
    if let Next::HandedOver { agent_id, attempt } = &made.next {
        let retry = Retry {
            agent_id,
            // Only an agent that has the intent itself can hand it on.
            delegated_by: Some(agent.as_str()).filter(|_| membership.assigned),
            attempt: *attempt,
            last_error: made.error_message.as_deref().or(made.error_code.as_deref()),
            failure_id: id,
        };
        assignments::retry(conn, ctx, log, &[retry]).await?;
        retry_policies::hand_over(conn, intent_id, now).await?;
        made.announced_at = Some(now);
    }
    // An agent without an assignment gets no announcement; only the response tells it when to retry.
    let due = match made.next {
        Next::Again { attempt, at } if membership.assigned => Some((attempt, at)),
        _ => None,
    };
    insert(conn, &made, seq, due).await?;
    work.finish(made).await
}

/// Builds the event payload of a failure.
fn event_payload(made: &Failure) -> Value {
    let mut payload = json!({
        "failure_id": made.id, "agent_id": made.agent_id, "attempt_number": made.attempt_number,
        "error_code": made.error_code, "error_message": made.error_message, "recoverable": made.recoverable,
    });
    payload["retry"] = match &made.next {
        Next::Again { attempt, at } => json!({ "decision": "again", "attempt": attempt, "at": rfc3339(*at) }),
        Next::Own { at } => json!({ "decision": "own", "at": rfc3339(*at) }),
        other => json!(other),
    };
    payload
}

/// A page of an intent's failures.
#[derive(Debug, Clone)]
pub struct FailurePage {
    /// The failures, oldest first.
    pub failures: Vec<Failure>,
    /// The position after which the next page begins; `None` on the last page.
    pub next: Option<i64>,
}

/// Lists the failures on an intent after a position, oldest first.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    after: i64,
    limit: u32,
) -> Outcome<FailurePage> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    membership::require(&mut connection, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    let mut rows = load(&mut connection, intent_id, after, i64::from(limit) + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().map(|row| row.seq).filter(|_| more);
    let failures = rows.into_iter().map(Failure::try_from).collect::<Outcome<_>>()?;
    Ok(FailurePage { failures, next })
}

/// Announces due retries to their agents, on up to `limit` intents one after the other.
///
/// # Errors
/// A database error.
pub async fn retry_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let intents = rows::due(&ctx.pool, ctx.now(), limit).await?;
    run_each(intents.into_iter().map(|intent_id| retry_on(ctx, intent_id, limit))).await
}

/// Announces the due retries of one intent; checked again under the lock, because another server may have
/// done it.
async fn retry_on(ctx: &Ctx, intent_id: IntentId, limit: i64) -> Outcome<u64> {
    let mut work = IntentTx::unattended(ctx, intent_id).await?;
    let (conn, log) = work.parts();
    let due = take_due(conn, intent_id, log.now(), limit).await?;
    let asked: Vec<(IntentId, &str)> = due.iter().map(|one| (intent_id, one.agent_id.as_str())).collect();
    let memberships = membership::find_all(conn, &asked, log.now()).await?;
    // Agents that were unassigned since, or may no longer write to the intent, are not told.
    let works = |agent: &str| {
        memberships.iter().any(|((_, known), membership)| {
            known == agent
                && membership.assigned
                && membership.access.reaches(Level::Write)
                && !membership.status.is_terminal()
        })
    };
    let told: Vec<&Due> = due.iter().filter(|one| works(&one.agent_id)).collect();
    if !told.is_empty() {
        let retries = told.iter().map(|one| Retry {
            agent_id: &one.agent_id,
            delegated_by: None,
            attempt: u32::try_from(one.attempt).unwrap_or(u32::MAX),
            last_error: one.error_message.as_deref().or(one.error_code.as_deref()),
            failure_id: one.id.into(),
        });
        assignments::retry(conn, ctx, log, &retries.collect::<Vec<_>>()).await?;
        announced(conn, &told.iter().map(|one| one.id).collect::<Vec<_>>(), log.now()).await?;
    }
    work.commit().await?;
    Ok(due.len() as u64)
}
