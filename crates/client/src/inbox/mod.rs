//! `entente inbox`: the inbox of an agent, from a terminal or a hook of its host.

use std::io::{self, Write as _};

use clap::{Args, Subcommand};
use entente_domain::moments::text::plain;
use reqwest::Method;
use serde_json::{Value, json};

use super::Done;
use super::messages::line;
use super::remote::{Remote, segment};

/// Inboxes of agents: read, mark seen, set up
#[derive(Debug, Args)]
pub(super) struct Inbox {
    #[command(flatten)]
    remote: Remote,
    /// The agent; defaults to the one that you act as
    #[arg(long, value_name = "ID", global = true)]
    of: Option<String>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the agent's entries after those that its reader marked seen
    Read {
        /// The reader, whose position the server keeps
        #[arg(long)]
        reader: Option<String>,
        /// Levels, separated by commas: wake, next, digest
        #[arg(long)]
        attention: Option<String>,
        /// Seconds to wait if there is nothing, up to 120
        #[arg(long, value_name = "SECONDS")]
        wait: Option<u32>,
        /// Maximum number of entries
        #[arg(long)]
        limit: Option<u32>,
        /// List the entries of the digest
        #[arg(long)]
        expand: bool,
        /// Mark the shown entries seen
        #[arg(long)]
        seen: bool,
    },
    /// Mark entries seen
    Seen {
        /// Every entry up to this place
        place: i64,
        /// The reader
        #[arg(long)]
        reader: Option<String>,
    },
    /// Show settings and readers
    Show,
    /// Open the inbox, or replace its settings
    Set {
        /// The settings as JSON, as `PUT /agents/{id}/inbox` takes them
        settings: String,
    },
    /// Close the inbox
    Close,
}

impl Inbox {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let agent = match &self.of {
            Some(agent) => agent.clone(),
            None => api.speaker().await?,
        };
        let path = format!("/agents/{}/inbox", segment(&agent));
        match self.verb {
            Verb::Read { reader, attention, wait, limit, expand, seen } => {
                let given = [
                    ("reader", reader.clone()),
                    ("attention", attention),
                    ("wait", wait.map(|seconds| seconds.to_string())),
                    ("limit", limit.map(|limit| limit.to_string())),
                    ("expand", expand.then(|| "true".to_owned())),
                ];
                let query: Vec<(&str, String)> =
                    given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
                let page = api.get(&path, &query).await?;
                print(&self.remote, &page)?;
                // Only printed entries are marked.
                if seen {
                    let body = json!({ "reader": reader, "place": page["next_place"] });
                    api.post(&format!("{path}/seen"), &body).await?;
                }
                Ok(())
            }
            Verb::Seen { place, reader } => {
                let body = json!({ "reader": reader, "place": place });
                let reader = api.post(&format!("{path}/seen"), &body).await?;
                self.remote.show(&reader, &["reader", "place", "attention"])
            }
            Verb::Show => {
                let inbox = api.get(&format!("{path}/settings"), &[]).await?;
                self.remote.show(&inbox, &["agent_id", "newest", "entries", "evicted", "settings"])
            }
            Verb::Set { settings } => {
                let settings: Value = serde_json::from_str(&settings)?;
                let inbox = api.act(Method::PUT, &path, &settings).await?;
                self.remote.show(&inbox, &["agent_id", "newest", "entries", "evicted", "settings"])
            }
            Verb::Close => {
                api.delete(&path).await?;
                Ok(())
            }
        }
    }
}

/// Prints a page: one line for each entry, and the summary of the digest.
pub(crate) fn print(remote: &Remote, page: &Value) -> Done {
    let mut out = io::stdout().lock();
    if remote.json {
        writeln!(out, "{page}")?;
        return Ok(());
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for entry in list(&page["entries"]) {
        writeln!(out, "{}", shown(&entry))?;
    }
    if let Some(count) = page["digest"]["count"].as_u64() {
        writeln!(out, "digest: {count} more")?;
        for source in list(&page["digest"]["sources"]) {
            writeln!(out, "  {} × {}", source["count"], shown(&source["newest"]))?;
        }
    }
    if let Some(missed) = page["missed"].as_i64().filter(|missed| *missed > 0) {
        writeln!(out, "{missed} missed: they expired or were evicted")?;
    }
    writeln!(out, "next: {}", page["next_place"])?;
    out.flush()?;
    Ok(())
}

/// Renders an entry in one line.
fn shown(entry: &Value) -> String {
    let text = |member: &str| plain(entry[member].as_str().unwrap_or("-")).clone();
    let head = format!("{:>6}  {:<6}  {}", entry["place"].to_string(), text("attention"), text("kind"));
    if entry["message"].is_object() {
        return format!("{head}  {}", line(&entry["message"]));
    }
    let state = if entry["withheld"] == true {
        "  (withheld)"
    } else if entry["gone"] == true {
        "  (deleted)"
    } else {
        ""
    };
    format!("{head}  {}  {} by {}: {}{state}", text("at"), text("reference"), text("sender"), text("what"))
}
