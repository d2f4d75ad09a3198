//! `entente checkpoint`: signed checkpoints of the server's logs (RFC-0019), and `entente identity`: agents'
//! keys (RFC-0018).

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Done;
use super::remote::{Remote, segment};

/// Checkpoints: the server's signed commitments to its logs
#[derive(Debug, Args)]
pub(super) struct Checkpoints {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: CheckpointVerb,
}

#[derive(Debug, Subcommand)]
enum CheckpointVerb {
    /// Create a checkpoint of an intent's log, or of the system log
    Create {
        /// The intent's id
        #[arg(required_unless_present = "system", conflicts_with = "system")]
        intent: Option<String>,
        /// Create a checkpoint of the system log instead of an intent's
        #[arg(long)]
        system: bool,
    },
    /// List checkpoints, newest first
    List {
        /// Only checkpoints of this intent
        intent: Option<String>,
    },
    /// Show a checkpoint
    Show {
        /// The checkpoint's id
        id: String,
    },
    /// Record a witness's receipt for a checkpoint
    Anchor {
        /// The checkpoint's id
        id: String,
        /// The witness
        provider: String,
        /// The receipt's reference at the witness
        reference: String,
    },
    /// List the server's signing keys
    Keys,
}

impl Checkpoints {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let answer = match self.verb {
            CheckpointVerb::Create { intent: Some(intent), .. } => {
                api.post("/admin/checkpoints", &json!({ "intent_id": intent })).await?
            }
            CheckpointVerb::Create { .. } => {
                api.post("/admin/checkpoints", &json!({ "scope": "server" })).await?
            }
            CheckpointVerb::List { intent } => {
                let query: Vec<_> = intent.into_iter().map(|intent| ("intent_id", intent)).collect();
                api.get("/checkpoints", &query).await?
            }
            CheckpointVerb::Show { id } => api.get(&format!("/checkpoints/{}", segment(&id)), &[]).await?,
            CheckpointVerb::Anchor { id, provider, reference } => {
                let receipt = json!({ "provider": provider, "reference": reference });
                api.post(&format!("/admin/checkpoints/{}/anchor", segment(&id)), &receipt).await?
            }
            CheckpointVerb::Keys => {
                let keys = api.get("/server/keys", &[]).await?["keys"].take();
                return self.remote.show(&keys, &["did", "current", "created_at"]);
            }
        };
        self.remote.show(&answer, &["checkpoint_id", "intent_id", "event_count", "merkle_root", "created_at"])
    }
}

/// Identities: agents' own signing keys
#[derive(Debug, Args)]
pub(super) struct Identities {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: IdentityVerb,
}

#[derive(Debug, Subcommand)]
enum IdentityVerb {
    /// Show an agent's identity
    Show {
        /// The agent's id
        agent: String,
    },
    /// Check whether an agent signed a payload
    Verify {
        /// The agent's id
        agent: String,
        /// The payload: a JSON object
        payload: String,
        /// The signature, in base64url
        signature: String,
    },
    /// Revoke an agent's key, immediately and permanently
    Revoke {
        /// The agent's id
        agent: String,
        /// The reason
        #[arg(long)]
        reason: Option<String>,
    },
}

impl Identities {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let path = |agent: &str, rest: &str| format!("/agents/{}/identity{rest}", segment(agent));
        let answer = match self.verb {
            IdentityVerb::Show { agent } => api.get(&path(&agent, ""), &[]).await?,
            IdentityVerb::Verify { agent, payload, signature } => {
                let payload: Value =
                    serde_json::from_str(&payload).map_err(|e| format!("the payload: {e}"))?;
                let body = json!({ "payload": payload, "signature": signature });
                api.post(&path(&agent, "/verify"), &body).await?
            }
            IdentityVerb::Revoke { agent, reason } => {
                api.post(&path(&agent, "/revoke"), &json!({ "reason": reason })).await?
            }
        };
        self.remote.show(&answer, &[])
    }
}
