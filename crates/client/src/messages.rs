//! `entente send`, `ask`, `reply` and `messages`: messages on a channel from a terminal.

pub(super) mod search;

use std::io::{self, Read as _, Write as _};

use clap::Args;
use entente_domain::moments::text::plain;
use serde_json::{Value, json};

use super::Done;
use super::output::exit::{Ended, Exit};
use super::output::print_json;
use super::remote::{Remote, segment};

/// Parses a message's payload: a JSON object, or a text, which becomes `{"text": …}`; `-` reads it from
/// standard input.
fn payload(text: &str) -> Result<Value, io::Error> {
    let text = if text == "-" { io::read_to_string(io::stdin().lock().take(MOST))? } else { text.to_owned() };
    Ok(match serde_json::from_str(&text) {
        Ok(object @ Value::Object(_)) => object,
        _ => json!({ "text": text }),
    })
}

/// Bytes read from standard input at most: more than the server accepts, so that the server reports the
/// excess.
const MOST: u64 = 8 * 1024 * 1024;

/// Renders a message in one line; one that mirrors an envelope names that envelope's sender.
pub(super) fn line(message: &Value) -> String {
    let text = |member: &str| message[member].as_str().unwrap_or("-").to_owned();
    format!(
        "{}  {:<9}  {} → {}  {}{}  {}",
        text("created_at"),
        text("message_type"),
        text("sender"),
        message["to"].as_str().unwrap_or("*"),
        mirrored(&message["metadata"]["envelope"]),
        message["payload"],
        text("id"),
    )
}

/// Describes the envelope that a message mirrors: type, sender, recipient, intent, and whether its signature was not
/// checked. The channel's members can write such metadata too, so it never says that something is verified.
fn mirrored(envelope: &Value) -> String {
    if !envelope.is_object() {
        return String::new();
    }
    let text = |member: &str| plain(envelope[member].as_str().unwrap_or("-"));
    let unverified = envelope["verified"]["sig"] == "unverified";
    let note = if unverified { ", signature not verified" } else { "" };
    format!("[{} {} → {}, {}{note}]  ", text("type"), text("from"), text("to"), text("intent"))
}

fn print(remote: &Remote, messages: &[Value]) -> Done {
    let mut out = io::stdout().lock();
    for message in messages {
        if remote.json {
            writeln!(out, "{message}")?;
        } else {
            writeln!(out, "{}", line(message))?;
        }
    }
    Ok(())
}

/// Send a message
#[derive(Debug, Args)]
pub(super) struct Send {
    #[command(flatten)]
    remote: Remote,
    /// The channel: its id, or INTENT/NAME, which opens it if necessary
    channel: String,
    /// A JSON object, a text, or `-` for standard input
    payload: String,
    /// The recipient: an agent, role:NAME or '*'
    #[arg(long)]
    to: Option<String>,
    /// request, notify or broadcast
    #[arg(long = "type", default_value = "notify")]
    message_type: String,
    /// When the message expires, RFC 3339
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
    /// The idempotency key: retries with the same key send one message
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl Send {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let path = match self.channel.split_once('/') {
            Some((intent, name)) => {
                format!("/intents/{}/channels/{}/messages", segment(intent), segment(name))
            }
            None => format!("/channels/{}/messages", segment(&self.channel)),
        };
        let body = json!({
            "sender": api.speaker().await?, "to": self.to, "message_type": self.message_type,
            "payload": payload(&self.payload)?, "expires_at": self.expires_at,
        });
        let sent = match &self.idempotency_key {
            Some(key) => api.post_once(&path, &body, key).await?,
            None => api.post(&path, &body).await?,
        };
        print(&self.remote, &[sent])
    }
}

/// Send a request and wait for the answers
#[derive(Debug, Args)]
pub(super) struct Ask {
    #[command(flatten)]
    remote: Remote,
    /// The channel's id
    channel: String,
    /// The question: a JSON object, a text, or `-` for standard input
    payload: String,
    /// The recipient: an agent, role:NAME or '*'
    #[arg(long)]
    to: Option<String>,
    /// Seconds to wait
    #[arg(long, default_value_t = 30)]
    timeout: u32,
    /// The number of answers to wait for: a number, or `all`
    #[arg(long, default_value = "1")]
    expect: String,
}

impl Ask {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let expect = self.expect.parse::<u32>().map_or_else(|_a_word| json!(self.expect), |n| json!(n));
        let body = json!({
            "to": self.to, "payload": payload(&self.payload)?, "timeout": self.timeout, "expect": expect,
        });
        let answer = api.post(&format!("/channels/{}/ask", segment(&self.channel)), &body).await?;
        if self.remote.json {
            print_json(&answer)?;
        } else {
            print(&self.remote, answer["responses"].as_array().map_or(&[][..], Vec::as_slice))?;
        }
        match answer["outcome"].as_str() {
            Some("complete") => Ok(()),
            outcome => {
                let outcome = outcome.unwrap_or("unknown");
                let message =
                    format!("not everybody answered in {} seconds (outcome: {outcome})", self.timeout);
                Err(Ended { exit: Exit::TimedOut, message }.into())
            }
        }
    }
}

/// Reply to a request
#[derive(Debug, Args)]
pub(super) struct Reply {
    #[command(flatten)]
    remote: Remote,
    /// The channel's id
    channel: String,
    /// The request's id
    request: String,
    /// The reply: a JSON object, a text, or `-` for standard input
    payload: String,
}

impl Reply {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let path = format!("/channels/{}/messages/{}/reply", segment(&self.channel), segment(&self.request));
        let body = json!({ "sender": api.speaker().await?, "payload": payload(&self.payload)? });
        print(&self.remote, &[api.post(&path, &body).await?])
    }
}

/// Read a channel's messages
#[derive(Debug, Args)]
pub(super) struct Messages {
    #[command(flatten)]
    remote: Remote,
    /// The channel's id
    channel: String,
    /// Only messages after this message id, cursor or time
    #[arg(long)]
    since: Option<String>,
    /// Only messages for this agent, or `*`
    #[arg(long)]
    to: Option<String>,
    /// Seconds to wait if there is no message yet
    #[arg(long)]
    wait: Option<u32>,
    /// Maximum number of messages
    #[arg(long, default_value_t = 100)]
    limit: u32,
}

impl Messages {
    pub(super) async fn run(self) -> Done {
        let mut query = vec![("limit", self.limit.to_string())];
        query.extend(self.since.map(|since| ("since", since)));
        query.extend(self.to.map(|to| ("to", to)));
        query.extend(self.wait.map(|seconds| ("wait", seconds.to_string())));
        let path = format!("/channels/{}/messages", segment(&self.channel));
        let messages = self.remote.api()?.get(&path, &query).await?;
        print(&self.remote, messages.as_array().map_or(&[][..], Vec::as_slice))
    }
}
