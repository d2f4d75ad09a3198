//! Log lines of five members, MVE-5 (AEE §7.2): kept for people who look, never delivered.

use serde_json::{Map, Value};

use super::{EnvelopeType, VERSION, members};
use crate::limits::NAME_BYTES;
use crate::refusal::{Code, FieldError, Refusal};

/// The members that every line has.
pub const MEMBERS: [&str; 5] = ["v", "id", "type", "from", "intent"];

/// A line that can be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct LogLine {
    /// `id`.
    pub id: String,
    /// `type`.
    pub kind: EnvelopeType,
    /// `from`.
    pub sender: String,
    /// `intent`.
    pub purpose: String,
    /// `corr`, when there is one: a full envelope is a line too.
    pub corr: Option<String>,
}

/// Whether these members are a log line and no envelope: the five and none of those by which an envelope is routed.
#[must_use]
pub fn is_mve5(found: &Map<String, Value>) -> bool {
    MEMBERS.iter().all(|name| found.contains_key(*name))
        && ["to", "corr", "payload"].iter().all(|name| !found.contains_key(*name))
}

/// Reads one line.
///
/// # Errors
/// As [`super::read`]; [`Code::InvalidEnvelope`] naming every member that is missing or wrong.
pub fn read(bytes: &[u8]) -> Result<LogLine, Refusal> {
    let found = members(bytes)?;
    let text = |name: &str, least: usize| {
        let text = found.get(name).and_then(Value::as_str)?;
        let fits = text.chars().count() >= least && text.len() <= NAME_BYTES;
        (fits && !text.chars().any(char::is_control)).then_some(text)
    };
    let kind = text("type", 1).and_then(EnvelopeType::parse);
    let (id, sender, purpose) = (text("id", 8), text("from", 1), text("intent", 3));
    let version = text("v", 1).filter(|v| *v == VERSION);
    let right = [version.is_some(), id.is_some(), kind.is_some(), sender.is_some(), purpose.is_some()];
    let errors: Vec<FieldError> = MEMBERS
        .iter()
        .zip(right)
        .filter(|(_, right)| !right)
        .map(|(name, _)| FieldError {
            kind: if found.contains_key(*name) { "value" } else { "missing" }.to_owned(),
            loc: vec!["body".to_owned(), (*name).to_owned()],
            msg: format!("`{name}` must be there as an envelope has it (AEE §7.2)"),
        })
        .collect();
    match (id, kind, sender, purpose) {
        (Some(id), Some(kind), Some(sender), Some(purpose)) if errors.is_empty() => Ok(LogLine {
            id: id.to_owned(),
            kind,
            sender: sender.to_owned(),
            purpose: purpose.to_owned(),
            corr: text("corr", 1).map(str::to_owned),
        }),
        _ => {
            let message = "A log line needs `v`, `id`, `type`, `from` and `intent` (AEE §7.2).";
            Err(Refusal { errors, ..Refusal::new(Code::InvalidEnvelope, message) })
        }
    }
}
