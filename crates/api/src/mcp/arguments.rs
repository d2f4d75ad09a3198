//! Arguments of tools: reads those that arrive in another form than the schema's, and explains faults in terms of the tool's
//! own arguments instead of the operation's (MCP-W-6.4).

use std::fmt::Write as _;

use entente_domain::canonical::numbers;
use entente_domain::refusal::{Code, FieldError, Refusal};
use entente_http::error::{Detail, Problem, ProblemBody};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Tool;

/// First part of the location of a fault that [`explained`] has found: it is in terms of the tool's arguments already. All
/// other faults are of the operation's `body`.
const ARGUMENTS: &str = "arguments";

/// Maximum number of faults that one refusal names.
const FAULTS: usize = 10;

/// Texts of operations about REST, each with the text for a tool.
const TEXTS: [(&str, &str); 8] = [
    (" in the body is wrong", " is wrong"),
    ("The body has the wrong shape", "The arguments have the wrong shape"),
    ("The body is not valid JSON", "The arguments are not valid JSON"),
    ("repeat your change with If-Match: ", "repeat your change with `version`: "),
    ("`If-Match`", "`version`"),
    ("with an Idempotency-Key", "with an `idempotency_key`"),
    ("the Entente-Next-Cursor header of the last page", "`next` of the last answer"),
    (
        "Register it first: PUT /api/v1/arcp/agents/",
        "Call claim_job with `register`, or PUT /api/v1/arcp/agents/",
    ),
];

/// Returns the arguments as JSON. Objects and lists that arrive as JSON text, as some models write them, are parsed.
pub(super) fn understood(tool: &Tool, arguments: Map<String, Value>) -> Vec<u8> {
    let value = Value::Object(arguments);
    // Only a type that cannot be written fails; then no argument is there.
    serde_json::to_vec(&Understood { schema: &tool.takes, value: &value }).unwrap_or_default()
}

/// A value that is written with the objects and lists in place of the JSON texts that stand for them.
struct Understood<'a> {
    schema: &'a Value,
    value: &'a Value,
}

impl Serialize for Understood<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let schema = self.schema;
        match self.value {
            Value::String(text) => match meant(schema, text) {
                Some(Meant::Json(value)) => Understood { schema, value: &value }.serialize(serializer),
                Some(Meant::Text(text)) => text.serialize(serializer),
                None => serializer.serialize_str(text),
            },
            Value::Object(members) => {
                let schema = &schema["properties"];
                let members = members
                    .iter()
                    .map(|(name, value)| (name, Understood { schema: &schema[name.as_str()], value }));
                serializer.collect_map(members)
            }
            Value::Array(items) => {
                let schema = &schema["items"];
                serializer.collect_seq(items.iter().map(|value| Understood { schema, value }))
            }
            other => other.serialize(serializer),
        }
    }
}

/// The object or the list that a text stands for.
enum Meant {
    /// As a value.
    Json(Value),
    /// As text, because a value would have another number (AEE-W-6.2): the parser of the arguments refuses it, or passes
    /// the text on.
    Text(Box<RawValue>),
}

/// Returns the JSON that a text stands for, where the schema takes an object or a list and no text.
fn meant(schema: &Value, text: &str) -> Option<Meant> {
    let (object, array) = (takes(schema, "object"), takes(schema, "array"));
    if !(object || array) || takes(schema, "string") {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    if !(object && value.is_object() || array && value.is_array()) {
        return None;
    }
    if numbers::rounded(text.as_bytes()).is_some() {
        return serde_json::from_str(text).ok().map(Meant::Text);
    }
    Some(Meant::Json(value))
}

/// Returns whether a schema names this type; one without a type names none.
fn takes(schema: &Value, kind: &str) -> bool {
    match &schema["type"] {
        Value::String(only) => only == kind,
        Value::Array(kinds) => kinds.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Returns the refusal of arguments that could not be parsed: one fault per argument, by the tool's schema.
pub(super) fn explained(tool: &Tool, arguments: &[u8], fault: Problem) -> Problem {
    if fault.code() != Code::InvalidRequest {
        return fault;
    }
    let Ok(value) = serde_json::from_slice::<Value>(arguments) else { return fault };
    let mut errors = Vec::new();
    judge(tool.name, &tool.takes, &value, &mut vec![ARGUMENTS.to_owned()], &mut errors);
    errors.truncate(FAULTS);
    let Some(first) = errors.first() else { return fault };
    let message = first.msg.clone();
    Refusal { errors, ..Refusal::new(Code::InvalidRequest, message) }.into()
}

/// Collects the faults of an object: unknown members, missing ones, and those of the wrong type.
fn judge(tool: &str, schema: &Value, value: &Value, loc: &mut Vec<String>, found: &mut Vec<FieldError>) {
    let (Some(properties), Some(members)) = (schema["properties"].as_object(), value.as_object()) else {
        return;
    };
    let place = if loc.len() > 1 { format!("`{}`", loc[1..].join(".")) } else { tool.to_owned() };
    let closed = schema["additionalProperties"] == false;
    let unknown = members.keys().filter(|name| closed && !properties.contains_key(*name));
    for name in unknown.take(FAULTS) {
        let taken: Vec<String> = properties.keys().map(|known| format!("`{known}`")).collect();
        let list = if taken.is_empty() { "no arguments".to_owned() } else { taken.join(", ") };
        add(loc, name, "unknown", format!("`{name}` is unknown: {place} takes {list}."), found);
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if members.get(name).is_none_or(Value::is_null) {
            let what = expected(&schema["properties"][name]);
            add(loc, name, "missing", format!("`{name}` is missing in {place}: {what}."), found);
        }
    }
    for (name, member) in members {
        let Some(schema) = properties.get(name).filter(|_| !member.is_null()) else { continue };
        if !fits(schema, member) {
            let message = format!("`{name}` must be {}, and is {}.", expected(schema), kind(member));
            add(loc, name, "type", message, found);
            continue;
        }
        loc.push(name.clone());
        judge(tool, schema, member, loc, found);
        for (index, item) in member.as_array().into_iter().flatten().enumerate() {
            // A list may have a hundred thousand faults.
            if found.len() >= FAULTS {
                break;
            }
            let schema = &schema["items"];
            if fits(schema, item) {
                loc.push(index.to_string());
                judge(tool, schema, item, loc, found);
                loc.pop();
            } else {
                let message = format!("Item {index} of `{name}` must be {}.", expected(schema));
                add(loc, &index.to_string(), "type", message, found);
            }
        }
        loc.pop();
    }
}

fn add(loc: &[String], name: &str, kind: &str, msg: String, found: &mut Vec<FieldError>) {
    let loc = loc.iter().cloned().chain([name.to_owned()]).collect();
    found.push(FieldError { kind: kind.to_owned(), loc, msg });
}

/// Returns whether a value has the type of a schema, its bounds and its words.
fn fits(schema: &Value, value: &Value) -> bool {
    if schema["type"].is_null() {
        return true;
    }
    let number = |bound: &str| schema[bound].as_i64();
    match value {
        Value::String(_) => {
            let words = schema["enum"].as_array();
            takes(schema, "string") && words.is_none_or(|words| words.contains(value))
        }
        Value::Number(n) => {
            let within = n.as_i64().is_some_and(|n| {
                number("minimum").is_none_or(|least| n >= least)
                    && number("maximum").is_none_or(|most| n <= most)
            });
            takes(schema, "number") || takes(schema, "integer") && within
        }
        Value::Bool(_) => takes(schema, "boolean"),
        Value::Object(_) => takes(schema, "object"),
        Value::Array(_) => takes(schema, "array"),
        Value::Null => takes(schema, "null"),
    }
}

/// Returns the values that a schema takes, in words.
fn expected(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> =
            words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return format!("one of {}", words.join(", "));
    }
    let bounds = (schema["minimum"].as_i64(), schema["maximum"].as_i64());
    let one = |kind: &str| match (kind, bounds) {
        ("integer", (Some(least), Some(i64::MAX))) => format!("a whole number from {least}"),
        ("integer", (Some(least), Some(most))) => format!("a whole number from {least} to {most}"),
        ("integer", _) => "a whole number".to_owned(),
        ("boolean", _) => "true or false".to_owned(),
        ("array", _) => "a list".to_owned(),
        ("object", _) => "an object".to_owned(),
        ("string", _) => "a text".to_owned(),
        (other, _) => format!("a {other}"),
    };
    match &schema["type"] {
        Value::String(kind) => one(kind),
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).map(one).collect::<Vec<_>>().join(" or ")
        }
        _ => "any JSON".to_owned(),
    }
}

/// Returns the type of a value, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "another number",
        Value::String(_) => "another text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns an error body in terms of the tool's arguments.
pub(super) fn renamed(tool: &Tool, mut body: ProblemBody) -> ProblemBody {
    let is_explained = |fault: &FieldError| fault.loc.first().is_some_and(|first| first == ARGUMENTS);
    // Such a message is the one of its first fault.
    if !body.errors.first().is_some_and(is_explained) {
        body.message = reworded(tool, &body.message);
    }
    for fault in &mut body.errors {
        if is_explained(fault) {
            "body".clone_into(&mut fault.loc[0]);
            continue;
        }
        fault.msg = reworded(tool, &fault.msg);
        let known = |name: &String| !tool.takes["properties"][name.as_str()].is_null();
        let Some(first) = fault.loc.get(1).filter(|name| !known(name)).cloned() else { continue };
        for (rest, own) in tool.names {
            match *rest {
                // All other members are members of this argument.
                "*" => fault.loc.insert(1, (*own).to_owned()),
                // The operation has one more level than the tool.
                rest if rest == first && own.is_empty() => drop(fault.loc.remove(1)),
                rest if rest == first => (*own).clone_into(&mut fault.loc[1]),
                _ => continue,
            }
            break;
        }
    }
    match &mut body.detail {
        Detail::Sentence(sentence) => sentence.clone_from(&body.message),
        Detail::Faults(faults) => faults.clone_from(&body.errors),
        Detail::Governance(_) | Detail::Choice(_) => {}
    }
    body
}

fn reworded(tool: &Tool, text: &str) -> String {
    let mut text = TEXTS.iter().fold(text.to_owned(), |text, (rest, own)| text.replace(rest, own));
    for (rest, own) in tool.names.iter().filter(|(rest, own)| *rest != "*" && !own.is_empty()) {
        text = text.replace(&format!("`{rest}`"), &format!("`{own}`"));
    }
    text
}

/// Returns the meaning of the faulty arguments and an example, if the arguments are at fault.
pub(super) fn hints(tool: &Tool, body: &ProblemBody) -> String {
    let faulty = [Code::InvalidRequest, Code::InvalidParameter].iter().any(|code| code.wire() == body.code);
    let mut hints = String::new();
    if body.errors.is_empty() && !faulty {
        return hints;
    }
    let mut named: Vec<&str> =
        body.errors.iter().filter_map(|fault| fault.loc.get(1)).map(String::as_str).collect();
    named.dedup();
    for name in named {
        if let Some(about) = tool.takes["properties"][name]["description"].as_str() {
            let _never_fails = write!(hints, "\n`{name}`: {about}");
        }
    }
    let _never_fails = write!(hints, "\nExample of {}: {}", tool.name, tool.example);
    hints
}
