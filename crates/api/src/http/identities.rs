//! Routes of agents' identities (RFC-0018, contract 12).

use actix_web::{HttpRequest, get, post, web};
use entente_domain::agent_keys::{AgentKey, End, KeyStatus};
use entente_domain::clock::Timestamp;
use entente_domain::identities::{ALGORITHM, Identity, KeyAsk};
use entente_domain::keys::Dialect;
use entente_kernel::identities;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::body::{Body, OptionalBody};
use super::caller::Asker;
use super::error::{Problem, ProblemBody, Reply};
use super::wire::{GivenTime, WireTime};
use super::{Doors, created, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(register).service(complete).service(get).service(verify).service(rotate).service(revoke);
}

/// One of an agent's keys.
#[derive(Debug, Serialize, ToSchema)]
struct KeySpan {
    /// The key.
    public_key: String,
    /// The same as a decentralised identifier.
    did: String,
    /// Where it is in its life.
    status: KeyStatus,
    /// From when it counts.
    valid_from: WireTime,
    /// When its time runs out, as was said when it was registered.
    expires_at: Option<WireTime>,
    /// When it ended.
    ended_at: Option<WireTime>,
    /// By what.
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
    /// Its last key.
    #[schema(example = "ed25519:Ct_qs6K3jNoQ6Dz28xSTb1GwhXBjj9vvYYBHT5hXsHM")]
    public_key: String,
    /// The same as a decentralised identifier.
    #[schema(example = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")]
    did: String,
    /// `Ed25519`.
    key_algorithm: &'static str,
    /// Whether that key counts.
    status: KeyStatus,
    /// When the agent registered.
    registered_at: WireTime,
    /// When the key's time runs out.
    key_expires_at: Option<WireTime>,
    /// When it was revoked.
    revoked_at: Option<WireTime>,
    /// The keys before it, the oldest first.
    previous_keys: Vec<String>,
    /// All of them, with the time in which each counts.
    keys: Vec<KeySpan>,
    /// Always empty; a client reads it.
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
    /// `Ed25519`, also when nothing is said.
    key_algorithm: Option<String>,
    /// When its time runs out; never when nothing is said.
    key_expires_at: Option<GivenTime>,
}

/// What is to be signed.
#[derive(Debug, Serialize, ToSchema)]
struct ChallengeBody {
    /// 32 bytes of chance in base64url without padding.
    challenge: String,
    /// Until when.
    challenge_expires_at: WireTime,
}

/// Register an agent's key
///
/// Answers with a challenge; the key counts once that is signed with it. By whoever may act as the agent.
#[utoipa::path(operation_id = "register_identity", tag = "identities", request_body = RegisterBody,
    params(("agent_id" = String, Path, description = "The agent"),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 200, description = "The challenge", body = ChallengeBody),
              (status = 409, description = "`identity_exists`", body = ProblemBody)))]
#[post("/agents/{agent_id}/identity")]
async fn register(
    request: HttpRequest,
    doors: web::Data<Doors>,
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
    let challenge = identities::begin(&doors.ctx, &asker.caller, &path, ask, once.as_ref()).await?;
    ok(&ChallengeBody {
        challenge: challenge.text(),
        challenge_expires_at: WireTime::new(challenge.expires_at, asker.dialect),
    })
}

/// A challenge that was signed.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SignedChallenge)]
#[schema(example = json!({ "challenge": "5Ia2…", "signature": "5VZDAM…" }))]
struct CompleteBody {
    /// The challenge, as it came.
    challenge: String,
    /// The key's signature over the challenge's bytes or over its text, in base64url.
    signature: String,
}

/// Complete a registration
///
/// With the signed challenge, which counts once.
#[utoipa::path(operation_id = "complete_identity_challenge", tag = "identities", request_body = CompleteBody,
    params(("agent_id" = String, Path, description = "The agent"),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 201, description = "The identity", body = IdentityBody),
              (status = 403, description = "`bad_signature`", body = ProblemBody)))]
#[post("/agents/{agent_id}/identity/challenge")]
async fn complete(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<CompleteBody>,
) -> Reply {
    let once = body.once(&request)?;
    let (challenge, signature) = (&body.value.challenge, &body.value.signature);
    let identity =
        identities::complete(&doors.ctx, &asker.caller, &path, challenge, signature, once.as_ref()).await?;
    created(&IdentityBody::new(identity, doors.ctx.now(), asker.dialect)?)
}

/// Get an agent's identity
#[utoipa::path(operation_id = "get_identity", tag = "identities",
    params(("agent_id" = String, Path, description = "The agent")),
    responses((status = 200, description = "The identity", body = IdentityBody)))]
#[get("/agents/{agent_id}/identity")]
async fn get(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let identity = identities::get(&doors.ctx, &asker.caller, &path).await?;
    ok(&IdentityBody::new(identity, doors.ctx.now(), asker.dialect)?)
}

/// Something that was signed.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SignedPayload)]
#[schema(example = json!({ "payload": { "total": 42 }, "signature": "5VZDAM…" }))]
struct VerifyBody {
    /// What was signed, in its canonical form (RFC 8785).
    #[schema(value_type = Object)]
    payload: Map<String, Value>,
    /// The signature, in base64url.
    signature: String,
}

/// What a signature is worth.
#[derive(Debug, Serialize, ToSchema)]
struct VerdictBody<'a> {
    /// Whether it is one of the agent's key in force over the payload.
    valid: bool,
    /// Why not: `bad_signature`, or that the key was `revoked`, `expired` or `superseded`.
    reason: Option<&'static str>,
    /// The agent.
    agent_id: &'a str,
    /// Its last key.
    did: String,
    /// When that was said.
    verified_at: WireTime,
}

/// Verify a signature
///
/// Of an agent over a payload. A signature that does not count is no error: `valid` is false, and `reason` says why.
#[utoipa::path(operation_id = "verify_signature", tag = "identities", request_body = VerifyBody,
    params(("agent_id" = String, Path, description = "The agent")),
    responses((status = 200, description = "What it is worth", body = VerdictBody)))]
#[post("/agents/{agent_id}/identity/verify")]
async fn verify(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<VerifyBody>,
) -> Reply {
    let said = &body.value;
    let verdict =
        identities::verify(&doors.ctx, &asker.caller, &path, &said.payload, &said.signature).await?;
    ok(&VerdictBody {
        valid: verdict.fault.is_none(),
        reason: verdict.fault,
        agent_id: &path,
        did: verdict.public_key.did(),
        verified_at: WireTime::new(verdict.at, asker.dialect),
    })
}

/// A rotation. Other members may be added; they are signed too.
#[derive(Debug, ToSchema)]
#[schema(as = KeyRotation)]
#[schema(example = json!({ "action": "rotate", "new_public_key": "ed25519:Lm_M42cB3HkUiODQsXRcweM6TByfzEHGO9ND274JcOY", "old_public_key": "ed25519:Ct_qs6K3jNoQ6Dz28xSTb1GwhXBjj9vvYYBHT5hXsHM", "signature": "5VZDAM…" }))]
#[expect(
    dead_code,
    reason = "it says what the body has; the body itself is taken whole, because it is signed whole"
)]
struct RotateBody {
    /// `rotate`.
    action: String,
    /// The key to come.
    new_public_key: String,
    /// The key in force.
    old_public_key: String,
    /// When the new key's time runs out; never when nothing is said.
    key_expires_at: Option<GivenTime>,
    /// The old key's signature over the canonical form of the body without its signatures.
    signature: String,
    /// The new key's over the same, to prove that the agent has it.
    new_signature: Option<String>,
}

/// Rotate an agent's key
///
/// On the word of the key in force: a key that was lost is revoked instead.
#[utoipa::path(operation_id = "rotate_identity", tag = "identities", request_body = RotateBody,
    params(("agent_id" = String, Path, description = "The agent"),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 200, description = "The identity", body = IdentityBody),
              (status = 403, description = "`bad_signature`", body = ProblemBody)))]
#[post("/agents/{agent_id}/identity/rotate")]
async fn rotate(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<Map<String, Value>>,
) -> Reply {
    let once = body.once(&request)?;
    let identity = identities::rotate(&doors.ctx, &asker.caller, &path, body.value, once.as_ref()).await?;
    ok(&IdentityBody::new(identity, doors.ctx.now(), asker.dialect)?)
}

/// Why a key is revoked.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = KeyRevocation)]
#[schema(example = json!({ "reason": "the laptop was stolen" }))]
struct RevokeBody {
    /// Why.
    reason: Option<String>,
}

/// Revoke an agent's key
///
/// At once and for ever, by whoever may act as the agent, or with the scope `admin`. The agent can then register another.
#[utoipa::path(operation_id = "revoke_identity", tag = "identities", request_body = Option<RevokeBody>,
    params(("agent_id" = String, Path, description = "The agent")),
    responses((status = 200, description = "The identity", body = IdentityBody)))]
#[post("/agents/{agent_id}/identity/revoke")]
async fn revoke(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<RevokeBody>,
) -> Reply {
    let reason = body.0.value.reason.as_deref();
    let identity = identities::revoke(&doors.ctx, &asker.caller, &path, reason).await?;
    ok(&IdentityBody::new(identity, doors.ctx.now(), asker.dialect)?)
}
