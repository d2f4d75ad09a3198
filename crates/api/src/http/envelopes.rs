//! Routes of envelopes (AEE): handing them in, one or many, and reading one again. Where they lie for their recipients is
//! `mailboxes.rs`, what belongs together `threads.rs`.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, get, post, web};
use entente_domain::envelopes::receipt::{Receipt, Verified};
use entente_domain::envelopes::{EnvelopeType, Priority, Warning, members};
use entente_domain::keys::Dialect;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::envelopes::{self, Accepted, BATCH, Kept};
use entente_kernel::{AppError, Outcome};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::body::{Raw, id};
use super::caller::Asker;
use super::error::{Problem, ProblemBody, Reply};
use super::transport::require_private;
use super::wire::WireTime;
use super::{Doors, json, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(send).service(send_batch).service(get_one);
}

/// An envelope as its sender wrote it, to the byte.
pub fn verbatim(body: String) -> Result<Box<RawValue>, AppError> {
    Ok(RawValue::from_string(body)?)
}

/// An envelope and what the gateway says of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = KeptEnvelope)]
pub struct EnvelopeBody {
    /// When it was taken in.
    #[schema(value_type = String)]
    received_at: WireTime,
    /// The priority that it is handed out by.
    effective_priority: Priority,
    /// Until when a task's answer counts.
    #[schema(value_type = Option<String>)]
    deadline: Option<WireTime>,
    /// What vouches for its sender.
    verified: Verified,
    /// What is not as it should be.
    warnings: Vec<Warning>,
    /// The envelope that the gateway made this one from.
    #[serde(skip_serializing_if = "Option::is_none")]
    original_id: Option<String>,
    /// The envelope, as it came.
    #[schema(value_type = Object)]
    envelope: Box<RawValue>,
}

impl EnvelopeBody {
    /// An envelope for this client.
    ///
    /// # Errors
    /// What is kept is not JSON.
    pub fn new(kept: Kept, dialect: Dialect) -> Outcome<Self> {
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

/// A receipt, and the server's own answer when it was the server that was asked.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AnsweredEnvelope)]
pub(crate) struct AcceptedBody {
    #[serde(flatten)]
    receipt: Receipt,
    /// The server's answer: an envelope.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    reply: Option<Box<RawValue>>,
}

impl AcceptedBody {
    pub(crate) fn new(accepted: Accepted) -> Outcome<Self> {
        let reply = accepted.reply.map(verbatim).transpose()?;
        Ok(Self { receipt: accepted.receipt, reply })
    }
}

/// An envelope (AEE §3). Other members are kept and handed on.
#[derive(ToSchema)]
#[schema(as = Envelope, example = json!({
    "v": "1", "id": "01JFB2R1JZKQ9V3K8W8Y9W1F2A", "ts": "2026-11-21T12:00:00Z", "type": "task", "from": "agent.manager",
    "to": "agent.backup_auditor", "intent": "ops.backup.status.check", "corr": "01JFB2QX0K8X5K6ZJ9G2C0C1MW",
    "reply_to": null, "trace": null, "priority": "high", "requires": { "timeout_ms": 30000 },
    "payload": { "window": "24h" }, "sig": null,
}))]
#[expect(dead_code, reason = "it is what the document says; an envelope is read by the law")]
struct EnvelopeForm {
    /// `1`.
    v: String,
    /// Its id: a ULID or UUID is best; 8 to 128 printable characters.
    id: String,
    /// When it was written (RFC 3339).
    ts: String,
    /// What it is.
    r#type: EnvelopeType,
    /// From whom: an entity that the key may act as.
    from: String,
    /// To whom: an entity, or a channel `bus.…`.
    to: String,
    /// What it is about: a dotted name.
    intent: String,
    /// The thread that it belongs to; at least 8 characters.
    corr: String,
    /// What it answers; a result or error must say.
    reply_to: Option<String>,
    /// The trace that it belongs to: `trace_id` and `span_id`.
    #[schema(value_type = Option<Object>)]
    trace: (),
    /// How pressing.
    priority: Priority,
    /// What it asks of whoever does it: `timeout_ms`, `human_approval` and others.
    #[schema(value_type = Option<Object>)]
    requires: (),
    /// What it says; its shape is the intent's.
    #[schema(value_type = Object)]
    payload: (),
    /// Its signature, by the profile `aee-jcs-1`.
    #[schema(value_type = Option<Object>)]
    sig: (),
}

/// Envelopes.
#[derive(ToSchema)]
#[schema(as = Envelopes, example = json!([{
    "v": "1", "id": "01JFB2R1JZKQ9V3K8W8Y9W1F2A", "ts": "2026-11-21T12:00:00Z", "type": "event", "from": "agent.manager",
    "to": "bus.ops", "intent": "ops.backup.done", "corr": "01JFB2QX0K8X5K6ZJ9G2C0C1MW", "priority": "low", "payload": {},
}]))]
#[expect(dead_code, reason = "it is what the document says; an envelope is read by the law")]
struct EnvelopeForms(Vec<EnvelopeForm>);

/// Hand in an envelope
///
/// The body is the envelope; it is kept and delivered as it is, byte for byte. 202: it lies in its recipient's mailbox. 200:
/// it was a task for the server itself (`aee.*`), and `reply` is the answer. The same again is 409 `duplicate_id` with the
/// first `receipt`, so that a retry is safe.
#[utoipa::path(operation_id = "send_envelope", tag = "envelopes",
    request_body = EnvelopeForm,
    responses((status = 202, description = "Taken in", body = AcceptedBody),
              (status = 200, description = "Answered by the server", body = AcceptedBody),
              (status = 404, description = "`unknown_recipient`", body = ProblemBody),
              (status = 409, description = "`duplicate_id`; `task_closed`", body = ProblemBody)))]
#[post("/aee/envelopes")]
async fn send(request: HttpRequest, doors: web::Data<Doors>, asker: Asker, body: Raw) -> Reply {
    protected(&request, &doors, &[&body.0])?;
    let accepted = envelopes::accept(&doors.ctx, &asker.caller, &doors.post, &body.0).await?;
    let status = if accepted.reply.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
    json(status, &AcceptedBody::new(accepted)?)
}

/// What became of one envelope of a batch.
#[derive(Debug, Serialize, ToSchema)]
struct EnvelopeItem {
    /// Its place in the batch, from 0.
    index: usize,
    /// Its receipt, when it was taken in.
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<AcceptedBody>,
    /// Why not, when it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ProblemBody>,
}

/// What became of a batch.
#[derive(Debug, Serialize, ToSchema)]
struct EnvelopesReply {
    /// How many were taken in.
    accepted: usize,
    /// How many were refused.
    refused: usize,
    /// Each of them, in the order of the batch.
    results: Vec<EnvelopeItem>,
}

/// Hand in several envelopes
///
/// A JSON array of up to 100 envelopes, or one envelope per line (NDJSON). They are taken in in their order, each for
/// itself: one that is refused does not harm the others.
#[utoipa::path(operation_id = "send_envelopes", tag = "envelopes",
    request_body = EnvelopeForms,
    responses((status = 202, description = "All were taken in", body = EnvelopesReply),
              (status = 207, description = "Some were refused", body = EnvelopesReply)))]
#[post("/aee/envelopes/batch")]
async fn send_batch(request: HttpRequest, doors: web::Data<Doors>, asker: Asker, body: Raw) -> Reply {
    let all = split(&body.0)?;
    if all.is_empty() || all.len() > BATCH {
        let message = format!("A batch has 1 to {BATCH} envelopes, this one has {}.", all.len());
        return Err(Refusal::new(Code::InvalidRequest, message).into());
    }
    protected(&request, &doors, &all)?;
    let answers = envelopes::accept_all(&doors.ctx, &asker.caller, &doors.post, &all).await?;
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

/// Requires that what is not signed came over a connection that stands in for a signature (AEE §11.3).
fn protected(request: &HttpRequest, doors: &Doors, all: &[&[u8]]) -> Result<(), Refusal> {
    let private = require_private(request, doors, Code::SignatureRequired);
    let signed = |bytes: &[u8]| {
        members(bytes).is_ok_and(|members| members.get("sig").is_some_and(|sig| !sig.is_null()))
    };
    // Nothing is read for what comes over a connection that will do.
    if private.is_ok() || all.iter().all(|bytes| signed(bytes)) {
        return Ok(());
    }
    private.inspect_err(|refusal| all.iter().for_each(|bytes| envelopes::note_refusal(bytes, refusal)))
}

/// The envelopes of a batch, each as it stands there.
fn split(body: &[u8]) -> Result<Vec<&[u8]>, Refusal> {
    if !body.trim_ascii_start().starts_with(b"[") {
        let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        return Ok(lines.filter(|line| !line.is_empty()).collect());
    }
    let items: Vec<&RawValue> = serde_json::from_slice(body)
        .map_err(|fault| Refusal::new(Code::InvalidJson, format!("The body is no JSON array: {fault}.")))?;
    Ok(items.into_iter().map(|item| item.get().as_bytes()).collect())
}

/// Read an envelope again
///
/// For those whom it is from, whom it is to, and who found it in a mailbox.
#[utoipa::path(operation_id = "get_envelope", tag = "envelopes",
    params(("envelope_id" = String, Path, description = "The envelope's `id`")),
    responses((status = 200, description = "The envelope", body = EnvelopeBody)))]
#[get("/aee/envelopes/{envelope_id}")]
async fn get_one(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let id: String = id("envelope", &path)?;
    let kept = envelopes::get(&doors.ctx, &asker.caller, &id).await?;
    ok(&EnvelopeBody::new(kept, asker.dialect)?)
}
