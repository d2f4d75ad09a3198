//! Readers while the server is killed: each records the messages in the order in which it received them.

use std::sync::Arc;
use std::time::Duration;

use super::Run;
use entente_harness::{Client, Sse};

/// The messages that a reader received.
pub struct Heard {
    pub who: String,
    pub ids: Vec<String>,
    /// How often its stream broke or its request failed.
    pub breaks: u32,
}

/// A reader that has all messages is finished when nothing more arrives for this long.
const SILENCE: Duration = Duration::from_secs(2);

/// Pause before another attempt.
const REST: Duration = Duration::from_millis(30);

/// Follows an open stream; when it breaks, resumes after the last received frame.
pub async fn follow(run: Arc<Run>, client: Client, path: String, mut stream: Sse) -> Heard {
    let mut heard = Heard { who: path.clone(), ids: Vec::new(), breaks: 0 };
    loop {
        match tokio::time::timeout(SILENCE, stream.try_next()).await {
            Ok(Some(event)) if event.name == "channel_message" => {
                heard.ids.push(event.data["id"].as_str().unwrap().to_owned());
            }
            Ok(Some(_)) => {}
            Err(_silence) if run.is_heard(heard.ids.len()) => return heard,
            Err(_silence) => println!("{path}: nothing for {SILENCE:?} after {} messages", heard.ids.len()),
            Ok(None) => {
                assert!(!stream.ended_cleanly(), "a stream never ends cleanly (OI-11.4.1)");
                stream = again(&client, &path, stream.last_id.as_deref()).await;
                heard.breaks += 1;
            }
        }
    }
}

async fn again(client: &Client, path: &str, last: Option<&str>) -> Sse {
    loop {
        if let Some(stream) = Sse::try_resume(client, path, last).await {
            return stream;
        }
        tokio::time::sleep(REST).await;
    }
}

/// Polls with the cursor of the previous page.
pub async fn poll(run: Arc<Run>, client: Client, channel: String) -> Heard {
    let mut heard = Heard { who: "the poller".to_owned(), ids: Vec::new(), breaks: 0 };
    let mut cursor = "cur_0".to_owned();
    let mut quiet = 0;
    while quiet < 3 {
        let path = format!("/channels/{channel}/messages?since={cursor}&limit=100&wait=1");
        match client.try_send("GET", &path, None).await {
            Some(reply) if reply.status == 200 => {
                reply.header("entente-next-cursor").clone_into(&mut cursor);
                let page = reply.json();
                let ids = page.as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap().to_owned());
                let before = heard.ids.len();
                heard.ids.extend(ids);
                let is_quiet = heard.ids.len() == before && run.is_heard(before);
                quiet = if is_quiet { quiet + 1 } else { 0 };
            }
            _ => {
                heard.breaks += 1;
                tokio::time::sleep(REST).await;
            }
        }
    }
    heard
}
