//! Request templates that the operator defines for an upstream: `{alias}` and other placeholders are filled
//! in for every request (`src/background/provision/broker.rs`), `${NAME}` once, with a secret from the
//! environment.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

/// A request template.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The HTTP method.
    #[serde(default = "post")]
    pub method: String,
    /// The URL.
    pub url: String,
    /// Header names and values; `${NAME}` refers to an environment variable.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A JSON body; its strings may also contain `${NAME}`.
    #[serde(default)]
    pub body: Option<Value>,
    /// Secrets that were filled in.
    #[serde(skip)]
    pub secrets: Vec<String>,
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url)
    }
}

fn post() -> String {
    "POST".to_owned()
}

/// Checks that a URL has a supported scheme.
pub(super) fn address(url: &str) -> Result<&str, String> {
    if url.starts_with("http://") || url.starts_with("https://") {
        return Ok(url);
    }
    Err(format!("`{url}` is no http:// or https:// URL"))
}

/// Replaces `${NAME}` in a text by secrets.
pub(super) fn fill(
    text: &str,
    secret: &dyn Fn(&str) -> Option<String>,
    secrets: &mut Vec<String>,
) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or("a `${` is not closed")?;
        let value = secret(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| format!("the variable {name} is not set"))?;
        if value.contains('{') {
            return Err(format!("the variable {name} has a `{{`, which would be taken for a place"));
        }
        filled.push_str(before);
        filled.push_str(&value);
        secrets.push(value);
        rest = after;
    }
    Ok(filled + rest)
}

impl Template {
    /// Fills in the secrets, and checks that all placeholders are known.
    pub(super) fn check(
        mut self,
        what: &str,
        secret: &dyn Fn(&str) -> Option<String>,
        known: &[&str],
        budgets: bool,
    ) -> Result<Self, String> {
        let of = |why: String| format!("`{what}`: {why}");
        address(&self.url).map_err(of)?;
        if self.url.contains("${") {
            return Err(
                of("a secret does not belong into `url`; put it into `headers` or `body`".to_owned()),
            );
        }
        for place in self.places() {
            let budget =
                budgets && place.strip_prefix("budget.").is_some_and(|currency| !currency.is_empty());
            if !budget && !known.contains(&place.as_str()) {
                return Err(of(format!("nothing is known for the place {{{place}}}")));
            }
        }
        let mut secrets = Vec::new();
        for value in self.headers.values_mut() {
            *value = fill(value, secret, &mut secrets).map_err(of)?;
        }
        if let Some(body) = &mut self.body {
            fill_all(body, secret, &mut secrets).map_err(of)?;
        }
        self.secrets = secrets;
        Ok(self)
    }

    /// Returns the placeholders.
    #[must_use]
    pub fn places(&self) -> Vec<String> {
        let mut places = Vec::new();
        note(&self.url, &mut places);
        for value in self.headers.values() {
            note(value, &mut places);
        }
        self.body.iter().for_each(|body| note_all(body, &mut places));
        places
    }

    /// Returns whether it contains this placeholder.
    #[must_use]
    pub fn uses(&self, place: &str) -> bool {
        self.places().iter().any(|used| used == place)
    }
}

fn fill_all(
    value: &mut Value,
    secret: &dyn Fn(&str) -> Option<String>,
    secrets: &mut Vec<String>,
) -> Result<(), String> {
    match value {
        Value::String(text) => *text = fill(text, secret, secrets)?,
        Value::Array(items) => items.iter_mut().try_for_each(|item| fill_all(item, secret, secrets))?,
        Value::Object(members) => {
            members.values_mut().try_for_each(|item| fill_all(item, secret, secrets))?;
        }
        _ => {}
    }
    Ok(())
}

fn note(text: &str, places: &mut Vec<String>) {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((place, after)) = after.split_once('}') else { return };
        if !before.ends_with('$') {
            places.push(place.to_owned());
        }
        rest = after;
    }
}

fn note_all(value: &Value, places: &mut Vec<String>) {
    match value {
        Value::String(text) => note(text, places),
        Value::Array(items) => items.iter().for_each(|item| note_all(item, places)),
        Value::Object(members) => members.values().for_each(|item| note_all(item, places)),
        _ => {}
    }
}
