//! `entente person`: logins for people.

pub(super) mod contacts;

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::{Args, Subcommand};
use serde_json::json;

use super::Done;
use super::output::note;
use super::remote::{Remote, segment};

/// People: create them, and give them access with a one-time link or a password
#[derive(Debug, Args)]
pub(super) struct People {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a person: same as `entente principal create ID --kind human`
    Create {
        /// The person's id, such as human.ada
        id: String,
        /// A display name
        #[arg(long)]
        name: Option<String>,
    },
    /// Create a one-time link that logs a person in; it is printed once
    Link {
        /// The person's id
        id: String,
        /// Seconds until the unused link expires [default: a day]
        #[arg(long, value_name = "SECONDS")]
        expires_in: Option<u32>,
        /// Let this login use the scope `admin`
        #[arg(long)]
        admin: bool,
        /// The page that the link opens [default: /inbox]
        #[arg(long, value_name = "PATH")]
        leads_to: Option<String>,
    },
    /// Set a person's password, read from standard input, because others can read a command line
    Password {
        /// The person's id
        id: String,
        /// Let logins with this password use the scope `admin`
        #[arg(long)]
        admin: bool,
    },
    /// Release a person from their account at the OpenID Connect provider: their logins end, and the next account with
    /// their name becomes the person
    Release {
        /// The person's id
        id: String,
    },
}

impl People {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let answer = match self.verb {
            Verb::Create { id, name } => {
                api.post("/principals", &json!({ "id": id, "kind": "human", "display_name": name })).await?
            }
            Verb::Link { id, expires_in, admin, leads_to } => {
                let body = json!({ "expires_in": expires_in, "admin": admin, "leads_to": leads_to });
                let made = api.post(&format!("/people/{}/links", segment(&id)), &body).await?;
                if let (Some(path), false) = (made["path"].as_str(), self.remote.json) {
                    note(&format!("A link that logs {id} in, once, shown only now:\n"));
                    writeln!(io::stdout(), "{}{path}", self.remote.url())?;
                    return Ok(());
                }
                made
            }
            Verb::Password { id, admin } => {
                let body = json!({ "password": read()?, "admin": admin });
                let path = format!("/people/{}/password", segment(&id));
                api.act(reqwest::Method::PUT, &path, &body).await?
            }
            Verb::Release { id } => api.delete(&format!("/people/{}/account", segment(&id))).await?,
        };
        self.remote.show(&answer, &[])
    }
}

/// Reads a password from standard input: its first line.
fn read() -> io::Result<String> {
    if io::stdin().is_terminal() {
        note("The password (it is shown while you type), then Enter:");
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
