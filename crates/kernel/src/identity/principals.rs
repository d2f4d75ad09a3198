//! Principals: creating and reading them. Table `principals`; their keys are in `keys.rs`.

use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::{Principal, PrincipalKind, check_name};
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Kind as EventKind};
use entente_domain::refusal::Code;
use serde_json::json;
use sqlx::PgConnection;

use crate::{AppError, Caller, Ctx, IntentTx, Outcome, not_found, unknown};

/// Creates a principal.
///
/// # Errors
/// Fails if the scope `admin` is missing, if the id is malformed or taken, or if the display name is
/// malformed.
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    id: String,
    kind: PrincipalKind,
    display_name: Option<String>,
    once: Option<&Idempotency>,
) -> Outcome<Principal> {
    caller.require(Scope::Admin)?;
    check_name("id", &id)?;
    if let Some(name) = &display_name {
        check_name("display_name", name)?;
    }
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    if find(work.conn(), &id).await?.is_some() {
        // The id is not repeated: clients could mistake a part of it for another conflict (OI-3.5.3).
        return Err(crate::refuse(Code::AlreadyExists, "There is a principal with this id already."));
    }
    let principal = Principal {
        id,
        kind,
        display_name,
        created_by: caller.principal().to_owned(),
        created_at: work.now(),
    };
    insert(work.conn(), &principal).await?;
    let payload = json!({ "principal_id": principal.id, "kind": principal.kind });
    work.record(Draft::of(EventKind::PrincipalCreated, caller.principal(), payload));
    work.finish(principal).await
}

/// Lists principals in the order of their ids, up to `limit` after `after`.
///
/// # Errors
/// Fails if the scope `admin` is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, after: Option<&str>, limit: u32) -> Outcome<Vec<Principal>> {
    caller.require(Scope::Admin)?;
    let rows = sqlx::query_as!(
        Row,
        "-- principals::list
         SELECT id, kind, display_name, created_by, created_at FROM principals WHERE id > $1 ORDER BY id LIMIT $2",
        after.unwrap_or(""),
        i64::from(limit)
    )
    .fetch_all(&ctx.pool)
    .await?;
    rows.into_iter().map(Principal::try_from).collect()
}

/// Returns one principal; every caller may read its own.
///
/// # Errors
/// Fails if it does not exist, or if the scope `admin` is missing for another's.
pub async fn get(ctx: &Ctx, caller: &Caller, id: &str) -> Outcome<Principal> {
    if id != caller.principal() {
        caller.require(Scope::Admin)?;
    }
    let mut connection = ctx.pool.acquire().await?;
    find(&mut connection, id).await?.ok_or_else(|| not_found("principal"))
}

struct Row {
    id: String,
    kind: String,
    display_name: Option<String>,
    created_by: String,
    created_at: Timestamp,
}

impl TryFrom<Row> for Principal {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            kind: PrincipalKind::parse(&row.kind).ok_or_else(|| unknown("principal kind", &row.kind))?,
            id: row.id,
            display_name: row.display_name,
            created_by: row.created_by,
            created_at: row.created_at,
        })
    }
}

/// Loads a principal by id.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn find(conn: &mut PgConnection, id: &str) -> Outcome<Option<Principal>> {
    let row = sqlx::query_as!(
        Row,
        "-- principals::find
         SELECT id, kind, display_name, created_by, created_at FROM principals WHERE id = $1",
        id
    )
    .fetch_optional(conn)
    .await?;
    row.map(Principal::try_from).transpose()
}

/// Inserts a principal; an existing one stays unchanged.
pub(crate) async fn insert(conn: &mut PgConnection, principal: &Principal) -> Outcome<()> {
    sqlx::query!(
        "-- principals::insert
         INSERT INTO principals (id, kind, display_name, created_by, created_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (id) DO NOTHING",
        principal.id,
        principal.kind.as_str(),
        principal.display_name,
        principal.created_by,
        principal.created_at
    )
    .execute(conn)
    .await?;
    Ok(())
}
