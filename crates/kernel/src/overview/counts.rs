//! Totals for the dashboard, counted in the database because its lists are truncated.

use entente_domain::identity::keys::Scope;
use entente_domain::openintent::agents::{Agent, AgentStatus};

use crate::{Caller, Ctx, Outcome};

/// Totals of resources that the caller may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Unfinished intents.
    pub intents: i64,
    /// Requests that wait for an answer.
    pub waits: i64,
    /// Unfinished jobs.
    pub jobs: i64,
    /// Webhook receivers that are failing or disabled.
    pub receivers: i64,
}

/// Counts the resources that the caller may see.
///
/// # Errors
/// The caller lacks the scopes.
pub async fn counts(ctx: &Ctx, caller: &Caller) -> Outcome<Counts> {
    [Scope::IntentsRead, Scope::ChannelsRead, Scope::JobsRead]
        .into_iter()
        .try_for_each(|scope| caller.require(scope))?;
    let all = caller.has(Scope::Admin);
    let (now, agent) = (ctx.now(), caller.agent.as_str());
    let intents = sqlx::query_scalar!(
        r#"-- overview::count_intents
         SELECT count(*) AS "count!" FROM intents i LEFT JOIN acls a ON a.intent_id = i.id
         WHERE i.status NOT IN ('completed', 'abandoned')
           AND ($3 OR a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $1 OR EXISTS (
                SELECT 1 FROM acl_entries e WHERE e.intent_id = i.id AND e.principal_id = $1
                AND (e.expires_at IS NULL OR e.expires_at > $2)))"#,
        agent,
        now,
        all
    )
    .fetch_one(&ctx.pool)
    .await?;
    // `pending` holds only waiting messages, so it is its own index.
    let waits = sqlx::query_scalar!(
        r#"-- overview::count_waits
         SELECT count(*) AS "count!" FROM pending p JOIN channels ch ON ch.id = p.channel_id
         JOIN messages m ON m.channel_id = p.channel_id AND m.number = p.number
         JOIN intents i ON i.id = p.intent_id LEFT JOIN acls a ON a.intent_id = i.id
         WHERE p.is_request AND (p.expires_at IS NULL OR p.expires_at > $2)
           AND ($3 OR (a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $1 OR EXISTS (
                    SELECT 1 FROM acl_entries e WHERE e.intent_id = i.id AND e.principal_id = $1
                    AND (e.expires_at IS NULL OR e.expires_at > $2)))
                AND (p.sender = $1 OR p.agent_id = $1 OR ch.created_by = $1
                    OR (ch.member_policy = 'intent' OR $1 = ANY(ch.members))
                       AND (m.recipients IS NULL OR $1 = ANY(m.recipients))))"#,
        agent,
        now,
        all
    )
    .fetch_one(&ctx.pool)
    .await?;
    let jobs = sqlx::query_scalar!(
        r#"-- overview::count_jobs
         SELECT count(*) AS "count!" FROM job_clock c JOIN jobs j ON j.id = c.job_id
         WHERE c.ended_at IS NULL AND c.status <> 'preparing' AND ($2 OR j.principal = $1)"#,
        agent,
        all
    )
    .fetch_one(&ctx.pool)
    .await?;
    let receivers = sqlx::query_scalar!(
        r#"-- overview::count_receivers
         SELECT count(*) AS "count!" FROM webhook_endpoints e LEFT JOIN webhook_shifts s ON s.endpoint_id = e.id
         WHERE e.removed_at IS NULL AND e.url IS NOT NULL AND ($2 OR e.principal_id = $1)
           AND (s.failures > 0 OR e.disabled_reason IS NOT NULL)"#,
        caller.principal(),
        all
    )
    .fetch_one(&ctx.pool)
    .await?;
    Ok(Counts { intents, waits, jobs, receivers })
}

/// Counts the healthy and the silent agents of the directory.
///
/// Counts the current list; if that may be truncated at `most` agents, counts the stored status of all.
///
/// # Errors
/// The caller lacks the scope.
pub async fn health(ctx: &Ctx, caller: &Caller, listed: &[Agent], most: u32) -> Outcome<[i64; 2]> {
    caller.require(Scope::AgentsRead)?;
    let is_whole = u32::try_from(listed.len()).is_ok_and(|listed| listed < most);
    let mut counts = [0; 2];
    for (count, statuses) in
        counts.iter_mut().zip([&[AgentStatus::Active][..], &[AgentStatus::Unhealthy, AgentStatus::Dead]])
    {
        *count = if is_whole {
            let fitting = listed.iter().filter(|one| statuses.contains(&one.status)).count();
            i64::try_from(fitting).unwrap_or(i64::MAX)
        } else {
            let words: Vec<&str> = statuses.iter().map(|status| status.as_str()).collect();
            sqlx::query_scalar!(
                r#"-- overview::count_agents
                 SELECT count(*) AS "count!" FROM agents WHERE status = ANY($1)"#,
                &words as &[&str]
            )
            .fetch_one(&ctx.pool)
            .await?
        };
    }
    Ok(counts)
}
