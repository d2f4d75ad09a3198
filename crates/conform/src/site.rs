//! The server under test, as its clients see it: requests with a key, time limits, and a record of the traffic.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use reqwest::{Client, Method, Response, Url};
use serde_json::Value;

use crate::finding::{Finding, Outcome, failed, skipped};

/// Longest answer that is read, and longest event of a stream.
pub(crate) const MAX_ANSWER: usize = 4 << 20;
/// Longest text of a record.
const MAX_RECORD: usize = 1_500;
/// So many lines has a record; a stream may have any number of events.
const MAX_LINES: usize = 200;
/// Shortest time limit of a check, whatever it waits for.
const CHECK: Duration = Duration::from_secs(40);
/// Statuses that refuse the content of a request. 401, 405 and 408 say nothing about it, and 404 does only where
/// something that is named may be missing.
const REFUSALS: [u16; 5] = [400, 403, 409, 412, 422];

/// Whose key a request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// The first agent.
    First,
    /// The second agent.
    Second,
    /// Nobody: no key at all.
    Nobody,
}

/// The form in which a protocol's clients present a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyHeader {
    /// `X-API-Key`, with the agent in `X-Agent-ID`.
    ApiKey,
    /// `Authorization: Bearer`.
    Bearer,
}

/// A key, and the agent that it belongs to.
pub(crate) struct Agent {
    /// The key, if the server wants one.
    pub(crate) key: Option<String>,
    /// The agent's id.
    pub(crate) id: String,
}

/// Further options of the command line.
#[derive(Default)]
pub(crate) struct Options {
    /// An agent of the server that answers, for jobs.
    pub(crate) worker: Option<String>,
    /// An agent of the server that works until it is cancelled.
    pub(crate) slow: Option<String>,
    /// A tool whose result has a binding moment, and its arguments.
    pub(crate) tool: Option<String>,
    /// The tool's arguments, as JSON.
    pub(crate) arguments: Option<Value>,
    /// The path under which envelopes are posted, if it is not the usual one.
    pub(crate) path: Option<String>,
    /// The entity that answers the intents of AEE's own.
    pub(crate) peer: Option<String>,
    /// An interface of a card that leads elsewhere is looked for on the server under test.
    pub(crate) rebase: bool,
}

/// The server under test.
pub(crate) struct Site {
    http: Client,
    /// The server's URL; the keys are for its scheme, host and port only.
    pub(crate) own: Url,
    /// The server's URL as a text, without a slash at its end.
    pub(crate) base: String,
    first: Agent,
    second: Agent,
    header: KeyHeader,
    /// Time limit of each answer.
    pub(crate) limit: Duration,
    /// Further options of the command line.
    pub(crate) options: Options,
    record: Mutex<Vec<String>>,
    silent: AtomicBool,
    count: AtomicU32,
}

/// Returns the current time.
pub(crate) fn now() -> SystemTime {
    #[expect(clippy::disallowed_methods, reason = "the kit tells a server the time of its own clock")]
    SystemTime::now()
}

/// Returns a time so many seconds from now, in RFC 3339.
pub(crate) fn in_seconds(seconds: i64) -> String {
    let time = DateTime::<Utc>::from(now()) + chrono::TimeDelta::seconds(seconds);
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Shortens a text for people.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_RECORD) {
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}

impl Site {
    /// Creates the client of a server.
    pub(crate) fn new(
        http: Client,
        own: Url,
        agents: [Agent; 2],
        header: KeyHeader,
        limit: Duration,
        options: Options,
    ) -> Self {
        let [first, second] = agents;
        Self {
            http,
            base: own.as_str().trim_end_matches('/').to_owned(),
            own,
            first,
            second,
            header,
            limit,
            options,
            record: Mutex::default(),
            silent: AtomicBool::new(false),
            count: AtomicU32::new(0),
        }
    }

    /// Returns an agent.
    pub(crate) fn agent(&self, who: Who) -> Option<&Agent> {
        match who {
            Who::First => Some(&self.first),
            Who::Second => Some(&self.second),
            Who::Nobody => None,
        }
    }

    /// Returns the first agent's id.
    pub(crate) fn first_id(&self) -> &str {
        &self.first.id
    }

    /// Returns the second agent's id; the check is skipped if it has no key.
    pub(crate) fn second_id(&self) -> Result<&str, Finding> {
        if self.second.key.is_none() {
            return Err(skipped("it needs a second agent: --second-key"));
        }
        Ok(&self.second.id)
    }

    /// Skips a check that only a server with keys can pass.
    pub(crate) fn needs_key(&self) -> Result<(), Finding> {
        if self.first.key.is_none() {
            return Err(skipped("the server is called without a key: --api-key"));
        }
        Ok(())
    }

    /// Returns a name that was never used before.
    pub(crate) fn fresh(&self, word: &str) -> String {
        let since = now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros());
        format!("{word}-{since:x}-{}", self.count.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns 128 bits that were never used before: the time, the process, and a counter.
    fn bits(&self) -> u128 {
        let since = now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let count = u128::from(self.count.fetch_add(1, Ordering::Relaxed));
        let micros =
            now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| u128::from(since.subsec_nanos()));
        (since & 0xffff_ffff_ffff) << 80
            | (micros & 0xffff_ffff) << 48
            | u128::from(std::process::id()) << 16
            | (count & 0xffff)
    }

    /// Returns a UUID that was never used before.
    pub(crate) fn uuid(&self) -> String {
        let bits = self.bits();
        let hex = format!("{bits:032x}");
        // The digits of version 7 and of the variant.
        format!("{}-{}-7{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
    }

    /// Returns a ULID that was never used before.
    pub(crate) fn ulid(&self) -> String {
        let bits = self.bits();
        (0..26)
            .rev()
            .map(|at| char::from(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"[(bits >> (at * 5) & 31) as usize]))
            .collect()
    }

    /// Begins a request.
    pub(crate) fn request(&self, method: Method, path: &str) -> Request<'_> {
        let headers = Vec::new();
        Request {
            site: self,
            method,
            path: path.to_owned(),
            headers,
            body: None,
            who: Who::First,
            quick: None,
        }
    }

    /// Begins a GET.
    pub(crate) fn get(&self, path: &str) -> Request<'_> {
        self.request(Method::GET, path)
    }

    /// Begins a POST of JSON.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Request<'_> {
        self.request(Method::POST, path).json(body)
    }

    /// Begins a PATCH of JSON.
    pub(crate) fn patch(&self, path: &str, body: &Value) -> Request<'_> {
        self.request(Method::PATCH, path).json(body)
    }

    /// Returns the time limit of a check: some requests of one wait for several answers.
    pub(crate) fn check_limit(&self) -> Duration {
        CHECK.max(self.limit * 4)
    }

    /// Whether a URL is one of the server under test: with its scheme, host and port.
    pub(crate) fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.own.origin()
    }

    /// Returns the URL of a path of the server; an absolute URL stays as it is.
    fn url(&self, path: &str) -> Result<Url, Finding> {
        let is_absolute = path.contains("://") && !path.starts_with('/');
        let text = if is_absolute { path.to_owned() } else { format!("{}{path}", self.base) };
        Url::parse(&text).map_err(|error| failed("an absolute URL", format!("{text}: {error}")))
    }

    /// Adds a line to the record.
    pub(crate) fn note(&self, line: &str) {
        let mut record = self.record.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match record.len() {
            0..MAX_LINES => record.push(self.told(line)),
            MAX_LINES => record.push("… and more".to_owned()),
            _ => {}
        }
    }

    /// Returns a text for people: without the keys, then short. The other way round a key may be cut, and not found.
    pub(crate) fn told(&self, text: &str) -> String {
        shortened(&self.redacted(text))
    }

    /// Returns the record since the last call.
    pub(crate) fn take_record(&self) -> Vec<String> {
        std::mem::take(&mut *self.record.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Notes that the server does not answer.
    pub(crate) fn fell_silent(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }

    /// Returns whether the server has not answered since the last call.
    pub(crate) fn take_silence(&self) -> bool {
        self.silent.swap(false, Ordering::Relaxed)
    }

    /// Returns a text without the keys.
    fn redacted(&self, text: &str) -> String {
        let keys = [&self.first.key, &self.second.key].into_iter().flatten().filter(|key| key.len() > 3);
        let mut keys: Vec<&String> = keys.collect();
        // One key may begin with the other one.
        keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
        keys.into_iter().fold(text.to_owned(), |text, key| text.replace(key.as_str(), "[key]"))
    }

    /// Returns the headers that present a key.
    pub(crate) fn credentials(&self, who: Who) -> Vec<(&'static str, String)> {
        let Some(agent) = self.agent(who) else { return Vec::new() };
        let Some(key) = &agent.key else { return Vec::new() };
        match self.header {
            KeyHeader::ApiKey => vec![("x-api-key", key.clone()), ("x-agent-id", agent.id.clone())],
            KeyHeader::Bearer => vec![("authorization", format!("Bearer {key}"))],
        }
    }
}

/// A request.
pub(crate) struct Request<'a> {
    site: &'a Site,
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    who: Who,
    quick: Option<Duration>,
}

impl Request<'_> {
    /// Sends JSON.
    pub(crate) fn json(self, body: &Value) -> Self {
        self.raw("application/json", body.to_string())
    }

    /// Sends a text.
    pub(crate) fn raw(mut self, media: &str, body: String) -> Self {
        self.headers.push(("content-type".to_owned(), media.to_owned()));
        self.body = Some(body);
        self
    }

    /// Sets a header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends it as somebody else.
    pub(crate) fn by(mut self, who: Who) -> Self {
        self.who = who;
        self
    }

    /// Waits longer for the answer than usual.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.quick = Some(limit);
        self
    }

    /// Sends it, and returns the response as it begins.
    pub(crate) async fn open(self) -> Result<Response, Finding> {
        let site = self.site;
        let url = site.url(&self.path)?;
        // A server may name any URL; a key goes to the server that it belongs to, and nowhere else.
        let credentials = if site.is_own(&url) { site.credentials(self.who) } else { Vec::new() };
        let who = match self.who {
            Who::First => "",
            Who::Second => " (second agent)",
            Who::Nobody => " (no key)",
        };
        let body = self.body.as_deref().unwrap_or_default();
        site.note(format!("→ {} {}{who} {body}", self.method, self.path).trim_end());
        let mut request = site.http.request(self.method, url).timeout(self.quick.unwrap_or(site.limit));
        for (name, value) in credentials {
            request = request.header(name, value);
        }
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        if let Some(body) = self.body {
            request = request.body(body);
        }
        request.send().await.map_err(|error| unanswered(site, &error))
    }

    /// Sends it, and returns the whole answer.
    pub(crate) async fn send(self) -> Result<Answer, Finding> {
        let site = self.site;
        let mut response = self.open().await?;
        let status = response.status().as_u16();
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let (media, session) = (header("content-type"), header("mcp-session-id"));
        let mut bytes = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|error| unanswered(site, &error))? {
            bytes.extend_from_slice(&part);
            if bytes.len() > MAX_ANSWER {
                return Err(failed("an answer of a bounded size", format!("more than {MAX_ANSWER} bytes")));
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        site.note(&format!("← {status} {text}"));
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Answer { status, media, session, body, text })
    }
}

/// Returns the finding that a server did not answer.
fn unanswered(site: &Site, error: &reqwest::Error) -> Finding {
    let mut causes = Vec::new();
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(one) = cause {
        causes.push(one.to_string());
        cause = one.source();
    }
    let why = if error.is_timeout() {
        format!("nothing within {} s", site.limit.as_secs_f32())
    } else {
        causes.last().cloned().unwrap_or_default()
    };
    site.fell_silent();
    site.note(&format!("← {why}"));
    failed("an answer in HTTP", why)
}

/// A whole answer.
pub(crate) struct Answer {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The content type.
    pub(crate) media: String,
    /// The header `Mcp-Session-Id`.
    pub(crate) session: String,
    /// The body as JSON; null if it is none.
    pub(crate) body: Value,
    /// The body as a text.
    pub(crate) text: String,
}

impl Answer {
    /// Returns the answer as a text.
    pub(crate) fn said(&self) -> String {
        format!("{} {}", self.status, self.text)
    }

    /// Whether the answer is a success.
    pub(crate) fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the body of a success.
    pub(crate) fn ok(self) -> Result<Value, Finding> {
        if self.is_ok() { Ok(self.body) } else { Err(self.otherwise("a success (2xx)")) }
    }

    /// Returns the body of the success of a right request, the twin of a wrong one: that a server refuses the wrong one
    /// says nothing where it does not take the right one either.
    pub(crate) fn twin(self) -> Result<Value, Finding> {
        if self.is_ok() {
            return Ok(self.body);
        }
        Err(skipped(format!("the server does not take the right request either: {}", self.said())))
    }

    /// Fails unless the request was refused for its content.
    pub(crate) fn refused(self) -> Outcome {
        self.refused_or(&[])
    }

    /// Fails unless the request was refused for its content, for which these statuses may stand as well.
    pub(crate) fn refused_or(self, more: &[u16]) -> Outcome {
        self.is(&[&REFUSALS, more].concat()).map(drop)
    }

    /// Fails unless the answer has one of these statuses.
    pub(crate) fn is(self, statuses: &[u16]) -> Result<Value, Finding> {
        if statuses.contains(&self.status) {
            return Ok(self.body);
        }
        let wanted: Vec<String> = statuses.iter().map(u16::to_string).collect();
        Err(self.otherwise(&format!("the status {}", wanted.join(" or "))))
    }

    /// Returns the finding of another answer than the expected one. A limit of requests is no answer to the request.
    pub(crate) fn otherwise(&self, expected: &str) -> Finding {
        if self.status == 429 {
            return skipped(format!("the server limits requests: {}", self.said()));
        }
        failed(expected, self.said())
    }
}
