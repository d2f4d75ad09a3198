//! Client dialects (ARCP-W-6): three members that differ, and one client with an older protocol. Stored data is
//! always in the strict form and is converted on output.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::What;
use super::envelope::{ClientMessage, Envelope};
use super::legacy::Legacy;

/// Dialect of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// The specification's form, for all unrecognised clients.
    #[default]
    Strict,
    /// The Python SDK.
    Python,
    /// The TypeScript SDK: the strict form.
    Ts,
    /// The Go SDK.
    Go,
    /// The older protocol of the Rust crates (`legacy.rs`).
    Legacy,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 5] = [Self::Strict, Self::Python, Self::Ts, Self::Go, Self::Legacy];

    /// Returns the name by which a client requests it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Python => "python",
            Self::Ts => "ts",
            Self::Go => "go",
            Self::Legacy => "legacy",
        }
    }

    /// Parses a name; `None` if it is unknown.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == word)
    }

    /// Recognises a client by its first frame (ARCP-W-6.1).
    #[must_use]
    pub fn recognise(first: &Envelope) -> Self {
        match &first.content {
            ClientMessage::Legacy(Legacy::Open(_)) => Self::Legacy,
            ClientMessage::Hello(hello) if hello.no_agents => Self::Python,
            ClientMessage::Hello(_) if is_uuid_v7(&first.id) => Self::Go,
            _ => Self::Strict,
        }
    }

    /// Converts the payload of a `job.accepted`: Python expects budgets as strings.
    pub fn accepted(self, payload: &mut Map<String, Value>) {
        if self != Self::Python {
            return;
        }
        if let Some(Value::Object(budget)) = payload.get_mut("budget") {
            for (currency, amount) in budget.iter_mut() {
                *amount = Value::String(format!("{currency}:{amount}"));
            }
        }
    }

    /// Returns the size in bytes of a body as sent to the client; duplicated members count twice.
    #[must_use]
    pub fn written(self, what: &What, body: &str) -> usize {
        let twice = self == Self::Go && *what == What::Result;
        let again = if twice { serde_json::from_str::<Inline<'_>>(body).ok() } else { None };
        body.len() + again.and_then(|inline| inline.result).map_or(0, |result| result.get().len())
    }

    /// Converts the payload of a job's end, if the dialect differs.
    #[must_use]
    pub fn end(self, payload: &str) -> Option<String> {
        match self {
            // Its error model has a single final status; the code has the reason.
            Self::Python => {
                let mut said: Map<String, Value> = serde_json::from_str(payload).ok()?;
                said.get("code")?;
                said.insert("final_status".to_owned(), Value::String("error".to_owned()));
                serde_json::to_string(&said).ok()
            }
            // It expects the result under another name too. The text is copied verbatim.
            Self::Go => {
                let result = serde_json::from_str::<Inline<'_>>(payload).ok()?.result?;
                let open = payload.trim_end().strip_suffix('}')?;
                Some(format!("{open},\"output\":{result}}}"))
            }
            Self::Strict | Self::Ts | Self::Legacy => None,
        }
    }
}

#[derive(Deserialize)]
struct Inline<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

fn is_uuid_v7(text: &str) -> bool {
    let id = uuid::Uuid::try_parse(text);
    text.len() == 36 && id.is_ok_and(|id| id.get_version_num() == 7)
}
