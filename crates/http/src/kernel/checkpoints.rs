//! Endpoints for checkpoints (RFC-0019, OI-13) and for the server public keys that verify them.

use std::sync::Arc;

use actix_web::{HttpRequest, get, post, web};
use entente_domain::canonical::show;
use entente_domain::clock;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{CheckpointId, EventId, IntentId};
use entente_domain::limits::PAGE;
use entente_domain::log::checkpoints::{Anchor, Checkpoint, CheckpointScope};
use entente_domain::log::merkle::Side;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::audit::checkpoints;
use entente_kernel::audit::checkpoints::{AnchorAsk, CheckpointFilter};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Body, IdempotencyKey, Limit1000, Query, id};
use crate::caller::Asker;
use crate::error::{Problem, Reply};
use crate::routes::Routes;
use crate::wire::{GivenTime, WireTime};
use crate::{HttpState, created, listed, ok};

pub fn routes(config: &mut Routes<'_>) {
    config
        .service(list)
        .service(get)
        .service(prove)
        .service(compare)
        .service(create)
        .service(keep_anchor)
        .service(server_keys);
}

/// A checkpoint.
#[derive(Debug, Serialize, ToSchema)]
struct CheckpointBody {
    /// The checkpoint's id.
    checkpoint_id: CheckpointId,
    /// The intent; null for the system log.
    intent_id: Option<IntentId>,
    /// The kind of log it covers.
    scope: CheckpointScope,
    /// The Merkle root over the hashes of the covered events.
    #[schema(example = "sha256:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU")]
    merkle_root: String,
    /// Number of events covered.
    event_count: i64,
    /// Sequence number of the first event covered.
    first_sequence: i64,
    /// Sequence number of the last event covered.
    last_sequence: i64,
    /// When it was taken. The signed form writes this time with `Z`, whatever the client's dialect.
    created_at: WireTime,
    /// The server key that signed it.
    #[schema(example = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")]
    signed_by: String,
    /// The key's signature over the canonical form (RFC 8785) of all other members, in base64url.
    signature: String,
    /// An external witness's receipt for the checkpoint.
    anchor: Option<AnchorBody>,
}

/// An external witness's receipt for a checkpoint.
#[derive(Debug, Serialize, ToSchema)]
struct AnchorBody {
    /// The kind of witness.
    #[serde(rename = "type")]
    kind: String,
    /// The witness.
    provider: String,
    /// Where the witness publishes the receipt.
    reference: String,
    /// The receipt itself.
    timestamp_proof: String,
    /// When the witness saw the checkpoint.
    anchored_at: WireTime,
}

/// Converts a signed time to the client's dialect.
fn time(text: &str, dialect: Dialect) -> Result<WireTime, Problem> {
    let at = clock::parse(text).ok_or_else(|| Problem::internal("a signed time is none"))?;
    Ok(WireTime::new(at, dialect))
}

impl CheckpointBody {
    fn new(checkpoint: Checkpoint, dialect: Dialect) -> Result<Self, Problem> {
        let anchor = checkpoint.anchor.map(|anchor| {
            Ok::<_, Problem>(AnchorBody {
                anchored_at: time(&anchor.anchored_at, dialect)?,
                kind: anchor.kind,
                provider: anchor.provider,
                reference: anchor.reference,
                timestamp_proof: anchor.timestamp_proof,
            })
        });
        Ok(Self {
            checkpoint_id: checkpoint.checkpoint_id,
            intent_id: checkpoint.intent_id,
            scope: checkpoint.scope,
            merkle_root: checkpoint.merkle_root,
            event_count: checkpoint.event_count,
            first_sequence: checkpoint.first_sequence,
            last_sequence: checkpoint.last_sequence,
            created_at: time(&checkpoint.created_at, dialect)?,
            signed_by: checkpoint.signed_by,
            signature: checkpoint.signature,
            anchor: anchor.transpose()?,
        })
    }
}

/// List checkpoints
///
/// Newest first. Returns checkpoints of logs that the caller can read; with the scope `admin`, of all logs.
#[utoipa::path(operation_id = "list_checkpoints", tag = "checkpoints",
    params(("intent_id" = Option<String>, Query, description = "Only checkpoints of this intent"),
           ("scope" = Option<String>, Query, description = "Only checkpoints of this kind of log: `intent` or `server` (the system log)"),
           ("before" = Option<String>, Query, description = "Only checkpoints older than this one: the last of the previous page"), Limit1000),
    responses((status = 200, description = "The checkpoints", body = [CheckpointBody])))]
#[get("/checkpoints")]
async fn list(api: web::Data<HttpState>, asker: Asker, query: Query) -> Reply {
    let filter = CheckpointFilter {
        intent_id: query.text("intent_id").map(|text| id("intent", text)).transpose()?,
        scope: query.parsed("scope", "`intent` or `server`", CheckpointScope::parse)?,
        before: query.parsed("before", "a checkpoint's id", |text| text.parse().ok())?,
        limit: query.limit(PAGE)?,
    };
    let found = checkpoints::list(&api.ctx, &asker.caller, &filter).await?;
    let bodies = found.into_iter().map(|one| CheckpointBody::new(one, asker.dialect));
    listed(bodies.collect::<Result<Vec<_>, _>>()?)
}

/// Get a checkpoint
#[utoipa::path(operation_id = "get_checkpoint", tag = "checkpoints",
    responses((status = 200, description = "The checkpoint", body = CheckpointBody)))]
#[get("/checkpoints/{checkpoint_id}")]
async fn get(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = checkpoints::get(&api.ctx, &asker.caller, id("checkpoint", &path)?).await?;
    ok(&CheckpointBody::new(found, asker.dialect)?)
}

/// A sibling hash on the path from a leaf to the root.
#[derive(Debug, Serialize, ToSchema)]
struct StepBody {
    /// The hash.
    hash: String,
    /// The side of the previously computed hash on which this one stands.
    position: Side,
}

/// A proof that a checkpoint covers an event.
#[derive(Debug, Serialize, ToSchema)]
struct ProofBody {
    /// The event.
    event_id: EventId,
    /// The event's hash, which is the leaf.
    event_hash: String,
    /// The checkpoint.
    checkpoint_id: CheckpointId,
    /// The root that the path must lead to.
    merkle_root: String,
    /// The path from the leaf up: each parent is SHA-256 over left and right.
    proof_hashes: Vec<StepBody>,
    /// The event's index among the leaves, from 0.
    leaf_index: usize,
}

/// Prove that a checkpoint covers an event
#[utoipa::path(operation_id = "get_merkle_proof", tag = "checkpoints",
    responses((status = 200, description = "The proof", body = ProofBody)))]
#[get("/checkpoints/{checkpoint_id}/proof/{event_id}")]
async fn prove(api: web::Data<HttpState>, asker: Asker, path: web::Path<(String, String)>) -> Reply {
    let event_id: EventId = id("event under this checkpoint", &path.1)?;
    let proof = checkpoints::prove(&api.ctx, &asker.caller, id("checkpoint", &path.0)?, event_id).await?;
    let steps = proof.path.iter().map(|step| StepBody { hash: show(&step.hash), position: step.side });
    ok(&ProofBody {
        event_id,
        event_hash: show(&proof.leaf),
        checkpoint_id: proof.checkpoint.checkpoint_id,
        merkle_root: proof.checkpoint.merkle_root,
        proof_hashes: steps.collect(),
        leaf_index: proof.index,
    })
}

/// An event and its position in the chain.
#[derive(Debug, Serialize, ToSchema)]
struct Boundary {
    /// The event.
    event_id: EventId,
    /// The event's sequence number in the chain.
    sequence: i64,
    /// The event's hash.
    event_hash: String,
}

/// The result of comparing two checkpoints: whether the log only grew between them.
#[derive(Debug, Serialize, ToSchema)]
struct ConsistencyBody {
    /// The earlier checkpoint.
    from_checkpoint: CheckpointId,
    /// The later checkpoint.
    to_checkpoint: CheckpointId,
    /// Whether the log reproduces both roots and both signatures are valid.
    consistent: bool,
    /// The reason, if it is not consistent.
    reason: Option<String>,
    /// The last event that both checkpoints cover.
    boundary_event: Option<Boundary>,
}

/// Compare two checkpoints of a log
#[utoipa::path(operation_id = "verify_consistency", tag = "checkpoints",
    params(("from_checkpoint" = String, Query, description = "The earlier checkpoint"),
           ("to_checkpoint" = String, Query, description = "The later checkpoint")),
    responses((status = 200, description = "Result of the comparison: whether the log only grew", body = ConsistencyBody)))]
#[get("/verify/consistency")]
async fn compare(api: web::Data<HttpState>, asker: Asker, query: Query) -> Reply {
    let named = |name: &str| -> Result<CheckpointId, Problem> {
        let text = query.text(name).ok_or_else(|| {
            let message = format!("Say which checkpoints to compare: `{name}` is missing.");
            Refusal::field(Code::InvalidParameter, name, "missing", message)
        })?;
        id("checkpoint", text)
    };
    let (from, to) = (named("from_checkpoint")?, named("to_checkpoint")?);
    let found = checkpoints::compare(&api.ctx, &asker.caller, from, to).await?;
    let boundary = found.boundary.map(|(event_id, hash)| Boundary {
        event_id,
        sequence: found.from.last_sequence,
        event_hash: show(&hash),
    });
    ok(&ConsistencyBody {
        from_checkpoint: found.from.checkpoint_id,
        to_checkpoint: found.to.checkpoint_id,
        consistent: found.fault.is_none(),
        reason: found.fault,
        boundary_event: boundary,
    })
}

/// The log to take a checkpoint of, named by one of the two members.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewCheckpoint)]
#[schema(example = json!({ "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" }))]
struct CreateBody {
    /// The intent whose log to use.
    intent_id: Option<String>,
    /// `server` for the system log; `intent` is implied by `intent_id`.
    scope: Option<CheckpointScope>,
}

/// Take a checkpoint
///
/// Covers the log up to its current end and is signed with the server's key. Requires the scope `admin`. Refused if
/// the log's hash chain is broken.
#[utoipa::path(operation_id = "create_checkpoint", tag = "checkpoints", request_body = CreateBody, params(IdempotencyKey),
    responses((status = 201, description = "The checkpoint", body = CheckpointBody)))]
#[post("/admin/checkpoints")]
async fn create(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    body: Body<CreateBody>,
) -> Reply {
    let once = body.once(&request)?;
    let log = match (&body.value.intent_id, body.value.scope) {
        (Some(intent), None | Some(CheckpointScope::Intent)) => id("intent", intent)?,
        (None, Some(CheckpointScope::Server)) => IntentId::SYSTEM,
        _ => {
            let message = "Say whose log: send either `intent_id`, or `scope` with the word `server`.";
            return Err(Refusal::field(Code::InvalidRequest, "intent_id", "missing", message).into());
        }
    };
    let made = checkpoints::create(&api.ctx, &asker.caller, log, once.as_ref()).await?;
    created(&CheckpointBody::new(made, asker.dialect)?)
}

/// A witness's receipt for a checkpoint.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewAnchor)]
#[schema(example = json!({ "provider": "timestamps.example", "reference": "https://timestamps.example/r/42" }))]
struct NewAnchor {
    /// The kind of witness; defaults to `external-timestamp`.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// The witness.
    provider: String,
    /// Where the witness publishes the receipt.
    #[serde(default)]
    reference: String,
    /// The receipt itself, as text.
    #[serde(default)]
    timestamp_proof: String,
    /// When the witness saw the checkpoint; defaults to now.
    anchored_at: Option<GivenTime>,
}

/// Store a witness's receipt for a checkpoint
///
/// Requires the scope `admin`. The server contacts no witness itself: an operator's program follows
/// `log.checkpoint.created` on the system log, has the Merkle root witnessed, and posts the receipt here. A later
/// receipt replaces an earlier one.
#[utoipa::path(operation_id = "anchor_checkpoint", tag = "checkpoints", request_body = NewAnchor,
    responses((status = 200, description = "The checkpoint, signed again with its anchor", body = CheckpointBody)))]
#[post("/admin/checkpoints/{checkpoint_id}/anchor")]
async fn keep_anchor(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<NewAnchor>,
) -> Reply {
    let said = body.value;
    let anchor = Anchor {
        kind: said.kind.unwrap_or_else(|| "external-timestamp".to_owned()),
        provider: said.provider,
        reference: said.reference,
        timestamp_proof: said.timestamp_proof,
        anchored_at: String::new(),
    };
    let ask = AnchorAsk { anchor, anchored_at: said.anchored_at.map(|at| at.0) };
    let signed = checkpoints::anchor(&api.ctx, &asker.caller, id("checkpoint", &path)?, ask).await?;
    ok(&CheckpointBody::new(signed, asker.dialect)?)
}

/// A server key.
#[derive(Debug, Serialize, ToSchema)]
struct ServerKeyBody {
    /// The key as a decentralised identifier, as used in `signed_by`.
    #[schema(example = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")]
    did: String,
    /// The same key as `ed25519:` and base64url.
    public_key: String,
    /// Always `Ed25519`.
    key_algorithm: &'static str,
    /// When the servers first registered the key.
    created_at: WireTime,
    /// Whether this server signs with the key.
    current: bool,
}

/// The server keys.
#[derive(Debug, Serialize, ToSchema)]
struct ServerKeysBody {
    /// Every key that signs or has signed, oldest first.
    keys: Vec<ServerKeyBody>,
}

/// List the server's signing keys
///
/// Requires no API key. Store `did` where it cannot be changed together with the database, and pass it to `entente
/// verify --server-key`.
#[utoipa::path(operation_id = "server_keys", tag = "server", security(()),
    responses((status = 200, description = "The keys", body = ServerKeysBody)))]
#[get("/server/keys")]
async fn server_keys(api: web::Data<HttpState>) -> Reply {
    let held = Arc::clone(&api.ctx.server_keys);
    let current = held.signer.public_key();
    let keys = held.known.iter().map(|key| ServerKeyBody {
        did: key.public_key.did(),
        public_key: key.public_key.to_string(),
        key_algorithm: entente_domain::identity::identities::ALGORITHM,
        created_at: WireTime::new(key.created_at, Dialect::Standard),
        current: key.public_key == current,
    });
    ok(&ServerKeysBody { keys: keys.collect() })
}
