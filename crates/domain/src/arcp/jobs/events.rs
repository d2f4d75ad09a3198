//! Job events submitted by workers (ARCP §8): their kinds, the required members of their bodies, and their
//! effect on the runtime. Bodies are stored and passed on as written.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::amounts::Amount;
use crate::arcp::chunks::{CHUNK_BYTES, Chunk, Encoding};
use crate::limits::{NAME_BYTES, PAYLOAD_BYTES};
use crate::refusal::{Code, FieldError, Refusal};

/// Maximum number of events in one request.
pub const EVENTS: usize = 1_000;

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A log message.
    Log,
    /// A thought of the agent.
    Thought,
    /// A tool is about to be called.
    ToolCall,
    /// The result of a tool call.
    ToolResult,
    /// The state of the work, as described by the agent.
    Status,
    /// A number; costs are `cost.*`.
    Metric,
    /// A reference to a produced artifact.
    ArtifactRef,
    /// A part of the work is delegated to another agent.
    Delegate,
    /// The progress.
    Progress,
    /// A part of a streamed result.
    ResultChunk,
    /// A vendor's own kind.
    Vendor,
}

impl Kind {
    /// Parses a kind: one of §8.2, or `x-vendor.<vendor>.<kind>`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "log" => Self::Log,
            "thought" => Self::Thought,
            "tool_call" => Self::ToolCall,
            "tool_result" => Self::ToolResult,
            "status" => Self::Status,
            "metric" => Self::Metric,
            "artifact_ref" => Self::ArtifactRef,
            "delegate" => Self::Delegate,
            "progress" => Self::Progress,
            "result_chunk" => Self::ResultChunk,
            _ => {
                let (vendor, kind) = word.strip_prefix("x-vendor.")?.split_once('.')?;
                let short = word.len() <= NAME_BYTES && !word.chars().any(char::is_control);
                return (short && !vendor.is_empty() && !kind.is_empty()).then_some(Self::Vendor);
            }
        })
    }

    /// Returns the feature that a session must have negotiated to receive the kind (§6.2).
    #[must_use]
    pub fn feature(self) -> Option<&'static str> {
        match self {
            Self::Progress => Some("progress"),
            Self::ResultChunk => Some("result_chunk"),
            _ => None,
        }
    }
}

/// The effect of an event on the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// None: it is only passed on.
    Plain,
    /// A cost (§9.6).
    Cost {
        /// The currency.
        currency: String,
        /// The amount.
        amount: Amount,
        /// The reservation that it is charged to.
        reservation: Option<String>,
    },
    /// A tool is about to be called, which needs permission.
    ToolCall {
        /// The tool.
        tool: String,
        /// The call's id, for the response.
        call_id: Option<String>,
        /// The operation, if the tool is one that has a capability of its own.
        operation: Option<Operation>,
    },
    /// A part of the work is delegated to another agent, which needs permission.
    Delegate {
        /// The agent.
        agent: String,
        /// The delegation's id, for the response.
        call_id: Option<String>,
    },
    /// A part of the result.
    Chunk {
        /// The result's id.
        result_id: String,
        /// Its number.
        chunk_seq: u32,
        /// The encoding.
        encoding: Encoding,
        /// Bytes as encoded.
        written: usize,
        /// Bytes as decoded.
        decoded: usize,
        /// Whether there is no data.
        empty: bool,
        /// Whether others follow.
        more: bool,
    },
}

impl Meaning {
    /// Returns the chunk, if it is one.
    #[must_use]
    pub fn chunk(&self) -> Option<Chunk<'_>> {
        let Self::Chunk { result_id, chunk_seq, encoding, written, decoded, empty, more } = self else {
            return None;
        };
        Some(Chunk {
            result_id,
            chunk_seq: *chunk_seq,
            encoding: *encoding,
            written: *written,
            decoded: *decoded,
            empty: *empty,
            more: *more,
        })
    }
}

/// An operation with a capability of its own (§9.2), called as a tool of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The capability.
    pub capability: &'static str,
    /// The path, or the URL.
    pub target: String,
}

impl Operation {
    /// Returns the operation that a call performs; `None` for every other tool, and for a call without a target.
    fn of(tool: &str, arguments: Option<&RawValue>) -> Option<Self> {
        let capability = ["fs.read", "fs.write", "net.fetch"].into_iter().find(|known| *known == tool)?;
        let said: Arguments = serde_json::from_str(arguments?.get()).ok()?;
        let target = if capability == "net.fetch" { said.url } else { said.path };
        Some(Self { capability, target: target? })
    }
}

#[derive(Deserialize)]
struct Arguments {
    path: Option<String>,
    url: Option<String>,
}

#[derive(Deserialize)]
struct MetricBody<'a> {
    name: Option<String>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    unit: Option<String>,
    reservation_id: Option<String>,
}

#[derive(Deserialize)]
struct CallBody<'a> {
    tool: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    agent: Option<String>,
    call_id: Option<String>,
    tool_call_id: Option<String>,
    delegate_id: Option<String>,
}

#[derive(Deserialize)]
struct ProgressBody {
    current: Option<f64>,
    total: Option<f64>,
}

#[derive(Deserialize)]
struct ChunkBody {
    result_id: Option<String>,
    chunk_seq: Option<u32>,
    data: Option<String>,
    encoding: Option<Encoding>,
    more: Option<bool>,
}

/// Checks the `index`th event of a request and returns its effect.
///
/// # Errors
/// [`Code::InvalidRequest`] with the member at fault; [`Code::TooLarge`]; [`Code::ResultTooLarge`] for a
/// chunk.
pub fn check(index: usize, kind: Kind, body: &RawValue) -> Result<Meaning, Refusal> {
    let at = At(index);
    let text = body.get();
    if !text.starts_with('{') {
        return Err(at.wrong("body", "must be a JSON object"));
    }
    if kind == Kind::ResultChunk {
        return chunk(at, text);
    }
    if text.len() > PAYLOAD_BYTES {
        let message = format!(
            "`events[{index}].body` has more than {PAYLOAD_BYTES} bytes. Store it elsewhere and refer to it."
        );
        return Err(Refusal::field(Code::TooLarge, "events", "too_long", message));
    }
    match kind {
        Kind::Metric => metric(at, text),
        Kind::ToolCall => {
            let said: CallBody<'_> = at.read(text)?;
            let tool = said.tool.or(said.name).ok_or_else(|| at.missing("tool"))?;
            let operation = Operation::of(&tool, said.args.or(said.arguments));
            Ok(Meaning::ToolCall { tool, call_id: said.call_id.or(said.tool_call_id), operation })
        }
        Kind::Delegate => {
            let said: CallBody<'_> = at.read(text)?;
            let agent = said.agent.ok_or_else(|| at.missing("agent"))?;
            Ok(Meaning::Delegate { agent, call_id: said.delegate_id.or(said.call_id) })
        }
        Kind::Progress => {
            let said: ProgressBody = at.read(text)?;
            let current = said.current.ok_or_else(|| at.missing("current"))?;
            if current < 0.0 || said.total.is_some_and(|total| total < 0.0) {
                return Err(at.wrong("current", "must not be below zero (ARCP §8.2.1)"));
            }
            Ok(Meaning::Plain)
        }
        _ => Ok(Meaning::Plain),
    }
}

fn metric(at: At, text: &str) -> Result<Meaning, Refusal> {
    let said: MetricBody<'_> = at.read(text)?;
    let name = said.name.ok_or_else(|| at.missing("name"))?;
    let value = said.value.ok_or_else(|| at.missing("value"))?;
    // The runtime's own budget reports are not costs, even if a worker sends one.
    let costs = name.starts_with("cost.") && name != "cost.budget.remaining";
    let Some(currency) = said.unit.filter(|_| costs) else { return Ok(Meaning::Plain) };
    let amount =
        Amount::written(value.get()).map_err(|e| at.wrong("value", &format!("is no amount: it {e}")))?;
    if amount.is_negative() {
        return Err(at.wrong("value", "must not be below zero: a cost gives nothing back (ARCP §9.6)"));
    }
    Ok(Meaning::Cost { currency, amount, reservation: said.reservation_id })
}

fn chunk(at: At, text: &str) -> Result<Meaning, Refusal> {
    let said: ChunkBody = at.read(text)?;
    let data = said.data.ok_or_else(|| at.missing("data"))?;
    let encoding = said.encoding.ok_or_else(|| at.missing("encoding"))?;
    let result_id = said.result_id.ok_or_else(|| at.missing("result_id"))?;
    if result_id.is_empty() || result_id.len() > NAME_BYTES || result_id.chars().any(char::is_control) {
        return Err(at.wrong("result_id", "must be a short text"));
    }
    let decoded = match encoding {
        Encoding::Utf8 => data.len(),
        Encoding::Base64 => encoding.decode(&data).ok_or_else(|| at.wrong("data", "is no base64"))?.len(),
    };
    if text.len() > CHUNK_BYTES + NAME_BYTES * 2 {
        let message =
            format!("`events[{}]`: a chunk has at most {CHUNK_BYTES} bytes. Send smaller ones.", at.0);
        return Err(Refusal::new(Code::ResultTooLarge, message));
    }
    Ok(Meaning::Chunk {
        result_id,
        chunk_seq: said.chunk_seq.ok_or_else(|| at.missing("chunk_seq"))?,
        encoding,
        written: data.len(),
        decoded,
        empty: data.is_empty(),
        more: said.more.ok_or_else(|| at.missing("more"))?,
    })
}

/// Returns a chunk's body with another encoding; other members stay as they are.
///
/// # Errors
/// The body is not a JSON object.
pub fn encoded_as(body: &str, encoding: Encoding) -> Result<String, serde_json::Error> {
    let mut members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(body)?;
    members.insert("encoding".to_owned(), encoding.as_str().into());
    serde_json::to_string(&members)
}

/// The index of the faulty event in a request.
#[derive(Clone, Copy)]
struct At(usize);

impl At {
    fn read<'a, T: Deserialize<'a>>(self, text: &'a str) -> Result<T, Refusal> {
        serde_json::from_str(text).map_err(|e| {
            let said = e.to_string();
            self.wrong("body", said.split(" at line ").next().unwrap_or("has the wrong shape"))
        })
    }

    fn missing(self, member: &str) -> Refusal {
        self.wrong(member, "is missing")
    }

    fn wrong(self, member: &str, what: &str) -> Refusal {
        let mut refusal = Refusal::new(
            Code::InvalidRequest,
            format!(
                "`{member}` of the event at place {} is wrong: {what}. Nothing of the request was kept.",
                self.0
            ),
        );
        refusal.errors = vec![FieldError {
            kind: if what == "is missing" { "missing" } else { "value" }.to_owned(),
            loc: ["body", "events", &self.0.to_string(), member].map(str::to_owned).to_vec(),
            msg: what.to_owned(),
        }];
        refusal
    }
}
