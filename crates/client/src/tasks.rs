//! `entente task`: the tasks of an intent.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Done;
use super::remote::{Remote, segment};

/// Tasks: create, list, claim, complete, fail
#[derive(Debug, Args)]
pub(super) struct Tasks {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a task
    Create {
        /// The intent's id
        intent: String,
        /// A short name of the task
        name: String,
        /// A longer description
        #[arg(long)]
        description: Option<String>,
        /// The priority
        #[arg(long, default_value = "normal")]
        priority: String,
        /// The task's input: a JSON object
        #[arg(long, value_name = "JSON", value_parser = object)]
        input: Option<Value>,
        /// A task that must be completed first; repeatable
        #[arg(long = "after", value_name = "TASK")]
        depends_on: Vec<String>,
        /// A capability that the agent must have; repeatable
        #[arg(long = "capability", value_name = "WORD")]
        capabilities: Vec<String>,
        /// Time limit of one attempt in seconds
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u32>,
        /// Maximum number of attempts
        #[arg(long, default_value_t = 3)]
        attempts: u32,
    },
    /// List an intent's tasks
    List {
        /// The intent's id
        intent: String,
        /// Only tasks in this status
        #[arg(long)]
        status: Option<String>,
        /// Only tasks assigned to this agent
        #[arg(long)]
        agent: Option<String>,
        /// Maximum number of tasks
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Show a task
    Show {
        /// The task's id
        id: String,
    },
    /// Claim a task that is ready
    Claim {
        /// The task's id
        id: String,
    },
    /// Report that a task is done
    Complete {
        /// The task's id
        id: String,
        /// The task's output: a JSON object
        #[arg(value_name = "JSON", value_parser = object)]
        output: Option<Value>,
    },
    /// Report that an attempt failed
    Fail {
        /// The task's id
        id: String,
        /// The error message
        error: Option<String>,
    },
    /// Release a claimed task
    Release {
        /// The task's id
        id: String,
    },
    /// Cancel a task
    Cancel {
        /// The task's id
        id: String,
        /// The reason
        reason: Option<String>,
    },
}

fn object(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|e| format!("is no JSON: {e}"))?;
    if value.is_object() { Ok(value) } else { Err("must be a JSON object".to_owned()) }
}

impl Tasks {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let path = |id: &str, rest: &str| format!("/tasks/{}{rest}", segment(id));
        let answer = match self.verb {
            Verb::Create {
                intent,
                name,
                description,
                priority,
                input,
                depends_on,
                capabilities,
                timeout,
                attempts,
            } => {
                let body = json!({
                    "name": name, "description": description, "priority": priority, "input": input,
                    "depends_on": depends_on, "capabilities_required": capabilities, "timeout_seconds": timeout,
                    "max_attempts": attempts,
                });
                api.post(&format!("/intents/{}/tasks", segment(&intent)), &body).await?
            }
            Verb::List { intent, status, agent, limit } => {
                let status = status.map(|status| ("status", status));
                let agent = agent.map(|agent| ("assigned_agent", agent));
                let limit = ("limit", limit.to_string());
                let query: Vec<_> = status.into_iter().chain(agent).chain([limit]).collect();
                api.get(&format!("/intents/{}/tasks", segment(&intent)), &query).await?
            }
            Verb::Show { id } => api.get(&path(&id, ""), &[]).await?,
            Verb::Claim { id } => api.post(&path(&id, "/claim"), &json!({})).await?,
            Verb::Complete { id, output } => {
                api.post(&path(&id, "/complete"), &json!({ "output": output })).await?
            }
            Verb::Fail { id, error } => api.post(&path(&id, "/fail"), &json!({ "error": error })).await?,
            Verb::Release { id } => api.post(&path(&id, "/release"), &json!({})).await?,
            Verb::Cancel { id, reason } => {
                api.post(&path(&id, "/cancel"), &json!({ "reason": reason })).await?
            }
        };
        self.remote.show(&answer, &["id", "status", "assigned_agent", "priority", "attempt", "name"])
    }
}
