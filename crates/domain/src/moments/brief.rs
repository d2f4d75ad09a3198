//! The eight slots of a question (binding moment §4, §5), read in two ways: strictly when an agent asks, and to the letter of
//! the memo when somebody shows it (`reading.rs`). What is well-formed and badly put is `lints.rs`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::reading::{Strictness, read, refused};
use super::text::plain;
use crate::canonical::{Unambiguous, hex, sha256, text};
use crate::refusal::{FieldError, Refusal};

/// The member that a question stands under on the wire.
pub const WIRE: &str = "binding_moment";

/// A question as it is asked: four slots that inform, four that bind. Out of JSON it comes by [`Brief::emitted`] and
/// [`Brief::received`] alone; `serde` reads it by the second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "Value", deny_unknown_fields)]
pub struct Brief {
    /// The agent's position in one sentence, the answer first.
    pub synopsis: String,
    /// What it rests on, one observation each.
    pub findings: Vec<String>,
    /// What would be done, one move each.
    pub recommendations: Vec<String>,
    /// What more there is for who asks.
    pub offer: String,
    /// What is to be decided.
    pub question: Question,
    /// What else is said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// What is to be decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The question, neutral and plain.
    pub stem: String,
    /// Two to four answers.
    pub options: Vec<Choice>,
    /// Which of them the agent recommends, from 0.
    pub recommended_idx: usize,
    /// The two ways to answer otherwise.
    pub hatches: Hatches,
}

/// One of the answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// What would be done.
    pub label: String,
    /// Why one might choose it.
    pub reasoning: String,
}

/// The two ways to answer otherwise; both are open unless there is a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Hatches {
    /// Whether the principal may answer in their own words.
    pub free_text: bool,
    /// Whether the principal may refuse the question.
    pub dialogue: bool,
}

impl Hatches {
    /// Both open.
    pub const OPEN: Self = Self { free_text: true, dialogue: true };
}

/// What else is said about a question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Meta {
    /// What kind of decision it is, by the asker's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_class: Option<String>,
    /// That the agent has put it too mildly before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration_note: Option<String>,
}

/// What a surface got is no question that it may show (binding moment §4); the text says why, for whoever looks after it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

impl TryFrom<Value> for Brief {
    type Error = Malformed;

    fn try_from(value: Value) -> Result<Self, Malformed> {
        Self::received(&value)
    }
}

impl Brief {
    /// Reads a question that an agent asks: of all faults at once, blanks and sizes included. Hatches that are left out are
    /// open, and the digest is over what comes out here.
    ///
    /// # Errors
    /// [`crate::refusal::Code::InvalidMoment`] with every fault and its place, as the member [`WIRE`] of a body.
    pub fn emitted(value: &Value) -> Result<Self, Refusal> {
        read(value, Strictness::Emitted).map_err(refused)
    }

    /// As [`Brief::emitted`], from the text of the question. A member that is there twice is a fault too, which a parsed
    /// value no longer shows.
    ///
    /// # Errors
    /// As [`Brief::emitted`].
    pub fn emitted_text(text: &str) -> Result<Self, Refusal> {
        let Unambiguous(value) = serde_json::from_str(text).map_err(|fault| {
            let msg = format!("the question is not JSON that every reader takes for the same: {fault}");
            let loc = vec!["body".to_owned(), WIRE.to_owned()];
            refused(vec![FieldError { kind: "json".to_owned(), loc, msg: plain(&msg) }])
        })?;
        Self::emitted(&value)
    }

    /// Reads a question that a surface got, to the letter of §4: nothing is filled in, blanks and lengths are the asker's.
    ///
    /// # Errors
    /// It must not be shown as a decision, not in part either; the text is the diagnostic.
    pub fn received(value: &Value) -> Result<Self, Malformed> {
        read(value, Strictness::Received).map_err(|faults| {
            let said: Vec<String> = faults.into_iter().map(|fault| fault.msg).collect();
            Malformed(said.join("; "))
        })
    }

    /// As [`Brief::received`], from the text that a surface got; a member that is there twice is a fault.
    ///
    /// # Errors
    /// As [`Brief::received`].
    pub fn received_text(text: &str) -> Result<Self, Malformed> {
        let Unambiguous(value) =
            serde_json::from_str(text).map_err(|fault| Malformed(plain(&format!("not JSON: {fault}"))))?;
        Self::received(&value)
    }

    /// The question as it is written.
    #[must_use]
    pub fn value(&self) -> Value {
        json!(self)
    }

    /// `sha256:` and the SHA-256 over the canonical form (RFC 8785), in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> String {
        // Texts, flags and a small number always have a JSON form.
        format!("sha256:{}", hex(&sha256(text(self).unwrap_or_default())))
    }

    /// The option that the agent recommends.
    #[must_use]
    pub fn recommended(&self) -> Option<&Choice> {
        self.question.options.get(self.question.recommended_idx)
    }

    /// What kind of decision it is, when that is said.
    #[must_use]
    pub fn decision_class(&self) -> Option<&str> {
        self.meta.as_ref()?.decision_class.as_deref()
    }

    /// The calibration note, when there is one.
    #[must_use]
    pub fn calibration_note(&self) -> Option<&str> {
        self.meta.as_ref()?.calibration_note.as_deref()
    }
}
