//! Rows of grants. Table `tool_grants`.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{ToolCredentialId, ToolGrantId, VaultId};
use entente_domain::openintent::tools::tool_grants::ToolGrant;
use entente_kernel::{AppError, Outcome};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{GrantPage, GrantView, odd};

/// Maximum number of an agent's grants that are searched for a tool; the first usable one is taken.
const CANDIDATES: i64 = 100;

struct Row {
    id: Uuid,
    credential_id: Uuid,
    vault_id: Uuid,
    agent_id: String,
    granted_by: String,
    scopes: Vec<String>,
    constraints: Option<String>,
    delegatable: bool,
    ancestors: Vec<Uuid>,
    context: String,
    suspended: bool,
    expires_at: Option<Timestamp>,
    created_at: Timestamp,
    revoked_at: Option<Timestamp>,
    owner_id: String,
    held: bool,
    credential_ends_at: Option<Timestamp>,
}

impl TryFrom<Row> for GrantView {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let constraints = row.constraints.as_deref().map(serde_json::from_str).transpose();
        let grant = ToolGrant {
            id: row.id.into(),
            credential_id: row.credential_id.into(),
            vault_id: row.vault_id.into(),
            agent_id: row.agent_id,
            granted_by: row.granted_by,
            scopes: row.scopes,
            constraints: constraints.map_err(|e| odd(&e))?,
            delegatable: row.delegatable,
            ancestors: row.ancestors.into_iter().map(ToolGrantId::from).collect(),
            context: serde_json::from_str(&row.context).map_err(|e| odd(&e))?,
            suspended: row.suspended,
            expires_at: row.expires_at,
            created_at: row.created_at,
            revoked_at: row.revoked_at,
        };
        Ok(Self { grant, owner_id: row.owner_id, held: row.held, credential_ends_at: row.credential_ends_at })
    }
}

macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + r#"
             SELECT g.id, g.credential_id, g.vault_id, g.agent_id, g.granted_by, g.scopes, g.constraints, g.delegatable,
                    g.ancestors, g.context, g.suspended, g.expires_at, g.created_at, g.revoked_at,
                    EXISTS (SELECT FROM tool_grants a WHERE a.id = ANY(g.ancestors) AND a.suspended) AS "held!",
                    c.expires_at AS credential_ends_at, v.owner_id
             FROM tool_grants g JOIN tool_credentials c ON c.id = g.credential_id JOIN vaults v ON v.id = g.vault_id "# + $rest
            $(, $argument)*
        )
    };
}

fn all(rows: Vec<Row>) -> Outcome<Vec<GrantView>> {
    rows.into_iter().map(GrantView::try_from).collect()
}

pub(super) async fn find(conn: &mut PgConnection, id: ToolGrantId) -> Outcome<Option<GrantView>> {
    let row = select!("tool_grants::find", "WHERE g.id = $1", id.uuid()).fetch_optional(conn).await?;
    row.map(GrantView::try_from).transpose()
}

/// Returns a grant and all grants above it, starting with the topmost.
pub(crate) async fn chain(conn: &mut PgConnection, id: ToolGrantId) -> Outcome<Vec<ToolGrant>> {
    let rows = select!(
        "tool_grants::chain",
        "WHERE g.id IN (SELECT unnest(leaf.ancestors || leaf.id) FROM tool_grants leaf WHERE leaf.id = $1)
         ORDER BY cardinality(g.ancestors)",
        id.uuid()
    )
    .fetch_all(conn)
    .await?;
    Ok(all(rows)?.into_iter().map(|shown| shown.grant).collect())
}

/// Lists the grants of an agent, optionally only of vaults with an owner that matches one of these patterns.
pub(super) async fn of_agent(
    conn: &mut PgConnection,
    agent: &str,
    owners: Option<Vec<String>>,
    page: GrantPage,
) -> Outcome<Vec<GrantView>> {
    let rows = select!(
        "tool_grants::of_agent",
        "WHERE g.agent_id = $1 AND ($2::text[] IS NULL OR v.owner_id LIKE ANY($2))
           AND g.id < coalesce($3, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
         ORDER BY g.id DESC LIMIT $4",
        agent,
        owners.as_deref(),
        page.after.map(ToolGrantId::uuid),
        i64::from(page.limit)
    )
    .fetch_all(conn)
    .await?;
    all(rows)
}

pub(super) async fn of_credential(
    conn: &mut PgConnection,
    credential: ToolCredentialId,
    page: GrantPage,
) -> Outcome<Vec<GrantView>> {
    let rows = select!(
        "tool_grants::of_credential",
        "WHERE g.credential_id = $1 AND g.id < coalesce($2, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
         ORDER BY g.id DESC LIMIT $3",
        credential.uuid(),
        page.after.map(ToolGrantId::uuid),
        i64::from(page.limit)
    )
    .fetch_all(conn)
    .await?;
    all(rows)
}

/// Returns the grants in force that let an agent use a tool, in the order in which they are tried.
///
/// Grants of vaults owned by the agent or its principal come first: of these the ones that name the tool, then those
/// whose context does, then those of the service of that name. All others follow by age: anybody may grant anything
/// to anybody, so a later grant must not overtake an earlier one.
pub(crate) async fn candidates(
    conn: &mut PgConnection,
    agent: &str,
    principal: &str,
    tool: &str,
    now: Timestamp,
) -> Outcome<Vec<GrantView>> {
    let rows = select!(
        "tool_grants::candidates",
        "WHERE g.agent_id = $1 AND g.revoked_at IS NULL AND NOT g.expired AND (g.expires_at IS NULL OR g.expires_at > $4)
           AND ($3 = ANY(g.scopes) OR $3 = ANY(g.tools) OR c.service = $3)
         ORDER BY (v.owner_id IN ($1, $2)) DESC, (v.owner_id IN ($1, $2) AND $3 = ANY(g.scopes)) DESC,
                  (v.owner_id IN ($1, $2) AND $3 = ANY(g.tools)) DESC, g.id
         LIMIT $5",
        agent,
        principal,
        tool,
        now,
        CANDIDATES
    )
    .fetch_all(conn)
    .await?;
    all(rows)
}

/// Counts the grants of a credential that are in force.
pub(super) async fn count(
    conn: &mut PgConnection,
    credential: ToolCredentialId,
    now: Timestamp,
) -> Outcome<i64> {
    let count = sqlx::query_scalar!(
        r#"-- tool_grants::count
         SELECT count(*) AS "count!" FROM tool_grants
         WHERE credential_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)"#,
        credential.uuid(),
        now
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

pub(super) async fn insert(conn: &mut PgConnection, grant: &ToolGrant) -> Outcome<()> {
    let ancestors: Vec<Uuid> = grant.ancestors.iter().map(|id| id.uuid()).collect();
    sqlx::query!(
        "-- tool_grants::insert
         INSERT INTO tool_grants (id, credential_id, vault_id, agent_id, granted_by, scopes, tools, constraints,
                                  delegatable, ancestors, context, expires_at, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        grant.id.uuid(),
        grant.credential_id.uuid(),
        grant.vault_id.uuid(),
        grant.agent_id,
        grant.granted_by,
        &grant.scopes,
        &grant.tools(),
        grant.constraints.as_ref().map(serde_json::to_string).transpose()?,
        grant.delegatable,
        &ancestors,
        serde_json::to_string(&grant.context)?,
        grant.expires_at,
        grant.created_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Suspends or resumes a grant.
pub(super) async fn rest(conn: &mut PgConnection, id: ToolGrantId, rests: bool) -> Outcome<()> {
    sqlx::query!(
        "-- tool_grants::rest
         UPDATE tool_grants SET suspended = $2 WHERE id = $1",
        id.uuid(),
        rests
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Revokes a grant and all delegations of it; returns their number.
pub(super) async fn revoke(conn: &mut PgConnection, grant: &ToolGrant, now: Timestamp) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- tool_grants::revoke
         UPDATE tool_grants SET revoked_at = $3
         WHERE credential_id = $1 AND (id = $2 OR $2 = ANY(ancestors)) AND revoked_at IS NULL",
        grant.credential_id.uuid(),
        grant.id.uuid(),
        now
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Revokes all grants of a credential; returns their number.
pub(crate) async fn revoke_of_credential(
    conn: &mut PgConnection,
    credential: ToolCredentialId,
    now: Timestamp,
) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- tool_grants::revoke_of_credential
         UPDATE tool_grants SET revoked_at = $2 WHERE credential_id = $1 AND revoked_at IS NULL",
        credential.uuid(),
        now
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Revokes all grants of the credentials in a vault; returns their number.
pub(crate) async fn revoke_of_vault(conn: &mut PgConnection, vault: VaultId, now: Timestamp) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- tool_grants::revoke_of_vault
         UPDATE tool_grants SET revoked_at = $2 WHERE vault_id = $1 AND revoked_at IS NULL",
        vault.uuid(),
        now
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Marks the ends of grants as announced; returns these grants.
pub(super) async fn end(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<Vec<ToolGrant>> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- tool_grants::end
         UPDATE tool_grants SET expired = true WHERE id IN (
             SELECT id FROM tool_grants WHERE expires_at <= $1 AND NOT expired AND revoked_at IS NULL
             ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
         RETURNING id, credential_id, vault_id, agent_id, granted_by, scopes, constraints, delegatable, ancestors, context,
                   suspended, expires_at, created_at, revoked_at, '' AS "owner_id!", false AS "held!",
                   NULL::timestamptz AS credential_ends_at"#,
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(all(rows)?.into_iter().map(|shown| shown.grant).collect())
}

/// Returns whether the end of any grant is to be announced.
pub(super) async fn due(conn: &mut PgConnection, now: Timestamp) -> Outcome<bool> {
    let due = sqlx::query_scalar!(
        r#"-- tool_grants::due
         SELECT EXISTS (SELECT FROM tool_grants
                        WHERE expires_at <= $1 AND NOT expired AND revoked_at IS NULL) AS "due!""#,
        now
    )
    .fetch_one(conn)
    .await?;
    Ok(due)
}

/// Deletes grants that ended before a time; returns their number.
///
/// A delegation ends no later than the grant above it and is deleted first, so that no grant lacks those above it.
pub(crate) async fn forget(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- tool_grants::forget
         DELETE FROM tool_grants WHERE id IN (
             SELECT id FROM tool_grants
             WHERE least(revoked_at, expires_at) < $1 AND (expired OR revoked_at IS NOT NULL)
             ORDER BY least(revoked_at, expires_at), cardinality(ancestors) DESC LIMIT $2 FOR UPDATE SKIP LOCKED)",
        before,
        limit
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
