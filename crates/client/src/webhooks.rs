//! `entente webhook`: subscriptions, their deliveries, tests of a receiver, and replays.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

use super::Done;
use super::remote::{Remote, segment};

/// Seconds that `ping` waits for the receiver.
const PING_SECONDS: u32 = 20;

/// Webhooks: add, list, show, enable, disable, ping, list deliveries, replay, rotate, remove
#[derive(Debug, Args)]
pub(super) struct Webhooks {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Subscribe a URL or a sink to events; prints the secret, which is shown only once
    #[command(alias = "add")]
    Create {
        /// The receiver's URL
        #[arg(value_name = "URL", required_unless_present = "sink", conflicts_with = "sink")]
        to: Option<String>,
        /// A broker of the server's settings, to publish to instead
        #[arg(long, value_name = "NAME", requires = "topic")]
        sink: Option<String>,
        /// The topic at the sink, such as `events.{intent_id}.{type}`
        #[arg(long, requires = "sink")]
        topic: Option<String>,
        /// Only events of this intent
        #[arg(long)]
        intent: Option<String>,
        /// Only events of this channel
        #[arg(long)]
        channel: Option<String>,
        /// Only events of this type, or a glob such as `task.*`; repeatable
        #[arg(long = "event", value_name = "TYPE")]
        events: Vec<String>,
        /// When the subscription ends
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Form of the bodies: standard or cloudevents [default: standard, for a sink cloudevents]
        #[arg(long)]
        format: Option<String>,
    },
    /// List your subscriptions
    List,
    /// Show a subscription, with its health
    Show {
        /// The subscription's id
        id: String,
    },
    /// Enable deliveries, also after the server disabled them
    Enable {
        /// The subscription's id
        id: String,
    },
    /// Disable deliveries
    Disable {
        /// The subscription's id
        id: String,
    },
    /// Send a test event and show the result
    Ping {
        /// The subscription's id
        id: String,
    },
    /// List a subscription's deliveries, newest first
    Deliveries {
        /// The subscription's id
        id: String,
        /// Only deliveries in this status: waiting, delivered, failed or dropped
        #[arg(long)]
        status: Option<String>,
    },
    /// Deliver past events again
    Replay {
        /// The subscription's id
        id: String,
        /// The time from which to start
        #[arg(long, value_name = "TIME")]
        since: String,
    },
    /// Rotate a subscription's secret; the old one also signs for a day
    Rotate {
        /// The subscription's id
        id: String,
    },
    /// Delete a subscription
    #[command(alias = "remove")]
    Delete {
        /// The subscription's id
        id: String,
    },
}

impl Webhooks {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let path = |id: &str, rest: &str| format!("/subscriptions/{}{rest}", segment(id));
        let answer = match self.verb {
            Verb::Create { to, sink, topic, intent, channel, events, until, format } => {
                let body = json!({
                    "webhook_url": to, "sink": sink, "topic": topic, "intent_id": intent, "channel_id": channel, "event_types": events,
                    "expires_at": until, "format": format,
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
            Verb::Delete { id } => api.delete(&path(&id, "")).await?,
        };
        self.remote
            .show(&answer, &["id", "webhook_url", "sink", "event_types", "intent_id", "active", "last_error"])
    }
}
