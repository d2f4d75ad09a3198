//! Events that a server sends over a response that stays open.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::finding::{Finding, failed};
use crate::site::{Request, Site};

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
    rest: String,
    /// The status of the response.
    pub(crate) status: u16,
    /// The content type of the response.
    pub(crate) media: String,
}

impl<'a> Stream<'a> {
    /// Opens a stream.
    pub(crate) async fn open(site: &'a Site, request: Request<'_>) -> Result<Self, Finding> {
        let response = request.header("accept", "text/event-stream").within(Duration::from_mins(1)).open();
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
        Ok(Self { site, response, rest: String::new(), status, media })
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
            while let Some(at) = self.rest.find("\n\n") {
                let frame: String = self.rest.drain(..at + 2).collect();
                let Some(event) = parsed(&frame) else { continue };
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
            self.rest.push_str(&String::from_utf8_lossy(&part).replace('\r', ""));
        }
    }
}

/// Returns the data of all events in a text.
pub(crate) fn parsed_events(text: &str) -> Vec<Value> {
    let text = text.replace('\r', "");
    text.split("\n\n").filter_map(parsed).map(|event| event.data).collect()
}

/// Returns the event of a frame; a comment is none.
fn parsed(frame: &str) -> Option<Event> {
    let mut name = "message".to_owned();
    let mut data = Vec::new();
    for line in frame.lines() {
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
