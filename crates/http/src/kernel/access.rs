//! Endpoints for access control lists (RFC-0011).

use actix_web::{HttpRequest, HttpResponse, delete, get, post, put, web};
use entente_domain::access::{Acl, Entry, EntryAsk, Level, Policy};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{EntryId, IntentId};
use entente_kernel::access;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Body, IdempotencyKey, id};
use crate::caller::Asker;
use crate::error::Reply;
use crate::routes::Routes;
use crate::unknown::ReadOnly;
use crate::wire::{GivenTime, WireTime};
use crate::{HttpState, ok};

pub fn routes(config: &mut Routes<'_>) {
    config.service(get).service(replace).service(set_strict).service(grant).service(revoke);
}

/// An entry of an access control list.
#[derive(Debug, Serialize, ToSchema)]
struct EntryBody {
    /// The entry's id.
    id: EntryId,
    /// The intent.
    intent_id: IntentId,
    /// The principal granted access.
    #[schema(example = "agent.researcher")]
    principal_id: String,
    /// The kind of principal.
    #[schema(example = "agent")]
    principal_type: String,
    /// The access level granted.
    permission: Level,
    /// The principal that granted it.
    granted_by: String,
    /// When it was granted.
    granted_at: WireTime,
    /// When the entry ends; null if it does not.
    expires_at: Option<WireTime>,
    /// Why it was granted.
    reason: Option<String>,
}

impl EntryBody {
    fn new(entry: Entry, dialect: Dialect) -> Self {
        Self {
            id: entry.id,
            intent_id: entry.intent_id,
            principal_id: entry.principal_id,
            principal_type: entry.principal_type,
            permission: entry.permission,
            granted_by: entry.granted_by,
            granted_at: WireTime::new(entry.granted_at, dialect),
            expires_at: entry.expires_at.map(|end| WireTime::new(end, dialect)),
            reason: entry.reason,
        }
    }
}

/// An intent's access control list.
#[derive(Debug, Serialize, ToSchema)]
struct AclBody {
    /// The intent.
    intent_id: IntentId,
    /// The policy for principals without an entry.
    default_policy: Policy,
    /// Whether writes of agents on the intent have to name the epochs of their sessions (`Entente-Epoch`); left out if
    /// they have not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
    /// The entries.
    entries: Vec<EntryBody>,
}

impl AclBody {
    fn new(acl: Acl, dialect: Dialect) -> Self {
        Self {
            intent_id: acl.intent_id,
            default_policy: acl.default_policy,
            strict: acl.strict,
            entries: acl.entries.into_iter().map(|entry| EntryBody::new(entry, dialect)).collect(),
        }
    }
}

/// An entry to create.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "principal_id": "agent.researcher", "permission": "write" }))]
struct GrantBody {
    /// The principal to grant access to.
    principal_id: String,
    /// The kind of principal; defaults to `agent`.
    principal_type: Option<String>,
    /// The access level; defaults to `read`.
    permission: Option<Level>,
    /// When the entry ends; defaults to never.
    expires_at: Option<GivenTime>,
    /// Why it is granted.
    reason: Option<String>,
    /// Ignored: the SDK sends an entry as it reads it (OI-3.2.6), and the server sets this.
    #[serde(default, rename = "id")]
    #[schema(value_type = Option<String>)]
    _id: ReadOnly,
    /// Ignored, as `id`.
    #[serde(default, rename = "intent_id")]
    #[schema(value_type = Option<String>)]
    _intent_id: ReadOnly,
    /// Ignored, as `id`.
    #[serde(default, rename = "granted_by")]
    #[schema(value_type = Option<String>)]
    _granted_by: ReadOnly,
    /// Ignored, as `id`.
    #[serde(default, rename = "granted_at")]
    #[schema(value_type = Option<String>)]
    _granted_at: ReadOnly,
}

impl From<GrantBody> for EntryAsk {
    fn from(body: GrantBody) -> Self {
        Self {
            principal_id: body.principal_id,
            principal_type: body.principal_type,
            permission: body.permission,
            expires_at: body.expires_at.map(|end| end.0),
            reason: body.reason,
        }
    }
}

/// A replacement for the whole access control list.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "default_policy": "closed", "entries": [{ "principal_id": "agent.b", "permission": "write" }] }))]
struct ReplaceBody {
    /// The policy for principals without an entry.
    default_policy: Policy,
    /// The entries.
    #[serde(default)]
    entries: Vec<GrantBody>,
    /// Ignored: the path names the intent, and a list that was read has it (OI-3.2.6).
    #[serde(default, rename = "intent_id")]
    #[schema(value_type = Option<String>)]
    _intent_id: ReadOnly,
    /// Ignored, as `intent_id`: `PUT /intents/{intent_id}/strict` sets it.
    #[serde(default, rename = "strict")]
    #[schema(value_type = Option<bool>)]
    _strict: ReadOnly,
}

/// Whether an intent is strict.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = IntentStrictness, example = json!({ "strict": true }))]
struct StrictBody {
    /// Whether writes of agents on the intent have to name the epochs of their sessions.
    strict: bool,
}

/// Get an intent's access list
///
/// A list that was never set is open and empty: everyone may do everything except change the list.
#[utoipa::path(operation_id = "get_acl",
    tag = "access",
    responses((status = 200, description = "The access list", body = AclBody)))]
#[get("/intents/{intent_id}/acl")]
async fn get(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let acl = access::get(&api.ctx, &asker.caller, id("intent", &path)?).await?;
    ok(&AclBody::new(acl, asker.dialect))
}

/// Replace an intent's access list
///
/// Requires the caller to be the intent's creator, to have an admin entry, or to hold the scope `admin`.
#[utoipa::path(operation_id = "replace_acl",
    tag = "access", request_body = ReplaceBody,
    responses((status = 200, description = "The access list", body = AclBody)))]
#[put("/intents/{intent_id}/acl")]
async fn replace(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ReplaceBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let entries = body.value.entries.into_iter().map(EntryAsk::from).collect();
    let acl = access::replace(&api.ctx, &asker.caller, intent_id, body.value.default_policy, entries).await?;
    ok(&AclBody::new(acl, asker.dialect))
}

/// Make an intent strict
///
/// From then on, every write of an agent on the intent has to name the epoch of its session (`Entente-Epoch`), by
/// whichever way it comes; otherwise it is refused with `epoch_required`. People and services that act in their own
/// names are not concerned. Requires the caller to be the intent's creator, to have an admin entry, or to hold the
/// scope `admin`.
#[utoipa::path(operation_id = "set_intent_strict",
    tag = "access", request_body = StrictBody,
    responses((status = 200, description = "The access list", body = AclBody)))]
#[put("/intents/{intent_id}/strict")]
async fn set_strict(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<StrictBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let acl = access::set_strict(&api.ctx, &asker.caller, intent_id, body.value.strict).await?;
    ok(&AclBody::new(acl, asker.dialect))
}

/// Grant access to an intent
#[utoipa::path(operation_id = "grant_access", tag = "access", request_body = GrantBody, params(IdempotencyKey),
    responses((status = 200, description = "The entry", body = EntryBody)))]
#[post("/intents/{intent_id}/acl/entries")]
async fn grant(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<GrantBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let entry = access::grant(&api.ctx, &asker.caller, intent_id, body.value.into(), once.as_ref()).await?;
    ok(&EntryBody::new(entry, asker.dialect))
}

/// Revoke access to an intent
///
/// Takes effect immediately, including on open streams.
#[utoipa::path(operation_id = "revoke_access", tag = "access",
    responses((status = 204, description = "Revoked")))]
#[delete("/intents/{intent_id}/acl/entries/{entry_id}")]
async fn revoke(api: web::Data<HttpState>, asker: Asker, path: web::Path<(String, String)>) -> Reply {
    let entry: EntryId = id("access entry", &path.1)?;
    access::revoke(&api.ctx, &asker.caller, id("intent", &path.0)?, entry).await?;
    Ok(HttpResponse::NoContent().finish())
}
