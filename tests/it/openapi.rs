//! The OpenAPI document: the served one equals the checked-in one, and every operation is documented.

mod unknown;

use std::collections::HashSet;

use entente_api::app;

use entente_harness::{Value, World, conformity};

/// Returns the operations of a document: path, method, operation.
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
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/entente.json");
    let checked_in = std::fs::read_to_string(path).unwrap();
    assert!(served.text == checked_in, "openapi/entente.json is out of date: run `make bless` and commit it");
    // Also where a client with a base URL looks; it needs no key.
    for path in ["//api/v1/openapi.json", "//v1/openapi.json"] {
        let same = world.anon().get(path).await;
        assert_eq!((same.status, same.header("content-type")), (200, "application/json"), "{path}");
        assert!(same.text == served.text, "{path} is another document");
    }
    world.end().await;
}

#[tokio::test]
async fn the_documentation_lists_every_operation_and_shows_it_with_its_group() {
    let world = World::start().await;
    let whole = world.anon().get("//openapi.json").await.ok();
    let page = world.anon().get("//docs").await;
    assert_eq!(page.status, 200);
    assert_eq!(world.anon().get("//docs/").await.text, page.text);
    assert!(
        page.text.contains("<h2>Keys</h2>") && page.text.contains("<code>Idempotency-Key</code>"),
        "no introduction"
    );
    let mut left: HashSet<(String, String)> =
        operations(&whole).into_iter().map(|(path, method, _)| (path, method)).collect();
    let settings = world.anon().get("//docs/api/swagger-initializer.js").await.text;
    for tag in whole["tags"].as_array().unwrap() {
        let name = tag["name"].as_str().unwrap();
        let file = format!("/docs/groups/{name}.json");
        assert!(settings.contains(&file), "Swagger UI does not know {name}:\n{settings}");
        let part = world.anon().get(&format!("/{file}")).await;
        assert!(part.text.len() < 700_000, "{name} has {} bytes", part.text.len());
        let part = part.ok();
        for (path, method, operation) in operations(&part) {
            assert_eq!(operation, whole["paths"][&path][method.to_lowercase()]);
            let link = format!("#/{name}/{}", operation["operationId"].as_str().unwrap());
            assert!(page.text.contains(&link), "{link} is not on the page");
            left.remove(&(path, method));
        }
        // Whatever it refers to is in it.
        let text = part.to_string();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let schema = reference.split('"').next().unwrap();
            assert!(part["components"]["schemas"].get(schema).is_some(), "{name} lacks {schema}");
        }
    }
    assert!(left.is_empty(), "in no group: {left:?}");
    assert_eq!(world.anon().get("//docs/groups/none.json").await.status, 404);
    assert!(world.anon().get("//docs/api/").await.text.contains("swagger-ui"));
    assert_eq!(world.anon().get("//docs/api/swagger-ui-bundle.js").await.status, 200);
    world.end().await;
}

#[test]
fn every_operation_is_documented() {
    let document: Value = serde_json::from_str(&app::document().json).unwrap();
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
        for status in around(&path, &method, &operation) {
            if !responses.contains_key(status) {
                fault(&format!("it can answer with {status}, and does not say so"));
            }
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

/// Returns the statuses that the middleware can answer with, and those that every write can.
fn around(path: &str, method: &str, operation: &Value) -> Vec<&'static str> {
    if !path.starts_with("/api/") {
        return Vec::new();
    }
    let (keyed, body) = (operation.get("security").is_none(), operation.get("requestBody").is_some());
    let mut statuses = vec!["429", "500", "503"];
    if keyed {
        statuses.extend(["401", "403", "422"]);
    }
    if path.contains('{') {
        statuses.push("404");
    }
    if keyed && method != "GET" {
        statuses.extend(["404", "409"]);
    }
    if body {
        statuses.extend(["400", "413", "422"]);
    }
    statuses
}

#[test]
fn failures_are_said_in_the_form_that_they_have() {
    let document: Value = serde_json::from_str(&app::document().json).unwrap();
    let mut seen = 0;
    let mut faults = Vec::new();
    for (path, method, operation) in operations(&document) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            if status.as_str() < "400" || path == "/readyz" {
                continue;
            }
            seen += 1;
            let content = response["content"].as_object().unwrap();
            let form =
                content.get("application/problem+json").and_then(|body| body["schema"]["$ref"].as_str());
            let jobs =
                ["jobs", "workers", "arcp"].iter().any(|first| path.starts_with(&format!("/api/v1/{first}")))
                    || (path == "/api/v1/credentials" && method == "GET")
                    || path == "/api/v1/credentials/{credential_id}/retry";
            let name = if jobs { "JobProblemBody" } else { "ProblemBody" };
            if content.len() != 1 || form != Some(&format!("#/components/schemas/{name}")) {
                faults.push(format!("{method} {path} {status}: {response}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen > 1_500, "only {seen} failures were found");
}

/// The document lists enum values as they are on the wire, not by their names in the code.
#[test]
fn words_are_written_as_they_are_sent() {
    let document: Value = serde_json::from_str(&app::document().json).unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let codes: Vec<&str> = entente_domain::refusal::Code::ALL.iter().map(|code| code.wire()).collect();
    assert_eq!(schemas["Code"]["enum"], serde_json::json!(codes));
    let mut lists = 0;
    for (name, schema) in schemas {
        let Some(words) = schema["enum"].as_array() else { continue };
        lists += 1;
        for word in words.iter().filter_map(Value::as_str) {
            let mixed = word.contains(|c: char| c.is_ascii_uppercase())
                && word.contains(|c: char| c.is_ascii_lowercase());
            assert!(!mixed, "{name} has `{word}`");
        }
    }
    assert!(lists > 60, "only {lists} lists were found");
}

/// `allOf` of closed objects accepts nothing, because each part refuses the members of the others.
#[test]
fn no_form_is_put_together_of_parts() {
    let document: Value = serde_json::from_str(&app::document().json).unwrap();
    let mut left = vec![(String::new(), &document)];
    while let Some((place, value)) = left.pop() {
        assert!(value.get("allOf").is_none(), "{place}: {value}");
        if let Value::Object(members) = value {
            left.extend(members.iter().map(|(name, member)| (format!("{place}/{name}"), member)));
        }
        if let Value::Array(items) = value {
            left.extend(items.iter().enumerate().map(|(at, item)| (format!("{place}/{at}"), item)));
        }
    }
}

/// Every example matches its schema.
#[test]
fn examples_are_what_they_are_examples_of() {
    let document: Value = serde_json::from_str(&app::document().json).unwrap();
    let mut faults = Vec::new();
    let mut seen = 0;
    let mut left = vec![(String::new(), &document)];
    while let Some((place, value)) = left.pop() {
        let Value::Object(members) = value else {
            if let Value::Array(items) = value {
                left.extend(items.iter().enumerate().map(|(at, item)| (format!("{place}/{at}"), item)));
            }
            continue;
        };
        // A schema has its own examples; a parameter or body has them beside its schema.
        let (form, inside) = match members.get("schema") {
            Some(_) => (format!("{place}/schema"), true),
            None => (place.clone(), false),
        };
        let is_form = inside
            || ["type", "$ref", "oneOf", "anyOf", "enum"].iter().any(|word| members.contains_key(*word));
        let named = place.ends_with("/properties") || place.ends_with("/schemas");
        if is_form && !named {
            let several = members.get("examples").and_then(Value::as_array).into_iter().flatten();
            for example in members.get("example").into_iter().chain(several) {
                seen += 1;
                let wrong = conformity::faults(&form, example);
                faults.extend(wrong.iter().map(|fault| format!("{form}: {example}: {fault}")));
            }
        }
        let inner =
            members.iter().filter(|(name, _)| named || !["example", "examples"].contains(&name.as_str()));
        left.extend(inner.map(|(name, member)| (format!("{place}/{}", conformity::step(name)), member)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen > 200, "only {seen} examples were found");
}

/// Follows references until it finds an example.
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
    let document: Value = serde_json::from_str(&app::document().json).unwrap();
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

/// A body is required exactly where the document says so, and an operation without a documented body reads none.
#[tokio::test]
async fn bodies_are_required_where_they_are_said_to_be() {
    let world = World::start().await;
    let admin = world.admin().await.with("if-match", "1");
    let document: Value = serde_json::from_str(&app::document().json).unwrap();
    let mut faults = Vec::new();
    for (path, method, operation) in operations(&document) {
        // A webhook's body is read only after its trigger is found.
        if method == "GET" || path.starts_with("/api/v1/hooks/") {
            continue;
        }
        // A body is read before the path's ids are looked up.
        let nowhere: Vec<&str> =
            path.split('/').map(|part| if part.starts_with('{') { "nowhere" } else { part }).collect();
        let nowhere = format!("/{}", nowhere.join("/"));
        let (body, sent) = match operation.get("requestBody") {
            Some(body) if body["required"] == true => ("required", None),
            Some(_) => ("optional", None),
            None => ("none", Some("{".to_owned())),
        };
        let reply = admin.send(&method, &nowhere, sent).await;
        // Envelopes have error codes of their own.
        let refused = [400, 401, 422].contains(&reply.status);
        let unread = reply.status == 400;
        if (body == "required" && !refused) || (body != "required" && unread) {
            faults.push(format!("{method} {path} (body: {body}) answered {} {}", reply.status, reply.text));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    world.end().await;
}
