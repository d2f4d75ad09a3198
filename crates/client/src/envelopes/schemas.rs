//! `entente schema`: payload schemas, as a directory in the layout of AEE §9.3.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Done;
use crate::failures::Placed;
use crate::remote::{Api, Remote, segment};

/// Path of the envelope schema, in such a directory and on the server.
const ENVELOPE: &str = "envelope/aee-v1.schema.json";

/// Schemas of envelopes' payloads: list, export and import them
#[derive(Debug, Args)]
pub(crate) struct Schemas {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List schemas
    List,
    /// Write the published schemas into a directory, byte for byte
    Export {
        /// The directory, created if necessary
        directory: PathBuf,
    },
    /// Publish all schemas in `DIRECTORY/intents`
    Import {
        /// The directory
        directory: PathBuf,
        /// The treatment of payloads that do not match: off, warn or enforce
        #[arg(long)]
        policy: Option<String>,
    },
}

impl Schemas {
    pub(crate) async fn run(self) -> Done {
        let api = self.remote.api()?;
        match self.verb {
            Verb::List => {
                let answer = api.get("/aee/schemas", &[]).await?;
                let listed = if self.remote.json { &answer } else { &answer["schemas"] };
                self.remote.show(listed, &["intent", "type", "policy", "updated_by", "updated_at"])
            }
            Verb::Export { directory } => export(&api, &directory).await,
            Verb::Import { directory, policy } => import(&api, &directory, policy.as_deref()).await,
        }
    }
}

async fn export(api: &Api, directory: &Path) -> Done {
    let answer = api.get("/aee/schemas", &[]).await?;
    let listed = answer["schemas"].as_array().map(Vec::as_slice).unwrap_or_default();
    let published = listed.iter().filter(|one| !one["updated_by"].is_null());
    // A path from the server must not address other local files: only its last component is used.
    let names = published.filter_map(|one| one["path"].as_str()?.strip_prefix("intents/"));
    let names: Vec<&str> =
        names.filter(|name| !name.contains(['/', '\\']) && !name.starts_with('.')).collect();
    fs::create_dir_all(directory.join("envelope"))?;
    fs::create_dir_all(directory.join("intents"))?;
    let envelope = api.open(&format!("/aee/schemas/{ENVELOPE}")).await?.text().await?;
    fs::write(directory.join(ENVELOPE), envelope)?;
    for name in &names {
        let text = api.open(&format!("/aee/schemas/intents/{}", segment(name))).await?.text().await?;
        fs::write(directory.join("intents").join(name), text)?;
    }
    writeln!(io::stdout(), "{} schemas written to {}", names.len(), directory.display())?;
    Ok(())
}

async fn import(api: &Api, directory: &Path, policy: Option<&str>) -> Done {
    let folder = directory.join("intents");
    let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    for file in &files {
        let name = file.file_name().and_then(|name| name.to_str()).ok_or("a file's name is no text")?;
        let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let schema = RawValue::from_string(text.trim().to_owned());
        let schema = schema.map_err(|e| format!("{} is no JSON: {e}", file.display()))?;
        let policy = policy.map(|policy| format!("?policy={}", segment(policy))).unwrap_or_default();
        let put = api.put::<Value>(&format!("/aee/schemas/intents/{}{policy}", segment(name)), &schema).await;
        put.map_err(|failure| Placed { place: file.display().to_string(), failure })?;
    }
    writeln!(io::stdout(), "{} schemas published", files.len())?;
    Ok(())
}
