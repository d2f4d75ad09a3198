//! `entente principal`, `entente key` and `entente whoami`: who holds keys, and the keys.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::Done;
use super::remote::{Remote, segment};

/// What is shown of a key in a list.
const KEY_COLUMNS: [&str; 7] = ["id", "prefix", "label", "scopes", "act_as", "expires_at", "revoked_at"];

/// Principals: who can hold keys
#[derive(Debug, Args)]
pub(super) struct Principals {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: PrincipalVerb,
}

#[derive(Debug, Subcommand)]
enum PrincipalVerb {
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
            PrincipalVerb::Create { id, kind, name } => {
                let kind = format!("{kind:?}").to_lowercase();
                api.post("/principals", &json!({ "id": id, "kind": kind, "display_name": name })).await?
            }
            PrincipalVerb::List { after } => {
                let query: Vec<_> = after.into_iter().map(|id| ("after", id)).collect();
                api.get("/principals", &query).await?
            }
            PrincipalVerb::Show { id } => api.get(&format!("/principals/{}", segment(&id)), &[]).await?,
        };
        self.remote.show(&answer, &["id", "kind", "display_name", "created_by", "created_at"])
    }
}

/// Keys: make, list, rotate, revoke
#[derive(Debug, Args)]
pub(super) struct Keys {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: KeyVerb,
}

#[derive(Debug, Subcommand)]
enum KeyVerb {
    /// Make a key; it is printed once
    Create {
        /// Whose key it will be
        principal: String,
        /// What it is for
        #[arg(long)]
        label: Option<String>,
        /// What it may be used for; repeatable. Everything but `admin` when nothing is said
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// Which agents it may act as besides its principal, such as 'agent.*'; repeatable
        #[arg(long, value_name = "PATTERN")]
        act_as: Vec<String>,
        /// When it ends by itself, RFC 3339
        #[arg(long, value_name = "TIME")]
        expires_at: Option<String>,
        /// Requests per second; 0 is without limit
        #[arg(long, value_name = "N")]
        rate: Option<u32>,
    },
    /// List a principal's keys
    List {
        /// Whose
        principal: String,
    },
    /// Make a new key with the same powers; the old one ends after the overlap
    Rotate {
        /// The key's id
        id: String,
        /// Seconds that the old key goes on working [default: a day]
        #[arg(long, value_name = "SECONDS")]
        overlap: Option<u32>,
    },
    /// Revoke a key, at once and everywhere
    Revoke {
        /// The key's id
        id: String,
    },
}

impl Keys {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let answer = match self.verb {
            KeyVerb::Create { principal, label, scopes, act_as, expires_at, rate } => {
                let scopes = Some(scopes).filter(|scopes| !scopes.is_empty());
                let body = json!({
                    "label": label, "scopes": scopes, "act_as": act_as, "expires_at": expires_at,
                    "rate_per_second": rate,
                });
                api.post(&format!("/principals/{}/keys", segment(&principal)), &body).await?
            }
            KeyVerb::List { principal } => {
                api.get(&format!("/principals/{}/keys", segment(&principal)), &[]).await?
            }
            KeyVerb::Rotate { id, overlap } => {
                api.post(&format!("/keys/{}/rotate", segment(&id)), &json!({ "overlap_seconds": overlap }))
                    .await?
            }
            KeyVerb::Revoke { id } => api.delete(&format!("/keys/{}", segment(&id))).await?,
        };
        if let (Some(key), false) = (answer["key"].as_str(), self.remote.json) {
            eprintln!("The key, shown only now:\n");
            println!("{key}");
            return Ok(());
        }
        self.remote.show(&answer, &KEY_COLUMNS)
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
