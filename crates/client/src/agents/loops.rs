//! `entente loops`: loops and storms among agents, and the policy for them.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use crate::remote::{Remote, segment};
use crate::{Done, Failure};

/// Loops and storms among agents: list, let go on, set the policy
#[derive(Debug, Args)]
pub(crate) struct Loops {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List lineages, each a message and all that followed from it, newest first
    List {
        /// The intent's id
        intent: String,
        /// Only those in this state: running, told, slowed, stopped or ended
        #[arg(long)]
        state: Option<String>,
        /// Id of the last lineage of the previous page
        #[arg(long, value_name = "ID")]
        before: Option<String>,
        /// Maximum number of lineages
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Show a lineage
    Show {
        /// The intent's id
        intent: String,
        /// The lineage's id
        lineage: String,
    },
    /// Let a lineage go on that was slowed or stopped
    Release {
        /// The intent's id
        intent: String,
        /// The lineage's id
        lineage: String,
    },
    /// Show the policy of an intent, or set it
    Policy {
        /// The intent's id
        intent: String,
        /// The policy as JSON, as `PUT /intents/{id}/loop-policy` takes it
        policy: Option<String>,
    },
}

impl Loops {
    pub(crate) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let all = |intent: &str| format!("/intents/{}/lineages", segment(intent));
        let answer = match self.verb {
            Verb::List { intent, state, before, limit } => {
                let limit = limit.map(|limit| limit.to_string());
                let given = [("state", state), ("before", before), ("limit", limit)];
                let query: Vec<_> =
                    given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
                let found = api.get(&all(&intent), &query).await?;
                if self.remote.json { found } else { found["lineages"].clone() }
            }
            Verb::Show { intent, lineage } => {
                api.get(&format!("{}/{}", all(&intent), segment(&lineage)), &[]).await?
            }
            Verb::Release { intent, lineage } => {
                api.post(&format!("{}/{}/release", all(&intent), segment(&lineage)), &json!({})).await?
            }
            Verb::Policy { intent, policy } => {
                let path = format!("/intents/{}/loop-policy", segment(&intent));
                let policy = policy.as_deref().map(serde_json::from_str::<Value>).transpose();
                match policy.map_err(|fault| Failure::from(format!("the policy is no JSON: {fault}")))? {
                    Some(policy) => api.act(Method::PUT, &path, &policy).await?,
                    None => api.get(&path, &[]).await?,
                }
            }
        };
        self.remote.show(&answer, &["id", "state", "cause", "hops", "messages", "repeats", "last_at"])
    }
}
