//! The eight slots of a question (binding moment §4, §5), parsed in two ways: strictly when an agent asks, and exactly
//! by the memo when a surface displays it (`reading.rs`). Style checks of well-formed questions are in `lints.rs`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::reading::{Strictness, read, refused};
use super::text::plain;
use crate::canonical::{Unambiguous, hex, sha256, text};
use crate::payload::questions::MEMBER;
use crate::refusal::{FieldError, Refusal};

/// A question as asked: four slots that inform, four that bind.
// JSON is parsed only by `Brief::emitted` and `Brief::received`; `serde` uses the latter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "Value", deny_unknown_fields)]
pub struct Brief {
    /// The agent's position in one sentence, answer first.
    pub synopsis: String,
    /// Supporting observations, one per entry.
    pub findings: Vec<String>,
    /// Recommended actions, one per entry.
    pub recommendations: Vec<String>,
    /// Further detail available on request.
    pub offer: String,
    /// The decision to be made.
    pub question: Question,
    /// Additional information about the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// The decision to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The question, neutral and plain.
    pub stem: String,
    /// Two to four answers.
    pub options: Vec<Choice>,
    /// Index of the option that the agent recommends, starting at 0.
    pub recommended_idx: usize,
    /// The two ways to answer otherwise.
    pub hatches: Hatches,
}

/// One of the answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The action that the option stands for.
    pub label: String,
    /// Reason to choose it.
    pub reasoning: String,
}

/// The two ways to answer otherwise; both are open by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Hatches {
    /// Whether the principal may answer in their own words.
    pub free_text: bool,
    /// Whether the principal may refuse the question.
    pub dialogue: bool,
}

impl Hatches {
    /// Both hatches open.
    pub const OPEN: Self = Self { free_text: true, dialogue: true };
}

/// Additional information about a question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Meta {
    /// Class of the decision, named by the asking agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_class: Option<String>,
    /// Correction of the agent's earlier framing of the matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration_note: Option<String>,
}

/// Input that must not be shown as a question (binding moment §4); the text is a diagnostic for maintainers.
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
    /// Parses a question that an agent asks, and reports all errors at once, including blank texts and sizes.
    ///
    /// Omitted hatches are open; the digest covers the parsed result.
    ///
    /// # Errors
    /// [`crate::refusal::Code::InvalidMoment`] with every error and its location, as the member [`MEMBER`] of a body.
    pub fn emitted(value: &Value) -> Result<Self, Refusal> {
        read(value, Strictness::Emitted).map_err(refused)
    }

    /// As [`Brief::emitted`], from JSON text; also refuses duplicate members, which a parsed value no longer shows.
    ///
    /// # Errors
    /// As [`Brief::emitted`].
    pub fn emitted_text(text: &str) -> Result<Self, Refusal> {
        let Unambiguous(value) = serde_json::from_str(text).map_err(|fault| {
            let msg = format!("the question is not JSON that every reader takes for the same: {fault}");
            let loc = vec!["body".to_owned(), MEMBER.to_owned()];
            refused(vec![FieldError { kind: "json".to_owned(), loc, msg: plain(&msg) }])
        })?;
        Self::emitted(&value)
    }

    /// Parses a question received by a surface, exactly by §4: no defaults, no limits on blank texts or lengths.
    ///
    /// # Errors
    /// The input must not be shown as a decision, not even in part; the text is the diagnostic.
    pub fn received(value: &Value) -> Result<Self, Malformed> {
        read(value, Strictness::Received).map_err(|faults| {
            let said: Vec<String> = faults.into_iter().map(|fault| fault.msg).collect();
            Malformed(said.join("; "))
        })
    }

    /// As [`Brief::received`], from JSON text; duplicate members are errors.
    ///
    /// # Errors
    /// As [`Brief::received`].
    pub fn received_text(text: &str) -> Result<Self, Malformed> {
        let Unambiguous(value) =
            serde_json::from_str(text).map_err(|fault| Malformed(plain(&format!("not JSON: {fault}"))))?;
        Self::received(&value)
    }

    /// Returns the question as JSON.
    #[must_use]
    pub fn value(&self) -> Value {
        json!(self)
    }

    /// Returns `sha256:` and the hexadecimal SHA-256 over the canonical form (RFC 8785).
    #[must_use]
    pub fn digest(&self) -> String {
        // Strings, booleans and a small number always have a JSON form.
        format!("sha256:{}", hex(&sha256(text(self).unwrap_or_default())))
    }

    /// Returns the option that the agent recommends.
    #[must_use]
    pub fn recommended(&self) -> Option<&Choice> {
        self.question.options.get(self.question.recommended_idx)
    }

    /// Returns the decision class, if there is one.
    #[must_use]
    pub fn decision_class(&self) -> Option<&str> {
        self.meta.as_ref()?.decision_class.as_deref()
    }

    /// Returns the calibration note, if there is one.
    #[must_use]
    pub fn calibration_note(&self) -> Option<&str> {
        self.meta.as_ref()?.calibration_note.as_deref()
    }
}
