//! `entente channel`: channels on which agents exchange messages.

use clap::{Args, Subcommand};
use serde_json::{Map, json};

use super::Done;
use super::remote::{Remote, segment};

/// Channels: message exchange between the agents on an intent
#[derive(Debug, Args)]
pub(super) struct Channels {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Open a channel on an intent
    Open {
        /// The intent's id
        intent: String,
        /// The channel's name, unique among the intent's open channels
        name: String,
        /// A member of the channel; repeatable [default: all agents on the intent]
        #[arg(long = "member", value_name = "AGENT")]
        members: Vec<String>,
        /// Record the channel's messages in the intent's log
        #[arg(long)]
        audit: bool,
        /// Seconds until the channel closes
        #[arg(long, value_name = "SECONDS")]
        ttl: Option<u32>,
        /// Maximum number of messages to keep
        #[arg(long, value_name = "N")]
        max_messages: Option<u32>,
    },
    /// List an intent's channels
    List {
        /// The intent's id
        intent: String,
    },
    /// Show a channel
    Show {
        /// The channel's id
        id: String,
    },
    /// Close a channel
    Close {
        /// The channel's id
        id: String,
    },
}

impl Channels {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let answer = match self.verb {
            Verb::Open { intent, name, members, audit, ttl, max_messages } => {
                let mut options = Map::from_iter([("audit".to_owned(), json!(audit))]);
                options.extend(ttl.map(|seconds| ("ttl_seconds".to_owned(), json!(seconds))));
                options.extend(max_messages.map(|n| ("max_messages".to_owned(), json!(n))));
                let mut body = json!({ "name": name, "options": options });
                if !members.is_empty() {
                    body["members"] = json!(members);
                    body["member_policy"] = json!("explicit");
                }
                api.post(&format!("/intents/{}/channels", segment(&intent)), &body).await?
            }
            Verb::List { intent } => api.get(&format!("/intents/{}/channels", segment(&intent)), &[]).await?,
            Verb::Show { id } => api.get(&format!("/channels/{}", segment(&id)), &[]).await?,
            Verb::Close { id } => api.delete(&format!("/channels/{}", segment(&id))).await?,
        };
        self.remote.show(&answer, &["id", "name", "status", "member_policy", "members", "message_count"])
    }
}
