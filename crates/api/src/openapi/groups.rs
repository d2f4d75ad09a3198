//! The document's operations by group, and the part of the document that describes one group: a browser shows a part at once, and
//! takes seconds for the whole.

use std::collections::BTreeSet;

use entente_http::documents;
use serde_json::{Map, Value};

/// Methods that an operation can have.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// A group of operations: those with one tag.
#[derive(Debug)]
pub(crate) struct Group {
    /// The tag.
    pub name: String,
    /// Path of its part of the document.
    pub path: String,
    /// Its description.
    pub about: String,
    /// Its operations, in the document's order.
    pub operations: Vec<Line>,
    /// The part of the document.
    pub json: String,
    /// Entity tag of that part.
    pub tag: String,
}

/// An operation in a list.
#[derive(Debug)]
pub(crate) struct Line {
    /// Method in capitals.
    pub method: String,
    /// Path pattern.
    pub path: String,
    /// Its summary, in a few words.
    pub summary: String,
    /// Its id in the document.
    pub id: String,
}

/// Divides the document, in the order of its tags.
pub(super) fn divide(json: &str) -> Vec<Group> {
    let document: Value = serde_json::from_str(json).unwrap_or_default();
    let tags = document["tags"].as_array().into_iter().flatten();
    tags.map(|tag| group(&document, text(&tag["name"]), text(&tag["description"]))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn group(document: &Value, name: String, about: String) -> Group {
    let (mut paths, mut operations) = (Map::new(), Vec::new());
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        let mut kept = Map::new();
        for method in METHODS {
            let operation = &item[method];
            if operation["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| *tag == *name)) {
                operations.push(Line {
                    method: method.to_uppercase(),
                    path: path.clone(),
                    summary: text(&operation["summary"]),
                    id: text(&operation["operationId"]),
                });
                kept.insert(method.to_owned(), operation.clone());
            }
        }
        if !kept.is_empty() {
            // Members that all of a path's operations share, such as its parameters.
            let shared = item.as_object().into_iter().flatten();
            kept.extend(
                shared
                    .filter(|(member, _)| !METHODS.contains(&member.as_str()))
                    .map(|(member, value)| (member.clone(), value.clone())),
            );
            paths.insert(path.clone(), Value::Object(kept));
        }
    }
    let paths = Value::Object(paths);
    let mut part = document.clone();
    part["components"]["schemas"] = schemas(document, &paths);
    part["paths"] = paths;
    part["tags"] = serde_json::json!([{ "name": name, "description": about }]);
    // The introduction is on the page that leads here.
    part["info"]["description"] = about.as_str().into();
    let json = part.to_string();
    let path = format!("/docs/groups/{name}.json");
    Group { tag: documents::tag(json.as_bytes()), path, name, about, operations, json }
}

/// Returns the schemas that something refers to, and those that they refer to.
fn schemas(document: &Value, from: &Value) -> Value {
    let all = &document["components"]["schemas"];
    let (mut found, mut open) = (Map::new(), references(from));
    while let Some(name) = open.pop_first() {
        if !found.contains_key(&name) {
            let schema = all[&name].clone();
            open.extend(references(&schema));
            found.insert(name, schema);
        }
    }
    Value::Object(found)
}

/// Returns the names of the schemas that a value refers to.
fn references(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                let reference = members.get("$ref").and_then(Value::as_str);
                found.extend(
                    reference.and_then(|to| to.strip_prefix("#/components/schemas/")).map(str::to_owned),
                );
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    found
}
