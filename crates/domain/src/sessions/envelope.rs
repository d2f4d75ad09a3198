//! Envelopes as they come in (ARCP §5): a text is either something that a client says, or malformed. Members that are not
//! known are ignored, and so are types, because newer clients say more than older servers know. Which of it is allowed
//! when is `machine.rs`; the older protocol's messages are `legacy.rs`.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::legacy::Legacy;
use super::{PAGE, USUAL_PAGE};
use crate::clock::{self, Timestamp};
use crate::jobs::JobStatus;
use crate::jobs::ask::Submit;
use crate::payload::scan;
use crate::versions::AgentRef;

/// The version of the protocol, and of every envelope.
pub const VERSION: &str = "1.1";

/// Bytes of an envelope's id: it is repeated in the answer.
const ID_BYTES: usize = 256;

/// What a client says.
#[derive(Debug)]
pub struct Envelope {
    /// The id that an answer names; any text that is not empty.
    pub id: String,
    /// The trace, if it is one: 32 hexadecimal digits.
    pub trace_id: Option<String>,
    /// What is said.
    pub said: Said,
}

/// The messages of clients.
#[derive(Debug)]
pub enum Said {
    /// `session.hello`, which may be a resume.
    Hello(Box<Hello>),
    /// `session.resume`, the specification's own form of it.
    Resume(Box<Hello>),
    /// `session.ping`.
    Ping(String),
    /// `session.pong`.
    Pong(String),
    /// `session.ack`: the last number that was processed.
    Ack(i64),
    /// `session.list_jobs`.
    List(Box<List>),
    /// `session.close`: to be answered.
    Close,
    /// `session.bye`: not to be.
    Bye,
    /// `job.submit`.
    Submit(Box<Submit>),
    /// `job.cancel`.
    Cancel {
        /// Which job.
        job_id: String,
        /// Why.
        reason: Option<String>,
    },
    /// `job.subscribe`.
    Subscribe {
        /// To which job.
        job_id: String,
        /// Whether what has happened before is wanted.
        history: bool,
        /// What of it the client has: a number of the submitting session.
        from: i64,
    },
    /// `job.unsubscribe`.
    Unsubscribe {
        /// From which job.
        job_id: String,
    },
    /// A message of the older protocol.
    Legacy(Legacy),
    /// A type that is not known here.
    Unknown,
}

/// How a client introduces itself.
#[derive(Debug, Default)]
pub struct Hello {
    /// Its bearer token; empty when it presents none.
    pub token: String,
    /// What it calls itself.
    pub client: String,
    /// The features that it has.
    pub features: Vec<String>,
    /// Whether it sent an empty list of agents, as one SDK always does (contract 6.1).
    pub no_agents: bool,
    /// The session that it comes back to.
    pub resume: Option<Resume>,
    /// Whether it came as a `session.resume`, which says no more than what it takes to come back.
    pub bare: bool,
}

/// What a client that comes back presents.
#[derive(Debug, Clone, Deserialize)]
pub struct Resume {
    /// Its session.
    pub session_id: String,
    /// The token that it got with the last welcome.
    pub resume_token: String,
    /// The last event that it has.
    #[serde(default)]
    pub last_event_seq: i64,
}

/// Which jobs a client wants listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// In one of these states; in any when empty.
    pub statuses: Vec<JobStatus>,
    /// Of this agent.
    pub agent: Option<AgentRef>,
    /// Accepted after.
    pub created_after: Option<Timestamp>,
    /// Accepted before.
    pub created_before: Option<Timestamp>,
    /// How many at the most.
    pub limit: u32,
    /// Where to go on.
    pub cursor: Option<String>,
}

/// A text that is no envelope, or whose payload is not what its type has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The envelope's id, if that much could be read.
    pub request_id: Option<String>,
    /// What is wrong, and what would be right.
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
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

/// Reads an envelope.
///
/// # Errors
/// [`Malformed`] with the envelope's id as far as it has one.
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
    let said = said(word, &raw).map_err(&wrong)?;
    let trace = raw.trace_id.as_ref().and_then(Value::as_str);
    Ok(Envelope { id, trace_id: trace.filter(|id| is_trace(id)).map(str::to_owned), said })
}

/// Whether a text is a trace's id. One that is not is ignored, as W3C Trace Context asks.
fn is_trace(text: &str) -> bool {
    let small = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 32 && text.bytes().all(small) && text.bytes().any(|byte| byte != b'0')
}

/// A payload in its own shape; one that is missing is an empty object.
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

fn said(word: &str, raw: &Raw<'_>) -> Result<Said, String> {
    let payload = raw.payload;
    Ok(match word {
        "session.hello" => Said::Hello(Box::new(hello(payload)?)),
        "session.resume" => Said::Resume(Box::new(resume(payload)?)),
        "session.ping" => Said::Ping(nonce(payload)?),
        "session.pong" => Said::Pong(nonce(payload)?),
        "session.ack" => match shaped::<Acked>(payload)?.last_processed_seq {
            seq if seq >= 0 => Said::Ack(seq),
            _ => return Err("`last_processed_seq` must not be below 0.".to_owned()),
        },
        "session.list_jobs" => Said::List(Box::new(list(payload)?)),
        "session.close" => Said::Close,
        "session.bye" => Said::Bye,
        "job.submit" => Said::Submit(Box::new(shaped(payload)?)),
        "job.cancel" => {
            let of: Of = shaped(payload)?;
            Said::Cancel { job_id: job_id(raw, of.job_id)?, reason: of.reason }
        }
        "job.subscribe" => {
            let of: Of = shaped(payload)?;
            let from = of.from_event_seq.unwrap_or(0);
            if from < 0 {
                return Err("`from_event_seq` must not be below 0.".to_owned());
            }
            Said::Subscribe { job_id: job_id(raw, of.job_id)?, history: of.history.unwrap_or(false), from }
        }
        "job.unsubscribe" => Said::Unsubscribe { job_id: job_id(raw, shaped::<Of>(payload)?.job_id)? },
        _ => match Legacy::read(word, payload)? {
            Some(legacy) => Said::Legacy(legacy),
            None => Said::Unknown,
        },
    })
}

/// The job of a message: in its payload, or on its envelope (contract 4.4).
fn job_id(raw: &Raw<'_>, in_payload: Option<String>) -> Result<String, String> {
    let on_envelope = raw.job_id.as_ref().and_then(Value::as_str).map(str::to_owned);
    let id = in_payload.or(on_envelope).filter(|id| !id.is_empty());
    id.ok_or_else(|| "`job_id` is missing: say which job.".to_owned())
}

/// A nonce is given back as it came; one that is no text is taken as it is written.
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

/// The bearer token of an `auth` object; empty whatever else stands there, so that it opens nothing.
pub(super) fn token(auth: Option<&Value>) -> String {
    let auth = auth.and_then(Value::as_object);
    let bearer = auth.and_then(|auth| auth.get("scheme")).and_then(Value::as_str);
    let lawful = bearer.is_none_or(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    let token = auth.and_then(|auth| auth.get("token")).and_then(Value::as_str);
    token.filter(|_| lawful).unwrap_or_default().to_owned()
}

/// What a client calls itself, in one line.
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
    })
}

fn resume(payload: Option<&RawValue>) -> Result<Hello, String> {
    // What a hello may have besides is taken here too.
    let hello = hello(payload)?;
    let resume: Resume = shaped(payload)?;
    Ok(Hello { resume: Some(resume), bare: true, ..hello })
}

#[derive(Deserialize)]
struct ListSaid {
    filter: Option<Filter>,
    limit: Option<i64>,
    cursor: Option<String>,
}

#[derive(Deserialize, Default)]
struct Filter {
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
    let said: ListSaid = shaped(payload)?;
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
