//! `entente principal` and `entente whoami`: who can hold keys, and who one is.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::Done;
use super::remote::{Remote, segment};

/// Principals: who can hold keys
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
        /// Its id, such as agent.researcher, human.ada or service.ci
        id: String,
        /// What kind of being it is
        #[arg(long, value_enum, default_value = "agent")]
        kind: Kind,
        /// A name for people
        #[arg(long)]
        name: Option<String>,
    },
    /// List them
    List {
        /// Begin after this id
        #[arg(long)]
        after: Option<String>,
    },
    /// Show one
    Show {
        /// Its id
        id: String,
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
        };
        self.remote.show(&answer, &["id", "kind", "display_name", "created_by", "created_at"])
    }
}

/// Who the key in `ENTENTE_API_KEY` is
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
