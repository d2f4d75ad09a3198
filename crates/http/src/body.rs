//! Extracts JSON bodies, path ids and query parameters from requests; each error names the place and the fault.

mod params;

use std::fmt::Display;
use std::future::Future;
use std::io::ErrorKind;
use std::pin::Pin;
use std::time::Duration;

use actix_web::dev::Payload as Incoming;
use actix_web::{FromRequest, HttpRequest, web};
use bytes::Bytes;
use entente_domain::canonical::{inexact, numbers};
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::IntentId;
use entente_domain::limits::PAGE;
use entente_domain::log::event_types::EventTypes;
use entente_domain::payload::scan;
use entente_domain::refusal::{Code, FieldError, Refusal};
use entente_runtime::deadlines::reading;
use erased_serde::{Deserializer, Error};
use futures_util::StreamExt as _;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::value::RawValue;

pub use self::params::{
    EventTypesParam, IdempotencyKey, IfMatch, IfMatchMaybe, LastEventId, LastEventIdQuery, Limit100,
    Limit1000, SinceParam,
};
use super::bodies;
use super::caller::state_of;
use super::error::Problem;
use super::head::is_head;
use super::unknown;
use super::unknown::typed::Typed;
use super::wire::SDK_EVENT_TYPES;
use crate::HttpState;

/// Log text of a parser that reports success and leaves no value, which none does.
const UNFILLED: &str = "a body was parsed into nothing";

/// A parsed JSON body together with its raw bytes.
#[derive(Debug)]
pub struct Body<T> {
    /// The parsed value.
    pub value: T,
    bytes: Bytes,
}

impl<T: DeserializeOwned + 'static> FromRequest for Body<T> {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Incoming) -> Self::Future {
        let bytes = Bytes::from_request(request, payload);
        let request = request.clone();
        Box::pin(async move {
            let bytes = all(bytes).await?;
            let value = read(&request, &bytes)?;
            Ok(Self { value, bytes })
        })
    }
}

impl<T> Body<T> {
    /// Returns the request's idempotency key, if it has one, with a fingerprint of its method, path and body.
    ///
    /// # Errors
    /// The key is invalid.
    pub fn once(&self, request: &HttpRequest) -> Result<Option<Idempotency>, Problem> {
        once(request, &self.bytes)
    }

    /// As [`Self::once`]; without the header, `key` from the body counts.
    ///
    /// # Errors
    /// As [`Self::once`].
    pub fn once_or(&self, request: &HttpRequest, key: Option<&str>) -> Result<Option<Idempotency>, Problem> {
        match (once(request, &self.bytes)?, key) {
            (None, Some(key)) => keyed(request, key, &self.bytes).map(Some),
            (once, _) => Ok(once),
        }
    }
}

fn once(request: &HttpRequest, bytes: &[u8]) -> Result<Option<Idempotency>, Problem> {
    let Some(key) = request.headers().get("idempotency-key") else { return Ok(None) };
    // A non-text key gets the same refusal as one with invalid characters.
    keyed(request, key.to_str().unwrap_or("\u{0}"), bytes).map(Some)
}

fn keyed(request: &HttpRequest, key: &str, bytes: &[u8]) -> Result<Idempotency, Problem> {
    let operation = format!("{} {}", request.method(), request.path());
    Ok(Idempotency::new(key, &operation, bytes)?)
}

/// As [`Body::once`], but without the body in the fingerprint: requests with the same key count as the same, whatever
/// their bodies.
///
/// # Errors
/// The key is invalid.
pub fn once_of(request: &HttpRequest) -> Result<Option<Idempotency>, Problem> {
    once(request, &[])
}

/// As [`once_of`], with only `about` in the fingerprint: the part of the body that can be hashed without making a
/// secret guessable.
///
/// # Errors
/// The key is invalid.
pub fn once_about(request: &HttpRequest, about: &str) -> Result<Option<Idempotency>, Problem> {
    once(request, about.as_bytes())
}

/// A request body as raw bytes.
#[derive(Debug)]
pub struct Raw(pub Bytes);

impl Raw {
    /// As [`Body::once`].
    ///
    /// # Errors
    /// The key is invalid.
    pub fn once(&self, request: &HttpRequest) -> Result<Option<Idempotency>, Problem> {
        once(request, &self.0)
    }
}

impl FromRequest for Raw {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Incoming) -> Self::Future {
        let bytes = Bytes::from_request(request, payload);
        Box::pin(async move { all(bytes).await.map(Self) })
    }
}

/// A request body that is read piece by piece, because it is larger than the memory for one.
pub struct Upload {
    request: HttpRequest,
    payload: Incoming,
}

impl FromRequest for Upload {
    type Error = Problem;
    type Future = std::future::Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Incoming) -> Self::Future {
        std::future::ready(Ok(Self { request: request.clone(), payload: payload.take() }))
    }
}

impl Upload {
    /// Lets the body arrive until `time` from now.
    pub fn extend(&self, time: Duration) {
        bodies::extend(&self.request, time);
    }

    /// Returns the next piece; `None` after the last. The request's deadline does not run meanwhile.
    ///
    /// # Errors
    /// The body does not come in time, or its sender is gone.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let _reading = reading();
        let piece = self.payload.next().await.transpose();
        piece.map_err(|e| unreadable(&e.into()))
    }
}

/// An optional JSON body; if it is missing, every member has its default (OI-3.2.2).
#[derive(Debug)]
pub struct OptionalBody<T>(pub Body<T>);

impl<T: DeserializeOwned + Default + 'static> FromRequest for OptionalBody<T> {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Incoming) -> Self::Future {
        let bytes = Bytes::from_request(request, payload);
        let request = request.clone();
        Box::pin(async move {
            let bytes = all(bytes).await?;
            let value = if bytes.trim_ascii().is_empty() { T::default() } else { read(&request, &bytes)? };
            Ok(Self(Body { value, bytes }))
        })
    }
}

/// Reads a whole body; the request's deadline does not run meanwhile.
async fn all(bytes: impl Future<Output = Result<Bytes, actix_web::Error>>) -> Result<Bytes, Problem> {
    let _reading = reading();
    bytes.await.map_err(|e| unreadable(&e))
}

fn unreadable(error: &actix_web::Error) -> Problem {
    use actix_web::error::PayloadError;
    match error.as_error::<PayloadError>() {
        Some(PayloadError::Overflow) => Refusal::new(
            Code::TooLarge,
            "The body is larger than this server takes (ENTENTE_MAX_BODY_BYTES). Send less at once.",
        )
        .into(),
        Some(PayloadError::Io(late)) if late.kind() == ErrorKind::TimedOut => Refusal::new(
            Code::RequestTimeout,
            "The body did not come in time (ENTENTE_BODY_SECONDS), and nothing was done. Send it again.",
        )
        .into(),
        Some(PayloadError::Io(error)) if error.kind() == ErrorKind::QuotaExceeded => {
            let refusal = error.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>());
            let unsaid =
                || Refusal::new(Code::RateLimited, "A quota of bytes is used up. Send it again later.");
            refusal.cloned().unwrap_or_else(unsaid).into()
        }
        _ => Refusal::new(Code::InvalidJson, format!("The body could not be read: {error}.")).into(),
    }
}

/// Parses a body, and names its unknown members in the response; in strict mode they are refused.
///
/// # Errors
/// As [`parse`]; [`Code::InvalidRequest`] in strict mode.
pub fn read<T: DeserializeOwned>(request: &HttpRequest, bytes: &[u8]) -> Result<T, Problem> {
    read_at(request, &[], bytes)
}

/// As [`read`], for the part at `place` of a body that is parsed in parts, such as `["messages", "3"]`.
///
/// # Errors
/// As [`read`].
pub fn read_at<T: DeserializeOwned>(
    request: &HttpRequest,
    place: &[&str],
    bytes: &[u8],
) -> Result<T, Problem> {
    let mut value: Option<T> = None;
    fill_at(request, place, bytes, &mut value)?;
    value.ok_or_else(|| Problem::internal(UNFILLED))
}

/// As [`read_at`], for a value of any type.
fn fill_at(
    request: &HttpRequest,
    place: &[&str],
    bytes: &[u8],
    value: &mut dyn Typed,
) -> Result<(), Problem> {
    scan(bytes)?;
    let unknown = unknown::parse(bytes, value).map_err(|e| explain(bytes, &e, value))?;
    check_numbers(bytes, value)?;
    if unknown.is_empty() {
        return Ok(());
    }
    let unknown = unknown.below(place);
    if state_of::<HttpState>(request)?.ctx.settings.strict {
        return Err(unknown.refusal().into());
    }
    unknown.note(request);
    Ok(())
}

/// Parses a body whose unknown members are legal, because it is signed as a whole, or that refuses them itself.
///
/// Input that cannot be stored or safely parsed is refused before the parser sees it.
///
/// # Errors
/// [`Code::InvalidJson`] if it is not JSON, [`Code::InvalidRequest`] with the location if it has the wrong shape,
/// [`Code::Unprocessable`] for a number that the parser would change, and the refusals of [`scan`].
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut value: Option<T> = None;
    fill(bytes, &mut value)?;
    value.ok_or_else(|| Problem::internal(UNFILLED))
}

/// As [`parse`], for a value of any type.
fn fill(bytes: &[u8], value: &mut dyn Typed) -> Result<(), Problem> {
    scan(bytes)?;
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let parsed = value.fill(&mut <dyn Deserializer<'_>>::erase(&mut json));
    parsed.and_then(|()| json.end().map_err(Error::custom)).map_err(|e| explain(bytes, &e, value))?;
    check_numbers(bytes, value)?;
    Ok(())
}

/// Refuses a number that no double holds, and that the parser has rounded (RFC 8785); members that are passed on as
/// text may have any number.
fn check_numbers(bytes: &[u8], value: &dyn Typed) -> Result<(), Refusal> {
    let Some(marked) = numbers::marked(bytes) else { return Ok(()) };
    let mut json = serde_json::Deserializer::from_slice(&marked);
    if value.check(&mut <dyn Deserializer<'_>>::erase(&mut json)).is_ok() && json.end().is_ok() {
        return Ok(());
    }
    Err(inexact(numbers::rounded(bytes).unwrap_or_default()))
}

/// Describes the fault in a body and its location. Parses again with path tracking, which valid bodies never pay for.
fn explain(bytes: &[u8], error: &Error, value: &dyn Typed) -> Refusal {
    let no_json = |fault: &dyn Display| {
        Refusal::new(Code::InvalidJson, format!("The body is not valid JSON: {fault}."))
    };
    // The error does not tell bad syntax from a wrong type, and the parser reports a number in place of a string as bad
    // syntax.
    if let Err(syntax) = serde_json::from_slice::<&RawValue>(bytes) {
        return no_json(&syntax);
    }
    if error.to_string().starts_with("number out of range") {
        return no_json(error);
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let Err(fault) = value.check(&mut <dyn Deserializer<'_>>::erase(tracked)) else {
        return Refusal::new(Code::InvalidRequest, format!("The body has the wrong shape: {error}."));
    };
    let mut loc = vec!["body".to_owned()];
    loc.extend(track.path().iter().filter_map(|segment| match segment {
        serde_path_to_error::Segment::Seq { index } => Some(index.to_string()),
        serde_path_to_error::Segment::Map { key } => Some(key.clone()),
        serde_path_to_error::Segment::Enum { .. } | serde_path_to_error::Segment::Unknown => None,
    }));
    // The text of a fault that no parser of JSON has passed on.
    let text = fault.to_string().replace("invalid type: unit value", "invalid type: null");
    let text = match text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text) {
        "expected value" => "it must be a string",
        text => text,
    };
    let kind = if let Some(rest) = text.strip_prefix("missing field `") {
        loc.extend(rest.split('`').next().map(str::to_owned));
        "missing"
    } else if text.starts_with("unknown variant") {
        "enum"
    } else {
        "type"
    };
    let place = loc[1..].join(".");
    let message = if place.is_empty() {
        format!("The body has the wrong shape: {text}.")
    } else {
        format!("`{place}` in the body is wrong: {text}.")
    };
    let errors = vec![FieldError { kind: kind.to_owned(), loc, msg: text.to_owned() }];
    Refusal { errors, ..Refusal::new(Code::InvalidRequest, message) }
}

/// Parses an id from a path.
///
/// A malformed id is reported as not found, like an unknown one.
///
/// # Errors
/// [`Code::NotFound`].
pub fn id<T: std::str::FromStr>(noun: &str, text: &str) -> Result<T, Problem> {
    Ok(id_of_item(noun, text)?)
}

/// As [`id`], for an id in an item of a list, whose refusal then says which item it is ([`Refusal::of_item`]).
///
/// # Errors
/// [`Code::NotFound`].
pub fn id_of_item<T: std::str::FromStr>(noun: &str, text: &str) -> Result<T, Refusal> {
    text.parse().map_err(|_no_id| Refusal::not_found(noun))
}

/// Parses ids in a body.
///
/// A malformed id is refused like one that names nothing on this intent.
///
/// # Errors
/// [`Code::Unprocessable`].
pub fn named<T: std::str::FromStr>(member: &str, texts: &[String]) -> Result<Vec<T>, Refusal> {
    let read = |text: &String| {
        text.parse().map_err(|_no_id| {
            let message = format!("`{member}` names `{text}`, which is nothing of this intent.");
            Refusal::field(Code::Unprocessable, member, "unknown", message)
        })
    };
    texts.iter().map(read).collect()
}

/// As [`named`], for a single optional id.
///
/// # Errors
/// As [`named`].
pub fn one<T: std::str::FromStr>(member: &str, text: Option<String>) -> Result<Option<T>, Refusal> {
    let texts: Vec<String> = text.filter(|text| !text.is_empty()).into_iter().collect();
    Ok(named(member, &texts)?.pop())
}

/// Parses the `intent_id` of a body.
///
/// # Errors
/// [`Code::InvalidRequest`] if it is missing, [`Code::NotFound`] if it is malformed.
pub fn intent_of(body: Option<&String>) -> Result<IntentId, Problem> {
    let Some(text) = body else {
        let message = "`intent_id` is missing: the intent that this is to belong to.";
        return Err(Refusal::field(Code::InvalidRequest, "intent_id", "missing", message).into());
    };
    id("intent", text)
}

/// Query parameters, parsed by hand so that errors have the usual form.
#[derive(Debug)]
pub struct Query {
    pairs: Vec<(String, String)>,
    /// Whether the client waits for headers only.
    head: bool,
}

impl FromRequest for Query {
    type Error = Problem;
    type Future = std::future::Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Incoming) -> Self::Future {
        std::future::ready(Self::of(request))
    }
}

fn parameter(name: &str, what: &str) -> Refusal {
    let mut refusal =
        Refusal::new(Code::InvalidParameter, format!("The parameter `{name}` is wrong: {what}."));
    refusal.errors = vec![FieldError {
        kind: "value".to_owned(),
        loc: vec!["query".to_owned(), name.to_owned()],
        msg: what.to_owned(),
    }];
    refusal
}

impl Query {
    /// Parses the parameters of a request.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`] if they cannot be decoded.
    pub fn of(request: &HttpRequest) -> Result<Self, Problem> {
        let parsed = web::Query::<Vec<(String, String)>>::from_query(request.query_string());
        let pairs = parsed.map_err(|e| parameter("query", &e.to_string()))?.into_inner();
        // As in bodies: values that cannot be stored cannot be searched for either.
        match pairs.iter().find(|(_, value)| value.contains('\0')) {
            Some((name, _)) => Err(parameter(name, "it has a NUL character").into()),
            None => Ok(Self { pairs, head: is_head(request) }),
        }
    }

    /// Returns a parameter's text, if it is present and not empty.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Returns the texts of a parameter that may be repeated.
    pub fn texts<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Parses a parameter with several values, with commas between them or repeated, as [`Self::parsed`].
    ///
    /// # Errors
    /// [`Code::InvalidParameter`].
    pub fn parsed_all<T>(
        &self,
        name: &str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, Problem> {
        let wrong = || Problem::from(parameter(name, &format!("it is not {what}")));
        let values = self.texts(name).flat_map(|text| text.split(',')).filter(|text| !text.is_empty());
        values.map(|text| read(text).ok_or_else(wrong)).collect()
    }

    /// Returns all parameters; the last value of a repeated one wins.
    #[must_use]
    pub fn all(self) -> serde_json::Map<String, serde_json::Value> {
        self.pairs.into_iter().map(|(name, value)| (name, value.into())).collect()
    }

    /// Parses a parameter with `read`; `what` names the expected form in the error.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`].
    pub fn parsed<T>(
        &self,
        name: &str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        self.text(name)
            .map(|text| read(text).ok_or_else(|| parameter(name, &format!("`{text}` is not {what}")).into()))
            .transpose()
    }

    /// Parses an integer from `least` to `most`; returns `default` if it is absent.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`].
    pub fn number(&self, name: &str, default: u32, least: u32, most: u32) -> Result<u32, Problem> {
        let what = format!("a whole number from {least} to {most}");
        let read = |text: &str| text.parse().ok().filter(|n| (least..=most).contains(n));
        Ok(self.parsed(name, &what, read)?.unwrap_or(default))
    }

    /// Parses the seconds of a long poll, `wait`, up to `most`; 0 if it is absent. A `HEAD` request never waits.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`].
    pub fn wait(&self, most: u32) -> Result<u32, Problem> {
        let seconds = self.number("wait", 0, 0, most)?;
        Ok(if self.head { 0 } else { seconds })
    }

    /// Parses the `limit` of a list.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`].
    pub fn limit(&self, default: u32) -> Result<u32, Problem> {
        self.number("limit", default, 1, PAGE)
    }

    /// Parses the `after` cursor of a list over an intent's log: a position in the log, defaulting to its beginning.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`].
    pub fn place(&self) -> Result<i64, Problem> {
        let read = |text: &str| text.parse().ok().filter(|place: &i64| *place >= 0);
        Ok(self.parsed("after", "the cursor of a page before", read)?.unwrap_or(0))
    }

    /// Parses the `event_types` of a stream: names with commas between them, in one parameter or in several; `None` if
    /// there are none.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`] with the known names.
    pub fn event_types(&self) -> Result<Option<EventTypes>, Problem> {
        let said = self.pairs.iter().filter(|(name, _)| name == "event_types");
        let names =
            said.flat_map(|(_, value)| value.split(',')).map(str::trim).filter(|name| !name.is_empty());
        EventTypes::parse(names, SDK_EVENT_TYPES).map_err(|e| parameter("event_types", &e.to_string()).into())
    }

    /// Parses the `offset` of a list.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`].
    pub fn offset(&self) -> Result<u32, Problem> {
        self.number("offset", 0, 0, 1_000_000)
    }
}

/// Parses the version in `If-Match`: an integer, quoted or not (OI-5.3.4).
///
/// # Errors
/// [`Code::IfMatchRequired`] if it is missing or not an integer.
pub fn if_match(request: &HttpRequest) -> Result<i64, Problem> {
    version(request).ok_or_else(|| if_match_required(Code::IfMatchRequired, "intent").into())
}

/// As [`if_match`], for resources such as tasks and plans that answer 428 if it is missing (OI-15.11).
///
/// # Errors
/// [`Code::PreconditionRequired`] if it is missing or not an integer.
pub fn if_match_of(noun: &str, request: &HttpRequest) -> Result<i64, Problem> {
    version(request).ok_or_else(|| if_match_required(Code::PreconditionRequired, noun).into())
}

/// As [`if_match_of`], but the header may be absent.
///
/// # Errors
/// [`Code::PreconditionRequired`] if it is present and not an integer.
pub fn if_match_maybe(noun: &str, request: &HttpRequest) -> Result<Option<i64>, Problem> {
    if request.headers().contains_key("if-match") { if_match_of(noun, request).map(Some) } else { Ok(None) }
}

fn version(request: &HttpRequest) -> Option<i64> {
    let text = request.headers().get("if-match").and_then(|value| value.to_str().ok());
    text.and_then(|text| text.trim().trim_start_matches("W/").trim_matches('"').parse().ok())
}

fn if_match_required(code: Code, noun: &str) -> Refusal {
    // Clients of the reference server match on the first four words.
    let message = format!(
        "If-Match header required: the version that you last read, as a whole number. It is the `version` of the \
         {noun} and its ETag."
    );
    Refusal::new(code, message)
}
