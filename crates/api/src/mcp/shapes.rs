//! Concise builders for the JSON Schemas of tools' arguments and results. Argument schemas are closed:
//! unknown members are refused, so that a misspelt one is noticed. Result schemas are open, so that they can
//! grow.

use serde_json::{Map, Value, json};

/// A member of an object.
pub struct Member {
    name: &'static str,
    schema: Value,
    required: bool,
}

/// A required member.
pub fn must(name: &'static str, schema: Value) -> Member {
    Member { name, schema, required: true }
}

/// An optional member.
pub fn may(name: &'static str, schema: Value) -> Member {
    Member { name, schema, required: false }
}

/// A text.
pub fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

/// One of the given words.
pub fn word(about: &str, words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words, "description": about })
}

/// A whole number within bounds.
pub fn whole(about: &str, least: i64, most: i64) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most, "description": about })
}

/// A boolean.
pub fn flag(about: &str) -> Value {
    json!({ "type": "boolean", "description": about })
}

/// An object with any members.
pub fn free(about: &str) -> Value {
    json!({ "type": "object", "description": about })
}

/// Any JSON value.
pub fn any(about: &str) -> Value {
    json!({ "description": about })
}

/// A list.
#[expect(clippy::needless_pass_by_value, reason = "a schema is made where it is used")]
pub fn list(items: Value, about: &str) -> Value {
    json!({ "type": "array", "items": items, "description": about })
}

/// The same schema, or null.
pub fn nullable(mut schema: Value) -> Value {
    if let Some(kind) = schema.get("type").cloned() {
        schema["type"] = json!([kind, "null"]);
    }
    schema
}

/// A number, or the same number as text, so that no digit is lost.
pub fn number(about: &str) -> Value {
    json!({ "type": ["number", "string"], "description": about })
}

/// An idempotency key, of all actions or of one.
pub fn retry_key(action: &str) -> Value {
    text(&format!("{action}The same key acts once."))
}

/// The name of a reading cursor.
pub fn cursor() -> Value {
    text("A name: the server keeps your place under it.")
}

/// Removes descriptions and words from a schema of results, whose names a model understands: every byte of the list of
/// tools costs its readers tokens.
pub fn strip(schema: &mut Value) {
    if let Some(members) = schema.as_object_mut() {
        members.remove("description");
        members.remove("enum");
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(strip);
    }
    if let Some(items) = schema.get_mut("items") {
        strip(items);
    }
}

/// The schema of a tool's arguments.
pub fn takes(members: Vec<Member>) -> Value {
    let mut schema = gives(members);
    schema["additionalProperties"] = Value::Bool(false);
    schema
}

/// The schema of a tool's result, or of any object that may have further members.
pub fn gives(members: Vec<Member>) -> Value {
    let required: Vec<&str> = members.iter().filter(|member| member.required).map(|m| m.name).collect();
    let mut schema = json!({ "type": "object" });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let properties: Map<String, Value> =
        members.into_iter().map(|member| (member.name.to_owned(), member.schema)).collect();
    schema["properties"] = Value::Object(properties);
    schema
}
