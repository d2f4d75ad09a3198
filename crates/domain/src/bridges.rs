//! Bridges carry things between envelopes (AEE), jobs (ARCP) and channel messages (RFC-0021), as configured.
//!
//! This module holds the configuration of bridges and the translations. The kernel
//! (`crates/bridges/src/envelope_bridges.rs`) does the carrying and ensures that each thing is carried once. Ids are
//! derived from their source: carrying the same thing again makes the same envelope, which is ingested once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::aee::envelopes::purposes::{Pattern, admit};
use crate::aee::envelopes::{EnvelopeType, is_bus};
use crate::arcp::budgets::Budget;
use crate::arcp::capabilities::Authority;
use crate::arcp::jobs::ask::RUNTIME_SECONDS;
use crate::arcp::jobs::wire::{ErrorPayload, ResultPayload};
use crate::arcp::versions::AgentRef;
use crate::canonical::{hex, sha256};
use crate::clock::Timestamp;
use crate::ids::{ChannelId, IntentId, derived};
use crate::limits::{LIST_ITEMS, NAME_BYTES};
use crate::log::events::check_trace_id;
use crate::openintent::messages::MessageType;
use crate::payload::Payload;
use crate::refusal::{Code, Refusal};

/// Maximum bytes of a bridge's name, which is part of the idempotency keys of jobs and messages.
pub const BRIDGE_NAME_BYTES: usize = 64;

/// A bridge and its direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schema(example = json!({ "kind": "jobs", "entity": "agent.x", "intents": ["ops.**"], "agent": "x@1.0.0" }))]
pub enum Bridge {
    /// Tasks become jobs, and the results of those jobs become the answers.
    Jobs(Jobs),
    /// Envelopes are shown on a channel.
    Mirror(Mirror),
    /// Messages of a channel become envelopes.
    Export(Export),
}

/// Tasks for an entity become jobs (ARCP §7.1); their events come back as `stream`, `result` and `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = JobsBridge)]
pub struct Jobs {
    /// The entity that receives the tasks and sends the answers.
    pub entity: String,
    /// The entity's intents to convert: patterns over dotted names.
    pub intents: Vec<String>,
    /// The agent that runs the jobs: a name, or `name@version`.
    pub agent: String,
    /// The lease of the jobs, that is their permissions and budget: patterns by namespace (ARCP §9.2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<BTreeMap<String, Vec<String>>>,
    /// The input of the jobs.
    #[serde(default)]
    pub input: Input,
    /// The intent that the jobs work for, in whose log their events stand. A task may name another one, in the member
    /// `entente.intent_id`. In either case the agent that the bridge acts as must have write access to it; to an intent
    /// that the task names, its sender too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent_id: Option<IntentId>,
}

/// The part of a task that becomes the job's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The payload: the agent need not know about envelopes.
    #[default]
    Payload,
    /// The whole envelope.
    Envelope,
}

/// Envelopes sent to an entity, or to an envelope bus, are posted on a channel of an intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = MirrorBridge)]
pub struct Mirror {
    /// The entity to mirror the mailbox of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    /// Alternatively the bus (`bus.…`) to mirror.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// The channel of an intent.
    pub channel_id: ChannelId,
}

/// Messages of a channel are sent on as envelopes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ExportBridge)]
pub struct Export {
    /// The channel of an intent.
    pub channel_id: ChannelId,
    /// The recipient: an entity, or a `bus.…`.
    pub to: String,
    /// The `intent` of the envelopes.
    pub intent: String,
}

/// Checks a bridge's name: `[a-z0-9][a-z0-9._-]*`.
///
/// # Errors
/// [`Code::InvalidParameter`].
pub fn check_name(name: &str) -> Result<(), Refusal> {
    let small = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let lawful = (1..=BRIDGE_NAME_BYTES).contains(&name.len())
        && name.bytes().next().is_some_and(small)
        && name.bytes().all(|byte| small(byte) || b"._-".contains(&byte));
    if lawful {
        return Ok(());
    }
    let message = format!(
        "A bridge's name has 1 to {BRIDGE_NAME_BYTES} characters of `a-z`, `0-9`, `.`, `_` and `-`, a letter or digit first."
    );
    Err(Refusal::new(Code::InvalidParameter, message))
}

impl Bridge {
    /// Checks everything that needs no knowledge of the entities and channels named.
    ///
    /// # Errors
    /// [`Code::Unprocessable`], or the refusal of an invalid authority or name, at the member.
    pub fn check(&self) -> Result<(), Refusal> {
        match self {
            Self::Jobs(jobs) => jobs.check(),
            Self::Mirror(mirror) => mirror.check(),
            Self::Export(export) => export.check(),
        }
    }
}

fn wrong(member: &str, kind: &str, message: impl Into<String>) -> Refusal {
    Refusal::field(Code::Unprocessable, member, kind, message)
}

fn entity(member: &str, name: &str) -> Result<(), Refusal> {
    if (1..=NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let message = format!("`{member}` must be a name of 1 to {NAME_BYTES} bytes without control characters.");
    Err(wrong(member, "name", message))
}

impl Jobs {
    fn check(&self) -> Result<(), Refusal> {
        entity("entity", &self.entity)?;
        if is_bus(&self.entity) {
            let message = "A channel answers nothing. Name an entity that listens to it.";
            return Err(wrong("entity", "bus", message));
        }
        if AgentRef::parse(&self.agent).is_none() {
            let message =
                format!("`{}` is no agent that runs jobs: use `name` or `name@version`.", self.agent);
            return Err(wrong("agent", "pattern", message));
        }
        if self.intents.is_empty() || self.intents.len() > LIST_ITEMS {
            let message = format!("`intents` must have 1 to {LIST_ITEMS} patterns; `**` stands for all.");
            return Err(wrong("intents", "length", message));
        }
        for text in &self.intents {
            Pattern::parse(text).map_err(|fault| {
                let message =
                    format!("`{text}` is no pattern: it {fault}. Use names with dots, `*` and `**`.");
                wrong("intents", "pattern", message)
            })?;
        }
        let lease = Authority::check(self.lease.clone().unwrap_or_default())?;
        Budget::of(&lease).map(|_budget| ())
    }

    /// Whether tasks with this intent become jobs.
    #[must_use]
    pub fn takes(&self, purpose: &str) -> bool {
        self.intents.iter().any(|text| Pattern::parse(text).is_ok_and(|pattern| pattern.matches(purpose)))
    }
}

impl Mirror {
    fn check(&self) -> Result<(), Refusal> {
        match (&self.entity, &self.bus) {
            (Some(name), None) if !is_bus(name) => entity("entity", name),
            (None, Some(name)) if is_bus(name) => entity("bus", name),
            _ => {
                let message =
                    "A mirror has either an `entity`, whose mailbox is shown, or a `bus`, called `bus.…`.";
                Err(wrong("entity", "either", message))
            }
        }
    }
}

impl Export {
    fn check(&self) -> Result<(), Refusal> {
        entity("to", &self.to)?;
        entity("intent", &self.intent)?;
        if self.intent.chars().count() < 3 {
            return Err(wrong("intent", "too_short", "`intent` must have at least 3 characters (AEE §3)."));
        }
        admit(&self.intent, &[])
    }

    /// Returns the type of envelope that a message becomes.
    ///
    /// A request becomes a task, a response a result, everything else an event. A response to a message that
    /// was not carried has no task to end, so it becomes an event too.
    #[must_use]
    pub fn kind(message: MessageType, answers_task: bool) -> EnvelopeType {
        match message {
            MessageType::Request => EnvelopeType::Task,
            MessageType::Response if answers_task => EnvelopeType::Result,
            MessageType::Response | MessageType::Notify | MessageType::Broadcast => EnvelopeType::Event,
        }
    }
}

/// Returns the idempotency key for the thing that a bridge makes from `source`.
#[must_use]
pub fn key(bridge: &str, source: &str) -> String {
    format!("aee:{bridge}:{source}")
}

/// Returns the id of the envelope made from `source`: a ULID of its time and of a digest of its source.
///
/// The bridge's salt prevents others from taking the id first.
#[must_use]
pub fn envelope_id(salt: &[u8], source: &str, at: Timestamp) -> String {
    derived(at, &sha256([salt, source.as_bytes()].concat()))
}

/// Returns the seconds that a job made from a task may run: from the arrival of the task to its deadline.
#[must_use]
pub fn runtime(received_at: Timestamp, deadline: Option<Timestamp>) -> Option<i64> {
    let millis = (deadline? - received_at).num_milliseconds().max(1);
    Some((millis / 1_000 + i64::from(millis % 1_000 != 0)).min(i64::from(RUNTIME_SECONDS)))
}

/// Translates a job event for the sender of the task: progress, result or error.
///
/// `None` means that the event is internal to the agent, such as its thoughts and tool calls. A result that
/// is an object becomes the payload unchanged, so that it fits the intent's schemas; any other becomes its
/// `value`.
///
/// # Errors
/// The stored event does not have the form that the domain rules write.
pub fn answer(
    job: &str,
    type_: &str,
    kind: Option<&str>,
    body: &str,
) -> Result<Option<(EnvelopeType, Value)>, serde_json::Error> {
    let told = match (type_, kind) {
        ("job.result", _) => {
            let said: ResultPayload = serde_json::from_str(body)?;
            let result = said.result.map(|raw| serde_json::from_str::<Value>(raw.get())).transpose()?;
            let payload = match (result, said.result_id) {
                (Some(whole @ Value::Object(_)), _) => whole,
                (value, None) => json!({ "job_id": job, "value": value, "summary": said.summary }),
                (_, id) => json!({
                    "job_id": job, "result_id": id, "result_size": said.result_size, "summary": said.summary,
                }),
            };
            Some((EnvelopeType::Result, payload))
        }
        ("job.error", _) => {
            let said: ErrorPayload = serde_json::from_str(body)?;
            let payload = json!({
                "code": said.code, "message": said.message, "retryable": said.retryable, "details": said.details,
                "final_status": said.final_status, "job_id": job,
            });
            Some((EnvelopeType::Error, payload))
        }
        (_, Some(kind @ ("status" | "progress" | "log"))) => {
            let body: Value = serde_json::from_str(body)?;
            Some((EnvelopeType::Stream, json!({ "job_id": job, "kind": kind, "body": body })))
        }
        _ => None,
    };
    Ok(told)
}

/// Returns the intent that a task names for its job, in `entente.intent_id`: a member of this server's own, which others
/// ignore (AEE §6.7). It need not be an id; the submission of the job refuses any other text.
#[must_use]
pub fn named_intent(body: &str) -> Option<String> {
    let members: Map<String, Value> = serde_json::from_str(body).ok()?;
    match members.get("entente")?.get("intent_id")? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Returns the trace id that the messages, jobs and events of a thread share: the one that the envelope states, if it
/// is a W3C trace id, or else one derived from its `corr`.
#[must_use]
pub fn trace_id(noted: Option<&str>, corr: &str) -> String {
    let stated = noted.map(str::to_ascii_lowercase);
    let stated = stated.filter(|id| check_trace_id(id).is_ok() && id.bytes().any(|digit| digit != b'0'));
    stated.unwrap_or_else(|| {
        let digest = sha256(format!("aee corr\0{corr}"));
        hex(&digest).chars().take(32).collect()
    })
}

/// Placeholder for the content of an envelope of which a rule leaves something out (AEE §11.5).
#[must_use]
pub fn withheld(id: &str) -> Value {
    json!({ "envelope_id": id, "omitted": "withheld" })
}

/// Placeholder for content that is too large or too deep for an envelope or a message.
#[must_use]
pub fn omitted(what: &str, id: &str) -> Value {
    json!({ what: id, "omitted": "too_large" })
}

#[derive(Deserialize)]
struct PayloadOnly {
    payload: Box<RawValue>,
}

/// Returns the input of a job for a task, byte for byte as written.
///
/// # Errors
/// The body is not an envelope.
pub fn input(what: Input, body: &str) -> Result<Box<RawValue>, serde_json::Error> {
    match what {
        Input::Payload => serde_json::from_str(body).map(|envelope: PayloadOnly| envelope.payload),
        Input::Envelope => RawValue::from_string(body.to_owned()),
    }
}

/// Returns the payload of the channel message that mirrors an envelope: the envelope itself, unchanged.
///
/// # Errors
/// The body is not JSON.
pub fn mirrored(body: &str) -> Result<Payload, serde_json::Error> {
    Payload::stored(format!("{{\"envelope\":{body}}}"))
}

/// Returns the bridge that a message's metadata names as its origin.
#[must_use]
pub fn made_by(metadata: &str) -> Option<String> {
    let members: Map<String, Value> = serde_json::from_str(metadata).ok()?;
    members.get("bridge").and_then(Value::as_str).map(str::to_owned)
}
