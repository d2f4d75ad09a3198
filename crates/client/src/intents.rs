//! `entente intent`: goals with a state and a log.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use entente_domain::identity::signatures::PublicKey;
use reqwest::Method;
use serde_json::{Value, json};

use super::Done;
use super::remote::{Api, Remote, segment};
use super::verify::read_key;

/// Intents: goals with a state, a status and a log
#[derive(Debug, Args)]
pub(super) struct Intents {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create an intent
    Create {
        /// The goal, in a few words
        title: String,
        /// The goal in detail
        #[arg(long, default_value = "")]
        description: String,
    },
    /// List intents
    List {
        /// Only intents in this status
        #[arg(long)]
        status: Option<String>,
    },
    /// Show an intent
    Show {
        /// The intent's id
        id: String,
    },
    /// Set members of an intent's state, such as `progress=0.5 owner.name=Ada`
    Set {
        /// The intent's id
        id: String,
        /// PATH=VALUE; the value is JSON, or else a string
        #[arg(required = true, value_parser = Member::parse, value_name = "PATH=VALUE")]
        members: Vec<Member>,
        /// The expected version; any other is refused [default: any version]
        #[arg(long, value_name = "N")]
        if_version: Option<i64>,
    },
    /// Set an intent's status
    Status {
        /// The intent's id
        id: String,
        /// The new status
        status: String,
        /// The expected version; any other is refused [default: any version]
        #[arg(long, value_name = "N")]
        if_version: Option<i64>,
    },
    /// Say whether writes of agents on an intent have to name the epochs of their sessions
    Strict {
        /// The intent's id
        id: String,
        /// Whether they have to
        #[arg(action = clap::ArgAction::Set)]
        strict: bool,
    },
    /// List an intent's events
    Events {
        /// The intent's id
        id: String,
        /// Only events of this type
        #[arg(long = "type")]
        event_type: Option<String>,
        /// Maximum number of events: the latest ones, oldest first
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Export an intent as a bundle: its log, messages, jobs, money, decisions and children, for `entente verify`
    Export {
        /// The intent's id
        id: String,
        /// The file to write [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Import a bundle that another server wrote, as a record for admins: `export` writes it again, byte for byte
    Import {
        /// The bundle; it may be imported again, which changes nothing
        file: PathBuf,
        /// A key of the server that wrote it, noted from its `GET /api/v1/server/keys`; repeatable. This server's own
        /// keys are always trusted
        #[arg(long = "server-key", value_name = "DID", value_parser = read_key)]
        server_keys: Vec<PublicKey>,
    },
}

/// A path in the state and its new value.
#[derive(Debug, Clone)]
struct Member {
    path: String,
    value: Value,
}

impl Member {
    fn parse(text: &str) -> Result<Self, String> {
        let (path, value) = text.split_once('=').ok_or("must be PATH=VALUE")?;
        let value = serde_json::from_str(value).unwrap_or_else(|_a_text| json!(value));
        Ok(Self { path: path.to_owned(), value })
    }
}

/// Writes a bundle to a file or to standard output as it arrives.
async fn export(api: &Api, path: &str, output: Option<&Path>) -> Done {
    let mut response = api.open(path).await?;
    let mut out: Box<dyn Write + Send> = match output {
        Some(file) => Box::new(File::create(file)?),
        None => Box::new(std::io::stdout()),
    };
    let mut lines = 0;
    while let Some(chunk) = response.chunk().await? {
        lines += chunk.split(|byte| *byte == b'\n').count().saturating_sub(1);
        out.write_all(&chunk)?;
    }
    out.flush()?;
    if let Some(file) = output {
        writeln!(std::io::stderr(), "wrote {lines} lines to {}", file.display())?;
    }
    Ok(())
}

/// Sends a bundle as it is read.
async fn import(api: &Api, file: &Path, keys: &[PublicKey]) -> Result<Value, Box<dyn Error + Send + Sync>> {
    let open = tokio::fs::File::open(file).await.map_err(|e| format!("{}: {e}", file.display()))?;
    let length = open.metadata().await?.len();
    let keys: Vec<_> = keys.iter().map(|key| ("server_key", key.did())).collect();
    Ok(api.upload("/bundles", &keys, open, length).await?)
}

impl Intents {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let path = |id: &str, rest: &str| format!("/intents/{}{rest}", segment(id));
        let answer = match self.verb {
            Verb::Create { title, description } => {
                api.post("/intents", &json!({ "title": title, "description": description })).await?
            }
            Verb::List { status } => {
                let query: Vec<_> = status.into_iter().map(|status| ("status", status)).collect();
                api.get("/intents", &query).await?["intents"].take()
            }
            Verb::Show { id } => api.get(&path(&id, ""), &[]).await?,
            Verb::Set { id, members, if_version } => {
                let patches: Vec<Value> = members
                    .into_iter()
                    .map(|Member { path, value }| json!({ "op": "set", "path": path, "value": value }))
                    .collect();
                let body = json!({ "patches": patches });
                api.post_versioned(&path(&id, ""), &path(&id, "/state"), &body, if_version).await?
            }
            Verb::Status { id, status, if_version } => {
                let body = json!({ "status": status });
                api.post_versioned(&path(&id, ""), &path(&id, "/status"), &body, if_version).await?
            }
            Verb::Strict { id, strict } => {
                api.act(Method::PUT, &path(&id, "/strict"), &json!({ "strict": strict })).await?
            }
            Verb::Events { id, event_type, limit } => {
                let limit = ("limit", limit.to_string());
                let query: Vec<_> =
                    event_type.into_iter().map(|word| ("event_type", word)).chain([limit]).collect();
                let events = api.get(&path(&id, "/events"), &query).await?;
                return self.remote.show(&events, &["sequence", "created_at", "event_type", "actor"]);
            }
            Verb::Export { id, output } => {
                return export(&api, &path(&id, "/export"), output.as_deref()).await;
            }
            Verb::Import { file, server_keys } => {
                let made = import(&api, &file, &server_keys).await?;
                return self
                    .remote
                    .show(&made, &["id", "intent_id", "title", "lines", "exported_at", "signed_by"]);
            }
        };
        self.remote.show(&answer, &["id", "status", "version", "title", "created_by", "updated_at"])
    }
}
