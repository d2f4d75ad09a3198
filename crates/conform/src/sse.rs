//! Events that a server sends over a response that stays open.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::finding::{Finding, failed};
use crate::site::{MAX_ANSWER, Request, Site};

/// An event of a stream.
pub(crate) struct Event {
    /// Its name; `message` if it has none.
    pub(crate) name: String,
    /// Its data as JSON; null if it is none.
    pub(crate) data: Value,
}

/// An open stream.
pub(crate) struct Stream<'a> {
    site: &'a Site,
    response: reqwest::Response,
    parser: Parser,
    /// Events that have come, and were not looked at.
    events: VecDeque<Event>,
    /// The status of the response.
    pub(crate) status: u16,
    /// The content type of the response.
    pub(crate) media: String,
}

impl<'a> Stream<'a> {
    /// Opens a stream.
    pub(crate) async fn open(site: &'a Site, request: Request<'_>) -> Result<Self, Finding> {
        let response = request.header("accept", "text/event-stream").within(site.check_limit()).open();
        let response = tokio::time::timeout(site.limit, response);
        let Ok(opened) = response.await else {
            site.fell_silent();
            return Err(failed(
                "a stream that opens",
                format!("nothing within {} s", site.limit.as_secs_f32()),
            ));
        };
        let response = opened?;
        let status = response.status().as_u16();
        let media = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        let media = media.unwrap_or_default().to_owned();
        site.note(&format!("← {status} {media}"));
        Ok(Self { site, response, parser: Parser::default(), events: VecDeque::new(), status, media })
    }

    /// Returns the first event that satisfies a condition, before the time is over.
    pub(crate) async fn until(
        &mut self,
        limit: Duration,
        wanted: &str,
        mut is_it: impl FnMut(&Event) -> bool,
    ) -> Result<Event, Finding> {
        let end = Instant::now() + limit;
        loop {
            while let Some(event) = self.events.pop_front() {
                self.site.note(&format!("← event {} {}", event.name, event.data));
                if is_it(&event) {
                    return Ok(event);
                }
            }
            let part = match timeout_at(end, self.response.chunk()).await {
                Ok(Ok(Some(part))) => part,
                Ok(Ok(None)) => return Err(failed(wanted, "the stream ended")),
                Ok(Err(error)) => return Err(failed(wanted, format!("the stream broke: {error}"))),
                Err(_late) => {
                    return Err(failed(wanted, format!("nothing of it within {} s", limit.as_secs_f32())));
                }
            };
            self.events.extend(part.iter().filter_map(|byte| self.parser.take(*byte)));
            if self.parser.size > MAX_ANSWER {
                return Err(failed("an event of a bounded size", format!("more than {MAX_ANSWER} bytes")));
            }
        }
    }
}

/// Takes the bytes of a stream, and makes events of them. A part of a stream may end anywhere: within a character, too.
#[derive(Default)]
struct Parser {
    /// The line that has not ended.
    line: Vec<u8>,
    /// The lines of the event that has not ended.
    lines: Vec<String>,
    /// Bytes of both.
    size: usize,
    /// The last byte was a CR: an LF after it belongs to the same end of a line.
    is_after_cr: bool,
}

impl Parser {
    /// Takes a byte, and returns the event that it ends. A line ends with CR, LF, or both.
    fn take(&mut self, byte: u8) -> Option<Event> {
        let is_second = self.is_after_cr && byte == b'\n';
        self.is_after_cr = byte == b'\r';
        if is_second {
            return None;
        }
        if byte != b'\n' && byte != b'\r' {
            self.line.push(byte);
            self.size += 1;
            return None;
        }
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        if !line.is_empty() {
            self.lines.push(line);
            return None;
        }
        self.size = 0;
        event(&std::mem::take(&mut self.lines))
    }
}

/// Returns the data of all events in a text.
pub(crate) fn parsed_events(text: &str) -> Vec<Value> {
    let mut parser = Parser::default();
    // The last event may lack its empty line.
    let bytes = text.bytes().chain(*b"\n\n");
    bytes.filter_map(|byte| parser.take(byte)).map(|event| event.data).collect()
}

/// Returns the event of these lines; a comment is none.
fn event(lines: &[String]) -> Option<Event> {
    let mut name = "message".to_owned();
    let mut data = Vec::new();
    for line in lines {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut name),
            "data" => data.push(value),
            _ => {}
        }
    }
    if data.is_empty() {
        return None;
    }
    Some(Event { name, data: serde_json::from_str(&data.join("\n")).unwrap_or(Value::Null) })
}
