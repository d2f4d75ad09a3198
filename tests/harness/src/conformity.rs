//! Checks all responses, and the requests that succeed, against the OpenAPI document, because generated clients rely
//! on it.
//! Paths that the document does not contain (pages, MCP, unknown paths) are not checked.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::{Registry, Validator};
use serde_json::{Map, Value, json};

use super::client::Reply;
use crate::peers::program::ROOT;

const BASE: &str = "https://entente.example/openapi.json";

struct Book {
    /// The document's paths as segments, each with its methods.
    paths: Vec<(Vec<String>, Map<String, Value>)>,
    registry: Registry<'static>,
    /// Cache of compiled schemas, by their JSON pointer.
    forms: Mutex<HashMap<String, Arc<Validator>>>,
}

static BOOK: LazyLock<Book> = LazyLock::new(|| {
    // The checked-in document; a separate test compares it with the served one.
    let path = Path::new(ROOT).join("openapi/entente.json");
    let document: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let document: &'static Value = Box::leak(Box::new(document));
    let registry = Registry::new().add(BASE, document).unwrap().prepare().unwrap();
    let paths = document["paths"].as_object().unwrap().iter();
    let paths = paths.map(|(path, item)| {
        (path.split('/').map(str::to_owned).collect(), item.as_object().unwrap().clone())
    });
    Book { paths: paths.collect(), registry, forms: Mutex::default() }
});

/// Returns the violations of the schema at `place`, a JSON pointer into the document.
pub fn faults(place: &str, value: &Value) -> Vec<String> {
    let form = BOOK.form(place);
    form.iter_errors(value).map(|error| format!("{error} (at `{}`)", error.instance_path())).collect()
}

/// Escapes a member name for a JSON pointer.
pub fn step(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

impl Book {
    fn form(&self, place: &str) -> Arc<Validator> {
        let known = self.forms.lock().unwrap().get(place).cloned();
        known.unwrap_or_else(|| {
            let place_in_uri = place.replace('{', "%7B").replace('}', "%7D");
            let form = json!({ "$ref": format!("{BASE}#{place_in_uri}") });
            let form = jsonschema::options().with_registry(&self.registry).build(&form);
            let form = Arc::new(form.unwrap_or_else(|e| panic!("the form at {place}: {e}")));
            self.forms.lock().unwrap().insert(place.to_owned(), Arc::clone(&form));
            form
        })
    }

    /// Returns the operation of a request and its JSON pointer. If several paths match, the one with the
    /// fewest parameters wins.
    fn operation(&self, method: &str, path: &str) -> Option<(String, &Value)> {
        let asked: Vec<&str> = path.split('/').collect();
        let fits = |(pattern, _): &&(Vec<String>, Map<String, Value>)| {
            let mut pairs = pattern.iter().zip(&asked);
            pattern.len() == asked.len()
                && pairs.all(|(known, asked)| known == asked || known.starts_with('{') && !asked.is_empty())
        };
        let parameters = |pattern: &[String]| pattern.iter().filter(|part| part.starts_with('{')).count();
        let (pattern, item) =
            self.paths.iter().filter(fits).min_by_key(|(pattern, _)| parameters(pattern))?;
        let method = method.to_lowercase();
        let place = format!("/paths/{}/{method}", step(&pattern.join("/")));
        item.get(&method).map(|operation| (place, operation))
    }
}

/// Checks a request and its response against the document.
///
/// # Panics
/// If one of them violates the document.
pub fn check(method: &str, url: &str, sent: Option<&str>, reply: &Reply) {
    let path = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = path.find('/').map_or("/", |at| &path[at..]);
    let path = path.split(['?', '#']).next().unwrap();
    let path = path.strip_prefix("/v1/").map_or_else(|| path.to_owned(), |rest| format!("/api/v1/{rest}"));
    let Some((place, operation)) = BOOK.operation(method, &path) else { return };
    let mut wrong = of_answer(&place, operation, reply);
    // With 207 the server refused a part of the request.
    if reply.status < 300 && reply.status != 207 {
        wrong.extend(of_request(&place, operation, sent));
    }
    assert!(
        wrong.is_empty(),
        "the document says otherwise ({place}): {} sent {} and got {} {}\n{}",
        reply.asked,
        sent.unwrap_or("nothing"),
        reply.status,
        reply.text,
        wrong.join("\n")
    );
}

fn of_answer(place: &str, operation: &Value, reply: &Reply) -> Vec<String> {
    let Some(told) = operation["responses"].get(reply.status.to_string()) else {
        return vec![format!("an answer with {} is not spoken of", reply.status)];
    };
    if reply.text.is_empty() {
        return told.get("content").map(|_| "the answer has no body".to_owned()).into_iter().collect();
    }
    let media = reply.headers.get("content-type").map_or("", |value| value.to_str().unwrap());
    let media = media.split(';').next().unwrap().trim();
    if told["content"].get(media).is_none() {
        return vec![format!("an answer with {} is not of `{media}`", reply.status)];
    }
    // Lines of JSON are no JSON.
    if !media.ends_with("json") || media == "application/x-ndjson" {
        return Vec::new();
    }
    let form = format!("{place}/responses/{}/content/{}/schema", reply.status, step(media));
    faults(&form, &reply.json()).into_iter().map(|fault| format!("the answer: {fault}")).collect()
}

fn of_request(place: &str, operation: &Value, sent: Option<&str>) -> Vec<String> {
    let told = &operation["requestBody"];
    let Some(sent) = sent.filter(|sent| !sent.trim().is_empty()) else {
        let needed = told["required"] == true;
        return needed.then(|| "one is required, and none was sent".to_owned()).into_iter().collect();
    };
    if told["content"].get("application/json").is_none() {
        return Vec::new();
    }
    let Ok(sent) = serde_json::from_str(sent) else { return Vec::new() };
    let form = format!("{place}/requestBody/content/{}/schema", step("application/json"));
    // A member with two names appears in the schema under the name that responses use, so a "missing" one is
    // no error.
    let misses = |fault: &String| fault.contains("is a required property");
    let wrong = faults(&form, &sent).into_iter().filter(|fault| !misses(fault));
    wrong.map(|fault| format!("the request: {fault}")).collect()
}
