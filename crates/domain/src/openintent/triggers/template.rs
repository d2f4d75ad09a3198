//! Template placeholders (RFC-0017 §5): `{{ … }}` contains a dotted path into the firing's input. There are no
//! expressions, and inserted values are never expanded again.

use serde_json::{Map, Value};

use crate::limits::{STATE_BYTES, TRIGGER_TEMPLATE_BYTES};
use crate::refusal::{Code, Refusal};

/// Valid roots of a path; `payload`, `source_intent_id` and `today` are names from the vendor's guide.
const ROOTS: [&str; 8] =
    ["trigger", "event", "body", "payload", "headers", "query", "source_intent_id", "today"];

/// The template could not be filled in; the text ends a sentence that begins with the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfilled(pub String);

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Path(&'a str),
}

/// Checks a client's template: its size, and that its placeholders are valid paths.
///
/// # Errors
/// [`Code::Unprocessable`], [`Code::TooLarge`].
pub fn check(member: &str, template: &Value) -> Result<(), Refusal> {
    let bytes = serde_json::to_string(template).map_or(0, |text| text.len());
    if bytes > TRIGGER_TEMPLATE_BYTES {
        let message = format!("`{member}` has {bytes} bytes, at most {TRIGGER_TEMPLATE_BYTES} are allowed.");
        return Err(Refusal::field(Code::TooLarge, member, "too_large", message));
    }
    check_value(template)
        .map_err(|why| Refusal::field(Code::Unprocessable, member, "template", format!("`{member}` {why}.")))
}

fn check_value(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => pieces(text).map(|_pieces| ()),
        Value::Array(items) => items.iter().try_for_each(check_value),
        Value::Object(members) => members.values().try_for_each(check_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// Splits a text into plain text and placeholders.
fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((path, after)) = after.split_once("}}") else {
            return Err("opens `{{` without closing it".to_owned());
        };
        let path = path.trim();
        let name = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        };
        if !path.split('.').all(name) {
            return Err("has in `{{ }}` what is no path of names between points".to_owned());
        }
        let root = path.split('.').next().unwrap_or_default();
        if !ROOTS.contains(&root) {
            return Err(format!("speaks of `{root}`; a path begins with one of {}", ROOTS.join(", ")));
        }
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Path(path));
        rest = after;
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

/// Fills in templates, up to the maximum size of an intent's state.
#[derive(Debug)]
pub struct Filling<'a> {
    known: &'a Map<String, Value>,
    left: usize,
}

impl<'a> Filling<'a> {
    /// Creates a filling from the input: a member for each available root.
    #[must_use]
    pub fn new(known: &'a Map<String, Value>) -> Self {
        Self { known, left: STATE_BYTES }
    }

    /// Fills in a value.
    ///
    /// A text that consists of one placeholder becomes the referenced value, of any type; a placeholder within a text
    /// must refer to a string, number or boolean.
    ///
    /// # Errors
    /// [`Unfilled`]: the value is missing, cannot be part of a text, or exceeds the size.
    pub fn value(&mut self, template: &Value) -> Result<Value, Unfilled> {
        Ok(match template {
            Value::String(text) => self.string(text)?,
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => Value::Object(self.object(members)?),
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain.clone(),
        })
    }

    /// As [`Self::value`], for an object; the names of its members are not templates.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub fn object(&mut self, members: &Map<String, Value>) -> Result<Map<String, Value>, Unfilled> {
        let mut filled = Map::new();
        for (name, value) in members {
            filled.insert(name.clone(), self.value(value)?);
        }
        Ok(filled)
    }

    /// As [`Self::value`], if only a text is allowed.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub fn text(&mut self, template: &str) -> Result<String, Unfilled> {
        let mut text = String::new();
        for piece in pieces(template).map_err(Unfilled)? {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Path(path) => text.push_str(&self.word(path)?),
            }
        }
        self.spend(text.len())?;
        Ok(text)
    }

    fn string(&mut self, template: &str) -> Result<Value, Unfilled> {
        if let [Piece::Path(path)] = pieces(template).map_err(Unfilled)?[..] {
            let found = self.find(path)?.clone();
            self.spend(serde_json::to_string(&found).map_or(0, |text| text.len()))?;
            return Ok(found);
        }
        self.text(template).map(Value::String)
    }

    fn word(&mut self, path: &str) -> Result<String, Unfilled> {
        let word = match self.find(path)? {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(word) => word.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(Unfilled(format!(
                    "has `{path}` within a text, where there is no text or number"
                )));
            }
        };
        self.spend(word.len())?;
        Ok(word)
    }

    fn find(&self, path: &str) -> Result<&'a Value, Unfilled> {
        let mut parts = path.split('.');
        let mut place = parts.next().and_then(|root| self.known.get(root));
        for part in parts {
            place = place.and_then(|place| match place {
                Value::Object(members) => members.get(part),
                Value::Array(items) => part.parse::<usize>().ok().and_then(|index| items.get(index)),
                _ => None,
            });
        }
        place.ok_or_else(|| Unfilled(format!("speaks of `{path}`, which is not there")))
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Unfilled> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| Unfilled(format!("would come to more than {STATE_BYTES} bytes")))?;
        Ok(())
    }
}
