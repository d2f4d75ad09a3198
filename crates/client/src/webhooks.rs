//! `entente webhook`: subscriptions, what became of their deliveries, testing a receiver, sending the past again.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

use super::Done;
use super::remote::{Remote, segment};

/// Seconds that `ping` waits for the receiver.
const PING_SECONDS: u32 = 20;

/// Webhooks: add, list, show, switch on and off, ping, look at deliveries, replay, rotate, remove
#[derive(Debug, Args)]
pub(super) struct Webhooks {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Have what happens sent to a URL; prints the secret, which is shown only now
    Add {
        /// Where to send
        #[arg(value_name = "URL")]
        to: String,
        /// Only of this intent
        #[arg(long)]
        intent: Option<String>,
        /// Only of this channel
        #[arg(long)]
        channel: Option<String>,
        /// Only of this type, or a glob such as `task.*`; repeatable
        #[arg(long = "event", value_name = "TYPE")]
        events: Vec<String>,
        /// When it ends by itself
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
    },
    /// List one's own
    List,
    /// Show one, with how it has been doing
    Show {
        /// Its id
        id: String,
    },
    /// Have things sent again, also after it was disabled
    Enable {
        /// Its id
        id: String,
    },
    /// Have nothing sent
    Disable {
        /// Its id
        id: String,
    },
    /// Send a test and say what came of it
    Ping {
        /// Its id
        id: String,
    },
    /// What became of its deliveries, the newest first
    Deliveries {
        /// Its id
        id: String,
        /// Only waiting, delivered, failed or dropped ones
        #[arg(long)]
        status: Option<String>,
    },
    /// Send again what happened since a time
    Replay {
        /// Its id
        id: String,
        /// The time
        #[arg(long, value_name = "TIME")]
        since: String,
    },
    /// Replace its secret; the old one signs along for a day
    Rotate {
        /// Its id
        id: String,
    },
    /// Take it away
    Remove {
        /// Its id
        id: String,
    },
}

impl Webhooks {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let path = |id: &str, rest: &str| format!("/subscriptions/{}{rest}", segment(id));
        let answer = match self.verb {
            Verb::Add { to, intent, channel, events, until } => {
                let body = json!({
                    "webhook_url": to, "intent_id": intent, "channel_id": channel, "event_types": events,
                    "expires_at": until,
                });
                api.post("/subscriptions", &body).await?
            }
            Verb::List => api.get("/subscriptions", &[]).await?,
            Verb::Show { id } => api.get(&path(&id, ""), &[]).await?,
            Verb::Enable { id } => api.act(Method::PATCH, &path(&id, ""), &json!({ "active": true })).await?,
            Verb::Disable { id } => {
                api.act(Method::PATCH, &path(&id, ""), &json!({ "active": false })).await?
            }
            Verb::Ping { id } => {
                api.post(&path(&id, &format!("/ping?wait={PING_SECONDS}")), &json!({})).await?
            }
            Verb::Deliveries { id, status } => {
                let query: Vec<_> = status.into_iter().map(|status| ("status", status)).collect();
                let found = api.get(&path(&id, "/deliveries"), &query).await?;
                let columns = ["webhook_id", "event_type", "status", "created_at", "next_attempt_at"];
                return self.remote.show(&found, &columns);
            }
            Verb::Replay { id, since } => api.post(&path(&id, "/replay"), &json!({ "since": since })).await?,
            Verb::Rotate { id } => api.post(&path(&id, "/rotate"), &json!({})).await?,
            Verb::Remove { id } => api.delete(&path(&id, "")).await?,
        };
        self.remote.show(&answer, &["id", "webhook_url", "event_types", "intent_id", "active", "last_error"])
    }
}
