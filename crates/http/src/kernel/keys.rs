//! API key routes. The secret is returned once, in the response that creates the key, and never again.

use actix_web::{HttpRequest, delete, get, post, web};
use entente_domain::identity::authority::Authority;
use entente_domain::identity::keys::{Dialect, Key, KeyAsk, Scope};
use entente_domain::ids::KeyId;
use entente_domain::limits::{DURATION_SECONDS, PAGE};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::identity::keys;
use entente_kernel::identity::keys::{NewKey, ROTATION_OVERLAP_SECONDS};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Body, IdempotencyKey, Limit1000, OptionalBody, Query, id};
use crate::caller::Asker;
use crate::error::Reply;
use crate::routes::Routes;
use crate::wire::{GivenTime, WireTime};
use crate::{HttpState, created, listed, ok};

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(create).service(list).service(rotate).service(revoke);
}

/// The record of an API key.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyBody {
    /// Id of the record.
    id: KeyId,
    /// Public part of the key, by which keys can be told apart.
    #[schema(example = "ent_0jVx3Kd81aQz")]
    prefix: String,
    /// The principal that owns the key.
    principal_id: String,
    /// Label of the key's purpose.
    label: Option<String>,
    /// Scopes that the key grants.
    scopes: Vec<Scope>,
    /// Agents that the key may act as, besides its principal; `*` matches any run of characters.
    #[schema(example = json!(["agent.*"]))]
    act_as: Vec<String>,
    /// Response dialect; null recognises it from the request.
    dialect: Option<Dialect>,
    /// Requests per second; null uses the server's setting, 0 means no limit.
    rate_per_second: Option<u32>,
    /// Principal that created the key.
    created_by: String,
    /// When the key was created.
    created_at: WireTime,
    /// When the key expires.
    expires_at: Option<WireTime>,
    /// When the key was revoked.
    revoked_at: Option<WireTime>,
    /// The key that this one replaces.
    rotated_from: Option<KeyId>,
    /// When the key was last used, accurate to a few seconds.
    last_used_at: Option<WireTime>,
    /// For a person's key: the basis of its authority; a basis of `given_key` or `given_password` decides
    /// nothing.
    authority: Option<Authority>,
}

impl KeyBody {
    /// Returns the key, without its secret, in the client's dialect.
    #[must_use]
    pub fn new(key: Key, dialect: Dialect) -> Self {
        let time = |at| WireTime::new(at, dialect);
        Self {
            id: key.id,
            prefix: if key.public_id.starts_with("seed:") {
                "(seeded)".to_owned()
            } else {
                format!("ent_{}", key.public_id)
            },
            principal_id: key.principal_id,
            label: key.label,
            scopes: key.scopes,
            act_as: key.act_as,
            dialect: key.dialect,
            rate_per_second: key.rate_per_second,
            created_by: key.created_by,
            created_at: time(key.created_at),
            expires_at: key.expires_at.map(time),
            revoked_at: key.revoked_at.map(time),
            rotated_from: key.rotated_from,
            last_used_at: key.last_used_at.map(time),
            authority: key.authority,
        }
    }
}

/// A newly created key.
#[derive(Debug, Serialize, ToSchema)]
struct NewKeyBody {
    /// The key itself, returned only this once; null when a repeated request finds the key already created.
    #[schema(example = "ent_0jVx3Kd81aQz_…")]
    key: Option<String>,
    /// The key's record.
    record: KeyBody,
}

impl NewKeyBody {
    fn new(made: NewKey, dialect: Dialect) -> Self {
        Self { key: made.secret.map(|secret| secret.0), record: KeyBody::new(made.key, dialect) }
    }
}

/// A key to create.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = NewKey)]
#[schema(example = json!({ "label": "laptop", "scopes": ["intents:read", "channels:read", "channels:write"] }))]
struct CreateBody {
    /// Label of the key's purpose.
    label: Option<String>,
    /// Scopes to grant; defaults to every scope except `admin`.
    scopes: Option<Vec<Scope>>,
    /// Agents that the key may act as, besides its principal.
    #[serde(default)]
    act_as: Vec<String>,
    /// Response dialect.
    dialect: Option<Dialect>,
    /// Requests per second; 0 means no limit.
    rate_per_second: Option<u32>,
    /// When the key expires.
    expires_at: Option<GivenTime>,
}

/// Create a key
///
/// Needs the scope `admin`. A key cannot create a stronger key: it grants only scopes it has itself, and
/// creates keys only for principals it may act as. A key created for another person cannot make that person's
/// decisions. The secret is in this response only; the server stores nothing but hashes of it.
#[utoipa::path(operation_id = "create_key", tag = "principals", request_body = CreateBody,
    params(("principal_id" = String, Path, description = "Principal that will own the key"), IdempotencyKey),
    responses((status = 201, description = "The key, with its secret", body = NewKeyBody)))]
#[post("/principals/{principal_id}/keys")]
async fn create(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<CreateBody>,
) -> Reply {
    let once = body.once(&request)?;
    let ask = body.value;
    if ask.label.as_ref().is_some_and(|label| label.len() > entente_domain::limits::NAME_BYTES) {
        return Err(Refusal::field(
            Code::InvalidRequest,
            "label",
            "too_long",
            "`label` has at most 200 bytes.",
        )
        .into());
    }
    let ask = KeyAsk {
        label: ask.label,
        scopes: ask.scopes,
        act_as: ask.act_as,
        dialect: ask.dialect,
        rate_per_second: ask.rate_per_second,
        expires_at: ask.expires_at.map(|end| end.0),
    };
    let made = keys::create(&api.ctx, &asker.caller, &path, ask, once.as_ref()).await?;
    created(&NewKeyBody::new(made, asker.dialect))
}

/// List a principal's keys
///
/// Returns the caller's own keys or, with the scope `admin`, those of any principal. Records only: the
/// secrets are not stored.
#[utoipa::path(operation_id = "list_keys", tag = "principals",
    params(("principal_id" = String, Path, description = "Principal that owns the keys"),
           ("after" = Option<KeyId>, Query, description = "Id of the last key of the previous page"), Limit1000),
    responses((status = 200, description = "The keys, oldest first", body = [KeyBody])))]
#[get("/principals/{principal_id}/keys")]
async fn list(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let after = query.parsed("after", "the id of a key", |text| text.parse().ok())?;
    let found = keys::list(&api.ctx, &asker.caller, &path, after, query.limit(PAGE)?).await?;
    listed(found.into_iter().map(|key| KeyBody::new(key, asker.dialect)))
}

/// Options of a key rotation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(example = json!({ "overlap_seconds": 3600 }))]
struct RotateBody {
    /// Seconds for which the old key keeps working; defaults to one day.
    overlap_seconds: Option<u32>,
}

/// Rotate a key
///
/// Creates a new key with the same powers and ends the old one after the overlap. A key can rotate itself;
/// the scope `admin` can rotate any key.
#[utoipa::path(operation_id = "rotate_key", tag = "principals", request_body = Option<RotateBody>, params(IdempotencyKey),
    responses((status = 201, description = "The new key", body = NewKeyBody)))]
#[post("/keys/{key_id}/rotate")]
async fn rotate(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<RotateBody>,
) -> Reply {
    let once = body.0.once(&request)?;
    let id: KeyId = id("key", &path)?;
    let overlap = body.0.value.overlap_seconds.unwrap_or(ROTATION_OVERLAP_SECONDS);
    if overlap > DURATION_SECONDS {
        let message = "`overlap_seconds` is more than ten years.";
        return Err(Refusal::field(Code::InvalidRequest, "overlap_seconds", "too_long", message).into());
    }
    let made = keys::rotate(&api.ctx, &asker.caller, id, overlap, once.as_ref()).await?;
    created(&NewKeyBody::new(made, asker.dialect))
}

/// Revoke a key
///
/// Takes effect immediately on every server and closes open streams. Allowed for keys of the caller's own
/// principal and, with the scope `admin`, for any key.
#[utoipa::path(operation_id = "revoke_key", tag = "principals",
    responses((status = 200, description = "The revoked key", body = KeyBody)))]
#[delete("/keys/{key_id}")]
async fn revoke(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let id: KeyId = id("key", &path)?;
    let key = keys::revoke(&api.ctx, &asker.caller, id).await?;
    ok(&KeyBody::new(key, asker.dialect))
}
