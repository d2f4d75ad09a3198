//! The validity of an envelope (AEE §3, §6): every MUST that can be checked from the envelope alone.
//!
//! The shape is that of `openapi/aee/aee-v1.schema.json`, which is served; a test keeps the two consistent.
//! Faults that the shape permits are warnings.

use serde_json::{Map, Value};
use ulid::Ulid;
use uuid::Uuid;

use super::logs::is_mve5;
use super::{Envelope, EnvelopeType, ID_BYTES, Priority, Reference, Requires, TraceNote, VERSION, Warning};
use crate::clock::parse;
use crate::limits::NAME_BYTES;
use crate::refusal::{Code, FieldError, Refusal};

/// The members that every envelope has (AEE §6.1).
pub const REQUIRED: [&str; 10] =
    ["v", "id", "ts", "type", "from", "to", "intent", "corr", "priority", "payload"];

/// Maximum bytes of `requires` to count as compact (AEE §6.10).
const REQUIRES_BYTES: usize = 2 * 1024;

/// Maximum number of references examined, because each may cost a look-up.
const REFERENCES: usize = 100;

/// The faults of an envelope found so far.
struct Faults(Vec<FieldError>);

impl Faults {
    fn add(&mut self, place: &[&str], kind: &str, msg: impl Into<String>) {
        let loc = std::iter::once("body").chain(place.iter().copied()).map(str::to_owned).collect();
        self.0.push(FieldError { kind: kind.to_owned(), loc, msg: msg.into() });
    }

    /// Reads a text of at least `least` characters and at most `most` bytes, without control characters.
    fn text<'a>(
        &mut self,
        members: &'a Map<String, Value>,
        name: &str,
        least: usize,
        most: usize,
    ) -> Option<&'a str> {
        let value = members.get(name)?;
        let Some(text) = value.as_str() else {
            self.add(&[name], "string_type", format!("`{name}` must be a text"));
            return None;
        };
        if text.chars().count() < least {
            self.add(&[name], "too_short", format!("`{name}` must have at least {least} characters"));
        } else if text.len() > most {
            self.add(&[name], "too_long", format!("`{name}` may have at most {most} bytes"));
        } else if text.chars().any(char::is_control) {
            self.add(&[name], "control", format!("`{name}` has a control character"));
        } else {
            return Some(text);
        }
        None
    }

    fn word<'a, T>(
        &mut self,
        members: &'a Map<String, Value>,
        name: &str,
        read: impl Fn(&'a str) -> Option<T>,
        words: &str,
    ) -> Option<T> {
        let value = members.get(name)?;
        let read = value.as_str().and_then(read);
        if read.is_none() {
            self.add(&[name], "enum", format!("`{name}` must be one of {words}"));
        }
        read
    }
}

/// Checks the members of a parsed envelope.
///
/// # Errors
/// [`Code::Mve5NotRoutable`] for a log line; [`Code::UnsupportedVersion`] if `v` is missing or not "1", and
/// [`Code::InvalidEnvelope`] otherwise: both name every fault.
pub fn check(members: Map<String, Value>) -> Result<Envelope, Refusal> {
    if is_mve5(&members) {
        let message = "This is a log line of five members (MVE-5), which nobody can receive (AEE §7.2). Send it to \
                       `POST /api/v1/aee/logs`, or send a full envelope.";
        return Err(Refusal::new(Code::Mve5NotRoutable, message));
    }
    let mut faults = Faults(Vec::new());
    for name in REQUIRED.iter().filter(|name| !members.contains_key(**name)) {
        faults.add(&[name], "missing", format!("`{name}` is missing (AEE §6.1)"));
    }
    let version = members.get("v").and_then(Value::as_str) == Some(VERSION);
    if !version && members.contains_key("v") {
        faults.add(&["v"], "unsupported_version", "`v` must be the text \"1\"");
    }
    let id = id(&mut faults, &members);
    let ts = faults.text(&members, "ts", 10, NAME_BYTES);
    let kind = faults.word(&members, "type", EnvelopeType::parse, "task, result, event, error, stream");
    let sender = faults.text(&members, "from", 1, NAME_BYTES);
    let recipient = faults.text(&members, "to", 1, NAME_BYTES);
    let purpose = faults.text(&members, "intent", 3, NAME_BYTES);
    let corr = faults.text(&members, "corr", 8, ID_BYTES);
    let priority = faults.word(&members, "priority", Priority::parse, "low, normal, high, urgent");
    let reply_to = reply_to(&mut faults, &members, kind);
    let trace = trace(&mut faults, &members);
    kinds(&mut faults, &members);
    let payload = members.get("payload");
    let references = references(&mut faults, payload);
    let (
        Some(id),
        Some(ts),
        Some(kind),
        Some(sender),
        Some(recipient),
        Some(purpose),
        Some(corr),
        Some(priority),
        true,
    ) = (id, ts, kind, sender, recipient, purpose, corr, priority, faults.0.is_empty())
    else {
        return Err(refused(faults, version));
    };
    let (requires, mut warnings) = requires(members.get("requires"));
    let sent_at = parse(ts);
    remark(&mut warnings, kind, id, sent_at.is_some(), reply_to.is_some(), payload);
    Ok(Envelope {
        id: id.to_owned(),
        ts: ts.to_owned(),
        sent_at,
        kind,
        sender: sender.to_owned(),
        recipient: recipient.to_owned(),
        purpose: purpose.to_owned(),
        corr: corr.to_owned(),
        reply_to: reply_to.map(str::to_owned),
        trace,
        priority,
        requires,
        references,
        warnings,
        members,
    })
}

/// Requires printable ASCII characters, so that an id can be used in a path, a log and an index unchanged.
fn id<'a>(faults: &mut Faults, members: &'a Map<String, Value>) -> Option<&'a str> {
    let id = faults.text(members, "id", 8, ID_BYTES)?;
    if id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some(id);
    }
    faults.add(&["id"], "characters", "`id` must be of printable ASCII characters without blanks");
    None
}

/// Checks the types of the members that are not texts.
fn kinds(faults: &mut Faults, members: &Map<String, Value>) {
    let wrong = |name: &str, right: fn(&Value) -> bool| members.get(name).is_some_and(|value| !right(value));
    if wrong("payload", Value::is_object) {
        faults.add(&["payload"], "object_type", "`payload` must be an object (AEE §6.4)");
    }
    if wrong("requires", |value| value.is_object() || value.is_null()) {
        faults.add(&["requires"], "object_type", "`requires` must be an object or null");
    }
    // A `human_approval` of another type (AEE §3, field 12) is ambiguous: it may or may not ask for approval.
    // So it is refused, not ignored like the other members of `requires` (§6.10).
    let approval = members.get("requires").and_then(|requires| requires.get("human_approval"));
    if approval.is_some_and(|value| !value.is_boolean()) {
        let msg = "`requires.human_approval` must be true or false, and nothing else: leave it out when nobody has to agree \
                   (AEE §3)";
        faults.add(&["requires", "human_approval"], "bool_type", msg);
    }
    if wrong("sig", |value| value.is_object() || value.is_string() || value.is_null()) {
        faults.add(&["sig"], "type", "`sig` must be an object, a text or null");
    }
}

fn refused(faults: Faults, version: bool) -> Refusal {
    let message = match faults.0.as_slice() {
        [one] => format!("The envelope is not valid: {}.", one.msg),
        many => format!("The envelope is not valid in {} places; `errors` has each.", many.len()),
    };
    let code = if version { Code::InvalidEnvelope } else { Code::UnsupportedVersion };
    Refusal { errors: faults.0, ..Refusal::new(code, message) }
}

fn reply_to<'a>(
    faults: &mut Faults,
    members: &'a Map<String, Value>,
    kind: Option<EnvelopeType>,
) -> Option<&'a str> {
    let needed = kind.is_some_and(EnvelopeType::is_terminal);
    match members.get("reply_to") {
        None | Some(Value::Null) => {
            if needed {
                faults.add(
                    &["reply_to"],
                    "missing",
                    "`reply_to` must name the task that this ends (AEE §6.3)",
                );
            }
            None
        }
        Some(_) => faults.text(members, "reply_to", if needed { 8 } else { 0 }, ID_BYTES),
    }
}

fn trace(faults: &mut Faults, members: &Map<String, Value>) -> Option<TraceNote> {
    let trace = members.get("trace").filter(|trace| !trace.is_null())?;
    // None of its members is required: it is RECOMMENDED where there is an observability system (AEE §3,
    // §3.1).
    let text = |name: &str| trace.get(name).is_none_or(Value::is_string);
    if !trace.is_object() || !text("trace_id") || !text("span_id") {
        let msg =
            "`trace` must be null or an object, whose `trace_id` and `span_id` are texts if they are there";
        faults.add(&["trace"], "object_type", msg);
        return None;
    }
    let part = |name: &str| trace.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(TraceNote { trace_id: part("trace_id"), span_id: part("span_id") })
}

/// Collects the envelopes that a payload refers to; only references declared as `aee.envelope` are checked.
fn references(faults: &mut Faults, payload: Option<&Value>) -> Vec<Reference> {
    let listed = payload.and_then(|payload| payload.get("references")).and_then(Value::as_array);
    let mut found = Vec::new();
    for (index, reference) in listed.into_iter().flatten().enumerate().take(REFERENCES) {
        if reference.get("type").and_then(Value::as_str) != Some("aee.envelope") {
            continue;
        }
        let place = index.to_string();
        let Some(id) = reference.get("id").and_then(Value::as_str).filter(|id| id.chars().count() >= 8)
        else {
            let msg = "a reference to an envelope needs its `id`, of at least 8 characters (AEE §10.2)";
            faults.add(&["payload", "references", &place, "id"], "missing", msg);
            continue;
        };
        for name in ["corr", "locator", "hash"] {
            if reference.get(name).is_some_and(|value| !value.is_string() && !value.is_null()) {
                let msg = format!("`{name}` of a reference must be a text (AEE §10.2)");
                faults.add(&["payload", "references", &place, name], "string_type", msg);
            }
        }
        let hash = reference.get("hash").and_then(Value::as_str).map(str::to_owned);
        found.push(Reference { id: id.to_owned(), hash });
    }
    found
}

/// Reads the parts of `requires` that the gateway acts on; faults in the rest are warnings and ignored (AEE
/// §6.10).
fn requires(requires: Option<&Value>) -> (Requires, Vec<Warning>) {
    let mut warnings = Vec::new();
    let Some(Value::Object(requires)) = requires else { return (Requires::default(), warnings) };
    let given = |name: &str| requires.get(name).filter(|value| !value.is_null());
    let timeout = given("timeout_ms").map(|value| value.as_f64().filter(|millis| *millis > 0.0));
    // Its type was checked before (`kinds`).
    let human_approval = given("human_approval").and_then(Value::as_bool).unwrap_or(false);
    let evidence = given("evidence").is_none_or(Value::is_boolean);
    let format = given("format").is_none_or(Value::is_string);
    let confidence = given("min_confidence");
    let confidence =
        confidence.is_none_or(|value| value.as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)));
    if timeout == Some(None) || !(evidence && format && confidence) {
        warnings.push(Warning::RequiresType);
    }
    if serde_json::to_string(requires).is_ok_and(|text| text.len() > REQUIRES_BYTES) {
        warnings.push(Warning::RequiresLarge);
    }
    if requires.values().any(has_secret) {
        warnings.push(Warning::PossibleSecretInRequires);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive; what is too large is held"
    )]
    let timeout_ms = timeout.flatten().map(|millis| millis.ceil() as u64);
    (Requires { timeout_ms, human_approval }, warnings)
}

/// Whether a value contains a likely token: a known prefix, or a long mixture of digits, upper and lower
/// case.
fn has_secret(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("-----BEGIN ") || text.split_whitespace().any(looks_secret),
        Value::Array(items) => items.iter().any(has_secret),
        Value::Object(members) => members.values().any(has_secret),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn looks_secret(word: &str) -> bool {
    const BEGINNINGS: [&str; 8] = ["sk-", "ent_", "ghp_", "gho_", "github_pat_", "xoxb-", "AKIA", "eyJ"];
    if word.len() >= 16 && BEGINNINGS.iter().any(|beginning| word.starts_with(beginning)) {
        return true;
    }
    let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_+/=".contains(&byte));
    let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
    word.len() >= 32
        && plain
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
}

/// Adds the warnings about valid but discouraged contents.
fn remark(
    warnings: &mut Vec<Warning>,
    kind: EnvelopeType,
    id: &str,
    timed: bool,
    replies: bool,
    payload: Option<&Value>,
) {
    if Ulid::from_string(id).is_err() && Uuid::try_parse(id).is_err() {
        warnings.push(Warning::IdNotUlidOrUuid);
    }
    if !timed {
        warnings.push(Warning::TsUnparseable);
    }
    if replies && !kind.is_terminal() {
        warnings.push(Warning::ReplyToShouldBeNull);
    }
    let Some(payload) = payload else { return };
    let complete = payload.get("code").is_some_and(Value::is_string)
        && payload.get("message").is_some_and(Value::is_string)
        && payload.get("retryable").is_some_and(Value::is_boolean);
    if kind == EnvelopeType::Error && !complete {
        warnings.push(Warning::ErrorPayloadIncomplete);
    }
    if has_envelope(payload) {
        warnings.push(Warning::LooksLikeNestedEnvelope);
    }
}

fn has_envelope(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            ["v", "id", "type", "from", "intent", "corr"].iter().all(|name| members.contains_key(*name))
                || members.values().any(has_envelope)
        }
        Value::Array(items) => items.iter().any(has_envelope),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
