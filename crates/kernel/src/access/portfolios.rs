//! Visibility of portfolios (RFC-0004) for streams and webhooks: who may see one, and which intents it contains.

use std::collections::HashSet;

use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, PortfolioId};
use sqlx::PgConnection;

use crate::{Caller, Outcome, not_found};

/// A caller that looks at a portfolio.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Onlooker<'a> {
    /// The portfolio.
    pub portfolio: PortfolioId,
    /// The agent that looks.
    pub agent: &'a str,
    /// Whether this agent may see every portfolio.
    pub admin: bool,
}

/// Returns the intents of each requested portfolio, in request order; `None` if the agent may not see it.
pub(crate) async fn members(
    conn: &mut PgConnection,
    asked: &[Onlooker<'_>],
) -> Outcome<Vec<Option<HashSet<IntentId>>>> {
    let mut found = vec![None; asked.len()];
    let rows = sqlx::query!(
        r#"-- portfolios::members
         SELECT k.place AS "place!", m.intent_id AS "intent_id?"
         FROM UNNEST($1::uuid[], $2::text[], $3::boolean[]) WITH ORDINALITY AS k (id, agent, admin, place)
         JOIN portfolios p ON p.id = k.id AND (p.created_by = k.agent OR k.admin)
         LEFT JOIN portfolio_members m ON m.portfolio_id = p.id"#,
        &asked.iter().map(|one| one.portfolio.uuid()).collect::<Vec<_>>(),
        &asked.iter().map(|one| one.agent).collect::<Vec<_>>() as &[&str],
        &asked.iter().map(|one| one.admin).collect::<Vec<_>>()
    )
    .fetch_all(conn)
    .await?;
    for row in rows {
        // Ordinality starts at 1.
        let place = usize::try_from(row.place - 1).unwrap_or(usize::MAX);
        if let Some(members) = found.get_mut(place) {
            members.get_or_insert_with(HashSet::new).extend(row.intent_id.map(IntentId::from));
        }
    }
    Ok(found)
}

/// Requires that the caller may see a portfolio.
///
/// # Errors
/// The portfolio does not exist, or the caller may not see it.
pub(crate) async fn require(conn: &mut PgConnection, caller: &Caller, id: PortfolioId) -> Outcome<()> {
    let found = sqlx::query_scalar!(
        r#"-- portfolios::visible
         SELECT 1 AS "one!" FROM portfolios WHERE id = $1 AND (created_by = $2 OR $3)"#,
        id.uuid(),
        caller.agent,
        caller.has(Scope::Admin)
    )
    .fetch_optional(conn)
    .await?;
    found.map(drop).ok_or_else(|| not_found("portfolio"))
}
