//! The search for intents, and the history of an agent.

use std::cmp::Reverse;

use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, floor};
use entente_domain::log::events::Kind;
use entente_domain::openintent::intents::IntentStatus;
use uuid::Uuid;

use super::{ENTRIES, Entry, IntentSummary, LOOKED_AT, event_entry};
use crate::identity::entities::speaks_for;
use crate::{Caller, Ctx, Outcome};

/// A search for intents.
#[derive(Debug, Clone, Default)]
pub struct IntentSearch {
    /// Only intents in this status.
    pub status: Option<IntentStatus>,
    /// Only intents of this creator.
    pub created_by: Option<String>,
    /// Only intents with this text in their title, in upper or lower case.
    pub title: Option<String>,
    /// Only intents created at this time or later.
    pub from: Option<Timestamp>,
    /// Only intents created before this time.
    pub until: Option<Timestamp>,
    /// Cursor: only intents older than this one.
    pub before: Option<IntentId>,
    /// Maximum number of intents.
    pub limit: u32,
}

/// Finds intents that the caller can read, newest first; an admin can read all.
///
/// # Errors
/// The caller lacks the scope.
pub async fn find_intents(ctx: &Ctx, caller: &Caller, search: &IntentSearch) -> Outcome<Vec<IntentSummary>> {
    caller.require(Scope::IntentsRead)?;
    // Ids sort by the time of creation, so that one index serves the cursor and the range of time.
    let below = [search.before.map(IntentId::uuid), search.until.map(floor)].into_iter().flatten().min();
    let rows = sqlx::query!(
        r#"-- overview::find_intents
         SELECT i.id, i.title, i.status, i.created_by, coalesce(c.last_at, i.updated_at) AS "last_at!",
                (SELECT count(*) FROM pending p WHERE p.intent_id = i.id AND p.is_request
                 AND (p.expires_at IS NULL OR p.expires_at > $2)) AS "waiting!"
         FROM (SELECT i.* FROM intents i LEFT JOIN acls a ON a.intent_id = i.id
               WHERE i.id < $5 AND i.id >= $6
                 AND ($7::text IS NULL OR i.status = $7) AND ($8::text IS NULL OR i.created_by = $8)
                 AND ($9::text IS NULL OR strpos(lower(i.title), lower($9)) > 0)
                 AND ($3 OR a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $1 OR EXISTS (
                      SELECT 1 FROM acl_entries e WHERE e.intent_id = i.id AND e.principal_id = $1
                      AND (e.expires_at IS NULL OR e.expires_at > $2)))
               ORDER BY i.id DESC LIMIT $4) i
         LEFT JOIN LATERAL (SELECT * FROM intent_clock e WHERE e.intent_id = i.id ORDER BY e.block DESC LIMIT 1) c ON true
         ORDER BY i.id DESC"#,
        caller.agent,
        ctx.now(),
        caller.has(Scope::Admin),
        i64::from(search.limit),
        below.unwrap_or(Uuid::max()),
        search.from.map_or(Uuid::nil(), floor),
        search.status.map(IntentStatus::as_str),
        search.created_by,
        search.title
    )
    .fetch_all(&ctx.pool)
    .await?;
    let found = rows.into_iter().map(|row| IntentSummary {
        id: row.id.into(),
        title: row.title,
        status: row.status,
        created_by: row.created_by,
        last_at: row.last_at,
        waiting: row.waiting,
    });
    Ok(found.collect())
}

/// Lists the history of an agent, newest first: registrations and changes of its status, of which each has an author.
///
/// Empty unless the caller may speak for the agent or is an admin: others see its present status alone.
///
/// # Errors
/// The caller lacks the scope.
pub async fn agent_history(ctx: &Ctx, caller: &Caller, agent: &str) -> Outcome<Vec<Entry>> {
    caller.require(Scope::AgentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    if !caller.has(Scope::Admin) && !speaks_for(&mut connection, caller, agent).await? {
        return Ok(Vec::new());
    }
    let kinds = [Kind::AgentRegistered, Kind::AgentStatusChanged, Kind::AgentDead];
    let rows = sqlx::query!(
        r#"-- overview::agent_history
         SELECT e.seq, e.event_type, e.actor, e.payload, e.created_at
         FROM UNNEST($2::text[]) AS k (kind) CROSS JOIN LATERAL (
             SELECT seq, event_type, actor, payload, created_at FROM events
             WHERE intent_id = $1 AND event_type = k.kind ORDER BY seq DESC LIMIT $3) e
         WHERE strpos(e.payload, $4) > 0 ORDER BY e.seq DESC LIMIT $5"#,
        IntentId::SYSTEM.uuid(),
        &kinds.map(Kind::wire) as &[&str],
        LOOKED_AT,
        serde_json::to_string(agent)?,
        ENTRIES
    )
    .fetch_all(&mut *connection)
    .await?;
    let concerns = |payload: &str| {
        let payload = serde_json::from_str::<serde_json::Value>(payload);
        payload.is_ok_and(|payload| payload["agent_id"].as_str() == Some(agent))
    };
    let mut entries: Vec<Entry> = rows
        .into_iter()
        .filter(|row| concerns(&row.payload))
        .map(|row| event_entry(row.seq, row.created_at, row.event_type, row.actor, &row.payload))
        .collect();
    entries.sort_by_key(|entry| Reverse(entry.seq));
    Ok(entries)
}
