//! Converts a suspension's question (RFC-0025) to a binding moment, and the person's answer to a value for the asking
//! agent.
//!
//! A moment has two to four options. Two to four choices become its options; a single choice is offered together with
//! calling the question off; of more choices the first four become options, the others are listed in the findings,
//! and any may be written. A text or form question has the options to continue without an answer or to call it off;
//! the answer itself is written.

use serde_json::{Map, Value, json};

use super::{Resolution, ResolutionKind, Settled};
use crate::clock::{Timestamp, rfc3339};
use crate::openintent::suspensions::reading::check_answer;
use crate::openintent::suspensions::{Asked, FallbackPolicy, ResponseType, SuspensionChoice};
use crate::refusal::valid_choice::{INVALID_CHOICE, ValidChoice, ValidChoices};
use crate::refusal::{Code, Refusal};

/// Maximum number of options of a binding moment (binding moment §5.6).
const OPTIONS: usize = 4;
/// Maximum size in bytes of a context member shown as a finding; larger ones are referenced.
const SHOWN_BYTES: usize = 1_000;
/// Maximum number of context members shown as findings; the others are in the state.
const SHOWN: usize = 40;

/// Meaning of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Value for the asking agent.
    Value(Value),
    /// The question is called off.
    CallOff,
}

/// An option of the moment: label, reasoning and meaning.
type Pick = (String, String, Answer);

impl Asked {
    fn picks(&self) -> Vec<Pick> {
        let chosen = |one: &SuspensionChoice| {
            let reasoning = if one.description.trim().is_empty() {
                format!("The asker goes on with “{}”.", one.value)
            } else {
                one.description.clone()
            };
            (one.label.clone(), reasoning, Answer::Value(json!(one.value)))
        };
        let call_off = || {
            let reasoning = "The asker hears that there will be no answer.".to_owned();
            ("Call the question off".to_owned(), reasoning, Answer::CallOff)
        };
        match self.choices.as_slice() {
            [] => {
                let value = self.fallback_value.clone().unwrap_or(Value::Null);
                let with = match &value {
                    Value::Null => "The asker gets nothing for an answer.".to_owned(),
                    value => format!("The asker goes on with {}.", shown(value)),
                };
                vec![("Go on without an answer".to_owned(), with, Answer::Value(value)), call_off()]
            }
            [one] => vec![chosen(one), call_off()],
            many => many.iter().take(OPTIONS).map(chosen).collect(),
        }
    }

    /// Returns whether an answer may be written, because not all choices are options.
    fn is_written(&self) -> bool {
        self.choices.is_empty() || self.choices.len() > OPTIONS
    }

    /// Returns the option that the agent recommends, marked or else its fallback, and whether it recommends any.
    fn recommended(&self) -> (usize, bool) {
        let within = |idx: &usize| *idx < OPTIONS;
        let marked = self.choices.iter().position(|one| one.is_marked).filter(within);
        let fallback = self.fallback_value.as_ref().and_then(Value::as_str);
        let fallback =
            self.choices.iter().position(|one| Some(one.value.as_str()) == fallback).filter(within);
        if self.choices.is_empty() {
            return (usize::from(self.fallback == FallbackPolicy::Fail), true);
        }
        marked.or(fallback).map_or((0, false), |idx| (idx, true))
    }

    /// Returns the question as a binding moment in JSON, and the justification if free text is closed.
    #[must_use]
    pub fn brief(&self, agent: &str, title: &str, until: Option<Timestamp>) -> (Value, Option<String>) {
        let picks = self.picks();
        let options: Vec<Value> = picks
            .iter()
            .map(|(label, reasoning, _)| json!({ "label": label, "reasoning": reasoning }))
            .collect();
        let (recommended_idx, is_said) = self.recommended();
        let written = self.is_written();
        let justification = (!written).then(|| {
            "The asker takes one of these values and nothing else (RFC-0025, response_type choice)."
                .to_owned()
        });
        let moment = json!({
            "synopsis": format!("{agent} waits for this answer before it goes on with “{title}”."),
            "findings": self.findings(is_said),
            "recommendations": self.recommendations(until),
            "offer": format!(
                "The intent “{title}” has all that {agent} has said: its state, with this question under `_suspension`, and its log."
            ),
            "question": {
                "stem": self.question,
                "options": options,
                "recommended_idx": recommended_idx,
                "hatches": { "free_text": written, "dialogue": true },
            },
            "meta": { "decision_class": "intent.suspended" },
        });
        (moment, justification)
    }

    fn findings(&self, is_said: bool) -> Vec<String> {
        let mut findings: Vec<String> = Vec::new();
        for (name, value) in self.context.iter().take(SHOWN) {
            let text = shown(value);
            findings.push(if text.len() + name.len() <= SHOWN_BYTES {
                format!("{name}: {text}")
            } else {
                let name =
                    if name.len() <= SHOWN_BYTES { name.as_str() } else { "A member with a long name" };
                format!("{name}: {} bytes, in the intent's state.", text.len())
            });
        }
        if let Some(more) = self.context.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            findings.push(format!("The intent's state has {more} more facts of the asker's."));
        }
        if let Some(sure) = self.confidence {
            findings.push(format!("The asker is sure of itself to {sure} (0 to 1)."));
        }
        if !is_said {
            findings.push(
                "The asker recommends none of the options; the first is marked because one has to be."
                    .to_owned(),
            );
        }
        if self.choices.len() > OPTIONS {
            let more = self.choices.iter().skip(OPTIONS).map(|one| format!("“{}”", one.label));
            let more: Vec<String> = more.collect();
            findings.push(format!("Other answers, to be written: {}.", more.join(", ")));
        }
        if self.response_type == ResponseType::Form {
            findings.push(
                "The answer is a form: write it as lines of `name: value`, or as a JSON object.".to_owned(),
            );
        }
        // Inform the person in advance, because other texts of a moment are not kept this way (binding moment §12).
        findings.push(
            "The answer is kept in the intent's state and log, where all who read the intent see it."
                .to_owned(),
        );
        findings
    }

    fn recommendations(&self, until: Option<Timestamp>) -> Vec<String> {
        let how = if self.is_written() { "Write the answer." } else { "Choose one of the options." };
        let then = match (until, self.fallback) {
            (None, _) => "Without an answer the intent stays suspended.".to_owned(),
            (Some(at), FallbackPolicy::Fail) => {
                format!("Without an answer by {} the asker hears that nobody answered.", rfc3339(at))
            }
            (Some(at), _) => {
                let value = self.fallback_value.as_ref().map_or_else(|| "nothing".to_owned(), shown);
                format!("Without an answer by {} the asker goes on with {value}.", rfc3339(at))
            }
        };
        vec![how.to_owned(), then]
    }

    /// Returns the meaning of an answer to the moment.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] for text that is none of the choices, or not a form.
    pub fn worth(&self, settled: &Settled) -> Result<Answer, Refusal> {
        match settled.kind {
            ResolutionKind::Option => {
                let idx = settled.option_idx.unwrap_or(usize::MAX);
                let pick = self.picks().into_iter().nth(idx).map(|(.., answer)| answer);
                // A valid moment only refers to existing options.
                Ok(pick.unwrap_or(Answer::CallOff))
            }
            ResolutionKind::FreeText => {
                let words = settled.answer.as_deref().unwrap_or_default();
                self.written(words).map(Answer::Value)
            }
            ResolutionKind::Dialogue => Ok(Answer::CallOff),
        }
    }

    fn written(&self, words: &str) -> Result<Value, Refusal> {
        let words = words.trim();
        if !self.choices.is_empty() {
            let lower = words.to_lowercase();
            let is = |one: &&SuspensionChoice| {
                one.value.to_lowercase() == lower || one.label.to_lowercase() == lower
            };
            let found =
                self.choices.iter().find(|one| one.value == words).or_else(|| self.choices.iter().find(is));
            return found.map(|one| json!(one.value)).ok_or_else(|| self.no_choice("answer"));
        }
        if self.response_type == ResponseType::Form { form(words) } else { Ok(json!(words)) }
    }

    /// Checks that a value answers the question (RFC-0025 §8), and returns the corresponding answer to its moment.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] with the valid values; [`Code::TooLarge`].
    pub fn accept(&self, value: &Value) -> Result<Resolution, Refusal> {
        check_answer("value", value)?;
        let is = |(.., answer): &Pick| matches!(answer, Answer::Value(one) if one == value);
        if !self.choices.is_empty() {
            let known = self.choices.iter().any(|one| value.as_str() == Some(&one.value));
            if !known {
                return Err(self.no_choice("value"));
            }
            if let Some(option_idx) = self.picks().iter().position(is) {
                return Ok(Resolution::Option { option_idx });
            }
        }
        let blank = value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty());
        if blank {
            let message = "`value` is missing or blank. Send the answer.";
            return Err(Refusal::field(Code::InvalidRequest, "value", "missing", message));
        }
        let answer = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Ok(Resolution::FreeText { answer })
    }

    fn no_choice(&self, member: &str) -> Refusal {
        let values: Vec<String> = self.choices.iter().map(|one| format!("`{}`", one.value)).collect();
        let message = format!("`{member}` is none of the choices. Choose one of {}.", values.join(", "));
        let choice = |one: &SuspensionChoice| ValidChoice {
            value: one.value.clone(),
            label: one.label.clone(),
            description: one.description.clone(),
        };
        let valid_choices = ValidChoices(self.choices.iter().map(choice).collect());
        Refusal {
            valid_choices: Some(Box::new(valid_choices)),
            ..Refusal::field(Code::InvalidRequest, member, INVALID_CHOICE, message)
        }
    }

    /// Returns the choice with this value.
    #[must_use]
    pub fn chosen(&self, value: &Value) -> Option<&SuspensionChoice> {
        self.choices.iter().find(|one| value.as_str() == Some(&one.value))
    }
}

/// Formats a value for a person.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Parses a form as a person writes it: a JSON object, or lines of `name: value`.
fn form(words: &str) -> Result<Value, Refusal> {
    if let Ok(Value::Object(members)) = serde_json::from_str(words) {
        crate::canonical::exact(&Value::Object(members.clone()))?;
        return Ok(Value::Object(members));
    }
    let line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), json!(value.trim())))
    };
    let lines = words.lines().filter(|line| !line.trim().is_empty());
    let members: Option<Map<String, Value>> = lines.map(line).collect();
    members.map(Value::Object).ok_or_else(|| {
        let message = "This answer is a form: write it as lines of `name: value`, or as a JSON object.";
        Refusal::field(Code::InvalidRequest, "answer", "no_form", message)
    })
}
