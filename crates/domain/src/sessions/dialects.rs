//! What differs from client to client (contract 6): three members, and one client that speaks an older protocol. What is
//! stored is always the strict form; here it is turned into a client's own on its way out.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::What;
use super::envelope::{Envelope, Said};
use super::legacy::Legacy;

/// Whose shapes a session is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// The specification's: for all whom nothing else is known of.
    #[default]
    Strict,
    /// The Python SDK's.
    Python,
    /// The TypeScript SDK's: the strict form.
    Ts,
    /// The Go SDK's.
    Go,
    /// The older protocol of the Rust crates (`legacy.rs`).
    Legacy,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 5] = [Self::Strict, Self::Python, Self::Ts, Self::Go, Self::Legacy];

    /// The word by which it is asked for.
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

    /// Reads a word; `None` when it is no dialect.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == word)
    }

    /// Tells a client by its first frame (contract 6.1).
    #[must_use]
    pub fn recognise(first: &Envelope) -> Self {
        match &first.said {
            Said::Legacy(Legacy::Open(_)) => Self::Legacy,
            Said::Hello(hello) if hello.no_agents => Self::Python,
            Said::Hello(_) if is_uuid_v7(&first.id) => Self::Go,
            _ => Self::Strict,
        }
    }

    /// Turns the payload of a `job.accepted` into the client's form: Python reads budgets as texts.
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

    /// Bytes of a body as the client gets it: what is given twice counts twice.
    #[must_use]
    pub fn written(self, what: &What, body: &str) -> usize {
        let twice = self == Self::Go && *what == What::Result;
        let again = if twice { serde_json::from_str::<Inline<'_>>(body).ok() } else { None };
        body.len() + again.and_then(|inline| inline.result).map_or(0, |result| result.get().len())
    }

    /// Turns the payload of a job's end into the client's form, where that is another.
    #[must_use]
    pub fn end(self, payload: &str) -> Option<String> {
        match self {
            // Its model of an error knows one final status; why the job ended is in the code.
            Self::Python => {
                let mut said: Map<String, Value> = serde_json::from_str(payload).ok()?;
                said.get("code")?;
                said.insert("final_status".to_owned(), Value::String("error".to_owned()));
                serde_json::to_string(&said).ok()
            }
            // It has the result under another name. The text is passed on letter by letter.
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
