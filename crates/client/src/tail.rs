//! `entente tail`: follows a stream of server-sent events, across broken connections and server restarts.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::time::Duration;

use clap::Args;
use reqwest::Response;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::Done;
use super::output::note;
use super::output::people::Style;
use super::remote::{Api, Failure, Remote, segment};

/// Pause before a broken stream is opened again.
const RECONNECT: Duration = Duration::from_secs(1);
/// Silence after which a stream counts as broken: a server sends a comment at least every 300 s (`ENTENTE_PING_SECONDS`).
const SILENCE: Duration = Duration::from_secs(330);

/// Follow events as they happen: one line each, in local time; with --json as the server sends them
#[derive(Debug, Args)]
pub(super) struct Tail {
    #[command(flatten)]
    remote: Remote,
    /// An intent's id, a channel's id or an agent's name [default: everything that the key may see]
    subject: Option<String>,
    /// Only events with these names, separated by commas: `agent_assigned,task.*,channel_message` [default: all]
    #[arg(long, value_name = "NAMES")]
    event_types: Option<String>,
}

impl Tail {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let path = match &self.subject {
            None => "/subscribe".to_owned(),
            Some(id) if id.starts_with("intent_") => format!("/subscribe/intents/{}", segment(id)),
            Some(id) if id.starts_with("chan_") => format!("/subscribe/channels/{}", segment(id)),
            Some(id) => format!("/subscribe/agents/{}", segment(id)),
        };
        let style = Style::of_stdout();
        let path = match &self.event_types {
            None => path,
            Some(names) => format!("{path}?event_types={}", segment(names)),
        };
        let mut last: Option<String> = None;
        loop {
            match Frames::open(&api, &path, last.as_deref()).await {
                Ok(mut frames) => {
                    while let Some(frame) = frames.next().await {
                        print(&frame, (!self.remote.json).then_some(style))?;
                    }
                    // All frames before this id were printed.
                    last = frames.reached.or(last);
                    note("the stream broke; opening it again");
                }
                // A server that stops or starts is worth waiting for; a refusal is final.
                Err(failure @ (Failure::Refused { status: 400..500, .. } | Failure::Stranger { .. })) => {
                    return Err(failure.into());
                }
                Err(failure) if last.is_none() => return Err(failure.into()),
                Err(_away) => {}
            }
            sleep(RECONNECT).await;
        }
    }
}

/// Prints a frame, for people in a style or else for programs.
fn print(frame: &Frame, style: Option<Style>) -> Done {
    let line = match style {
        Some(style) => style.event(&frame.name, &frame.data),
        None => json!({ "id": frame.id, "event": frame.name, "data": frame.data }).to_string(),
    };
    writeln!(io::stdout().lock(), "{line}")?;
    Ok(())
}

/// Frame of a stream.
#[derive(Debug)]
pub struct Frame {
    /// The position to resume the stream after.
    pub id: String,
    /// The event's name.
    pub name: String,
    /// The event's data.
    pub data: Value,
}

/// An open stream.
#[derive(Debug)]
pub struct Frames {
    response: Response,
    buffer: Vec<u8>,
    ready: VecDeque<Frame>,
    /// The last id that was read: that of a frame, or of a position after entries that were not shown.
    reached: Option<String>,
}

impl Frames {
    /// Opens a stream after the frame with the id `last`.
    ///
    /// # Errors
    /// The server does not answer, or it refuses.
    pub async fn open(api: &Api, path: &str, last: Option<&str>) -> Result<Self, Failure> {
        let response = api.stream(path, last).await?;
        if let Some(until) = response.headers().get("Entente-Deleted-Until").and_then(|id| id.to_str().ok()) {
            note(&format!("some events up to {until} are missing: their retention is over"));
        }
        let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        if let Some(missed) = header("Entente-Missed") {
            note(&missed_messages(&missed, header("Entente-Truncated").is_some(), None));
        }
        Ok(Self { response, buffer: Vec::new(), ready: VecDeque::new(), reached: None })
    }

    /// Returns the next frame, or `None` when the stream breaks.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            let chunk = timeout(SILENCE, self.response.chunk()).await.ok()?.ok()??;
            self.buffer.extend_from_slice(&chunk);
            while let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let frame: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let frame = String::from_utf8_lossy(&frame);
                if let Some(missed) = missed(&frame) {
                    note(&missed);
                }
                self.ready.extend(read(&frame));
                self.reached = member(&frame, "id").map(str::to_owned).or_else(|| self.reached.take());
            }
        }
    }
}

/// Parses a frame; `None` for a comment.
fn read(text: &str) -> Option<Frame> {
    let data = serde_json::from_str(member(text, "data")?).ok()?;
    Some(Frame { id: member(text, "id")?.to_owned(), name: member(text, "event")?.to_owned(), data })
}

/// Returns a sentence about messages that this reader has missed.
fn missed_messages(count: &str, is_truncated: bool, channel: Option<&str>) -> String {
    let most = if is_truncated { "up to " } else { "" };
    let channel = channel.map_or_else(String::new, |id| format!(" of {id}"));
    format!("{most}{count} message(s){channel} are missing: they were evicted or have expired")
}

/// Parses the comment about messages that were missed.
fn missed(text: &str) -> Option<String> {
    let said: Value = serde_json::from_str(text.strip_prefix(": missed ")?.trim()).ok()?;
    let is_truncated = said["truncated"] == true;
    Some(missed_messages(&said["missed"].to_string(), is_truncated, said["channel_id"].as_str()))
}

/// Returns a field of a frame.
fn member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    lines.next().map(|value| value.strip_prefix(' ').unwrap_or(value))
}
