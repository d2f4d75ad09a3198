//! `entente handover`: an agent's part of an intent passes to another agent.

use clap::Args;
use serde_json::{Value, json};

use crate::Done;
use crate::jobs::given;
use crate::remote::{Remote, segment};

/// Hand an agent's part of an intent over: role, tasks and leases, with new tokens
#[derive(Debug, Args)]
pub(crate) struct Handover {
    #[command(flatten)]
    remote: Remote,
    /// The intent's id
    intent: String,
    /// The agent that takes over
    to: String,
    /// The agent that hands over, if you manage the intent; defaults to you
    #[arg(long, value_name = "ID")]
    from: Option<String>,
    /// A note for the other agent
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// State of the work as JSON: the text, `@` and a file, or `-` for standard input
    #[arg(long, value_name = "JSON")]
    state: Option<String>,
    /// An id or address that the work refers to; repeatable
    #[arg(long = "reference", value_name = "TEXT")]
    references: Vec<String>,
    /// A task to hand over; repeatable [default: all]
    #[arg(long = "task", value_name = "ID")]
    tasks: Vec<String>,
    /// A lease to hand over; repeatable [default: all]
    #[arg(long = "lease", value_name = "ID")]
    leases: Vec<String>,
    /// A key, so that it happens once, however often it is sent
    #[arg(long, value_name = "KEY")]
    once: Option<String>,
}

impl Handover {
    pub(crate) async fn run(self) -> Done {
        let state = self.state.as_deref().map(given).transpose()?;
        let state: Option<Value> = state.map(|text| serde_json::from_str(&text)).transpose()?;
        let some = |items: Vec<String>| (!items.is_empty()).then_some(items);
        let body = json!({
            "to": self.to, "from": self.from, "note": self.note, "state": state, "references": self.references,
            "tasks": some(self.tasks), "leases": some(self.leases),
        });
        let (api, path) = (self.remote.api()?, format!("/intents/{}/handover", segment(&self.intent)));
        let made = match &self.once {
            Some(key) => api.post_once(&path, &body, key).await?,
            None => api.post(&path, &body).await?,
        };
        self.remote.show(&made, &["from", "to", "role", "tasks", "leases", "seq"])
    }
}
