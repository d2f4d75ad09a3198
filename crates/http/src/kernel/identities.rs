//! Endpoints for agents' identities (RFC-0018, OI-12).

use actix_web::{HttpRequest, get, post, web};
use entente_domain::clock::Timestamp;
use entente_domain::identity::agent_keys::{AgentKey, End, KeyStatus};
use entente_domain::identity::identities::{ALGORITHM, Identity, KeyAsk};
use entente_domain::identity::keys::Dialect;
use entente_kernel::identity::identities;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::body::{Body, IdempotencyKey, OptionalBody};
use crate::caller::Asker;
use crate::error::{Problem, ProblemBody, Reply};
use crate::routes::Routes;
use crate::wire::{GivenTime, WireTime};
use crate::{HttpState, created, ok};

pub fn routes(config: &mut Routes<'_>) {
    config.service(register).service(complete).service(get).service(verify).service(rotate).service(revoke);
}

/// A key of an agent.
#[derive(Debug, Serialize, ToSchema)]
struct KeySpan {
    /// The public key.
    public_key: String,
    /// The same key as a decentralised identifier.
    did: String,
    /// The key's lifecycle status.
    status: KeyStatus,
    /// When the key became valid.
    valid_from: WireTime,
    /// When the key expires, as given at registration.
    expires_at: Option<WireTime>,
    /// When the key ended.
    ended_at: Option<WireTime>,
    /// The reason why it ended.
    ended_by: Option<End>,
}

impl KeySpan {
    fn new(key: &AgentKey, now: Timestamp, dialect: Dialect) -> Self {
        let time = |at: Option<Timestamp>| at.map(|at| WireTime::new(at, dialect));
        Self {
            public_key: key.public_key.to_string(),
            did: key.public_key.did(),
            status: key.status_at(now),
            valid_from: WireTime::new(key.valid_from, dialect),
            expires_at: time(key.expires_at),
            ended_at: time(key.ended_at),
            ended_by: key.ended_by,
        }
    }
}

/// An agent's identity.
#[derive(Debug, Serialize, ToSchema)]
struct IdentityBody {
    /// The agent.
    #[schema(example = "agent.researcher")]
    agent_id: String,
    /// The agent's latest key.
    #[schema(example = "ed25519:Ct_qs6K3jNoQ6Dz28xSTb1GwhXBjj9vvYYBHT5hXsHM")]
    public_key: String,
    /// The same key as a decentralised identifier.
    #[schema(example = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")]
    did: String,
    /// Always `Ed25519`.
    key_algorithm: &'static str,
    /// The latest key's status.
    status: KeyStatus,
    /// When the agent registered; rotations do not change it.
    registered_at: WireTime,
    /// When the latest key expires.
    key_expires_at: Option<WireTime>,
    /// When the latest key was revoked.
    revoked_at: Option<WireTime>,
    /// The earlier keys, oldest first.
    previous_keys: Vec<String>,
    /// All keys, each with its period of validity.
    keys: Vec<KeySpan>,
    /// Always empty; present for clients that read it.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
}

impl IdentityBody {
    fn new(identity: Identity, now: Timestamp, dialect: Dialect) -> Result<Self, Problem> {
        let Some((last, before)) = identity.keys.split_last() else {
            return Err(Problem::internal("an identity without a key"));
        };
        let now = identity.present(now);
        let revoked = last.ended_at.filter(|_| last.ended_by == Some(End::Revoked));
        Ok(Self {
            public_key: last.public_key.to_string(),
            did: last.public_key.did(),
            key_algorithm: ALGORITHM,
            status: last.status_at(now),
            registered_at: WireTime::new(last.registered_at, dialect),
            key_expires_at: last.expires_at.map(|at| WireTime::new(at, dialect)),
            revoked_at: revoked.map(|at| WireTime::new(at, dialect)),
            previous_keys: before.iter().map(|key| key.public_key.to_string()).collect(),
            keys: identity.keys.iter().map(|key| KeySpan::new(key, now, dialect)).collect(),
            metadata: Map::new(),
            agent_id: identity.agent_id,
        })
    }
}

/// A key to register.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewIdentity)]
#[schema(example = json!({ "public_key": "ed25519:Ct_qs6K3jNoQ6Dz28xSTb1GwhXBjj9vvYYBHT5hXsHM", "key_algorithm": "Ed25519" }))]
struct RegisterBody {
    /// The key: `ed25519:` and 32 bytes in base64url without padding, or a `did:key`.
    public_key: String,
    /// `Ed25519`, which is also the default.
    key_algorithm: Option<String>,
    /// When the key expires; defaults to never.
    key_expires_at: Option<GivenTime>,
}

/// A challenge to sign.
#[derive(Debug, Serialize, ToSchema)]
struct ChallengeBody {
    /// 32 random bytes in base64url without padding.
    challenge: String,
    /// When the challenge expires.
    challenge_expires_at: WireTime,
}

/// Register an agent's key
///
/// Returns a challenge; the key becomes valid once the challenge is signed with it. Requires a caller that may act as
/// the agent.
#[utoipa::path(operation_id = "register_identity", tag = "identities", request_body = RegisterBody, params(IdempotencyKey),
    responses((status = 200, description = "The challenge", body = ChallengeBody),
              (status = 409, description = "`identity_exists`", body = ProblemBody)))]
#[post("/agents/{agent_id}/identity")]
async fn register(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<RegisterBody>,
) -> Reply {
    let once = body.once(&request)?;
    let said = body.value;
    let ask = KeyAsk {
        public_key: said.public_key,
        key_algorithm: said.key_algorithm,
        key_expires_at: said.key_expires_at.map(|end| end.0),
    };
    let challenge = identities::begin(&api.ctx, &asker.caller, &path, ask, once.as_ref()).await?;
    ok(&ChallengeBody {
        challenge: challenge.text(),
        challenge_expires_at: WireTime::new(challenge.expires_at, asker.dialect),
    })
}

/// A signed challenge.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SignedChallenge)]
#[schema(example = json!({ "challenge": "5Ia2…", "signature": "5VZDAM…" }))]
struct CompleteBody {
    /// The challenge, as received.
    challenge: String,
    /// The key's signature over the challenge's bytes or over its text, in base64url.
    signature: String,
}

/// Complete a registration
///
/// With the signed challenge, which is valid once.
#[utoipa::path(operation_id = "complete_identity_challenge", tag = "identities", request_body = CompleteBody,
    params(IdempotencyKey),
    responses((status = 201, description = "The identity", body = IdentityBody),
              (status = 403, description = "`bad_signature`", body = ProblemBody)))]
#[post("/agents/{agent_id}/identity/challenge")]
async fn complete(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<CompleteBody>,
) -> Reply {
    let once = body.once(&request)?;
    let (challenge, signature) = (&body.value.challenge, &body.value.signature);
    let identity =
        identities::complete(&api.ctx, &asker.caller, &path, challenge, signature, once.as_ref()).await?;
    created(&IdentityBody::new(identity, api.ctx.now(), asker.dialect)?)
}

/// Get an agent's identity
#[utoipa::path(operation_id = "get_identity", tag = "identities",
    responses((status = 200, description = "The identity", body = IdentityBody)))]
#[get("/agents/{agent_id}/identity")]
async fn get(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let identity = identities::get(&api.ctx, &asker.caller, &path).await?;
    ok(&IdentityBody::new(identity, api.ctx.now(), asker.dialect)?)
}

/// A signed payload.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SignedPayload)]
#[schema(example = json!({ "payload": { "total": 42 }, "signature": "5VZDAM…" }))]
struct VerifyBody {
    /// The payload, whose canonical form (RFC 8785) was signed.
    #[schema(value_type = Object)]
    payload: Map<String, Value>,
    /// The signature, in base64url.
    signature: String,
}

/// The result of verifying a signature.
#[derive(Debug, Serialize, ToSchema)]
struct VerdictBody<'a> {
    /// Whether it is a signature of the agent's current key over the payload.
    valid: bool,
    /// The reason if it is not: `bad_signature`, or that the key is `revoked`, `expired` or `superseded`.
    reason: Option<&'static str>,
    /// The agent.
    agent_id: &'a str,
    /// The agent's latest key.
    did: String,
    /// When the signature was verified.
    verified_at: WireTime,
}

/// Verify a signature
///
/// Of an agent over a payload. An invalid signature is no error: `valid` is false, and `reason` tells why.
#[utoipa::path(operation_id = "verify_signature", tag = "identities", request_body = VerifyBody,
    responses((status = 200, description = "Result of the verification", body = VerdictBody)))]
#[post("/agents/{agent_id}/identity/verify")]
async fn verify(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<VerifyBody>,
) -> Reply {
    let said = &body.value;
    let verdict = identities::verify(&api.ctx, &asker.caller, &path, &said.payload, &said.signature).await?;
    ok(&VerdictBody {
        valid: verdict.fault.is_none(),
        reason: verdict.fault,
        agent_id: &path,
        did: verdict.public_key.did(),
        verified_at: WireTime::new(verdict.at, asker.dialect),
    })
}

/// A key rotation. Other members may be added; they are signed too.
#[derive(Debug, ToSchema)]
#[schema(as = KeyRotation)]
#[schema(example = json!({ "action": "rotate", "new_public_key": "ed25519:Lm_M42cB3HkUiODQsXRcweM6TByfzEHGO9ND274JcOY", "old_public_key": "ed25519:Ct_qs6K3jNoQ6Dz28xSTb1GwhXBjj9vvYYBHT5hXsHM", "signature": "5VZDAM…" }))]
#[expect(
    dead_code,
    reason = "it says what the body has; the body itself is taken whole, because it is signed whole"
)]
struct RotateBody {
    /// Always `rotate`.
    action: String,
    /// The new key.
    new_public_key: String,
    /// The current key.
    old_public_key: String,
    /// When the new key expires; defaults to never.
    key_expires_at: Option<GivenTime>,
    /// The old key's signature over the canonical form of the body without its signatures.
    signature: String,
    /// The new key's signature over the same, as proof of possession.
    new_signature: Option<String>,
}

/// Rotate an agent's key
///
/// Signed with the current key; a lost key must be revoked instead.
#[utoipa::path(operation_id = "rotate_identity", tag = "identities", request_body = RotateBody, params(IdempotencyKey),
    responses((status = 200, description = "The identity", body = IdentityBody),
              (status = 403, description = "`bad_signature`", body = ProblemBody)))]
#[post("/agents/{agent_id}/identity/rotate")]
async fn rotate(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<Map<String, Value>>,
) -> Reply {
    let once = body.once(&request)?;
    let identity = identities::rotate(&api.ctx, &asker.caller, &path, body.value, once.as_ref()).await?;
    ok(&IdentityBody::new(identity, api.ctx.now(), asker.dialect)?)
}

/// The reason for a revocation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = KeyRevocation)]
#[schema(example = json!({ "reason": "the laptop was stolen" }))]
struct RevokeBody {
    /// The reason.
    reason: Option<String>,
}

/// Revoke an agent's key
///
/// Takes effect immediately and permanently. Requires a caller that may act as the agent, or the scope `admin`. The
/// agent can then register another key.
#[utoipa::path(operation_id = "revoke_identity", tag = "identities", request_body = Option<RevokeBody>,
    responses((status = 200, description = "The identity", body = IdentityBody)))]
#[post("/agents/{agent_id}/identity/revoke")]
async fn revoke(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<RevokeBody>,
) -> Reply {
    let reason = body.0.value.reason.as_deref();
    let identity = identities::revoke(&api.ctx, &asker.caller, &path, reason).await?;
    ok(&IdentityBody::new(identity, api.ctx.now(), asker.dialect)?)
}
