//! Parses a command's output, line by line: JSON that is an event, the job's end or a question; anything else
//! is a provisional result or a log line. Pure: `child.rs` supplies the lines, and `reports.rs` sends them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Meaning of a line.
#[derive(Debug)]
pub(super) enum Line {
    /// An event: `{"kind": …, "body": {…}}`, with an optional time `ts`.
    Event { kind: String, ts: Option<String>, body: Box<RawValue> },
    /// The job is done: `{"result": …}`, with an optional `summary`.
    Result { result: Box<RawValue>, summary: Option<String> },
    /// The job has failed: `{"error": {"code"?, "message", "retryable"?, "details"?}}`, or a text.
    Error(Failed),
    /// A request for authority: `{"authorize": {"capability", "target", "call_id"?, "reserve"?}}`.
    Authorize(Value),
    /// Progress to continue from: `{"checkpoint": …}`.
    Checkpoint(Box<RawValue>),
    /// The signals up to this number are taken: `{"ack": …}`, for commands that take signals.
    Acknowledge(i64),
    /// Other JSON: the result, if the command exits with 0 without naming one.
    Value(Box<RawValue>),
    /// Not JSON.
    Text,
}

/// A failure in the server's format (ARCP-W-11.2.9); the server supplies omitted members.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Failed {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<String>,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retryable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) details: Option<Value>,
}

impl Failed {
    /// Creates a failure with one of ARCP's codes.
    pub(super) fn with(code: &str, message: String) -> Self {
        Self { code: Some(code.to_owned()), message, ..Self::default() }
    }
}

/// Parses a line; numbers and the order of members keep their notation. To a command that takes no signals, an acknowledgement is a
/// value like any other.
pub(super) fn read(line: &str, takes_signals: bool) -> Line {
    let Ok(raw) = serde_json::from_str::<Box<RawValue>>(line) else { return Line::Text };
    object(&raw, takes_signals).unwrap_or(Line::Value(raw))
}

fn object(raw: &RawValue, takes_signals: bool) -> Option<Line> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).ok()?;
    let text = |name: &str| members.get(name).and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let value = |name: &str| members.get(name).and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
    let only = |names: &[&str]| members.keys().all(|name| names.contains(&name.as_str()));
    if let (Some(kind), Some(body)) = (text("kind"), members.get("body"))
        && body.get().starts_with('{')
    {
        return Some(Line::Event { kind, ts: text("ts"), body: (*body).to_owned() });
    }
    if let Some(result) = members.get("result")
        && only(&["result", "summary"])
    {
        return Some(Line::Result { result: (*result).to_owned(), summary: text("summary") });
    }
    if only(&["error"]) {
        return match value("error")? {
            Value::String(message) => Some(Line::Error(Failed { message, ..Failed::default() })),
            error @ Value::Object(_) => Some(Line::Error(Failed {
                code: error["code"].as_str().map(str::to_owned),
                message: error["message"].as_str().unwrap_or_default().to_owned(),
                retryable: error["retryable"].as_bool(),
                details: error.get("details").filter(|details| details.is_object()).cloned(),
            })),
            _ => None,
        };
    }
    if let Some(checkpoint) = members.get("checkpoint")
        && only(&["checkpoint"])
    {
        return Some(Line::Checkpoint((*checkpoint).to_owned()));
    }
    if takes_signals && only(&["ack"]) {
        return value("ack").and_then(|seq| seq.as_i64()).map(Line::Acknowledge);
    }
    if only(&["authorize"]) {
        return value("authorize").filter(Value::is_object).map(Line::Authorize);
    }
    None
}

/// Splits a text into pieces of at most `most` bytes, between characters.
pub(super) fn pieces(text: &str, most: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > most {
        let (piece, others) = rest.split_at(rest.floor_char_boundary(most));
        pieces.push(piece);
        rest = others;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_plain(line: &str) -> Line {
        read(line, false)
    }

    #[test]
    fn lines_are_what_they_look_like() {
        let event = read_plain(r#"{"kind":"metric","body":{"name":"cost.x","value":0.10,"unit":"USD"}}"#);
        assert!(
            matches!(event, Line::Event { kind, body, .. } if kind == "metric" && body.get().contains("0.10"))
        );
        assert!(matches!(read_plain(r#"{"kind":"metric"}"#), Line::Value(_)));
        assert!(matches!(read_plain(r#"{"kind":"metric","body":3}"#), Line::Value(_)));
        assert!(
            matches!(read_plain(r#"{"result":null}"#), Line::Result { result, .. } if result.get() == "null")
        );
        assert!(matches!(read_plain(r#"{"result":1,"other":2}"#), Line::Value(_)));
        assert!(
            matches!(read_plain(r#"{"error":"no"}"#), Line::Error(Failed { code: None, message, .. }) if message == "no")
        );
        assert!(
            matches!(read_plain(r#"{"error":{"code":"TIMEOUT","message":"m"}}"#), Line::Error(Failed { code: Some(c), .. }) if c == "TIMEOUT")
        );
        assert!(matches!(read_plain(r#"{"error":3}"#), Line::Value(_)));
        assert!(matches!(read_plain(r#"{"authorize":{"capability":"tool.call"}}"#), Line::Authorize(_)));
        assert!(matches!(read_plain(r#"{"checkpoint":[1]}"#), Line::Checkpoint(at) if at.get() == "[1]"));
        assert!(matches!(read_plain(r#"{"checkpoint":1,"x":2}"#), Line::Value(_)));
        assert!(matches!(read_plain("{}"), Line::Value(_)));
        assert!(matches!(read_plain("17"), Line::Value(_)));
        assert!(matches!(read_plain(r#"{"ack":3}"#), Line::Value(_)));
        assert!(matches!(read(r#"{"ack":3}"#, true), Line::Acknowledge(3)));
        assert!(matches!(read(r#"{"ack":"x"}"#, true), Line::Value(_)));
        assert!(matches!(read_plain("hello"), Line::Text));
        assert!(matches!(read_plain("{"), Line::Text));
    }

    #[test]
    fn pieces_are_cut_between_letters_and_lose_nothing() {
        let text = "aé€😀".repeat(50);
        for most in 4..20 {
            let cut = pieces(&text, most);
            assert!(cut.iter().all(|piece| !piece.is_empty() && piece.len() <= most));
            assert_eq!(cut.concat(), text);
        }
        assert_eq!(pieces("", 8), Vec::<&str>::new());
    }
}
