//! The server's own answers to tasks addressed to it: the protocol's own intents (AEE §9.2) and
//! `entente.server.info`. Answers contain only data that the caller may read; everything else counts as not
//! found.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use entente_domain::aee::envelopes::drafts::{EnvelopeDraft, failure};
use entente_domain::aee::envelopes::policy::RULES;
use entente_domain::aee::envelopes::purposes::{CORE, in_space};
use entente_domain::aee::envelopes::schemas::{PROTOCOL, SCHEMA_BYTES, SCHEMAS, Schema, Subject};
use entente_domain::aee::envelopes::{
    ENVELOPE_BYTES, Envelope, EnvelopeType, Priority, VERSION, hash, is_bus,
};
use entente_domain::limits::{JSON_DEPTH, TEXT_BYTES};
use entente_domain::refusal::FieldError;
use entente_kernel::{Caller, Outcome};
use entente_store::migrate;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::Ctx;
use crate::envelopes::StoredEnvelope;
use crate::parties;
use crate::policy::snapshot;
use crate::refutations::Refutation;

/// The server's own intent: information about itself.
pub const INFO: &str = "entente.server.info";

/// The event that tells a sender that its envelope was refuted.
pub const REFUTED: &str = "entente.context.refuted";

/// This server's extensions to AEE.
pub const EXTENSIONS: [&str; 4] = ["aee-jcs-1", "entente.mailboxes", "entente.rules", "entente.schemas"];

/// Timeout of the health check's database queries.
const PATIENCE: Duration = Duration::from_secs(2);

/// The server is degraded above this webhook lag in milliseconds, or above this number of waiting commands.
const LAG_MILLIS: u128 = 60_000;
const WAITING: i64 = 10_000;

/// The server's answer to a task.
#[derive(Debug)]
pub struct Answer {
    /// A result or an error.
    pub kind: EnvelopeType,
    /// The payload.
    pub payload: Value,
    /// Notices for other entities, to be ingested together with the task.
    pub notices: Vec<Envelope>,
    /// The refutation that the task makes, to be stored with it.
    pub refutation: Option<Refutation>,
    /// Whether it repeats a stored envelope; such an answer is not stored itself.
    pub repeats: bool,
}

impl Answer {
    fn result(payload: Value) -> Self {
        Self { kind: EnvelopeType::Result, payload, notices: Vec::new(), refutation: None, repeats: false }
    }

    fn error(code: &str, message: &str) -> Self {
        Self { kind: EnvelopeType::Error, ..Self::result(failure(code, message, false)) }
    }
}

/// Answers a task that `caller` sent to the server, whose own entity is `entity`.
///
/// # Errors
/// A database error.
pub async fn answer(ctx: &Ctx, caller: &Caller, entity: &str, asked: &Envelope) -> Outcome<Answer> {
    let purpose = asked.purpose.as_str();
    let payload = asked.payload();
    if let Some(schema) = own(purpose) {
        let faults = snapshot::check(ctx, schema, payload, Schema::faults).await?;
        if !faults.is_empty() {
            let mut answer = Answer::error(
                "E_INVALID_PAYLOAD",
                "The payload is not what this intent asks for; `errors` has each fault.",
            );
            answer.payload["errors"] = event_payload(&faults);
            return Ok(answer);
        }
    }
    let text = |member: &str| payload.get(member).and_then(Value::as_str);
    Ok(match purpose {
        "aee.status.ping" => Answer::result(json!({ "pong": true })),
        "aee.status.health" => Answer::result(health(ctx).await),
        "aee.spec.query" => Answer::result(json!({
            "aee_version": VERSION, "extensions": EXTENSIONS,
            "implementation": { "name": "entente", "version": env!("CARGO_PKG_VERSION") },
        })),
        "aee.capability.list" => {
            let space = text("namespace_filter").unwrap_or("");
            let answered = CORE.into_iter().chain([INFO]);
            let intents: Vec<&str> = answered.filter(|intent| in_space(intent, space)).collect();
            Answer::result(json!({ "intents": intents }))
        }
        "aee.context.fetch" => fetch(ctx, asked).await?,
        "aee.context.refute" => refute(ctx, caller, entity, asked).await?,
        "aee.validate.payload" => validate(ctx, payload).await?,
        INFO => Answer::result(json!({
            "name": "entente", "version": env!("CARGO_PKG_VERSION"), "entity": entity, "aee_version": VERSION,
            "limits": {
                "envelope_bytes": ENVELOPE_BYTES, "json_depth": JSON_DEPTH, "schema_bytes": SCHEMA_BYTES,
                "schemas": SCHEMAS, "rules": RULES,
            },
        })),
        _ => {
            let message = format!(
                "This server does nothing on `{purpose}`. Ask it for `aee.capability.list`, or address whoever does."
            );
            Answer::error("E_INTENT_UNSUPPORTED", &message)
        }
    })
}

/// Returns the schema for tasks of one of the protocol's own intents.
fn own(purpose: &str) -> Option<&'static Arc<Schema>> {
    static OWN: OnceLock<HashMap<&str, Arc<Schema>>> = OnceLock::new();
    let read = || {
        let tasks = PROTOCOL.iter().filter(|(_, kind, _)| *kind == EnvelopeType::Task);
        tasks
            .filter_map(|(purpose, _, text)| Some((*purpose, Arc::new(Schema::read(text.as_bytes()).ok()?))))
            .collect()
    };
    OWN.get_or_init(read).get(purpose)
}

/// Lists the faults of a payload, each with a JSON Pointer to it.
fn event_payload(faults: &[FieldError]) -> Value {
    let each = faults.iter().map(|fault| {
        let mut path = String::new();
        for part in fault.loc.iter().skip(2) {
            path.push('/');
            path.push_str(&part.replace('~', "~0").replace('/', "~1"));
        }
        json!({ "path": path, "type": fault.kind, "message": fault.msg })
    });
    each.collect()
}

/// Reports the server's health from the database, its schema, the webhook lag and the waiting commands.
pub async fn health(ctx: &Ctx) -> Value {
    let database = matches!(timeout(PATIENCE, ctx.ping()).await, Ok(Ok(())));
    let applied = async { migrate::applied(&ctx.pool).await.unwrap_or_default() };
    let applied =
        if database { timeout(PATIENCE, applied).await.unwrap_or_default() } else { BTreeSet::new() };
    let migrations = migrate::MIGRATIONS.iter().all(|migration| applied.contains(&migration.version));
    let lag = Duration::try_from_secs_f64(ctx.metrics.webhook_lag.get()).unwrap_or_default().as_millis();
    let waiting = ctx.metrics.commit_waiting.get();
    let prompt = lag <= LAG_MILLIS && waiting <= WAITING;
    let status = match (database && migrations, prompt) {
        (false, _) => "unhealthy",
        (true, false) => "degraded",
        (true, true) => "healthy",
    };
    json!({
        "status": status,
        "checks": {
            "database": database, "migrations": migrations, "webhook_lag_ms": lag, "commands_waiting": waiting,
        },
    })
}

/// Returns an envelope by id if the task's sender is a party to it.
async fn fetch(ctx: &Ctx, asked: &Envelope) -> Outcome<Answer> {
    let text = |member: &str| asked.payload().get(member).and_then(Value::as_str);
    let id = text("id").unwrap_or_default();
    let locator = format!("store://envelopes/{id}");
    let missing = Answer::result(json!({ "found": false }));
    let Some(seen) = seen(ctx, asked, id).await? else { return Ok(missing) };
    if text("corr").is_some_and(|corr| corr != seen.corr) || text("locator").is_some_and(|at| at != locator) {
        return Ok(missing);
    }
    // Parsed without the limits on incoming envelopes: a stored envelope is returned however large it has
    // become.
    let members: Map<String, Value> = serde_json::from_str(&seen.body)?;
    let hash = hash(&members);
    if text("hash").is_some_and(|given| given != hash) {
        let message = "The envelope is there, and its hash is another one. Do not rely on the reference.";
        return Ok(Answer::error("E_HASH_MISMATCH", message));
    }
    let found = json!({ "found": true, "id": id, "locator": locator, "hash": hash, "envelope": members });
    Ok(Answer { repeats: true, ..Answer::result(found) })
}

/// Replaces the envelope in a payload by a hint, for answers too large for one envelope.
pub(crate) fn without_envelope(mut payload: Value) -> Value {
    if let Value::Object(members) = &mut payload {
        members.remove("envelope");
        let read =
            "It and what is around it are more than one envelope may be: GET /api/v1/aee/envelopes/{id}.";
        members.insert("omitted".to_owned(), json!({ "member": "envelope", "message": read }));
    }
    payload
}

async fn refute(ctx: &Ctx, caller: &Caller, entity: &str, asked: &Envelope) -> Outcome<Answer> {
    let text = |member: &str| asked.payload().get(member).and_then(Value::as_str).unwrap_or_default();
    let (id, reason) = (text("id"), text("reason"));
    if reason.len() > TEXT_BYTES {
        let message = format!("`reason` may have at most {TEXT_BYTES} bytes.");
        return Ok(Answer::error("E_INVALID_PAYLOAD", &message));
    }
    let Some(seen) = seen(ctx, asked, id).await? else {
        return Ok(Answer::result(json!({ "acknowledged": false })));
    };
    let refutation = Refutation {
        envelope_id: id.to_owned(),
        entity: asked.sender.clone(),
        reason: reason.to_owned(),
        at: ctx.now(),
    };
    let acknowledged = Answer::result(json!({ "acknowledged": true }));
    let mut answer = Answer { refutation: Some(refutation), ..acknowledged };
    if seen.sender == entity || seen.sender == asked.sender || is_bus(&seen.sender) {
        return Ok(answer);
    }
    let reference = json!({
        "id": id, "corr": seen.corr, "type": "aee.envelope", "locator": format!("store://envelopes/{id}"),
    });
    let notice = EnvelopeDraft {
        kind: EnvelopeType::Event,
        sender: entity,
        recipient: &seen.sender,
        purpose: REFUTED,
        corr: &seen.corr,
        reply_to: None,
        priority: Priority::Normal,
        payload: json!({ "id": id, "by": asked.sender, "reason": reason, "references": [reference] }),
        trace: caller.trace.map(|trace| trace.step(&*ctx.chance)),
    };
    answer.notices.push(notice.write(ctx.now(), &*ctx.chance)?);
    Ok(answer)
}

async fn validate(ctx: &Ctx, payload: &Value) -> Outcome<Answer> {
    let text = |member: &str| payload.get(member).and_then(Value::as_str);
    let kind = text("type_hint").and_then(Subject::kind).unwrap_or(EnvelopeType::Task);
    let purpose = text("intent").unwrap_or_default();
    let given = payload.get("payload_to_validate").unwrap_or(&Value::Null);
    let book = snapshot::latest(ctx).await?;
    let errors = match book.faults(ctx, purpose, kind, given).await? {
        Some(faults) => event_payload(&faults),
        None => json!([{
            "path": "", "type": "no_schema",
            "message": format!("no schema is published here for the {} of this intent", kind.as_str()),
        }]),
    };
    Ok(Answer::result(json!({ "valid": errors == json!([]), "errors": errors })))
}

/// Loads an envelope if the sender of the task is a party to it.
///
/// The principal that posted the task does not count: it may relay envelopes signed by others, or speak for
/// many.
async fn seen(ctx: &Ctx, asked: &Envelope, id: &str) -> Outcome<Option<StoredEnvelope>> {
    let mut connection = ctx.pool.acquire().await?;
    parties::seen_by(&mut connection, |entity| entity == asked.sender, id).await
}
