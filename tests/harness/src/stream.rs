//! Client for server-sent events that keeps them in their raw form.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::Client;
use super::client::{Reply, http};

/// Upper bound for a frame that must arrive.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: String,
    pub name: String,
    pub data: Value,
}

/// An open stream.
pub struct Sse {
    response: reqwest::Response,
    /// Headers of the response.
    pub headers: reqwest::header::HeaderMap,
    buffer: String,
    ready: VecDeque<Event>,
    /// All comments and fields that are not frames, in their raw form.
    pub other: Vec<String>,
    pub last_id: Option<String>,
    /// Whether the end was an error; `None` while the stream is open.
    broken: Option<bool>,
}

impl Sse {
    /// Opens a stream and asserts success.
    pub async fn open(client: &Client, path: &str) -> Self {
        Self::resume(client, path, None).await
    }

    /// Requests a stream that must be refused and returns the response.
    pub async fn refused(client: &Client, path: &str) -> Reply {
        let answer = timeout(PATIENCE, client.get(path)).await;
        answer.unwrap_or_else(|_| panic!("{path}: the stream was opened"))
    }

    /// Opens a stream after the frame `last`.
    pub async fn resume(client: &Client, path: &str, last: Option<&str>) -> Self {
        let stream = Self::begin(client, path, last).await.unwrap_or_else(|e| panic!("{path}: {e:?}"));
        stream.unwrap_or_else(|answer| panic!("{path}: {answer}"))
    }

    /// Like [`Self::resume`], for a server that may be down.
    pub async fn try_resume(client: &Client, path: &str, last: Option<&str>) -> Option<Self> {
        Self::begin(client, path, last).await.ok()?.ok()
    }

    async fn begin(client: &Client, path: &str, last: Option<&str>) -> reqwest::Result<Result<Self, String>> {
        let mut request = http().get(format!("{}{path}", client.base));
        for (name, value) in client.headers() {
            request = request.header(name, value);
        }
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await?;
        if response.status() != 200 {
            return Ok(Err(response.text().await?));
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        assert_eq!(response.headers()["cache-control"], "no-cache");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        let mut stream = Self {
            headers: response.headers().clone(),
            response,
            buffer: String::new(),
            ready: VecDeque::new(),
            other: Vec::new(),
            last_id: last.map(str::to_owned),
            broken: None,
        };
        // Waits for the greeting: from then on the stream delivers everything.
        while stream.other.is_empty() {
            if !stream.read().await {
                return Ok(Err("the stream ended before it began".to_owned()));
            }
        }
        Ok(Ok(stream))
    }

    /// Whether the stream has ended without an error.
    pub fn ended_cleanly(&self) -> bool {
        self.broken == Some(false)
    }

    /// Returns the next frame; panics if none arrives.
    pub async fn next(&mut self) -> Event {
        match timeout(PATIENCE, self.try_next()).await {
            Ok(Some(event)) => event,
            Ok(None) => panic!("the stream ended after frame {:?}", self.last_id),
            Err(late) => panic!("no frame came after {:?}: {late}", self.last_id),
        }
    }

    /// Returns the next frame with this name and skips the others.
    pub async fn next_named(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().await;
            if event.name == name {
                return event;
            }
        }
    }

    /// Returns the next frame, or `None` when the stream ends, with or without an error.
    pub async fn try_next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.last_id = Some(event.id.clone());
                return Some(event);
            }
            if !self.read().await {
                return None;
            }
        }
    }

    /// Returns the next `count` frames; panics if one does not arrive.
    pub async fn next_few(&mut self, count: usize) -> Vec<Event> {
        let mut events = Vec::with_capacity(count);
        while events.len() < count {
            events.push(self.next().await);
        }
        events
    }

    /// Reads for a while and stores the comments and other fields in [`Self::other`].
    pub async fn idle(&mut self, time: Duration) {
        let read = async { while self.read().await {} };
        assert!(timeout(time, read).await.is_err(), "the stream ended");
    }

    /// Asserts that no frame arrives for a while.
    pub async fn silent(&mut self, time: Duration) {
        if let Ok(Some(event)) = timeout(time, self.try_next()).await {
            panic!("a frame came that should not: {event:?}");
        }
    }

    /// Asserts that the stream ends with an error instead of a clean end (OI-11.4.1). Earlier fields are
    /// in [`Self::other`]; earlier frames are still to be read.
    pub async fn breaks(&mut self) {
        let ended = async { while self.read().await {} };
        timeout(PATIENCE, ended).await.expect("the stream goes on");
        assert_eq!(self.broken, Some(true), "the stream ended cleanly");
    }

    async fn read(&mut self) -> bool {
        let chunk = match self.response.chunk().await {
            Ok(Some(chunk)) => chunk,
            // Every later read reports a clean end, so only the first result counts.
            end => {
                self.broken.get_or_insert(end.is_err());
                return false;
            }
        };
        self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        while let Some(end) = self.buffer.find("\n\n") {
            let frame: String = self.buffer.drain(..end + 2).collect();
            self.take(&frame);
        }
        true
    }

    fn take(&mut self, frame: &str) {
        let (mut id, mut name, mut data) = (None, None, None);
        for line in frame.lines().filter(|line| !line.is_empty()) {
            match line.split_once(": ") {
                Some(("id", value)) => id = Some(value.to_owned()),
                Some(("event", value)) => name = Some(value.to_owned()),
                Some(("data", value)) => data = Some(serde_json::from_str(value).unwrap()),
                _ => self.other.push(line.to_owned()),
            }
        }
        match (id, name, data) {
            (Some(id), Some(name), Some(data)) => self.ready.push_back(Event { id, name, data }),
            // The standard for server-sent events allows an id without data; it is a resume position.
            (Some(id), None, None) => self.last_id = Some(id),
            _ => {}
        }
    }
}
