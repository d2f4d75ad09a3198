//! Membership of agents in intents (RFC-0011): an agent's access level and other facts that decide about its
//! operations. Every operation on an intent begins with [`require`] or [`find`]. This file only reads; `access.rs`
//! changes the access lists.

use std::collections::HashSet;

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_runtime::fences;
use sqlx::PgConnection;

pub use crate::facts::Membership;
use crate::facts::MembershipColumns;
pub(crate) use crate::facts::{level, policy};
use crate::{Caller, Outcome, not_found};

/// Loads the membership of `agent` in an intent; `None` if there is no such intent.
///
/// # Errors
/// As [`find_all`].
pub async fn find(
    conn: &mut PgConnection,
    agent: &str,
    intent_id: IntentId,
    now: Timestamp,
) -> Outcome<Option<Membership>> {
    let found = find_all(conn, &[(intent_id, agent)], now).await?;
    Ok(found.into_iter().next().map(|(_, membership)| membership))
}

/// Loads the memberships of these agents; pairs whose intent does not exist are left out.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn find_all(
    conn: &mut PgConnection,
    asked: &[(IntentId, &str)],
    now: Timestamp,
) -> Outcome<Vec<((IntentId, String), Membership)>> {
    let rows = sqlx::query!(
        r#"-- membership::find_all
         SELECT i.id, k.agent AS "agent!", i.created_by, i.status, a.default_policy AS "default_policy?",
                (i.governance_policy IS NOT NULL) AS "governed!",
                (coalesce(a.narrowed, false) OR coalesce((
                    SELECT true FROM acl_entries e WHERE e.intent_id = i.id LIMIT 1), false)) AS "has_entries!",
                (coalesce(a.strict, false) AND NOT coalesce((
                    SELECT true FROM principals p WHERE p.id = k.agent AND p.kind <> 'agent'), false)) AS "strict!",
                own.permission AS "permission?", own.expires_at AS "expires_at?", s.role AS "role?"
         FROM UNNEST($1::uuid[], $2::text[]) AS k (intent_id, agent)
         JOIN intents i ON i.id = k.intent_id
         LEFT JOIN acls a ON a.intent_id = i.id
         LEFT JOIN assignments s ON s.intent_id = i.id AND s.agent_id = k.agent
         LEFT JOIN LATERAL (
             SELECT e.permission, e.expires_at FROM acl_entries e
             WHERE e.intent_id = i.id AND e.principal_id = k.agent AND (e.expires_at IS NULL OR e.expires_at > $3)
             ORDER BY array_position(ARRAY['admin', 'write', 'read'], e.permission), e.expires_at DESC NULLS FIRST
             LIMIT 1) own ON true"#,
        &asked.iter().map(|(intent, _)| intent.uuid()).collect::<Vec<_>>(),
        &asked.iter().map(|(_, agent)| *agent).collect::<Vec<_>>() as &[&str],
        now
    )
    .fetch_all(conn)
    .await?;
    let memberships = rows.into_iter().map(|row| {
        let columns = MembershipColumns {
            created_by: &row.created_by,
            status: &row.status,
            default_policy: row.default_policy.as_deref(),
            has_entries: row.has_entries,
            permission: row.permission.as_deref(),
            expires_at: row.expires_at,
            role: row.role.as_deref(),
            governed: row.governed,
            strict: row.strict,
        };
        let membership = columns.membership(&row.agent, fences::lack_epoch(&row.agent))?;
        Ok(((IntentId::from(row.id), row.agent), membership))
    });
    memberships.collect()
}

/// Returns those of these agents that may write to their intent.
///
/// # Errors
/// As [`find_all`].
pub async fn writers(
    conn: &mut PgConnection,
    asked: &[(IntentId, &str)],
    now: Timestamp,
) -> Outcome<HashSet<String>> {
    if asked.is_empty() {
        return Ok(HashSet::new());
    }
    let found = find_all(conn, asked, now).await?.into_iter();
    Ok(found
        .filter(|(_, membership)| membership.access.reaches(Level::Write))
        .map(|((_, agent), _)| agent)
        .collect())
}

/// Requires a level of access to an intent; one that allows to write also that the agent's epoch is named, where it has to
/// be.
///
/// # Errors
/// `NotFound`, `AccessClosed`, `Forbidden` or `EpochRequired`.
pub async fn require(
    conn: &mut PgConnection,
    agent: &str,
    intent_id: IntentId,
    need: Level,
    now: Timestamp,
) -> Outcome<Membership> {
    let membership = find(conn, agent, intent_id, now).await?.ok_or_else(|| not_found("intent"))?;
    membership.access.require(need)?;
    if need > Level::Read {
        membership.require_fenced()?;
    }
    Ok(membership)
}

/// Requires that the caller manages access: as an admin of the intent in its own right, or with the scope `admin`.
///
/// With that scope an operator regains an intent that has no admins left.
///
/// # Errors
/// The intent does not exist; the caller neither manages its access nor has the scope `admin`.
pub async fn require_manager(
    conn: &mut PgConnection,
    caller: &Caller,
    intent_id: IntentId,
    now: Timestamp,
) -> Outcome<()> {
    let membership = find(conn, &caller.agent, intent_id, now).await?.ok_or_else(|| not_found("intent"))?;
    if caller.has(Scope::Admin) {
        return Ok(());
    }
    membership.access.require_manager()?;
    Ok(membership.require_fenced()?)
}
