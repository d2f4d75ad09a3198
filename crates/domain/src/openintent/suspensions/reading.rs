//! Parses the question in an intent's state (RFC-0025 §4, §5), as written by the SDK or requested by
//! `POST …/suspend`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::FallbackPolicy;
use crate::canonical::exact;
use crate::identity::principals::check_name;
use crate::limits::{ANSWER_BYTES, DURATION_SECONDS, MOMENT_LEAST_SECONDS, SUSPENSION_CHOICES, TEXT_BYTES};
use crate::refusal::{Code, Refusal};

/// Kind of answer expected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = SuspensionResponseType)]
pub enum ResponseType {
    /// One of the choices.
    #[default]
    Choice,
    /// Yes or no, or one of the choices.
    Confirm,
    /// Text.
    Text,
    /// Members of an object.
    Form,
}

impl ResponseType {
    /// All types.
    pub const ALL: [Self; 4] = [Self::Choice, Self::Confirm, Self::Text, Self::Form];

    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Choice => "choice",
            Self::Confirm => "confirm",
            Self::Text => "text",
            Self::Form => "form",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

/// One of the offered answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuspensionChoice {
    /// Value for the asking agent.
    pub value: String,
    /// Label for the person.
    pub label: String,
    /// Additional description.
    pub description: String,
    /// Whether the agent marks it (`style: primary`).
    pub is_marked: bool,
}

/// A parsed question.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Id assigned by the asking agent.
    pub id: String,
    /// The question.
    pub question: String,
    /// Kind of answer expected.
    pub response_type: ResponseType,
    /// Offered answers; a confirmation without any has yes and no.
    pub choices: Vec<SuspensionChoice>,
    /// Context for the decision.
    pub context: Map<String, Value>,
    /// Addressee suggested by the agent.
    pub hint: Option<String>,
    /// Lifetime in seconds, including all attempts to reach somebody; `None` means no limit.
    pub seconds: Option<u32>,
    /// Reaction if nobody answers.
    pub fallback: FallbackPolicy,
    /// Value for that reaction.
    pub fallback_value: Option<Value>,
    /// The agent's confidence.
    pub confidence: Option<f64>,
    /// Further people to ask, with delays in seconds: the steps of a ladder (RFC-0026).
    pub ladder: Vec<(String, u32)>,
}

fn wrong(member: &str, kind: &str, what: &str) -> Refusal {
    Refusal::field(Code::InvalidRequest, member, kind, format!("`{member}` {what}."))
}

fn text(record: &Map<String, Value>, member: &str) -> Result<Option<String>, Refusal> {
    match record.get(member) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() <= TEXT_BYTES => Ok(Some(text.clone())),
        Some(_) => Err(wrong(member, "type", "must be a string of at most 16,384 bytes")),
    }
}

/// Parses a number of seconds, rounded up.
fn seconds(value: Option<&Value>) -> Option<u64> {
    let value = value.filter(|value| !value.is_null())?;
    // Values that are not numbers, or are too large, count as out of range.
    Some(value.as_u64().or_else(|| value.as_f64().and_then(whole)).unwrap_or(u64::MAX))
}

fn whole(number: f64) -> Option<u64> {
    // Converts via text: a number too large to convert is also too large for a duration.
    let fits = number > 0.0 && number <= f64::from(DURATION_SECONDS);
    fits.then(|| format!("{:.0}", number.ceil()).parse().ok())?
}

impl Asked {
    /// Parses a question.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] and [`Code::TooLarge`] at the invalid member.
    pub fn read(record: &Map<String, Value>) -> Result<Self, Refusal> {
        record.values().try_for_each(exact)?;
        let id = text(record, "id")?.unwrap_or_default();
        check_name("id", &id)?;
        let question = text(record, "question")?.unwrap_or_default();
        if question.trim().is_empty() {
            return Err(wrong("question", "blank", "is blank. Say what is to be decided"));
        }
        let word = text(record, "response_type")?.unwrap_or_else(|| "choice".to_owned());
        let response_type = ResponseType::parse(&word)
            .ok_or_else(|| wrong("response_type", "enum", "is `choice`, `confirm`, `text` or `form`"))?;
        let choices = choices(record.get("choices"), response_type)?;
        let policy = retry_policy(record)?;
        let said = policy.and_then(|policy| policy.get("final_fallback_policy"));
        let said = said.or_else(|| record.get("fallback_policy")).filter(|said| !said.is_null());
        let fallback = said.map_or(Some(FallbackPolicy::Fail), |said| FallbackPolicy::parse(said.as_str()?));
        let fallback = fallback.ok_or_else(|| {
            let what = "is `fail`, `complete_with_fallback` or `use_default_and_continue`";
            wrong("fallback_policy", "enum", what)
        })?;
        let fallback_value = record.get("fallback_value").filter(|value| !value.is_null()).cloned();
        if let Some(value) = &fallback_value {
            check_answer("fallback_value", value)?;
        }
        let confidence = match record.get("confidence_at_suspension").filter(|said| !said.is_null()) {
            None => None,
            Some(said) => Some(said.as_f64().filter(|sure| (0.0..=1.0).contains(sure)).ok_or_else(|| {
                wrong("confidence_at_suspension", "out_of_range", "is a number from 0 to 1")
            })?),
        };
        Ok(Self {
            id,
            question,
            response_type,
            choices,
            context: object(record, "context")?.cloned().unwrap_or_default(),
            hint: text(record, "channel_hint")?.filter(|hint| !hint.is_empty()),
            seconds: stands(record, policy)?,
            fallback,
            fallback_value,
            confidence,
            ladder: policy.map(ladder).unwrap_or_default(),
        })
    }
}

fn object<'a>(
    record: &'a Map<String, Value>,
    member: &str,
) -> Result<Option<&'a Map<String, Value>>, Refusal> {
    match record.get(member) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(members)) => Ok(Some(members)),
        Some(_) => Err(wrong(member, "type", "must be an object")),
    }
}

fn retry_policy(record: &Map<String, Value>) -> Result<Option<&Map<String, Value>>, Refusal> {
    object(record, "retry_policy")
}

/// Returns the lifetime of the question: the number of attempts times the interval between them, or else its timeout.
fn stands(record: &Map<String, Value>, policy: Option<&Map<String, Value>>) -> Result<Option<u32>, Refusal> {
    let of = |member: &str, usual: u64| policy.map(|policy| seconds(policy.get(member)).unwrap_or(usual));
    let tries = of("interval_seconds", 3_600).zip(of("max_attempts", 3));
    let total = tries.map(|(pause, count)| pause.saturating_mul(count)).filter(|total| *total > 0);
    let total = total.or_else(|| seconds(record.get("timeout_seconds")));
    let fits = |seconds: u64| u32::try_from(seconds).ok().filter(|one| (1..=DURATION_SECONDS).contains(one));
    total
        .map(|total| {
            fits(total).ok_or_else(|| {
                let what =
                    "is a number of seconds of at least one and at most ten years, all attempts together";
                wrong("timeout_seconds", "out_of_range", what)
            })
        })
        .transpose()
}

/// Returns the escalation steps, ignoring those without a valid name or too early.
fn ladder(policy: &Map<String, Value>) -> Vec<(String, u32)> {
    let pause = seconds(policy.get("interval_seconds")).unwrap_or(3_600);
    let steps = policy.get("escalation_ladder").and_then(Value::as_array);
    let each = steps.into_iter().flatten().filter_map(|step| {
        let to = step.get("notify_to").or_else(|| step.get("notify"))?.as_str()?;
        let attempt = seconds(step.get("attempt").or_else(|| step.get("after_attempt")))?;
        let after = u32::try_from(attempt.checked_sub(1)?.saturating_mul(pause)).ok()?;
        let named = check_name("notify_to", to).is_ok() && after >= MOMENT_LEAST_SECONDS;
        named.then(|| (to.to_owned(), after))
    });
    each.take(SUSPENSION_CHOICES).collect()
}

fn choices(given: Option<&Value>, kind: ResponseType) -> Result<Vec<SuspensionChoice>, Refusal> {
    let list = match given {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(list)) => list.as_slice(),
        Some(_) => return Err(wrong("choices", "type", "must be a list")),
    };
    if list.len() > SUSPENSION_CHOICES {
        let message = format!("`choices` has {} items, at most {SUSPENSION_CHOICES} are taken.", list.len());
        return Err(Refusal::field(Code::TooLarge, "choices", "too_long", message));
    }
    let mut choices = Vec::with_capacity(list.len());
    for one in list {
        let member = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        let value = member("value");
        let label =
            Some(member("label")).filter(|label| !label.trim().is_empty()).unwrap_or_else(|| value.clone());
        if value.trim().is_empty() || value.len() > ANSWER_BYTES {
            return Err(wrong(
                "choices",
                "invalid",
                "has one without a `value`, which is what you get when it is chosen",
            ));
        }
        if choices.iter().any(|known: &SuspensionChoice| known.value == value) {
            return Err(wrong("choices", "duplicate", "has the same `value` twice"));
        }
        let is_marked = member("style") == "primary";
        choices.push(SuspensionChoice { value, label, description: member("description"), is_marked });
    }
    if choices.is_empty() && kind == ResponseType::Confirm {
        let word = |value: &str, label: &str| SuspensionChoice {
            value: value.to_owned(),
            label: label.to_owned(),
            description: String::new(),
            is_marked: false,
        };
        return Ok(vec![word("yes", "Yes"), word("no", "No")]);
    }
    // Text and forms have no choices.
    if matches!(kind, ResponseType::Text | ResponseType::Form) { Ok(Vec::new()) } else { Ok(choices) }
}

/// Checks a value that goes into the state as an answer.
///
/// # Errors
/// [`Code::TooLarge`] over [`ANSWER_BYTES`]; numbers that do not survive hashing.
pub(crate) fn check_answer(member: &str, value: &Value) -> Result<(), Refusal> {
    exact(value)?;
    let bytes = value.to_string().len();
    if bytes <= ANSWER_BYTES {
        return Ok(());
    }
    let message = format!("`{member}` has {bytes} bytes, at most {ANSWER_BYTES} are taken.");
    Err(Refusal::field(Code::TooLarge, member, "too_large", message))
}
