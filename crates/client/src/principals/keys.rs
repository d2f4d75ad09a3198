//! `entente key`: API keys.

use std::io::{self, Write as _};

use clap::{Args, Subcommand};
use serde_json::json;

use crate::Done;
use crate::output::note;
use crate::remote::{Remote, segment};

/// Columns of a list of keys.
const KEY_COLUMNS: [&str; 7] = ["id", "prefix", "label", "scopes", "act_as", "expires_at", "revoked_at"];

/// Keys: create, list, rotate, revoke
#[derive(Debug, Args)]
pub(crate) struct Keys {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a key; it is printed once
    Create {
        /// The principal that the key belongs to
        principal: String,
        /// A label for the key's purpose
        #[arg(long)]
        label: Option<String>,
        /// A scope that the key grants; repeatable [default: all but `admin`]
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// A pattern of agents that the key may act as besides its principal, such as 'agent.*'; repeatable
        #[arg(long, value_name = "PATTERN")]
        act_as: Vec<String>,
        /// When the key expires, RFC 3339
        #[arg(long, value_name = "TIME")]
        expires_at: Option<String>,
        /// Requests per second; 0 means no limit
        #[arg(long, value_name = "N")]
        rate: Option<u32>,
    },
    /// List a principal's keys
    List {
        /// The principal
        principal: String,
    },
    /// Rotate a key: the new one has the same powers, and the old one ends after the overlap
    Rotate {
        /// The key's id
        id: String,
        /// Seconds that the old key keeps working [default: a day]
        #[arg(long, value_name = "SECONDS")]
        overlap: Option<u32>,
    },
    /// Revoke a key, immediately and on every server
    Revoke {
        /// The key's id
        id: String,
    },
}

impl Keys {
    pub(crate) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let answer = match self.verb {
            Verb::Create { principal, label, scopes, act_as, expires_at, rate } => {
                let scopes = Some(scopes).filter(|scopes| !scopes.is_empty());
                let body = json!({
                    "label": label, "scopes": scopes, "act_as": act_as, "expires_at": expires_at,
                    "rate_per_second": rate,
                });
                api.post(&format!("/principals/{}/keys", segment(&principal)), &body).await?
            }
            Verb::List { principal } => {
                api.get(&format!("/principals/{}/keys", segment(&principal)), &[]).await?
            }
            Verb::Rotate { id, overlap } => {
                api.post(&format!("/keys/{}/rotate", segment(&id)), &json!({ "overlap_seconds": overlap }))
                    .await?
            }
            Verb::Revoke { id } => api.delete(&format!("/keys/{}", segment(&id))).await?,
        };
        if let (Some(key), false) = (answer["key"].as_str(), self.remote.json) {
            note("The key, shown only now:\n");
            writeln!(io::stdout(), "{key}")?;
            return Ok(());
        }
        self.remote.show(&answer, &KEY_COLUMNS)
    }
}
