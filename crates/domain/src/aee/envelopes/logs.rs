//! Log lines of five members, MVE-5 (AEE §7.2): stored for people to read, never delivered.

use serde_json::{Map, Value};

use super::ID_BYTES;
use super::{EnvelopeType, VERSION, members};
use crate::limits::{BATCH, NAME_BYTES};
use crate::refusal::{Code, FieldError, Refusal};

/// The members that every line has.
pub const MEMBERS: [&str; 5] = ["v", "id", "type", "from", "intent"];

/// A valid log line.
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
    /// `corr`, if present: a full envelope is a valid line too.
    pub corr: Option<String>,
}

/// Whether these members are a log line and not an envelope: they include the five, but none used for
/// routing.
#[must_use]
pub fn is_mve5(found: &Map<String, Value>) -> bool {
    MEMBERS.iter().all(|name| found.contains_key(*name))
        && ["to", "corr", "payload"].iter().all(|name| !found.contains_key(*name))
}

/// Splits a body (NDJSON) into lines with their positions, skipping blank ones.
///
/// # Errors
/// [`Code::InvalidRequest`] if there is no line, [`Code::TooLarge`] if there are too many.
pub fn split(body: &[u8]) -> Result<Vec<(usize, &[u8])>, Refusal> {
    let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).enumerate();
    let lines: Vec<(usize, &[u8])> = lines.filter(|(_, line)| !line.is_empty()).take(BATCH + 1).collect();
    if lines.is_empty() {
        return Err(Refusal::new(
            Code::InvalidRequest,
            "The body has no line. Send one JSON object on each.",
        ));
    }
    if lines.len() > BATCH {
        let message = format!("The body has more than {BATCH} lines. Send the rest in another request.");
        return Err(Refusal::new(Code::TooLarge, message));
    }
    Ok(lines)
}

/// Parses one line.
///
/// # Errors
/// As [`super::read`]; [`Code::InvalidEnvelope`] naming every member that is missing or wrong.
pub fn read(bytes: &[u8]) -> Result<LogLine, Refusal> {
    let found = members(bytes)?;
    let text = |name: &str, least: usize, most: usize| {
        let text = found.get(name).and_then(Value::as_str)?;
        let fits = text.chars().count() >= least && text.len() <= most;
        (fits && !text.chars().any(char::is_control)).then_some(text)
    };
    let kind = text("type", 1, NAME_BYTES).and_then(EnvelopeType::parse);
    let (id, sender) = (text("id", 8, ID_BYTES), text("from", 1, NAME_BYTES));
    let purpose = text("intent", 3, NAME_BYTES);
    let version = text("v", 1, 1).filter(|v| *v == VERSION);
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
            // Not one of the five, so an invalid `corr` is kept in the stored line but not indexed.
            corr: text("corr", 1, ID_BYTES).map(str::to_owned),
        }),
        _ => {
            let message = "A log line needs `v`, `id`, `type`, `from` and `intent` (AEE §7.2).";
            Err(Refusal { errors, ..Refusal::new(Code::InvalidEnvelope, message) })
        }
    }
}
