//! Parses incoming envelopes (ARCP §5). Unknown members and types are ignored, because newer clients send more than older
//! servers know. `machine.rs` decides which messages are allowed when; `legacy.rs` has the messages of the older protocol.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::legacy::Legacy;
use super::{PAGE, USUAL_PAGE};
use crate::arcp::jobs::JobStatus;
use crate::arcp::jobs::ask::Submit;
use crate::arcp::versions::AgentRef;
use crate::clock::{self, Timestamp};
use crate::payload::scan;

/// Version of the protocol, and of every envelope.
pub const VERSION: &str = "1.1";

/// Maximum length of an envelope's id, in bytes: the answer repeats it.
const ID_BYTES: usize = 256;

/// A message from a client.
#[derive(Debug)]
pub struct Envelope {
    /// Id that the answer names; any non-empty text.
    pub id: String,
    /// Trace id, if valid: 32 hexadecimal digits.
    pub trace_id: Option<String>,
    /// Content of the message.
    pub content: ClientMessage,
}

/// Messages of clients.
#[derive(Debug)]
pub enum ClientMessage {
    /// `session.hello`, which may be a resume.
    Hello(Box<Hello>),
    /// `session.resume`, the specification's own form of a resume.
    Resume(Box<Hello>),
    /// `session.ping`.
    Ping(String),
    /// `session.pong`.
    Pong(String),
    /// `session.ack`: the last number that was processed.
    Ack(i64),
    /// `session.list_jobs`.
    List(Box<List>),
    /// `session.close`: expects an answer.
    Close,
    /// `session.bye`: expects no answer.
    Bye,
    /// `job.submit`.
    Submit(Box<Submit>),
    /// `job.cancel`.
    Cancel {
        /// Job.
        job_id: String,
        /// Reason.
        reason: Option<String>,
    },
    /// `job.subscribe`.
    Subscribe {
        /// Job.
        job_id: String,
        /// Whether past events are wanted.
        history: bool,
        /// Last number of the history that the client has, as counted by the submitting session.
        from: i64,
    },
    /// `job.unsubscribe`.
    Unsubscribe {
        /// Job.
        job_id: String,
    },
    /// A message of the older protocol.
    Legacy(Legacy),
    /// An unknown type.
    Unknown,
}

/// A client's introduction.
#[derive(Debug, Default)]
pub struct Hello {
    /// Bearer token; empty if missing.
    pub token: String,
    /// Name of the client.
    pub client: String,
    /// Features of the client.
    pub features: Vec<String>,
    /// Whether it sent an empty list of agents, as one SDK always does (ARCP-W-6.1).
    pub no_agents: bool,
    /// Session to resume.
    pub resume: Option<Resume>,
    /// Whether it came as a `session.resume`, which has only the members needed to resume.
    pub bare: bool,
    /// Epoch of the agent's session, which fences the writes of this session.
    pub epoch: Option<i64>,
}

/// The member `x-entente` of a hello's or a resume's envelope: other servers ignore it, as all members of envelopes that
/// they do not know (ARCP §5).
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HelloBeyond {
    epoch: Option<i64>,
}

/// Credentials of a resuming client.
#[derive(Debug, Clone, Deserialize)]
pub struct Resume {
    /// Session to resume.
    pub session_id: String,
    /// Token from the last welcome.
    pub resume_token: String,
    /// Last event that the client has.
    #[serde(default)]
    pub last_event_seq: i64,
}

/// Filter and page of a job list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// States to include; any if empty.
    pub statuses: Vec<JobStatus>,
    /// Agent that runs the jobs.
    pub agent: Option<AgentRef>,
    /// Lower bound of the acceptance time.
    pub created_after: Option<Timestamp>,
    /// Upper bound of the acceptance time.
    pub created_before: Option<Timestamp>,
    /// Maximum number of jobs.
    pub limit: u32,
    /// Cursor to continue from.
    pub cursor: Option<String>,
}

/// Text that is not an envelope, or has a payload that does not fit its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// Id of the envelope, if it could be read.
    pub request_id: Option<String>,
    /// Description of the fault and of the expected value.
    pub message: String,
}

#[derive(Deserialize)]
struct Raw<'a> {
    arcp: Option<Value>,
    id: Option<Value>,
    #[serde(rename = "type")]
    word: Option<Value>,
    job_id: Option<Value>,
    trace_id: Option<Value>,
    #[serde(rename = "x-entente")]
    beyond: Option<Value>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

/// Parses an envelope.
///
/// # Errors
/// [`Malformed`], with the envelope's id if it has one.
pub fn read(text: &str) -> Result<Envelope, Malformed> {
    let nobodys = |message: String| Malformed { request_id: None, message };
    scan(text.as_bytes()).map_err(|refusal| nobodys(refusal.message))?;
    let raw: Raw<'_> = serde_json::from_str(text)
        .map_err(|e| nobodys(format!("The frame is no envelope: {e}. Send one JSON object per frame.")))?;
    let id = raw.id.as_ref().and_then(Value::as_str).filter(|id| !id.is_empty() && id.len() <= ID_BYTES);
    let Some(id) = id.map(str::to_owned) else {
        return Err(nobodys(format!("`id` must be a text of 1 to {ID_BYTES} bytes.")));
    };
    let wrong = |message: String| Malformed { request_id: Some(id.clone()), message };
    if raw.arcp.as_ref().and_then(Value::as_str) != Some(VERSION) {
        return Err(wrong(format!("`arcp` must be \"{VERSION}\": other versions are not spoken here.")));
    }
    let Some(word) = raw.word.as_ref().and_then(Value::as_str) else {
        return Err(wrong("`type` must be a text.".to_owned()));
    };
    let content = content(word, &raw).map_err(&wrong)?;
    let trace = raw.trace_id.as_ref().and_then(Value::as_str);
    Ok(Envelope { id, trace_id: trace.filter(|id| is_trace(id)).map(str::to_owned), content })
}

/// Returns whether a text is a trace id; invalid ones are ignored, as W3C Trace Context asks.
fn is_trace(text: &str) -> bool {
    let small = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 32 && text.bytes().all(small) && text.bytes().any(|byte| byte != b'0')
}

/// Deserialises a payload; a missing one counts as an empty object.
pub(super) fn shaped<'a, T: Deserialize<'a>>(payload: Option<&'a RawValue>) -> Result<T, String> {
    let text = payload.map_or("{}", RawValue::get);
    if !text.starts_with('{') {
        return Err("`payload` must be a JSON object.".to_owned());
    }
    serde_json::from_str(text).map_err(|e| {
        let said = e.to_string();
        let what = said.split(" at line ").next().unwrap_or("it has the wrong shape");
        format!("`payload` cannot be used: {what}.")
    })
}

#[derive(Deserialize)]
struct Nonce {
    #[serde(alias = "ping_nonce")]
    nonce: Option<Value>,
}

#[derive(Deserialize)]
struct Acked {
    last_processed_seq: i64,
}

#[derive(Deserialize)]
struct Of {
    job_id: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    history: Option<bool>,
    #[serde(default)]
    from_event_seq: Option<i64>,
}

fn content(word: &str, raw: &Raw<'_>) -> Result<ClientMessage, String> {
    let payload = raw.payload;
    Ok(match word {
        "session.hello" => ClientMessage::Hello(Box::new(Hello { epoch: epoch(raw)?, ..hello(payload)? })),
        "session.resume" => ClientMessage::Resume(Box::new(Hello { epoch: epoch(raw)?, ..resume(payload)? })),
        "session.ping" => ClientMessage::Ping(nonce(payload)?),
        "session.pong" => ClientMessage::Pong(nonce(payload)?),
        "session.ack" => match shaped::<Acked>(payload)?.last_processed_seq {
            seq if seq >= 0 => ClientMessage::Ack(seq),
            _ => return Err("`last_processed_seq` must not be below 0.".to_owned()),
        },
        "session.list_jobs" => ClientMessage::List(Box::new(list(payload)?)),
        "session.close" => ClientMessage::Close,
        "session.bye" => ClientMessage::Bye,
        "job.submit" => ClientMessage::Submit(Box::new(shaped(payload)?)),
        "job.cancel" => {
            let of: Of = shaped(payload)?;
            ClientMessage::Cancel { job_id: job_id(raw, of.job_id)?, reason: of.reason }
        }
        "job.subscribe" => {
            let of: Of = shaped(payload)?;
            let from = of.from_event_seq.unwrap_or(0);
            if from < 0 {
                return Err("`from_event_seq` must not be below 0.".to_owned());
            }
            ClientMessage::Subscribe {
                job_id: job_id(raw, of.job_id)?,
                history: of.history.unwrap_or(false),
                from,
            }
        }
        "job.unsubscribe" => {
            ClientMessage::Unsubscribe { job_id: job_id(raw, shaped::<Of>(payload)?.job_id)? }
        }
        _ => match Legacy::read(word, payload)? {
            Some(legacy) => ClientMessage::Legacy(legacy),
            None => ClientMessage::Unknown,
        },
    })
}

/// Returns the epoch that a hello names.
fn epoch(raw: &Raw<'_>) -> Result<Option<i64>, String> {
    let wrong = || {
        "`x-entente` of a hello must be like {\"epoch\": 7}, with the epoch that `POST /agents/{agent_id}/sessions` returned: a \
         whole number from 1."
            .to_owned()
    };
    let Some(said) = &raw.beyond else { return Ok(None) };
    let beyond: HelloBeyond = serde_json::from_value(said.clone()).map_err(|_other_shape| wrong())?;
    if beyond.epoch.is_some_and(|epoch| epoch < 1) { Err(wrong()) } else { Ok(beyond.epoch) }
}

/// Returns the job id of a message: from its payload, or from its envelope (ARCP-W-4.4.2).
fn job_id(raw: &Raw<'_>, in_payload: Option<String>) -> Result<String, String> {
    let on_envelope = raw.job_id.as_ref().and_then(Value::as_str).map(str::to_owned);
    let id = in_payload.or(on_envelope).filter(|id| !id.is_empty());
    id.ok_or_else(|| "`job_id` is missing: say which job.".to_owned())
}

/// Returns the nonce to echo; a value that is not a string is echoed as its JSON text.
fn nonce(payload: Option<&RawValue>) -> Result<String, String> {
    let nonce = match shaped::<Nonce>(payload)?.nonce {
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
        None => String::new(),
    };
    if nonce.len() > ID_BYTES {
        return Err(format!("`nonce` must have at most {ID_BYTES} bytes: it is repeated in the answer."));
    }
    Ok(nonce)
}

/// Returns the bearer token of an `auth` object; empty for any other content, so that it grants nothing.
pub(super) fn token(auth: Option<&Value>) -> String {
    let auth = auth.and_then(Value::as_object);
    let bearer = auth.and_then(|auth| auth.get("scheme")).and_then(Value::as_str);
    let lawful = bearer.is_none_or(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    let token = auth.and_then(|auth| auth.get("token")).and_then(Value::as_str);
    token.filter(|_| lawful).unwrap_or_default().to_owned()
}

/// Returns the client's name and version as one line.
pub(super) fn client(said: Option<&Value>) -> String {
    let part = |name: &str| said.and_then(|client| client.get(name)).and_then(Value::as_str).unwrap_or("");
    let name = if part("name").is_empty() { part("kind") } else { part("name") };
    let line = format!("{name} {}", part("version"));
    line.trim().chars().filter(|c| !c.is_control()).take(100).collect()
}

fn hello(payload: Option<&RawValue>) -> Result<Hello, String> {
    let said: Map<String, Value> = shaped(payload)?;
    let capabilities = said.get("capabilities").and_then(Value::as_object);
    let member = |name: &str| capabilities.and_then(|known| known.get(name)).and_then(Value::as_array);
    let words = member("features").map(Vec::as_slice).unwrap_or_default();
    let resume = said.get("resume").filter(|resume| !resume.is_null()).cloned();
    let resume = resume.map(serde_json::from_value).transpose();
    Ok(Hello {
        token: token(said.get("auth")),
        client: client(said.get("client")),
        features: words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        no_agents: member("agents").is_some_and(Vec::is_empty),
        resume: resume.map_err(|e| format!("`resume` cannot be used: {e}."))?,
        bare: false,
        epoch: None,
    })
}

fn resume(payload: Option<&RawValue>) -> Result<Hello, String> {
    // Optional members of a hello are accepted here too.
    let hello = hello(payload)?;
    let resume: Resume = shaped(payload)?;
    Ok(Hello { resume: Some(resume), bare: true, ..hello })
}

#[derive(Deserialize)]
struct ListPayload {
    filter: Option<JobFilter>,
    limit: Option<i64>,
    cursor: Option<String>,
}

#[derive(Deserialize, Default)]
struct JobFilter {
    status: Option<Statuses>,
    agent: Option<String>,
    created_after: Option<String>,
    created_before: Option<String>,
}

/// One status or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Statuses {
    One(String),
    Several(Vec<String>),
}

fn list(payload: Option<&RawValue>) -> Result<List, String> {
    let said: ListPayload = shaped(payload)?;
    let filter = said.filter.unwrap_or_default();
    let words = match filter.status {
        None => Vec::new(),
        Some(Statuses::One(word)) => vec![word],
        Some(Statuses::Several(words)) => words,
    };
    let status = |word: &String| {
        JobStatus::parse(word)
            .ok_or_else(|| "`filter.status` has a word that is no status of a job.".to_owned())
    };
    let time = |name: &str, text: Option<String>| {
        let read =
            |text: String| clock::parse(&text).ok_or_else(|| format!("`filter.{name}` must be RFC 3339."));
        text.map(read).transpose()
    };
    let agent = filter.agent.map(|text| {
        AgentRef::parse(&text).ok_or_else(|| "`filter.agent` must be `name` or `name@version`.".to_owned())
    });
    let limit = match said.limit {
        None => USUAL_PAGE,
        Some(limit) => u32::try_from(limit)
            .ok()
            .filter(|limit| (1..=PAGE).contains(limit))
            .ok_or_else(|| format!("`limit` must be a number from 1 to {PAGE}."))?,
    };
    Ok(List {
        statuses: words.iter().map(status).collect::<Result<_, _>>()?,
        agent: agent.transpose()?,
        created_after: time("created_after", filter.created_after)?,
        created_before: time("created_before", filter.created_before)?,
        limit,
        cursor: said.cursor.filter(|cursor| !cursor.is_empty()),
    })
}
