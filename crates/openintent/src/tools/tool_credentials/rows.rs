//! Rows of credentials in vaults. Table `tool_credentials`. Only [`sealed`] reads a sealed secret, for a call.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{ToolCredentialId, VaultId};
use entente_domain::openintent::tools::auth_types::AuthType;
use entente_domain::openintent::tools::tool_credentials::ToolCredential;
use entente_domain::openintent::tools::vault_keys::Sealed;
use entente_kernel::{AppError, Outcome, unknown};
use sqlx::PgConnection;
use uuid::Uuid;

struct Row {
    id: Uuid,
    vault_id: Uuid,
    service: String,
    label: String,
    auth_type: String,
    scopes_available: Vec<String>,
    metadata: String,
    members: Vec<String>,
    version: i32,
    created_at: Timestamp,
    rotated_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

impl TryFrom<Row> for ToolCredential {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            vault_id: row.vault_id.into(),
            service: row.service,
            label: row.label,
            auth_type: AuthType::parse(&row.auth_type).ok_or_else(|| unknown("auth type", &row.auth_type))?,
            scopes_available: row.scopes_available,
            metadata: serde_json::from_str(&row.metadata)?,
            sealed: row.members,
            version: row.version,
            revoked_at: row.revoked_at,
            created_at: row.created_at,
            rotated_at: row.rotated_at,
            expires_at: row.expires_at,
        })
    }
}

pub(crate) async fn find(conn: &mut PgConnection, id: ToolCredentialId) -> Outcome<Option<ToolCredential>> {
    let row = sqlx::query_as!(
        Row,
        "-- tool_credentials::find
         SELECT id, vault_id, service, label, auth_type, scopes_available, metadata, members, version, created_at,
                rotated_at, expires_at, revoked_at
         FROM tool_credentials WHERE id = $1",
        id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    row.map(ToolCredential::try_from).transpose()
}

/// Returns the credentials in a vault that are not revoked, oldest first.
pub(crate) async fn of_vault(conn: &mut PgConnection, vault: VaultId) -> Outcome<Vec<ToolCredentialId>> {
    // Bounded by the maximum number of credentials in a vault.
    let ids = sqlx::query_scalar!(
        "-- tool_credentials::of_vault
         SELECT id FROM tool_credentials WHERE vault_id = $1 AND revoked_at IS NULL ORDER BY id",
        vault.uuid()
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(ToolCredentialId::from).collect())
}

/// Counts the credentials in a vault that are not revoked.
pub(super) async fn count(conn: &mut PgConnection, vault: VaultId) -> Outcome<i64> {
    let count = sqlx::query_scalar!(
        r#"-- tool_credentials::count
         SELECT count(*) AS "count!" FROM tool_credentials WHERE vault_id = $1 AND revoked_at IS NULL"#,
        vault.uuid()
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

pub(super) async fn sealed(conn: &mut PgConnection, id: ToolCredentialId) -> Outcome<Option<Sealed>> {
    let row = sqlx::query!(
        "-- tool_credentials::sealed
         SELECT key_id, sealed FROM tool_credentials WHERE id = $1",
        id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.and_then(|row| Some(Sealed { key_id: row.key_id?, bytes: row.sealed? })))
}

pub(super) async fn insert(
    conn: &mut PgConnection,
    credential: &ToolCredential,
    sealed: Option<&Sealed>,
) -> Outcome<()> {
    sqlx::query!(
        "-- tool_credentials::insert
         INSERT INTO tool_credentials (id, vault_id, service, label, auth_type, scopes_available, metadata, members,
                                       version, key_id, sealed, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        credential.id.uuid(),
        credential.vault_id.uuid(),
        credential.service,
        credential.label,
        credential.auth_type.as_str(),
        &credential.scopes_available,
        serde_json::to_string(&credential.metadata)?,
        &credential.sealed,
        credential.version,
        sealed.map(|sealed| sealed.key_id.as_str()),
        sealed.map(|sealed| sealed.bytes.as_slice()),
        credential.created_at,
        credential.expires_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes a credential without its secret; if its end has changed, the end is announced again later.
pub(super) async fn save(conn: &mut PgConnection, credential: &ToolCredential) -> Outcome<()> {
    sqlx::query!(
        "-- tool_credentials::save
         UPDATE tool_credentials SET label = $2, scopes_available = $3, metadata = $4, members = $5, version = $6,
                rotated_at = $7, expires_at = $8, expired = expired AND expires_at IS NOT DISTINCT FROM $8
         WHERE id = $1",
        credential.id.uuid(),
        credential.label,
        &credential.scopes_available,
        serde_json::to_string(&credential.metadata)?,
        &credential.sealed,
        credential.version,
        credential.rotated_at,
        credential.expires_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes another secret; [`save`] writes the version that it is sealed for.
pub(super) async fn save_secret(
    conn: &mut PgConnection,
    id: ToolCredentialId,
    sealed: Option<&Sealed>,
) -> Outcome<()> {
    sqlx::query!(
        "-- tool_credentials::save_secret
         UPDATE tool_credentials SET key_id = $2, sealed = $3 WHERE id = $1",
        id.uuid(),
        sealed.map(|sealed| sealed.key_id.as_str()),
        sealed.map(|sealed| sealed.bytes.as_slice())
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Revokes the credentials of a vault, or one of them, and wipes their secrets; returns their number.
pub(crate) async fn revoke_rows(
    conn: &mut PgConnection,
    vault: VaultId,
    one: Option<ToolCredentialId>,
    now: Timestamp,
) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- tool_credentials::revoke
         UPDATE tool_credentials SET revoked_at = $3, key_id = NULL, sealed = NULL, members = '{}'
         WHERE vault_id = $1 AND ($2::uuid IS NULL OR id = $2) AND revoked_at IS NULL",
        vault.uuid(),
        one.map(ToolCredentialId::uuid),
        now
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Marks the ends of credentials as announced; returns these credentials.
pub(super) async fn end(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<Vec<ToolCredential>> {
    let rows = sqlx::query_as!(
        Row,
        "-- tool_credentials::end
         UPDATE tool_credentials SET expired = true WHERE id IN (
             SELECT id FROM tool_credentials WHERE expires_at <= $1 AND NOT expired AND revoked_at IS NULL
             ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
         RETURNING id, vault_id, service, label, auth_type, scopes_available, metadata, members, version, created_at,
                   rotated_at, expires_at, revoked_at",
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(ToolCredential::try_from).collect()
}

/// Returns whether the end of any credential is to be announced.
pub(super) async fn due(conn: &mut PgConnection, now: Timestamp) -> Outcome<bool> {
    let due = sqlx::query_scalar!(
        r#"-- tool_credentials::due
         SELECT EXISTS (SELECT FROM tool_credentials
                        WHERE expires_at <= $1 AND NOT expired AND revoked_at IS NULL) AS "due!""#,
        now
    )
    .fetch_one(conn)
    .await?;
    Ok(due)
}

/// Returns credentials with secrets sealed by one of these keys, ordered by key and id.
pub(super) async fn under_keys(
    conn: &mut PgConnection,
    keys: &[String],
    limit: i64,
) -> Outcome<Vec<ToolCredentialId>> {
    let ids = sqlx::query_scalar!(
        "-- tool_credentials::under_keys
         SELECT id FROM tool_credentials WHERE key_id = ANY($1) ORDER BY key_id, id LIMIT $2",
        keys,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(ToolCredentialId::from).collect())
}

/// Returns the ids of the keys that seal secrets.
///
/// # Errors
/// A database error.
pub async fn sealing_keys(conn: &mut PgConnection) -> Outcome<Vec<String>> {
    let ids = sqlx::query_scalar!(
        r#"-- tool_credentials::sealing_keys
        SELECT DISTINCT key_id AS "key_id!" FROM tool_credentials WHERE key_id IS NOT NULL ORDER BY 1"#
    )
    .fetch_all(conn)
    .await?;
    Ok(ids)
}

/// Deletes credentials that were revoked before a time and have no grants left; returns their number.
pub(crate) async fn forget(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- tool_credentials::forget
         DELETE FROM tool_credentials WHERE id IN (
             SELECT c.id FROM tool_credentials c
             WHERE c.revoked_at < $1 AND NOT EXISTS (SELECT FROM tool_grants g WHERE g.credential_id = c.id)
             ORDER BY c.revoked_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        before,
        limit
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
