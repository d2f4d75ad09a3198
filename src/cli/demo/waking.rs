//! Scenario of attention: an agent sleeps on its inbox through messages that may wait, and wakes for one that may not.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{PATIENCE, PAUSE, Stage, hold, say, until};
use crate::cli::{Done, Failure};

/// The inbox of the agent that sleeps.
const INBOX: &str = "/agents/agent.data/inbox";

/// Name of its reader.
const READER: &str = "session";

impl Stage {
    /// An agent waits for a message that wakes it; two of lower levels reach its inbox meanwhile, and are there when
    /// it wakes.
    pub(super) async fn waking(&self) -> Done {
        say("\n16. agent.data has nothing to do, and sleeps on its inbox until something should wake it")?;
        self.data.act(Method::PUT, INBOX, &json!({})).await?;
        let sleeps = async {
            let page = self.inbox("wake", PATIENCE.as_secs()).await?;
            Ok::<_, Failure>((page, Instant::now()))
        };
        let (woken, sent) = tokio::join!(sleeps, self.sends());
        let ((woken, woke), sent) = (woken?, sent?);
        hold(woke >= sent, "agent.data woke for what may wait")?;
        let entries = woken["entries"].as_array().map_or(0, Vec::len);
        hold(
            entries == 1 && woken["entries"][0]["attention"] == "wake",
            "agent.data woke for something else",
        )?;
        let text = &woken["entries"][0]["message"]["payload"]["text"];
        say(&format!("  agent.data wakes {} ms later, for {text}", (woke - sent).as_millis()))?;

        let page = self.inbox("wake,next,digest", 0).await?;
        let entries = page["entries"].as_array().cloned().unwrap_or_default();
        hold(entries.len() == 2 && page["digest"]["count"] == 1, "something is missing in the inbox")?;
        for entry in entries.iter().chain([&page["digest"]["sources"][0]["newest"]]) {
            say(&format!(
                "  place {} {:<6} {} of {}: {}",
                entry["place"],
                entry["attention"].as_str().unwrap_or_default(),
                entry["what"].as_str().unwrap_or_default(),
                entry["sender"].as_str().unwrap_or_default(),
                entry["message"]["payload"]["text"]
            ))?;
        }
        let seen = json!({ "reader": READER, "place": page["next_place"] });
        self.data.post(&format!("{INBOX}/seen"), &seen).await?;
        let rest = self.inbox("wake,next,digest", 0).await?;
        hold(rest["entries"] == json!([]) && rest["digest"].is_null(), "something was shown twice")?;
        say(&format!("  it has seen everything up to place {}", page["next_place"]))
    }

    async fn inbox(&self, levels: &str, wait: u64) -> Result<Value, Failure> {
        let query =
            [("reader", READER.to_owned()), ("attention", levels.to_owned()), ("wait", wait.to_string())];
        Ok(self.data.get(INBOX, &query).await?)
    }

    /// Sends messages of the levels `digest` and `next` and, when both are in the inbox, one that wakes; returns when that was
    /// sent.
    async fn sends(&self) -> Result<Instant, Failure> {
        self.tell("digest", "The nightly copy is through.").await?;
        self.tell("next", "Use schema v2.4 from now on.").await?;
        until("the messages did not reach the inbox", async || {
            let inbox = self.data.get(&format!("{INBOX}/settings"), &[]).await?;
            Ok((inbox["entries"] == 2).then_some(inbox))
        })
        .await?;
        // Both have rung the inbox by now; a sleeper that they woke would be up first.
        sleep(PAUSE * 4).await;
        say("  a digest and a next entry are in its inbox; it sleeps on")?;
        let sent = Instant::now();
        self.tell("wake", "The disk is full: stop writing.").await?;
        Ok(sent)
    }

    async fn tell(&self, attention: &str, text: &str) -> Done {
        let message = json!({
            "sender": "agent.researcher", "to": "agent.data", "message_type": "notify", "payload": { "text": text },
            "metadata": { "attention": attention },
        });
        self.researcher.post(&self.path("/messages"), &message).await?;
        say(&format!("  agent.researcher sends with attention {attention}: {text}"))
    }
}
