//! Rows of portfolios. Tables `portfolios` and `portfolio_members`.

use std::collections::HashMap;

use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, PortfolioId};
use entente_domain::openintent::intents::IntentStatus;
use entente_domain::openintent::portfolios::{
    Aggregate, Membership, MembershipRole, Portfolio, PortfolioStatus,
};
use entente_kernel::Pool;
use entente_kernel::{AppError, Outcome, unknown};
use sqlx::PgConnection;

use super::{Cut, PortfolioFilter};

struct Row {
    id: uuid::Uuid,
    name: String,
    description: Option<String>,
    created_by: String,
    status: String,
    governance_policy: String,
    metadata: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl TryFrom<Row> for Portfolio {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            name: row.name,
            description: row.description,
            created_by: row.created_by,
            status: PortfolioStatus::parse(&row.status)
                .ok_or_else(|| unknown("portfolio status", &row.status))?,
            governance_policy: serde_json::from_str(&row.governance_policy)?,
            metadata: serde_json::from_str(&row.metadata)?,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

/// Selects portfolios: the query's name, and the clauses after `FROM portfolios p`.
macro_rules! select {
    ($name:literal, $which:literal $(, $argument:expr)*) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "\n SELECT p.id, p.name, p.description, p.created_by, p.status, p.governance_policy, p.metadata,
                    p.created_at, p.updated_at
             FROM portfolios p " + $which
            $(, $argument)*
        )
    };
}

fn portfolios(rows: Vec<Row>) -> Outcome<Vec<Portfolio>> {
    rows.into_iter().map(Portfolio::try_from).collect()
}

pub(super) async fn load(conn: &mut PgConnection, id: PortfolioId) -> Outcome<Option<Portfolio>> {
    let row = select!("portfolios::load", "WHERE p.id = $1", id.uuid()).fetch_optional(conn).await?;
    row.map(Portfolio::try_from).transpose()
}

/// Selects one creator's portfolios; one more than the page size, to detect a next page.
pub(super) async fn of_creator(
    pool: &Pool,
    creator: &str,
    filter: &PortfolioFilter,
) -> Outcome<Vec<Portfolio>> {
    let found = select!(
        "portfolios::of_creator",
        "WHERE p.created_by = $1 AND ($2::uuid IS NULL OR p.id < $2) ORDER BY p.id DESC LIMIT $3",
        creator,
        filter.before.map(PortfolioId::uuid),
        i64::from(filter.limit) + 1
    );
    portfolios(found.fetch_all(pool).await?)
}

/// Selects all portfolios; one more than the page size.
pub(super) async fn all(pool: &Pool, filter: &PortfolioFilter) -> Outcome<Vec<Portfolio>> {
    let found = select!(
        "portfolios::all",
        "WHERE $1::uuid IS NULL OR p.id < $1 ORDER BY p.id DESC LIMIT $2",
        filter.before.map(PortfolioId::uuid),
        i64::from(filter.limit) + 1
    );
    portfolios(found.fetch_all(pool).await?)
}

/// Selects the portfolios that contain an intent, of one creator or, for an admin, of all; one more than the page
/// size.
pub(super) async fn of_intent(
    pool: &Pool,
    intent: IntentId,
    agent: &str,
    admin: bool,
    filter: &PortfolioFilter,
) -> Outcome<Vec<Portfolio>> {
    let found = select!(
        "portfolios::of_intent",
        "JOIN portfolio_members m ON m.portfolio_id = p.id
         WHERE m.intent_id = $1 AND (p.created_by = $2 OR $3) AND ($4::uuid IS NULL OR p.id < $4)
         ORDER BY p.id DESC LIMIT $5",
        intent.uuid(),
        agent,
        admin,
        filter.before.map(PortfolioId::uuid),
        i64::from(filter.limit) + 1
    );
    portfolios(found.fetch_all(pool).await?)
}

/// Counts the intents of these portfolios that `agent` may read, by status; portfolios without any are left out.
pub(super) async fn sums(
    conn: &mut PgConnection,
    of: &[PortfolioId],
    agent: &str,
    now: Timestamp,
) -> Outcome<HashMap<PortfolioId, Aggregate>> {
    let rows = sqlx::query!(
        r#"-- portfolios::sums
         SELECT m.portfolio_id, i.status, count(*) AS "intents!"
         FROM portfolio_members m JOIN intents i ON i.id = m.intent_id LEFT JOIN acls a ON a.intent_id = i.id
         WHERE m.portfolio_id = ANY ($1)
           AND (a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $2 OR EXISTS (
                SELECT 1 FROM acl_entries e WHERE e.intent_id = i.id AND e.principal_id = $2
                AND (e.expires_at IS NULL OR e.expires_at > $3)))
         GROUP BY m.portfolio_id, i.status"#,
        &of.iter().map(|id| id.uuid()).collect::<Vec<_>>(),
        agent,
        now
    )
    .fetch_all(conn)
    .await?;
    let mut sums: HashMap<PortfolioId, Aggregate> = HashMap::new();
    for row in rows {
        let status = IntentStatus::parse(&row.status).ok_or_else(|| unknown("intent status", &row.status))?;
        sums.entry(row.portfolio_id.into()).or_default().count(status, row.intents.unsigned_abs());
    }
    Ok(sums)
}

struct Place {
    id: uuid::Uuid,
    portfolio_id: uuid::Uuid,
    intent_id: uuid::Uuid,
    role: String,
    priority: i32,
    added_at: Timestamp,
}

impl TryFrom<Place> for Membership {
    type Error = AppError;

    fn try_from(row: Place) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            portfolio_id: row.portfolio_id.into(),
            intent_id: row.intent_id.into(),
            role: MembershipRole::parse(&row.role).ok_or_else(|| unknown("role", &row.role))?,
            priority: row.priority,
            added_at: row.added_at,
        })
    }
}

/// Selects the memberships in intents that `agent` may read, in listing order; one more than the page size.
pub(super) async fn memberships(
    conn: &mut PgConnection,
    id: PortfolioId,
    cut: Cut,
    agent: &str,
    now: Timestamp,
) -> Outcome<Vec<Membership>> {
    let rows = sqlx::query_as!(
        Place,
        "-- portfolios::memberships
         SELECT m.id, m.portfolio_id, m.intent_id, m.role, m.priority, m.added_at
         FROM portfolio_members m JOIN intents i ON i.id = m.intent_id LEFT JOIN acls a ON a.intent_id = i.id
         WHERE m.portfolio_id = $1
           AND (a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $2 OR EXISTS (
                SELECT 1 FROM acl_entries e WHERE e.intent_id = i.id AND e.principal_id = $2
                AND (e.expires_at IS NULL OR e.expires_at > $3)))
           AND ($4::integer IS NULL OR m.priority < $4 OR (m.priority = $4 AND m.id > $5))
         ORDER BY m.priority DESC, m.id LIMIT $6",
        id.uuid(),
        agent,
        now,
        cut.after.map(|after| after.priority),
        cut.after.map(|after| after.id.uuid()),
        i64::from(cut.limit) + 1
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Membership::try_from).collect()
}

/// Selects an intent's membership in a portfolio, without checking read access.
pub(super) async fn place(
    conn: &mut PgConnection,
    id: PortfolioId,
    intent: IntentId,
) -> Outcome<Option<Membership>> {
    let row = sqlx::query_as!(
        Place,
        "-- portfolios::place
         SELECT id, portfolio_id, intent_id, role, priority, added_at FROM portfolio_members
         WHERE portfolio_id = $1 AND intent_id = $2",
        id.uuid(),
        intent.uuid()
    )
    .fetch_optional(conn)
    .await?;
    row.map(Membership::try_from).transpose()
}

pub(super) async fn count(conn: &mut PgConnection, id: PortfolioId) -> Outcome<usize> {
    let count = sqlx::query_scalar!(
        r#"-- portfolios::count
         SELECT count(*) AS "count!" FROM portfolio_members WHERE portfolio_id = $1"#,
        id.uuid()
    )
    .fetch_one(conn)
    .await?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

pub(super) async fn insert(conn: &mut PgConnection, portfolio: &Portfolio) -> Outcome<()> {
    sqlx::query!(
        "-- portfolios::insert
         INSERT INTO portfolios (id, name, description, created_by, status, governance_policy, metadata, created_at,
                                 updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        portfolio.id.uuid(),
        portfolio.name,
        portfolio.description,
        portfolio.created_by,
        portfolio.status.as_str(),
        serde_json::to_string(&portfolio.governance_policy)?,
        serde_json::to_string(&portfolio.metadata)?,
        portfolio.created_at,
        portfolio.updated_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) async fn update(conn: &mut PgConnection, portfolio: &Portfolio) -> Outcome<()> {
    sqlx::query!(
        "-- portfolios::update
         UPDATE portfolios SET status = $2, updated_at = $3 WHERE id = $1",
        portfolio.id.uuid(),
        portfolio.status.as_str(),
        portfolio.updated_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Inserts or updates an intent's membership.
pub(super) async fn put(conn: &mut PgConnection, place: &Membership, by: &str) -> Outcome<()> {
    sqlx::query!(
        "-- portfolios::put
         INSERT INTO portfolio_members (id, portfolio_id, intent_id, role, priority, added_by, added_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT ON CONSTRAINT portfolio_members_once
         DO UPDATE SET role = excluded.role, priority = excluded.priority",
        place.id.uuid(),
        place.portfolio_id.uuid(),
        place.intent_id.uuid(),
        place.role.as_str(),
        place.priority,
        by,
        place.added_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes an intent's membership; returns whether there was one.
pub(super) async fn take(conn: &mut PgConnection, id: PortfolioId, intent: IntentId) -> Outcome<bool> {
    let gone = sqlx::query!(
        "-- portfolios::take
         DELETE FROM portfolio_members WHERE portfolio_id = $1 AND intent_id = $2",
        id.uuid(),
        intent.uuid()
    )
    .execute(conn)
    .await?;
    Ok(gone.rows_affected() > 0)
}
