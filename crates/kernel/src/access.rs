//! Access control lists of intents (RFC-0011). Owns the tables `acls` and `acl_entries`; `membership.rs` derives
//! an agent's access level from them, and `access_requests.rs` holds requests for more access.
//!
//! An agent that loses write access loses its leases in the same transaction. Adding an entry can also take
//! access away: the first entry on an intent that was open to everybody does.
//!
//! The scope `admin` gives no access to an intent. It lets an operator change the list, which the log
//! records.

pub mod access_requests;
pub mod assignments;
pub mod governance;
pub mod membership;
pub(crate) mod portfolios;

use entente_domain::access::{self as domain, Acl, Entry, EntryAsk, Level, Policy};
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{EntryId, IntentId};
use entente_domain::limits::ACL_ENTRIES;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use serde_json::json;
use sqlx::PgConnection;

use super::due::run_each;
use super::{AppError, Caller, Ctx, IntentTx, Outcome, not_found};
use crate::access::membership::{level, policy, require, require_manager};
use crate::hooks::IntentChange;
use crate::log::writer::IntentLog;

/// Returns an intent's access control list; a list that was never set is open and empty.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn get(ctx: &Ctx, caller: &Caller, intent_id: IntentId) -> Outcome<Acl> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    let now = ctx.now();
    require(&mut connection, &caller.agent, intent_id, Level::Read, now).await?;
    load(&mut connection, intent_id, now).await
}

/// Replaces an intent's access control list.
///
/// # Errors
/// The caller does not manage access; an entry is invalid; there are too many entries.
pub async fn replace(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    default_policy: Policy,
    entries: Vec<EntryAsk>,
) -> Outcome<Acl> {
    caller.require(Scope::IntentsWrite)?;
    check_room(entries.len())?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, None).await?;
    require_manager(work.conn(), caller, intent_id, ctx.now()).await?;
    let now = work.now();
    // Lists are ordered by id. Sorting the ids keeps the order of the request, although all share one
    // timestamp.
    let mut ids: Vec<EntryId> = entries.iter().map(|_| EntryId::mint(now, &*ctx.chance)).collect();
    ids.sort_unstable();
    let entries = entries
        .into_iter()
        .zip(ids)
        .map(|(ask, id)| domain::grant(ask, intent_id, &caller.agent, id, now))
        .collect::<Result<Vec<Entry>, Refusal>>()?;
    let strict = save_policy(work.conn(), intent_id, default_policy).await?;
    delete_all(work.conn(), intent_id).await?;
    insert(work.conn(), &entries).await?;
    let listed: Vec<_> = entries
        .iter()
        .map(|e| json!({ "principal_id": e.principal_id, "permission": e.permission, "expires_at": e.expires_at }))
        .collect();
    let payload = json!({ "replaced": true, "default_policy": default_policy, "entries": listed });
    work.record(Draft::of(Kind::AccessGranted, &caller.agent, payload));
    let (conn, log) = work.parts();
    take_from_outsiders(conn, ctx, log, &caller.agent).await?;
    work.commit().await?;
    Ok(Acl { intent_id, default_policy, strict, entries })
}

/// Sets whether agents' writes on the intent have to name the epochs of their sessions.
///
/// # Errors
/// As [`replace`].
pub async fn set_strict(ctx: &Ctx, caller: &Caller, intent_id: IntentId, strict: bool) -> Outcome<Acl> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, None).await?;
    let now = work.now();
    require_manager(work.reading(), caller, intent_id, now).await?;
    let acl = load(work.reading(), intent_id, now).await?;
    if acl.strict == strict {
        return Ok(acl);
    }
    sqlx::query!(
        "-- access::set_strict
         INSERT INTO acls (intent_id, default_policy, strict) VALUES ($1, 'open', $2)
         ON CONFLICT (intent_id) DO UPDATE SET strict = $2",
        intent_id.uuid(),
        strict
    )
    .execute(work.conn())
    .await?;
    work.record(Draft::of(Kind::AccessStrictSet, &caller.agent, json!({ "strict": strict })));
    work.commit().await?;
    Ok(Acl { strict, ..acl })
}

/// Adds an entry to an intent's access control list.
///
/// # Errors
/// As [`replace`].
pub async fn grant(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: EntryAsk,
    once: Option<&Idempotency>,
) -> Outcome<Entry> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    require_manager(work.conn(), caller, intent_id, ctx.now()).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let now = work.now();
    let acl = load(work.conn(), intent_id, now).await?;
    check_room(acl.entries.len() + 1)?;
    let entry = domain::grant(ask, intent_id, &caller.agent, EntryId::mint(now, &*ctx.chance), now)?;
    insert(work.conn(), std::slice::from_ref(&entry)).await?;
    work.record(Draft::of(Kind::AccessGranted, &caller.agent, event_payload(&entry)));
    let (conn, log) = work.parts();
    take_from_outsiders(conn, ctx, log, &caller.agent).await?;
    work.finish(entry).await
}

/// Removes an entry from an intent's access control list.
///
/// # Errors
/// The caller does not manage access; the entry does not exist.
pub async fn revoke(ctx: &Ctx, caller: &Caller, intent_id: IntentId, entry_id: EntryId) -> Outcome<()> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, None).await?;
    require_manager(work.conn(), caller, intent_id, ctx.now()).await?;
    let now = work.now();
    let acl = load(work.conn(), intent_id, now).await?;
    let entry =
        acl.entries.iter().find(|entry| entry.id == entry_id).ok_or_else(|| not_found("access entry"))?;
    delete(work.conn(), &[entry_id.uuid()]).await?;
    work.record(Draft::of(Kind::AccessRevoked, &caller.agent, event_payload(entry)));
    let (conn, log) = work.parts();
    take_from_outsiders(conn, ctx, log, &caller.agent).await?;
    work.commit().await
}

/// Removes expired entries from their lists and records it in the logs; intents are processed one at a time,
/// up to `limit` of them.
///
/// An entry has no effect from the instant it expires, whether it was removed or not.
///
/// # Errors
/// A database error.
pub async fn expire_entries(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let due = sqlx::query_scalar!(
        "-- access::due
         SELECT DISTINCT intent_id FROM (
             SELECT intent_id FROM acl_entries WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2) due",
        ctx.now(),
        limit
    )
    .fetch_all(&ctx.pool)
    .await?;
    run_each(due.into_iter().map(|intent_id| expire_entries_of(ctx, intent_id.into()))).await
}

async fn expire_entries_of(ctx: &Ctx, intent_id: IntentId) -> Outcome<u64> {
    let mut work = IntentTx::unattended(ctx, intent_id).await?;
    let now = work.now();
    let ended: Vec<Entry> =
        load_all(work.conn(), intent_id).await?.into_iter().filter(|e| !e.in_force(now)).collect();
    if ended.is_empty() {
        // Another server already removed them.
        return Ok(0);
    }
    let ids: Vec<uuid::Uuid> = ended.iter().map(|entry| entry.id.uuid()).collect();
    narrow(work.conn(), intent_id).await?;
    delete(work.conn(), &ids).await?;
    for entry in &ended {
        work.record(Draft::of(Kind::AccessExpired, SYSTEM, event_payload(entry)));
    }
    let (conn, log) = work.parts();
    take_from_outsiders(conn, ctx, log, SYSTEM).await?;
    work.commit().await?;
    Ok(ended.len() as u64)
}

/// Takes leases, tasks and the like from agents that may no longer write (OI-7.4), within the operation that changed
/// the access control list.
pub(crate) async fn take_from_outsiders(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    actor: &str,
) -> Outcome<()> {
    ctx.hooks.access_narrowed(&mut IntentChange { ctx, conn, log, actor }).await
}

pub(crate) fn event_payload(entry: &Entry) -> serde_json::Value {
    json!({
        "entry_id": entry.id, "principal_id": entry.principal_id, "principal_type": entry.principal_type,
        "permission": entry.permission, "expires_at": entry.expires_at, "reason": entry.reason,
    })
}

/// Checks that a list may have this many entries.
pub(crate) fn check_room(entries: usize) -> Result<(), Refusal> {
    if entries <= ACL_ENTRIES {
        return Ok(());
    }
    Err(Refusal::field(
        Code::TooLarge,
        "entries",
        "too_long",
        format!(
            "An access list has at most {ACL_ENTRIES} entries. Use an open policy, or one service for many agents."
        ),
    ))
}

struct EntryRow {
    id: uuid::Uuid,
    intent_id: uuid::Uuid,
    principal_id: String,
    principal_type: String,
    permission: String,
    granted_by: String,
    granted_at: Timestamp,
    expires_at: Option<Timestamp>,
    reason: Option<String>,
}

impl TryFrom<EntryRow> for Entry {
    type Error = AppError;

    fn try_from(row: EntryRow) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            principal_id: row.principal_id,
            principal_type: row.principal_type,
            permission: level(&row.permission)?,
            granted_by: row.granted_by,
            granted_at: row.granted_at,
            expires_at: row.expires_at,
            reason: row.reason,
        })
    }
}

/// Loads the list with the entries that are in force at `now`.
pub(crate) async fn load(conn: &mut PgConnection, intent_id: IntentId, now: Timestamp) -> Outcome<Acl> {
    let found = sqlx::query!(
        "-- access::policy
         SELECT default_policy, strict FROM acls WHERE intent_id = $1",
        intent_id.uuid()
    )
    .fetch_optional(&mut *conn)
    .await?;
    let strict = found.as_ref().is_some_and(|found| found.strict);
    let default_policy = found.map_or(Ok(Policy::Open), |found| policy(&found.default_policy))?;
    let entries = load_all(conn, intent_id).await?.into_iter().filter(|entry| entry.in_force(now)).collect();
    Ok(Acl { intent_id, default_policy, strict, entries })
}

async fn load_all(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Vec<Entry>> {
    let rows = sqlx::query_as!(
        EntryRow,
        "-- access::entries
         SELECT id, intent_id, principal_id, principal_type, permission, granted_by, granted_at, expires_at, reason
         FROM acl_entries WHERE intent_id = $1 ORDER BY id",
        intent_id.uuid()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Entry::try_from).collect()
}

/// Writes the access control list of a new intent if the operator has new intents closed
/// (`ENTENTE_DEFAULT_ACCESS`): its creator has full access, and the agents `assigned` with it have `level`.
///
/// # Errors
/// A database error; an assigned name is invalid.
pub async fn of_new(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    by: &str,
    assigned: &[&str],
    level: Level,
) -> Outcome<()> {
    let policy = ctx.settings.default_access;
    if policy == Policy::Open {
        // A missing row means open.
        return Ok(());
    }
    let now = log.now();
    let mut assigned = assigned.to_vec();
    assigned.sort_unstable();
    assigned.dedup();
    let mut ids: Vec<EntryId> = assigned.iter().map(|_| EntryId::mint(now, &*ctx.chance)).collect();
    ids.sort_unstable();
    let entry = |(agent, id): (&&str, EntryId)| {
        let ask = EntryAsk {
            principal_id: (*agent).to_owned(),
            principal_type: None,
            permission: Some(level),
            expires_at: None,
            reason: None,
        };
        domain::grant(ask, log.intent_id, by, id, now)
    };
    let entries = assigned.iter().zip(ids).map(entry).collect::<Result<Vec<Entry>, Refusal>>()?;
    save_policy(conn, log.intent_id, policy).await?;
    insert(conn, &entries).await?;
    let listed: Vec<_> = entries.iter().map(event_payload).collect();
    let payload = json!({ "replaced": true, "default_policy": policy, "entries": listed });
    log.record(ctx, Draft::of(Kind::AccessGranted, by, payload));
    Ok(())
}

/// Writes the policy; returns whether the intent is strict, which stays as it is.
async fn save_policy(conn: &mut PgConnection, intent_id: IntentId, policy: Policy) -> Outcome<bool> {
    let strict = sqlx::query_scalar!(
        "-- access::save_policy
         INSERT INTO acls (intent_id, default_policy) VALUES ($1, $2)
         ON CONFLICT (intent_id) DO UPDATE SET default_policy = excluded.default_policy, narrowed = false
         RETURNING strict",
        intent_id.uuid(),
        policy.as_str()
    )
    .fetch_one(conn)
    .await?;
    Ok(strict)
}

/// Marks an open list as narrowed, so that the expiry of its entries does not widen access again.
async fn narrow(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<()> {
    sqlx::query!(
        "-- access::narrow
         INSERT INTO acls (intent_id, default_policy, narrowed) VALUES ($1, 'open', true)
         ON CONFLICT (intent_id) DO UPDATE SET narrowed = true",
        intent_id.uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub(crate) async fn insert(conn: &mut PgConnection, entries: &[Entry]) -> Outcome<()> {
    for entry in entries {
        sqlx::query!(
            "-- access::insert
             INSERT INTO acl_entries (id, intent_id, principal_id, principal_type, permission, granted_by, granted_at,
                                      expires_at, reason)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            entry.id.uuid(),
            entry.intent_id.uuid(),
            entry.principal_id,
            entry.principal_type,
            entry.permission.as_str(),
            entry.granted_by,
            entry.granted_at,
            entry.expires_at,
            entry.reason
        )
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

async fn delete(conn: &mut PgConnection, ids: &[uuid::Uuid]) -> Outcome<()> {
    sqlx::query!("-- access::delete\n DELETE FROM acl_entries WHERE id = ANY($1)", ids).execute(conn).await?;
    Ok(())
}

async fn delete_all(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<()> {
    sqlx::query!("-- access::delete_all\n DELETE FROM acl_entries WHERE intent_id = $1", intent_id.uuid())
        .execute(conn)
        .await?;
    Ok(())
}
