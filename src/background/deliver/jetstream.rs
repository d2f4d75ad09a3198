//! `JetStream` of NATS as a broker, by its wire API: a publication is a request, and so is a look into a stream.
//!
//! Each publication names the last sequence of its subject. The stream compares and writes in one step, so nobody writes behind
//! the back of somebody who looked.

use std::time::{Duration, Instant};

use async_nats::client::RequestErrorKind;
use async_nats::connection::State;
use async_nats::{Client, Event as Change, HeaderMap, Request, ServerAddr};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, watch};
use tokio::time::timeout;

use super::broker::{Ends, Event, Fault, Search};
use crate::background::nats::options;

/// Time limit of a connection, and of an attempt's wait for one.
const CONNECTION: Duration = Duration::from_secs(2);

/// Longest pause between two attempts to connect.
const REDIAL: Duration = Duration::from_secs(2);

/// Interval at which NATS and this server test their connection.
const PING: Duration = Duration::from_secs(5);

/// Number of times that others may write to a subject between a look at its end and a publication.
const RIVALS: usize = 32;

/// Errors of `JetStream`: nothing is there; the message is too large; the subject ends elsewhere (two numbers, by release).
const NOTHING: u64 = 10_037;
const TOO_LARGE: u64 = 10_054;
const ELSEWHERE: [u64; 2] = [10_071, 10_164];

/// Header by which a stream recognises a message that it has.
const NAME: &str = "Nats-Msg-Id";

/// Characters that headers of `CloudEvents` escape (NATS protocol binding 3.2).
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// A stream at a NATS server.
pub(super) struct JetStream {
    url: String,
    stream: String,
    prefix: String,
    /// Time limit of an answer.
    limit: Duration,
    client: OnceCell<Client>,
    /// State of the connection.
    link: watch::Sender<Link>,
}

#[derive(Default)]
struct Link {
    connected: bool,
    /// The last fault that the connection reported.
    fault: Option<String>,
}

/// Answer of the API.
#[derive(Deserialize)]
struct Answer {
    error: Option<ApiError>,
    /// Sequence of a message that was just written.
    seq: Option<u64>,
    /// Whether the stream had the message, which it then did not write again.
    #[serde(default)]
    duplicate: bool,
    message: Option<StoredMessage>,
}

#[derive(Deserialize)]
struct ApiError {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

#[derive(Deserialize)]
struct StoredMessage {
    seq: u64,
    /// Headers in base64.
    hdrs: Option<String>,
}

impl StoredMessage {
    /// Returns the name in its headers.
    fn name(&self) -> Option<String> {
        let headers = STANDARD.decode(self.hdrs.as_deref()?).ok()?;
        let headers = String::from_utf8_lossy(&headers);
        let mut values = headers.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = values.find(|(key, _)| key.eq_ignore_ascii_case(NAME))?;
        Some(value.trim().to_owned())
    }
}

/// Result of a search behind a place of a stream.
enum Found {
    /// The event.
    Event,
    /// Not the event; the subject ends here.
    End(u64),
}

impl JetStream {
    /// Prepares a broker at this URL, with a stream for topics with this prefix.
    pub(super) fn new(url: &str, stream: &str, prefix: &str, limit: Duration) -> Self {
        let (url, stream, prefix) = (url.to_owned(), stream.to_owned(), prefix.to_owned());
        Self { url, stream, prefix, limit, client: OnceCell::new(), link: watch::Sender::default() }
    }

    /// Returns the ends of the events' subjects.
    pub(super) async fn ends(&self, events: &[Event]) -> Result<Ends, Fault> {
        let mut ends = Ends::new();
        for event in events {
            if !ends.contains_key(&event.topic) {
                ends.insert(event.topic.clone(), self.end(&event.topic).await?);
            }
        }
        Ok(ends)
    }

    /// Looks for events for up to `time`; returns whether that was all.
    pub(super) async fn search(&self, search: &mut Search, time: Duration) -> Result<bool, Fault> {
        let began = Instant::now();
        while !search.wanted.is_empty() {
            if began.elapsed() >= time {
                return Ok(false);
            }
            let next = json!({ "seq": search.at + 1, "next_by_subj": search.log });
            let Some(message) = self.look(next).await? else { return Ok(true) };
            search.at = message.seq;
            if let Some(name) = message.name().filter(|name| search.wanted.remove(name)) {
                search.found.insert(name);
            }
        }
        Ok(true)
    }

    /// Publishes an event that the stream does not have.
    pub(super) async fn publish(&self, event: &Event, ends: &mut Ends) -> Result<(), Fault> {
        let end = ends.entry(event.topic.clone()).or_default();
        for _ in 0..RIVALS {
            let answer =
                self.ask(event.topic.clone(), headers(event, *end, &self.stream), &event.body).await?;
            match (answer.error, answer.seq) {
                (None, Some(seq)) => {
                    if !answer.duplicate {
                        *end = seq;
                    }
                    return Ok(());
                }
                (Some(error), _) if ELSEWHERE.contains(&error.err_code) => {
                    // Asked for before the look, so that nothing is skipped. It counts if messages were deleted.
                    let now = self.end(&event.topic).await?;
                    match self.find(event, *end).await? {
                        Found::Event => return Ok(()),
                        Found::End(last) => *end = if last > *end { last } else { now },
                    }
                }
                (Some(error), _) if error.err_code == TOO_LARGE => {
                    return Err(Fault::Refused(format!(
                        "the stream does not take it: {}",
                        error.description
                    )));
                }
                (Some(error), _) => return Err(Fault::Away(error.description)),
                (None, None) => {
                    return Err(Fault::Away("it answered something else than JetStream does".to_owned()));
                }
            }
        }
        Err(Fault::Away(format!("others write to {} all the time", event.topic)))
    }

    /// Asks whether the stream exists and this server may look into it.
    pub(super) async fn check(&self) -> Result<(), String> {
        match self.end(&format!("{}.entente-doctor", self.prefix.trim_end_matches('.'))).await {
            Ok(_) => Ok(()),
            Err(Fault::Away(why) | Fault::Refused(why) | Fault::Unnumbered(why)) => Err(why),
        }
    }

    /// Returns the last sequence of a subject; 0 without one.
    async fn end(&self, subject: &str) -> Result<u64, Fault> {
        let found = self.look(json!({ "last_by_subj": subject })).await?;
        Ok(found.map_or(0, |message| message.seq))
    }

    /// Looks for an event among the messages of its subject behind a place.
    async fn find(&self, event: &Event, place: u64) -> Result<Found, Fault> {
        let mut end = place;
        while let Some(message) = self.look(json!({ "seq": end + 1, "next_by_subj": event.topic })).await? {
            if message.name().as_ref() == Some(&event.name) {
                return Ok(Found::Event);
            }
            end = message.seq;
        }
        Ok(Found::End(end))
    }

    /// Reads a message of the stream; `None` if there is none.
    async fn look(&self, what: Value) -> Result<Option<StoredMessage>, Fault> {
        let api = format!("$JS.API.STREAM.MSG.GET.{}", self.stream);
        let answer = self.ask(api, HeaderMap::new(), &what.to_string()).await?;
        match answer.error {
            Some(error) if error.err_code == NOTHING => Ok(None),
            Some(error) => Err(Fault::Away(format!("stream {}: {}", self.stream, error.description))),
            None => Ok(answer.message),
        }
    }

    async fn ask(&self, subject: String, headers: HeaderMap, payload: &str) -> Result<Answer, Fault> {
        let client = self.client().await?;
        let request =
            Request::new().headers(headers).payload(payload.to_owned().into()).timeout(Some(self.limit));
        let answered = client.send_request(subject.clone(), request).await.map_err(|e| match e.kind() {
            RequestErrorKind::MaxPayloadExceeded => {
                Fault::Refused(format!("it has more than the {} bytes that NATS takes", client.max_payload()))
            }
            RequestErrorKind::NoResponders => Fault::Away(format!("no stream takes {subject}")),
            RequestErrorKind::TimedOut => Fault::Away(match &self.link.borrow().fault {
                Some(why) => format!("it did not answer in time; it said before: {why}"),
                None => "it did not answer in time".to_owned(),
            }),
            RequestErrorKind::InvalidSubject | RequestErrorKind::Other => Fault::Away(e.to_string()),
        })?;
        serde_json::from_slice(&answered.payload)
            .map_err(|e| Fault::Away(format!("its answer cannot be read: {e}")))
    }

    /// Returns the client, once it is connected: a request that it kept until then would be old.
    async fn client(&self) -> Result<&Client, Fault> {
        let client = self.client.get_or_try_init(|| self.connect()).await?;
        let mut link = self.link.subscribe();
        let up = timeout(CONNECTION, link.wait_for(|link| link.connected)).await;
        if matches!(up, Ok(Ok(_))) && client.connection_state() == State::Connected {
            return Ok(client);
        }
        drop(up);
        let fault = self.link.borrow().fault.clone();
        Err(Fault::Away(
            fault.map_or_else(|| "not connected".to_owned(), |why| format!("not connected: {why}")),
        ))
    }

    async fn connect(&self) -> Result<Client, Fault> {
        let away = |e: &dyn std::fmt::Display| Fault::Away(e.to_string());
        let address: ServerAddr = self.url.parse().map_err(|e: std::io::Error| away(&e))?;
        let link = self.link.clone();
        let options = options(&address)
            .ping_interval(PING)
            .connection_timeout(CONNECTION)
            .reconnect_delay_callback(|attempts| REDIAL.min(Duration::from_millis(20 << attempts.min(8))))
            .event_callback(move |event| {
                link.send_modify(|link| match &event {
                    Change::Connected => *link = Link { connected: true, fault: None },
                    Change::Disconnected | Change::Closed => link.connected = false,
                    Change::ClientError(error) => link.fault = Some(error.to_string()),
                    Change::ServerError(error) => link.fault = Some(error.to_string()),
                    _ => {}
                });
                std::future::ready(())
            });
        options.connect(address).await.map_err(|e| away(&e))
    }
}

/// Returns the headers of a publication behind the subject's end.
fn headers(event: &Event, end: u64, stream: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &event.headers {
        let value = if name.starts_with("ce-") {
            utf8_percent_encode(value, ESCAPED).to_string()
        } else {
            value.clone()
        };
        headers.insert(*name, value);
    }
    headers.insert(NAME, event.name.as_str());
    headers.insert("Nats-Expected-Stream", stream);
    headers.insert("Nats-Expected-Last-Subject-Sequence", end.to_string());
    headers
}
