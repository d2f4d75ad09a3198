//! Endpoints for envelopes (AEE): sending them, singly or in batches, and reading one. Their recipients' mailboxes
//! are in `mailboxes.rs`, threads in `threads.rs`.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, get, post, web};
use entente_aee::acceptance::{Accepted, BATCH};
use entente_aee::envelopes::StoredEnvelope;
use entente_aee::{acceptance, envelopes, parties};
use entente_domain::aee::envelopes::receipt::{Receipt, Verified};
use entente_domain::aee::envelopes::{EnvelopeType, Priority, Warning, is_signed, members};
use entente_domain::identity::keys::Dialect;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Raw, id};
use entente_http::caller::Asker;
use entente_http::error::{Problem, ProblemBody, Reply};
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_http::{json, ok};
use entente_kernel::{AppError, Outcome};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::ApiState;
use crate::transport::require_private;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(send).service(send_batch).service(get_one);
}

/// Returns an envelope exactly as its sender wrote it.
///
/// # Errors
/// The stored text is not JSON.
pub fn verbatim(body: String) -> Result<Box<RawValue>, AppError> {
    Ok(RawValue::from_string(body)?)
}

/// An envelope with the gateway's metadata.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = KeptEnvelope)]
pub struct EnvelopeBody {
    /// When it was accepted.
    #[schema(value_type = String)]
    received_at: WireTime,
    /// The priority used for its delivery.
    effective_priority: Priority,
    /// Until when a response to the task counts.
    #[schema(value_type = Option<String>)]
    deadline: Option<WireTime>,
    /// The evidence for its sender's identity.
    verified: Verified,
    /// Deviations that were tolerated.
    warnings: Vec<Warning>,
    /// The envelope that the gateway derived this one from.
    #[serde(skip_serializing_if = "Option::is_none")]
    original_id: Option<String>,
    /// The envelope as received.
    #[schema(value_type = Object)]
    envelope: Box<RawValue>,
}

impl EnvelopeBody {
    /// Writes an envelope in the client's dialect.
    ///
    /// # Errors
    /// The stored envelope is not JSON.
    pub fn new(kept: StoredEnvelope, dialect: Dialect) -> Outcome<Self> {
        Ok(Self {
            received_at: WireTime::new(kept.receipt.received_at, dialect),
            effective_priority: kept.receipt.effective_priority,
            deadline: kept.receipt.deadline.map(|at| WireTime::new(at, dialect)),
            verified: kept.receipt.verified,
            warnings: kept.receipt.warnings,
            original_id: kept.original_id,
            envelope: verbatim(kept.body)?,
        })
    }
}

/// A receipt, with the response if the server itself was the recipient.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AnsweredEnvelope)]
pub struct AcceptedBody {
    #[serde(flatten)]
    receipt: Receipt,
    /// The server's response, an envelope.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    reply: Option<Box<RawValue>>,
}

impl AcceptedBody {
    /// Returns the outcome for the sender.
    ///
    /// # Errors
    /// The reply is not JSON.
    pub fn new(accepted: Accepted) -> Outcome<Self> {
        let reply = accepted.reply.map(verbatim).transpose()?;
        Ok(Self { receipt: accepted.receipt, reply })
    }
}

/// An envelope (AEE §3). Other members are stored and passed on.
#[derive(ToSchema)]
#[schema(as = Envelope, example = json!({
    "v": "1", "id": "01JFB2R1JZKQ9V3K8W8Y9W1F2A", "ts": "2026-11-21T12:00:00Z", "type": "task", "from": "agent.manager",
    "to": "agent.backup_auditor", "intent": "ops.backup.status.check", "corr": "01JFB2QX0K8X5K6ZJ9G2C0C1MW",
    "reply_to": null, "trace": null, "priority": "high", "requires": { "timeout_ms": 30000 },
    "payload": { "window": "24h" }, "sig": null,
}))]
#[expect(dead_code, reason = "it is what the document says; an envelope is parsed by the domain")]
struct EnvelopeForm {
    /// Always `1`.
    v: String,
    /// The envelope's id: 8 to 128 printable characters; a ULID or UUID is recommended.
    id: String,
    /// When it was written (RFC 3339).
    ts: String,
    /// The envelope's type.
    r#type: EnvelopeType,
    /// The sender: an entity that the key may act as.
    from: String,
    /// The recipient: an entity, or a channel `bus.…`.
    to: String,
    /// The intent: a dotted name for the subject.
    intent: String,
    /// The id of the thread it belongs to, of at least 8 characters.
    corr: String,
    /// The id of the envelope it answers; required on a result or error.
    reply_to: Option<String>,
    /// The trace it belongs to: `trace_id` and `span_id`.
    #[schema(value_type = Option<Object>)]
    trace: (),
    /// The priority.
    priority: Priority,
    /// Requirements on the recipient: `timeout_ms`, `human_approval` and others.
    #[schema(value_type = Option<Object>)]
    requires: (),
    /// The content, whose shape depends on the intent.
    #[schema(value_type = Object)]
    payload: (),
    /// The signature, in the profile `aee-jcs-1`. Where the operator allows it, one of the draft's own form (`alg`,
    /// `kid`, `value`) is passed on unverified, and its envelope counts as unsigned.
    #[schema(value_type = Option<Object>)]
    sig: (),
}

/// A batch of envelopes.
#[derive(ToSchema)]
#[schema(as = Envelopes, example = json!([{
    "v": "1", "id": "01JFB2R1JZKQ9V3K8W8Y9W1F2A", "ts": "2026-11-21T12:00:00Z", "type": "event", "from": "agent.manager",
    "to": "bus.ops", "intent": "ops.backup.done", "corr": "01JFB2QX0K8X5K6ZJ9G2C0C1MW", "priority": "low", "payload": {},
}]))]
#[expect(dead_code, reason = "it is what the document says; an envelope is parsed by the domain")]
struct EnvelopeForms(Vec<EnvelopeForm>);

/// Send an envelope
///
/// The body is the envelope; it is stored and delivered byte for byte. 202: it was put into its recipient's mailbox.
/// 200: it was a task for the server itself (`aee.*`), and `reply` is the response. Sending the same envelope again
/// returns 409 `duplicate_id` with the first `receipt`, so that a retry is safe.
#[utoipa::path(operation_id = "send_envelope", tag = "envelopes",
    request_body = EnvelopeForm,
    responses((status = 202, description = "Accepted", body = AcceptedBody),
              (status = 200, description = "Answered by the server itself", body = AcceptedBody),
              (status = 404, description = "`unknown_recipient`", body = ProblemBody),
              (status = 409, description = "`duplicate_id`; `task_closed`", body = ProblemBody)))]
#[post("/aee/envelopes")]
async fn send(request: HttpRequest, api: web::Data<ApiState>, asker: Asker, body: Raw) -> Reply {
    protected(&request, &api, &[&body.0])?;
    let accepted = acceptance::accept(&api.ctx, &asker.caller, &api.ingest, &body.0).await?;
    let status = if accepted.reply.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
    json(status, &AcceptedBody::new(accepted)?)
}

/// The outcome for one envelope of a batch.
#[derive(Debug, Serialize, ToSchema)]
struct EnvelopeItem {
    /// The envelope's index in the batch, from 0.
    index: usize,
    /// Its receipt, if it was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<AcceptedBody>,
    /// The error, if it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ProblemBody>,
}

/// The outcome of a batch.
#[derive(Debug, Serialize, ToSchema)]
struct EnvelopesReply {
    /// Number of envelopes accepted.
    accepted: usize,
    /// Number of envelopes refused.
    refused: usize,
    /// The outcome of each envelope, in the order of the batch.
    results: Vec<EnvelopeItem>,
}

/// Send several envelopes
///
/// A JSON array of up to 100 envelopes, or one envelope per line (NDJSON). They are processed in order and
/// independently: a refused envelope does not affect the others.
#[utoipa::path(operation_id = "send_envelopes", tag = "envelopes",
    request_body = EnvelopeForms,
    responses((status = 202, description = "All envelopes were accepted", body = EnvelopesReply),
              (status = 207, description = "Some envelopes were refused", body = EnvelopesReply)))]
#[post("/aee/envelopes/batch")]
async fn send_batch(request: HttpRequest, api: web::Data<ApiState>, asker: Asker, body: Raw) -> Reply {
    let all = split(&body.0)?;
    if all.is_empty() || all.len() > BATCH {
        let message = format!("A batch has 1 to {BATCH} envelopes, this one has {}.", all.len());
        return Err(Refusal::new(Code::InvalidRequest, message).into());
    }
    protected(&request, &api, &all)?;
    let answers = acceptance::accept_all(&api.ctx, &asker.caller, &api.ingest, &all).await?;
    let mut results = Vec::with_capacity(answers.len());
    for (index, answer) in answers.into_iter().enumerate() {
        let answer = answer.and_then(AcceptedBody::new).map_err(Problem::from);
        let (accepted, error) = match answer {
            Ok(accepted) => (Some(accepted), None),
            Err(problem) => (None, Some(problem.body())),
        };
        results.push(EnvelopeItem { index, accepted, error });
    }
    let accepted = results.iter().filter(|item| item.accepted.is_some()).count();
    let refused = results.len() - accepted;
    let status = if refused == 0 { StatusCode::ACCEPTED } else { StatusCode::MULTI_STATUS };
    json(status, &EnvelopesReply { accepted, refused, results })
}

/// Requires unsigned envelopes to arrive over a connection that stands in for a signature (AEE §11.3).
fn protected(request: &HttpRequest, api: &ApiState, all: &[&[u8]]) -> Result<(), Refusal> {
    let private = require_private(request, api, Code::SignatureRequired);
    // A signature that cannot be verified protects nothing on the way.
    let signed = |bytes: &[u8]| members(bytes).is_ok_and(|members| is_signed(&members));
    // On a protected connection the envelopes need not be parsed.
    if private.is_ok() || all.iter().all(|bytes| signed(bytes)) {
        return Ok(());
    }
    private.inspect_err(|refusal| all.iter().for_each(|bytes| envelopes::note_refusal(bytes, refusal)))
}

/// Splits a batch into its envelopes, each as written.
fn split(body: &[u8]) -> Result<Vec<&[u8]>, Refusal> {
    if !body.trim_ascii_start().starts_with(b"[") {
        let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        return Ok(lines.filter(|line| !line.is_empty()).collect());
    }
    let items: Vec<&RawValue> = serde_json::from_slice(body)
        .map_err(|fault| Refusal::new(Code::InvalidJson, format!("The body is no JSON array: {fault}.")))?;
    Ok(items.into_iter().map(|item| item.get().as_bytes()).collect())
}

/// Read an envelope
///
/// Visible to its sender, its recipient, and entities that received it in a mailbox.
#[utoipa::path(operation_id = "get_envelope", tag = "envelopes",
    params(("envelope_id" = String, Path, description = "`id` of the envelope")),
    responses((status = 200, description = "The envelope", body = EnvelopeBody)))]
#[get("/aee/envelopes/{envelope_id}")]
async fn get_one(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let id: String = id("envelope", &path)?;
    let kept = parties::get(&api.ctx, &asker.caller, &id).await?;
    ok(&EnvelopeBody::new(kept, asker.dialect)?)
}
