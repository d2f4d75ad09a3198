//! Endpoints for the keys that sign envelopes (AEE §8, §11.2). A generated secret is returned once; secrets are never
//! listed.

use actix_web::{HttpRequest, delete, get, post, web};
use entente_aee::envelope_keys;
use entente_domain::aee::envelope_keys::{Ask, EnvelopeKey, EnvelopeKeyStatus, Shared};
use entente_domain::aee::envelopes::signing::Algorithm;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Dialect;
use entente_domain::refusal::Code;
use entente_http::body::{Body, IdempotencyKey, Query};
use entente_http::caller::Asker;
use entente_http::error::{ProblemBody, Reply};
use entente_http::routes::Routes;
use entente_http::wire::{GivenTime, WireTime};
use entente_http::{created, ok};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ApiState;
use crate::transport::require_private;

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(register).service(revoke);
}

/// A key that signs envelopes.
#[derive(Debug, Serialize, ToSchema)]
struct EnvelopeKeyBody {
    /// The entity whose envelopes it signs: those with this `from`.
    #[schema(example = "agent.researcher")]
    entity: String,
    /// The key's name among the entity's keys.
    #[schema(example = "2026-11")]
    kid: String,
    /// The only algorithm the key may be used with.
    algorithm: Algorithm,
    /// The public half; null for HS256, whose secret is not returned.
    #[schema(example = "ed25519:Ct_qs6K3jNoQ6Dz28xSTb1GwhXBjj9vvYYBHT5hXsHM")]
    public_key: Option<String>,
    /// The key's lifecycle status.
    status: EnvelopeKeyStatus,
    /// When the key becomes valid.
    not_before: WireTime,
    /// When the key stops being valid; null if it does not.
    not_after: Option<WireTime>,
    /// When it was revoked; null if it was not.
    revoked_at: Option<WireTime>,
    /// The principal that registered it.
    created_by: String,
    /// When it was registered.
    created_at: WireTime,
}

impl EnvelopeKeyBody {
    fn new(key: EnvelopeKey, now: Timestamp, dialect: Dialect) -> Self {
        let time = |at| WireTime::new(at, dialect);
        Self {
            algorithm: key.algorithm(),
            public_key: key.public_key().map(|key| key.to_string()),
            status: key.status_at(now),
            entity: key.entity,
            kid: key.kid,
            not_before: time(key.not_before),
            not_after: key.not_after.map(time),
            revoked_at: key.revoked_at.map(time),
            created_by: key.created_by,
            created_at: time(key.created_at),
        }
    }
}

/// A registered key.
#[derive(Debug, Serialize, ToSchema)]
struct RegistrationBody {
    /// The key's record.
    #[serde(flatten)]
    key: EnvelopeKeyBody,
    /// The generated secret in Base64, returned only this once; null if none was generated.
    secret: Option<String>,
}

/// A key to register.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewEnvelopeKey)]
#[schema(example = json!({
    "entity": "agent.researcher", "kid": "2026-11", "algorithm": "ed25519",
    "public_key": "ed25519:Ct_qs6K3jNoQ6Dz28xSTb1GwhXBjj9vvYYBHT5hXsHM"
}))]
struct RegisterBody {
    /// The entity the key belongs to; defaults to the acting agent.
    entity: Option<String>,
    /// The key's name, of letters, digits and `-_.:~@=+`; generated if omitted.
    kid: Option<String>,
    /// The algorithm to use the key with.
    algorithm: Algorithm,
    /// For ed25519: the public half, as `ed25519:…`, a `did:key`, or 32 bytes in Base64.
    public_key: Option<String>,
    /// For HS256: 32 to 64 bytes in Base64; 32 bytes are generated if omitted.
    #[schema(value_type = Option<String>)]
    secret: Option<Shared>,
    /// When the key becomes valid; defaults to immediately.
    not_before: Option<GivenTime>,
    /// When the key stops being valid; defaults to never.
    not_after: Option<GivenTime>,
}

/// List an entity's signing keys
///
/// Returns all keys it ever had, oldest first. The API key must be allowed to act as the entity, or have the scope
/// `admin`.
#[utoipa::path(operation_id = "list_envelope_keys", tag = "envelopes",
    params(("entity" = Option<String>, Query, description = "Entity that owns the keys; defaults to the acting agent")),
    responses((status = 200, description = "The keys", body = [EnvelopeKeyBody])))]
#[get("/aee/keys")]
async fn list(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let found = envelope_keys::list(&api.ctx, &asker.caller, query.text("entity")).await?;
    let now = api.ctx.now();
    ok(&found.into_iter().map(|key| EnvelopeKeyBody::new(key, now, asker.dialect)).collect::<Vec<_>>())
}

/// Register a signing key
///
/// For envelopes whose `from` is the entity. Registering the same key again returns the existing one. A key is never
/// changed and its name never reused: to rotate, register the next key while the current one is still valid, sign
/// with the new one, and revoke the old one.
#[utoipa::path(operation_id = "register_envelope_key", tag = "envelopes", request_body = RegisterBody, params(IdempotencyKey),
    responses((status = 201, description = "The key was registered", body = RegistrationBody),
              (status = 200, description = "The key was already registered", body = RegistrationBody),
              (status = 403, description = "`forbidden`: over plain HTTP from another machine (§11.3)", body = ProblemBody),
              (status = 409, description = "`already_exists`: the name belongs to another key, or the key has another name or was revoked", body = ProblemBody)))]
#[post("/aee/keys")]
async fn register(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    body: Body<RegisterBody>,
) -> Reply {
    // An attacker who changed the request in transit could obtain a key for this entity.
    require_private(&request, &api, Code::Forbidden)?;
    let once = body.once(&request)?;
    let said = body.value;
    let ask = Ask {
        kid: said.kid,
        algorithm: said.algorithm,
        public_key: said.public_key,
        secret: said.secret,
        not_before: said.not_before.map(|at| at.0),
        not_after: said.not_after.map(|at| at.0),
    };
    let (ctx, entity) = (&api.ctx, said.entity.as_deref());
    let made = envelope_keys::register(ctx, &asker.caller, entity, &ask, once.as_ref()).await?;
    let key = EnvelopeKeyBody::new(made.key, ctx.now(), asker.dialect);
    let reply = RegistrationBody { key, secret: made.secret.map(|secret| secret.0) };
    if made.new { created(&reply) } else { ok(&reply) }
}

/// Revoke a signing key
///
/// Takes effect immediately on every server, and permanently: envelopes that the key signed and that were not yet
/// accepted are refused.
#[utoipa::path(operation_id = "revoke_envelope_key", tag = "envelopes",
    params(("kid" = String, Path, description = "Name of the key"),
           ("entity" = Option<String>, Query, description = "Entity that owns the key; defaults to the acting agent")),
    responses((status = 200, description = "The revoked key", body = EnvelopeKeyBody)))]
#[delete("/aee/keys/{kid}")]
async fn revoke(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let key = envelope_keys::revoke(&api.ctx, &asker.caller, query.text("entity"), &path).await?;
    ok(&EnvelopeKeyBody::new(key, api.ctx.now(), asker.dialect))
}
