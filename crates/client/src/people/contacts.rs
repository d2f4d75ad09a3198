//! `entente contact`: where a person is told by mail, chat or push what waits for them, and when.

use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::output::note;
use crate::remote::{Api, Remote, segment};
use crate::{Done, Failure};

/// Members of a contact point that a line shows.
const SHOWN: [&str; 7] = ["id", "kind", "address", "label", "active", "last_sent_at", "last_error"];

/// Contact points: where you are told by mail or chat what waits for you; browsers subscribe on the page /notifications
#[derive(Debug, Args)]
pub(crate) struct Contacts {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ContactKind {
    /// A mail address
    Mail,
    /// An incoming webhook of Slack
    Slack,
    /// A workflow of Microsoft Teams that a webhook request starts
    Teams,
    /// A topic of an ntfy server
    Ntfy,
}

impl ContactKind {
    fn wire(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Slack => "slack",
            Self::Teams => "teams",
            Self::Ntfy => "ntfy",
        }
    }
}

/// Settings of a contact point: topics, times, and whether messages quote the question
#[derive(Debug, Default, Args)]
struct Settings {
    /// Topics told at once: `decision`, `approval`, `inbox` [default: decision,approval]
    #[arg(long, value_delimiter = ',', value_name = "TOPICS")]
    topics: Vec<String>,
    /// Topics that are collected; needs --at
    #[arg(long, value_delimiter = ',', value_name = "TOPICS", requires = "at")]
    digest: Vec<String>,
    /// Times of day at which collected topics are told, such as 08:00,16:00
    #[arg(long, value_delimiter = ',', value_name = "TIMES", requires = "digest")]
    at: Vec<String>,
    /// Quiet hours, such as 22:00-07:00
    #[arg(long, value_name = "FROM-TO")]
    quiet: Option<String>,
    /// IANA time zone of these times
    #[arg(long, default_value = "UTC")]
    time_zone: String,
    /// Agents whose decisions are told in quiet hours too
    #[arg(long, value_delimiter = ',', value_name = "AGENTS", requires = "quiet")]
    except: Vec<String>,
    /// Seconds for which something has to wait before it is told here
    #[arg(long, value_name = "SECONDS")]
    after: Option<u32>,
    /// Seconds after which you are reminded of what still waits
    #[arg(long, value_name = "SECONDS")]
    remind: Option<u32>,
    /// Whether messages quote the question
    #[arg(long, value_name = "BOOL")]
    quotes: Option<bool>,
}

impl Settings {
    fn value(&self) -> Result<Value, String> {
        let mut settings = Map::new();
        let mut set = |name: &str, value: Value| settings.insert(name.to_owned(), value);
        if !self.topics.is_empty() || !self.digest.is_empty() {
            set("topics", json!(self.topics));
        }
        if !self.digest.is_empty() {
            set("digest", json!({ "topics": self.digest, "at": self.at, "time_zone": self.time_zone }));
        }
        if let Some(quiet) = &self.quiet {
            let (from, to) = quiet
                .split_once('-')
                .ok_or_else(|| format!("`{quiet}` must be FROM-TO, such as 22:00-07:00"))?;
            let except = &self.except;
            set(
                "quiet_hours",
                json!({ "from": from.trim(), "to": to.trim(), "time_zone": self.time_zone, "except": except }),
            );
        }
        if let Some(after) = self.after {
            set("after_seconds", json!(after));
        }
        if let Some(remind) = self.remind {
            set("remind_seconds", json!(remind));
        }
        if let Some(quotes) = self.quotes {
            set("quotes", json!(quotes));
        }
        Ok(Value::Object(settings))
    }
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Add a contact point; a mail address has to be confirmed with the code that is sent there
    Create {
        /// Its kind
        kind: ContactKind,
        /// A mail address, or a URL
        address: String,
        /// A name for it
        #[arg(long)]
        label: Option<String>,
        #[command(flatten)]
        settings: Settings,
    },
    /// List your contact points, or as an admin those of another person
    List {
        /// Another person's id
        #[arg(long)]
        person: Option<String>,
    },
    /// Show a contact point with its settings
    Show {
        /// The contact point's id
        id: String,
    },
    /// Replace the settings of a contact point
    Set {
        /// The contact point's id
        id: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Confirm a mail address with the code that was sent there
    Confirm {
        /// The contact point's id
        id: String,
        /// The code
        code: String,
    },
    /// Send a message to try a contact point
    Test {
        /// The contact point's id
        id: String,
    },
    /// Tell nothing there until it is enabled again
    Disable {
        /// The contact point's id
        id: String,
    },
    /// Tell the person there again
    Enable {
        /// The contact point's id
        id: String,
    },
    /// Remove a contact point
    Delete {
        /// The contact point's id
        id: String,
    },
}

/// Returns the caller's own principal.
async fn caller(api: &Api) -> Result<String, Failure> {
    let me = api.get("/principals/me", &[]).await?;
    Ok(me["principal_id"].as_str().unwrap_or_default().to_owned())
}

impl Contacts {
    pub(crate) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let path = |id: &str| format!("/contact-points/{}", segment(id));
        let answer = match self.verb {
            Verb::Create { kind, address, label, settings } => {
                let person = caller(&api).await?;
                let body = json!({
                    "kind": kind.wire(), "address": address, "label": label, "settings": settings.value()?,
                });
                let made = api.post(&format!("/people/{}/contact-points", segment(&person)), &body).await?;
                if made["confirmed_at"].is_null() {
                    let id = made["id"].as_str().unwrap_or_default();
                    note(&format!("A code is sent there. Then: entente contact confirm {id} CODE"));
                }
                made
            }
            Verb::List { person } => {
                let person = match person {
                    Some(person) => person,
                    None => caller(&api).await?,
                };
                let found = api.get(&format!("/people/{}/contact-points", segment(&person)), &[]).await?;
                return self.remote.show(&found["contact_points"], &SHOWN);
            }
            Verb::Show { id } => api.get(&path(&id), &[]).await?,
            Verb::Set { id, settings } => {
                api.act(Method::PATCH, &path(&id), &json!({ "settings": settings.value()? })).await?
            }
            Verb::Confirm { id, code } => {
                api.post(&format!("{}/confirm", path(&id)), &json!({ "code": code })).await?
            }
            Verb::Test { id } => api.post(&format!("{}/test", path(&id)), &json!({})).await?,
            Verb::Disable { id } => api.act(Method::PATCH, &path(&id), &json!({ "active": false })).await?,
            Verb::Enable { id } => api.act(Method::PATCH, &path(&id), &json!({ "active": true })).await?,
            Verb::Delete { id } => api.delete(&path(&id)).await?,
        };
        self.remote.show(&answer, &SHOWN)
    }
}
