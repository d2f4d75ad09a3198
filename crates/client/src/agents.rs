//! `entente agent`: the directory of agents, and their sessions.

pub(super) mod handover;
pub(super) mod loops;
pub(super) mod turn;
pub(super) mod waits;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

use super::Done;
use super::remote::{Remote, segment};

/// Agents: register, list, heartbeat, drain, deregister
#[derive(Debug, Args)]
pub(super) struct Agents {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Register an agent, or update its record
    Register {
        /// The agent's id
        id: String,
        /// The role that the agent can be addressed by
        #[arg(long)]
        role: Option<String>,
        /// A display name
        #[arg(long)]
        name: Option<String>,
        /// A capability of the agent; repeatable
        #[arg(long = "capability", value_name = "WORD")]
        capabilities: Vec<String>,
    },
    /// List agents
    List {
        /// Only agents in this status
        #[arg(long)]
        status: Option<String>,
        /// Only agents with this role
        #[arg(long)]
        role: Option<String>,
    },
    /// Show an agent
    Show {
        /// The agent's id
        id: String,
    },
    /// Send a heartbeat
    Heartbeat {
        /// The agent's id
        id: String,
    },
    /// Open a session of an agent: its epoch refuses the writes of the agent's earlier processes
    Session {
        /// The agent's id
        id: String,
        /// Whether every write of the agent has to name its epoch from now on
        #[arg(long, value_name = "true|false")]
        strict: Option<bool>,
    },
    /// Drain an agent: it finishes its work and takes no more
    Drain {
        /// The agent's id
        id: String,
    },
    /// Set an agent's status
    Status {
        /// The agent's id
        id: String,
        /// The new status
        status: String,
    },
    /// Deregister an agent
    Deregister {
        /// The agent's id
        id: String,
    },
}

impl Agents {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let path = |id: &str, rest: &str| format!("/agents/{}{rest}", segment(id));
        let answer = match self.verb {
            Verb::Register { id, role, name, capabilities } => {
                let body =
                    json!({ "agent_id": id, "role_id": role, "name": name, "capabilities": capabilities });
                api.post("/agents/register", &body).await?
            }
            Verb::List { status, role } => {
                let status = status.map(|status| ("status", status));
                let query: Vec<_> = status.into_iter().chain(role.map(|role| ("role_id", role))).collect();
                api.get("/agents", &query).await?
            }
            Verb::Show { id } => api.get(&path(&id, "/record"), &[]).await?,
            Verb::Heartbeat { id } => api.post(&path(&id, "/heartbeat"), &json!({})).await?,
            Verb::Session { id, strict } => {
                let opened = api.post(&path(&id, "/sessions"), &json!({ "strict": strict })).await?;
                return self.remote.show(&opened, &[]);
            }
            Verb::Drain { id } => api.post(&path(&id, "/drain"), &json!({})).await?,
            Verb::Status { id, status } => {
                api.act(Method::PATCH, &path(&id, "/status"), &json!({ "status": status })).await?
            }
            Verb::Deregister { id } => api.delete(&path(&id, "")).await?,
        };
        let answer = match answer.get("agents") {
            Some(agents) if !self.remote.json => agents,
            _ => &answer,
        };
        self.remote.show(answer, &["agent_id", "status", "role_id", "capabilities", "last_heartbeat_at"])
    }
}
