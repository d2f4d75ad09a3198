//! `entente channel`: where agents talk.

use clap::{Args, Subcommand};
use serde_json::{Map, json};

use super::Done;
use super::remote::{Remote, segment};

/// Channels: where agents on an intent talk
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
        /// The channel's name, unique among the intent's open ones
        name: String,
        /// Only for these; repeatable. For everybody on the intent when nothing is said
        #[arg(long = "member", value_name = "AGENT")]
        members: Vec<String>,
        /// Write its messages into the intent's log
        #[arg(long)]
        audit: bool,
        /// Close it after this many seconds
        #[arg(long, value_name = "SECONDS")]
        ttl: Option<u32>,
        /// Keep this many messages at the most
        #[arg(long, value_name = "N")]
        max_messages: Option<u32>,
    },
    /// List an intent's channels
    List {
        /// The intent's id
        intent: String,
    },
    /// Show one
    Show {
        /// Its id
        id: String,
    },
    /// Close it
    Close {
        /// Its id
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
