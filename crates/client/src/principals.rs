//! `entente principal` and `entente whoami`: the owners of keys, and the caller's own identity.

pub(super) mod keys;
pub(super) mod quotas;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use self::quotas::Limits;
use super::Done;
use super::remote::{Remote, segment};

/// Principals: the owners of keys
#[derive(Debug, Args)]
pub(super) struct Principals {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a principal
    Create {
        /// The principal's id, such as agent.researcher, human.ada or service.ci
        id: String,
        /// The kind of principal
        #[arg(long, value_enum, default_value = "agent")]
        kind: Kind,
        /// A display name
        #[arg(long)]
        name: Option<String>,
    },
    /// List principals
    List {
        /// Only principals after this id
        #[arg(long)]
        after: Option<String>,
    },
    /// Show a principal
    Show {
        /// The principal's id
        id: String,
    },
    /// Show the quotas of a principal with their use, or set them
    Quota {
        /// The principal's id; one's own by default
        #[arg(default_value = "me")]
        id: String,
        #[command(flatten)]
        limits: Limits,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Human,
    Agent,
    Service,
}

impl Principals {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let answer = match self.verb {
            Verb::Create { id, kind, name } => {
                let kind = format!("{kind:?}").to_lowercase();
                api.post("/principals", &json!({ "id": id, "kind": kind, "display_name": name })).await?
            }
            Verb::List { after } => {
                let query: Vec<_> = after.into_iter().map(|id| ("after", id)).collect();
                api.get("/principals", &query).await?
            }
            Verb::Show { id } => api.get(&format!("/principals/{}", segment(&id)), &[]).await?,
            Verb::Quota { id, limits } => {
                let path = format!("/principals/{}/quotas", segment(&id));
                return limits.run(&self.remote, &api, &path).await;
            }
        };
        self.remote.show(&answer, &["id", "kind", "display_name", "created_by", "created_at"])
    }
}

/// Show the identity of the key in `ENTENTE_API_KEY`
#[derive(Debug, Args)]
pub(super) struct Whoami {
    #[command(flatten)]
    remote: Remote,
}

impl Whoami {
    pub(super) async fn run(self) -> Done {
        let me = self.remote.api()?.get("/principals/me", &[]).await?;
        self.remote.show(&me, &[])
    }
}
