//! The OpenAPI document: what is served is what is checked in, and every operation is documented.

use std::collections::HashSet;

use entente::http::openapi::Document;

use super::harness::{Value, World};

/// The operations of a document: path, method, operation.
pub fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap().iter();
        item.map(move |(method, operation)| (path.clone(), method.to_uppercase(), operation.clone()))
    });
    each.collect()
}

#[tokio::test]
async fn the_served_document_is_the_one_checked_in() {
    let world = World::start().await;
    let served = world.anon().get("//openapi.json").await;
    served.is(200);
    let checked_in = include_str!("../../openapi/entente.json");
    assert!(served.text == checked_in, "openapi/entente.json is out of date: run `make bless` and commit it");
    let page = world.anon().get("//docs/").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("swagger-ui"), "{}", page.text);
    assert_eq!(world.anon().get("//docs/swagger-ui-bundle.js").await.status, 200);
    world.end().await;
}

#[test]
fn every_operation_is_documented() {
    let document: Value = serde_json::from_str(&Document::collect().json).unwrap();
    let mut ids = HashSet::new();
    let mut faults = Vec::new();
    for (path, method, operation) in operations(&document) {
        let mut fault = |what: &str| faults.push(format!("{method} {path}: {what}"));
        let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
        if id.is_empty() || !ids.insert(id) {
            fault("its operationId is missing or used twice");
        }
        if operation["summary"].as_str().is_none_or(str::is_empty) {
            fault("no summary");
        }
        if operation["tags"].as_array().is_none_or(Vec::is_empty) {
            fault("no tag");
        }
        let responses = operation["responses"].as_object().unwrap();
        if path.starts_with("/api/") && !(responses.contains_key("401") && responses.contains_key("429")) {
            fault("its errors are not said");
        }
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            if parameter["description"].as_str().is_none_or(str::is_empty) {
                fault(&format!("parameter {} is not described", parameter["name"]));
            }
        }
        if let Some(body) = operation.pointer("/requestBody/content/application~1json/schema")
            && !has_example(&document, body)
        {
            fault("its body has no example");
        }
        if let Some(text) = path.split('/').find_map(|part| part.strip_prefix('{')) {
            let name = text.trim_end_matches('}');
            let named = |p: &Value| p["name"] == name && p["in"] == "path";
            if !operation["parameters"].as_array().into_iter().flatten().any(named) {
                fault(&format!("path parameter {name} is not declared"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(ids.len() > 50, "only {} operations were found", ids.len());
}

/// Follows references until there is an example.
fn has_example(document: &Value, schema: &Value) -> bool {
    if schema.get("example").is_some() || schema.get("examples").is_some() {
        return true;
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#'));
        return has_example(document, target.unwrap_or_else(|| panic!("{reference} leads nowhere")));
    }
    ["oneOf", "allOf", "anyOf"]
        .iter()
        .any(|word| schema[*word].as_array().into_iter().flatten().any(|part| has_example(document, part)))
}

#[test]
fn every_reference_leads_somewhere() {
    let document: Value = serde_json::from_str(&Document::collect().json).unwrap();
    let mut left = vec![&document];
    let mut seen = 0;
    while let Some(value) = left.pop() {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            seen += 1;
            assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
        }
        match value {
            Value::Object(members) => left.extend(members.values()),
            Value::Array(items) => left.extend(items),
            _ => {}
        }
    }
    assert!(seen > 100, "only {seen} references were found");
}
