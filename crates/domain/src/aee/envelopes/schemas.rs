//! Schemas of payloads (AEE §6.4, §9.3): JSON Schemas, one for each type of an intent.
//!
//! Every published schema costs the server computing time. So schemas are of draft 2020-12 and self-contained
//! (nothing is fetched), patterns are matched in linear time, and the number of evaluations per value is
//! bounded in advance (`bounds.rs`). The server decides which callers may publish.

mod bounds;
mod protocol;

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::EnvelopeType;
use crate::aee::envelopes::schemas::bounds::{BoundsError, weigh};
use crate::limits::NAME_BYTES;
use crate::payload::scan;
use crate::refusal::{Code, FieldError, Refusal};

pub use crate::aee::envelopes::schemas::protocol::PROTOCOL;

/// Maximum bytes of a schema.
pub const SCHEMA_BYTES: usize = 64 * 1024;

/// Maximum number of schemas of one server; all of them are kept in memory.
pub const SCHEMAS: usize = 1_000;

/// Maximum number of schemas of one publisher, except admins.
pub const SCHEMAS_EACH: usize = 100;

/// Maximum number of faults reported for one payload: enough to fix it, however wrong it is.
pub const FAULTS: usize = 20;

/// Maximum evaluations of one check, which take a few hundredths of a second at worst.
const LOOKS: u64 = 500_000;

/// Evaluations up to which all faults are reported: each fault is kept in memory, and one evaluation finds
/// several.
const NAMED: u64 = 10_000;

/// Maximum bytes of a compiled pattern, so that large repetitions (`a{1000}{1000}`) are refused.
const PATTERN_BYTES: usize = 256 * 1024;

/// The suffix of a schema's file name (AEE §9.3).
const ENDING: &str = ".schema.json";

/// The treatment of an envelope with an invalid payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Strictness {
    /// Payloads are not checked; the schema can still be read and queried.
    Off,
    /// It is accepted with a warning.
    #[default]
    Warn,
    /// It is refused.
    Enforce,
}

impl Strictness {
    /// Returns the wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Enforce => "enforce",
        }
    }

    /// Parses the wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Off, Self::Warn, Self::Enforce].into_iter().find(|one| one.as_str() == text)
    }
}

/// The subject of a schema: an intent and a type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject {
    /// The intent.
    pub purpose: String,
    /// Task, result or error; the other types have no schemas (AEE §9.3).
    pub kind: EnvelopeType,
}

impl Subject {
    /// Parses the name of a schema's file, such as `ops.backup.check.task.schema.json`.
    ///
    /// Refuses names that could be paths, because schemas are exported as files.
    #[must_use]
    pub fn of_file(name: &str) -> Option<Self> {
        let (purpose, kind) = name.strip_suffix(ENDING)?.rsplit_once('.')?;
        let kind = Self::kind(kind)?;
        let letter = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '/' | '\\');
        let sound = (3..=NAME_BYTES).contains(&purpose.len())
            && !purpose.starts_with('.')
            && purpose.chars().all(letter);
        sound.then(|| Self { purpose: purpose.to_owned(), kind })
    }

    /// Parses the type of a schema.
    #[must_use]
    pub fn kind(text: &str) -> Option<EnvelopeType> {
        let has = |kind: &EnvelopeType| kind.is_terminal() || *kind == EnvelopeType::Task;
        EnvelopeType::parse(text).filter(has)
    }

    /// Returns the name of the schema's file.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}.{}{ENDING}", self.purpose, self.kind.as_str())
    }
}

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    /// Maximum number of evaluations of any one value.
    weight: u64,
}

impl Schema {
    /// Parses a schema.
    ///
    /// # Errors
    /// [`Code::Unprocessable`] naming the position; [`Code::TooLarge`]; the errors of [`scan`].
    pub fn read(text: &[u8]) -> Result<Self, Refusal> {
        if text.len() > SCHEMA_BYTES {
            let message =
                format!("The schema has {} bytes, at most {SCHEMA_BYTES} are taken. Say less.", text.len());
            return Err(Refusal::new(Code::TooLarge, message));
        }
        scan(text)?;
        let schema: Value = serde_json::from_slice(text).map_err(|fault| {
            Refusal::new(Code::InvalidJson, format!("The schema is not valid JSON: {fault}."))
        })?;
        let weight = weigh(&schema).map_err(refused)?;
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(
                PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES),
            )
            // A format is only an annotation in this draft, and some are expensive to check.
            .should_validate_formats(false)
            .build(&schema)
            .map_err(|fault| {
                refused(BoundsError { place: fault.instance_path().to_string(), what: fault.to_string() })
            })?;
        Ok(Self { validator, weight })
    }

    /// Returns the maximum number of evaluations for checking a payload.
    #[must_use]
    pub fn looks(&self, payload: &Value) -> u64 {
        self.weight.saturating_mul(size(payload))
    }

    /// Returns the first fault of a payload; `None` if it is valid.
    #[must_use]
    pub fn fault(&self, payload: &Value) -> Option<FieldError> {
        if self.looks(payload) > LOOKS {
            let msg = "it is too large to be checked by this schema; send large data by reference";
            return Some(fault("", "too_large", msg));
        }
        self.validator.validate(payload).err().map(|one| described(&one))
    }

    /// Returns up to [`FAULTS`] faults of a payload, but only the first for a large payload.
    #[must_use]
    pub fn faults(&self, payload: &Value) -> Vec<FieldError> {
        let first = self.fault(payload);
        if first.is_none() || self.looks(payload) > NAMED {
            return first.into_iter().collect();
        }
        // The validator finds all of them before it returns the first.
        self.validator.iter_errors(payload).take(FAULTS).map(|one| described(&one)).collect()
    }
}

/// The value itself is not repeated: a fault may be logged where a payload must not be (AEE §11.4).
fn described(one: &ValidationError<'_>) -> FieldError {
    let msg = shortened(one.masked_with("the value").to_string());
    fault(one.instance_path().as_str(), one.kind().keyword(), &msg)
}

/// Maximum bytes of a fault's message: a list of allowed values can be long.
const WORDS_BYTES: usize = 500;

fn shortened(mut text: String) -> String {
    if text.len() > WORDS_BYTES {
        let end = (0..=WORDS_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Returns the size of a value: each value within it counts, and so does text that a pattern has to read.
fn size(value: &Value) -> u64 {
    let text = |text: &str| u64::try_from(text.len() / 16).unwrap_or(u64::MAX);
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| 1 + text(name) + size(value)).sum(),
        Value::String(said) => text(said),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn fault(place: &str, kind: &str, msg: &str) -> FieldError {
    let mut loc = vec!["body".to_owned(), "payload".to_owned()];
    loc.extend(parts(place));
    FieldError { kind: kind.to_owned(), loc, msg: msg.to_owned() }
}

fn refused(misfit: BoundsError) -> Refusal {
    let place = if misfit.place.is_empty() { "/".to_owned() } else { misfit.place.clone() };
    let message =
        format!("This is no schema that payloads can be checked by: at `{place}`, {}.", misfit.what);
    let mut loc = vec!["body".to_owned()];
    loc.extend(parts(&misfit.place));
    let errors = vec![FieldError { kind: "schema".to_owned(), loc, msg: misfit.what }];
    Refusal { errors, ..Refusal::new(Code::Unprocessable, message) }
}

/// Returns the parts of a JSON Pointer.
fn parts(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"))
}
