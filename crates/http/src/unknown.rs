//! Unknown names in requests: members of a body, and query parameters. A misspelt one would have no effect and no error.
//!
//! `body` finds the unknown members of each JSON body that it parses. In strict mode they are refused (OI-2.13); otherwise they,
//! and unknown query parameters, are named in the header `Entente-Warning` of the response, whatever its status, and the
//! members also in `warnings` of the JSON object that a 2xx response consists of. `announce`, which the middleware calls,
//! writes both. A repeated request is parsed again, so its replayed response has the same warning.
//!
//! Not searched: bodies that are signed or stored as they came (envelopes, deliveries between servers, key rotations,
//! payload schemas, webhooks of other services), members that take any JSON, and progress reports of tasks.

mod names;
pub(crate) mod typed;
mod warning;

use actix_web::http::Method;
use actix_web::{HttpMessage as _, HttpRequest, web};
use entente_domain::refusal::spelling::nearest;
use entente_domain::refusal::{Code, FieldError, Refusal};
use erased_serde::Error;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_ignored::Path;
use serde_json::Value;

use self::typed::Typed;
pub(crate) use self::warning::announce;

/// Maximum number of names that are listed; the others are counted.
const LISTED: usize = 8;
/// Maximum characters of a segment of a location.
const SEGMENT_CHARS: usize = 64;

/// A member that only the server sets, and that clients send when they send an object as they read it (OI-3.2.6): accepted,
/// whatever it is, and without effect.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOnly;

impl<'de> Deserialize<'de> for ReadOnly {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not `IgnoredAny`, which is how unknown members are told.
        Value::deserialize(deserializer).map(|_ignored| Self)
    }
}

/// Finds the query parameters of an operation by its method and the pattern of its path, such as
/// `/api/v1/intents/{intent_id}`; `None` if there is no such operation. A state of the application.
#[derive(Debug, Clone, Copy)]
pub struct QueryNames(pub fn(&Method, &str) -> Option<&'static [String]>);

/// One unknown name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    /// Where it is: `["body", "messages", "3", "payloda"]`, `["query", "limt"]`.
    loc: Vec<String>,
    /// The known name that it most likely means.
    near: Option<String>,
}

impl Name {
    /// Returns the path of the name, without the part of the request that it is in.
    fn path(&self) -> String {
        self.loc.get(1..).unwrap_or_default().join(".")
    }

    fn fault(&self, ending: &str) -> FieldError {
        let part = self.loc.first().map_or("body", String::as_str);
        let meant = self.near.as_ref().map(|near| format!(" Did you mean `{near}`?")).unwrap_or_default();
        let msg = format!("`{}` in the {part} is unknown{ending}.{meant}", self.path());
        FieldError { kind: "unknown".to_owned(), loc: self.loc.clone(), msg }
    }
}

/// The unknown names of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unknown {
    names: Vec<Name>,
    /// Number of further names.
    more: usize,
}

impl Unknown {
    /// Whether all names are known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn found(&mut self, path: &Path<'_>) {
        if self.names.len() < LISTED {
            self.add(location(path), None);
        } else {
            self.more += 1;
        }
    }

    fn add(&mut self, loc: Vec<String>, near: Option<String>) {
        if self.names.len() < LISTED {
            self.names.push(Name { loc, near });
        } else {
            self.more += 1;
        }
    }

    /// Returns the names with their locations in the whole body, when only the part at `place` was parsed.
    #[must_use]
    pub fn below(mut self, place: &[&str]) -> Self {
        for name in &mut self.names {
            let at = name.loc.len().min(1);
            drop(name.loc.splice(at..at, place.iter().map(|part| (*part).to_owned())));
        }
        self
    }

    /// Adds the names to those that the response to the request will name.
    pub fn note(self, request: &HttpRequest) {
        let mut extensions = request.extensions_mut();
        let Some(known) = extensions.get_mut::<Self>() else {
            extensions.insert(self);
            return;
        };
        known.more += self.more;
        for Name { loc, near } in self.names {
            known.add(loc, near);
        }
    }

    /// Returns the refusal of the names (strict mode).
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        let told = |name: &Name| match &name.near {
            Some(near) => format!("`{}` (did you mean `{near}`?)", name.path()),
            None => format!("`{}`", name.path()),
        };
        let listed: Vec<String> = self.names.iter().map(told).collect();
        let more = if self.more > 0 { format!(" and {} more", self.more) } else { String::new() };
        let message = format!(
            "The body has members that this operation does not know: {}{more}. Correct or remove them; \
             /openapi.json lists those that it knows.",
            listed.join(", ")
        );
        let errors = self.names.iter().map(|name| name.fault("")).collect();
        Refusal { errors, ..Refusal::new(Code::InvalidRequest, message) }
    }
}

/// Parses JSON into the value, and finds the members that its type has no use for.
///
/// # Errors
/// It is not JSON, or not of this type.
pub(crate) fn parse(bytes: &[u8], value: &mut dyn Typed) -> Result<Unknown, Error> {
    let mut unknown = Unknown::default();
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let mut found = |path: Path<'_>| unknown.found(&path);
    value.fill(&mut <dyn erased_serde::Deserializer<'_>>::erase(serde_ignored::Deserializer::new(
        &mut json, &mut found,
    )))?;
    json.end().map_err(Error::custom)?;
    if !unknown.is_empty()
        && let Ok(body) = serde_json::from_slice::<Value>(bytes)
    {
        suggest(value, &body, &mut unknown);
    }
    Ok(unknown)
}

/// Finds the nearest known name of each unknown one. Parses again, which bodies without unknown members never pay for.
fn suggest(value: &dyn Typed, body: &Value, unknown: &mut Unknown) {
    let paths: Vec<&[String]> =
        unknown.names.iter().map(|name| name.loc.get(1..).unwrap_or_default()).collect();
    let known = names::known(value, body, &paths);
    for (name, known) in unknown.names.iter_mut().zip(known) {
        let own = name.loc.last().map_or("", String::as_str);
        name.near =
            known.and_then(|known| nearest(own, known.iter().copied())).map(|(_, near)| near.to_owned());
    }
}

/// Returns the location of a member in a body.
fn location(path: &Path<'_>) -> Vec<String> {
    match path {
        Path::Root => vec!["body".to_owned()],
        Path::Seq { parent, index } => with(location(parent), index.to_string()),
        Path::Map { parent, key } => with(location(parent), cut(key)),
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => {
            location(parent)
        }
    }
}

fn with(mut loc: Vec<String>, segment: String) -> Vec<String> {
    loc.push(segment);
    loc
}

/// Returns a name, cut if it is long.
fn cut(name: &str) -> String {
    match name.char_indices().nth(SEGMENT_CHARS) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

/// Notes the query parameters that the request's operation does not know.
fn note_parameters(request: &HttpRequest) {
    let (query, Some(pattern)) = (request.query_string(), request.match_pattern()) else { return };
    if query.is_empty() {
        return;
    }
    let Some(QueryNames(find)) = request.app_data::<QueryNames>() else { return };
    let pattern = match pattern.strip_prefix("/v1/") {
        Some(rest) => format!("/api/v1/{rest}"),
        None => pattern,
    };
    let Some(known) = find(request.method(), &pattern) else { return };
    let Ok(given) = web::Query::<Vec<(String, String)>>::from_query(query) else { return };
    let mut unknown = Unknown::default();
    for (name, _) in given.into_inner() {
        if !known.contains(&name) {
            // A query may have thousands of names, and only the listed ones are worth a comparison.
            let is_listed = unknown.names.len() < LISTED;
            let near = nearest(&name, known.iter().map(String::as_str).filter(|_| is_listed));
            unknown.add(vec!["query".to_owned(), cut(&name)], near.map(|(_, near)| near.to_owned()));
        }
    }
    if !unknown.is_empty() {
        unknown.note(request);
    }
}
