//! `entente job limits`: how many jobs of an agent or a principal run at once, or start within a time, and the highest priority
//! that a principal may ask for.

use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;
use serde_json::{Map, json};

use crate::Done;
use crate::remote::{Api, Remote, segment};

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// List limits, with the number of jobs that run
    List,
    /// Limit the jobs of an agent (its owner may), or of a principal (an operator may), in place of earlier limits
    Set {
        #[command(flatten)]
        whose: Whose,
        /// How many jobs may run at once
        #[arg(long, value_name = "N", required_unless_present_any = ["max_starts", "max_priority"])]
        max_running: Option<i64>,
        /// How many jobs may start within --per-sec
        #[arg(long, value_name = "N", requires = "per_sec")]
        max_starts: Option<i64>,
        /// The seconds within which --max-starts jobs may start
        #[arg(long, value_name = "SECONDS", requires = "max_starts")]
        per_sec: Option<i64>,
        /// The highest priority that the principal may ask for, 0 to 100
        #[arg(long, value_name = "NUMBER")]
        max_priority: Option<i64>,
    },
    /// Remove the limits of an agent or a principal
    Remove {
        #[command(flatten)]
        whose: Whose,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Scope {
    Agent,
    Principal,
}

#[derive(Debug, Args)]
pub(super) struct Whose {
    /// Whose jobs are limited
    scope: Scope,
    /// The agent, without a version, or the principal
    name: String,
}

impl Whose {
    fn path(&self) -> String {
        let scope = match self.scope {
            Scope::Agent => "agents",
            Scope::Principal => "principals",
        };
        format!("/arcp/limits/{scope}/{}", segment(&self.name))
    }
}

/// Runs the command.
pub(super) async fn run(remote: &Remote, api: &Api, verb: Verb) -> Done {
    match verb {
        Verb::List => {
            let answer = api.get("/arcp/limits", &[]).await?;
            let columns = [
                "scope",
                "name",
                "running",
                "max_running",
                "max_starts",
                "per_sec",
                "max_priority",
                "set_by",
                "set_at",
            ];
            remote.show(answer.get("limits").unwrap_or(&answer), &columns)
        }
        Verb::Set { whose, max_running, max_starts, per_sec, max_priority } => {
            let all = [
                ("max_running", max_running),
                ("max_starts", max_starts),
                ("per_sec", per_sec),
                ("max_priority", max_priority),
            ];
            let said = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
            let body = said.collect::<Map<_, _>>().into();
            remote.show(&api.act(Method::PUT, &whose.path(), &body).await?, &[])
        }
        Verb::Remove { whose } => remote.show(&api.delete(&whose.path()).await?, &[]),
    }
}
