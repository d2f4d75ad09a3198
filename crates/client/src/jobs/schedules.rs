//! `entente job schedule`: triggers (RFC-0017) that submit a job at each due time.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::form::JobForm;
use crate::remote::{Api, Remote, segment};
use crate::{Done, Failure};

/// Members of a schedule that a line shows.
const SHOWN: [&str; 8] =
    ["trigger_id", "name", "agent", "enabled", "next_due_at", "last_fired_at", "fire_count", "failures"];

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Create a schedule
    Create {
        /// A name, for people
        name: String,
        #[command(flatten)]
        time: Time,
        /// Submit no job while the last one is open
        #[arg(long)]
        skip_while_open: bool,
        #[command(flatten)]
        job: Box<JobForm>,
    },
    /// List schedules, oldest first: your own; with the scope `admin`, everybody's
    List,
    /// Show a schedule
    Show {
        /// The schedule's id
        id: String,
    },
    /// List the jobs that a schedule has submitted, newest first
    History {
        /// The schedule's id
        id: String,
    },
    /// Submit the job now as well
    Fire {
        /// The schedule's id
        id: String,
    },
    /// Enable a schedule, also after the server disabled it
    Enable {
        /// The schedule's id
        id: String,
    },
    /// Disable a schedule
    Disable {
        /// The schedule's id
        id: String,
    },
    /// Delete a schedule; its jobs remain
    #[command(alias = "remove")]
    Delete {
        /// The schedule's id
        id: String,
    },
}

/// When a schedule is due.
#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct Time {
    /// Five fields: minute, hour, day of the month, month, day of the week, such as `0 6 * * MON-FRI`
    #[arg(long, value_name = "FIELDS", required_unless_present_any = ["every", "at"], conflicts_with_all = ["every", "at"])]
    cron: Option<String>,
    /// Seconds from one due time to the next, at least 10
    #[arg(long, value_name = "SECONDS", conflicts_with = "at")]
    every: Option<u32>,
    /// A single time, RFC 3339
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// IANA time zone of the fields, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "cron")]
    time_zone: Option<String>,
    /// Due times that passed while no server ran: `skip`, `latest` or `all` [default: latest]
    #[arg(long, value_name = "WHICH")]
    missed: Option<String>,
}

impl Time {
    fn condition(self) -> Value {
        members([
            ("cron", self.cron.map(Value::from)),
            ("every_seconds", self.every.map(Value::from)),
            ("at", self.at.map(Value::from)),
            ("timezone", self.time_zone.map(Value::from)),
            ("missed", self.missed.map(Value::from)),
        ])
    }
}

/// An object of those members that have values.
fn members<const N: usize>(all: [(&str, Option<Value>); N]) -> Value {
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<Map<_, _>>().into()
}

fn path(id: &str, rest: &str) -> String {
    format!("/triggers/{}{rest}", segment(id))
}

/// Builds the body that creates a schedule.
fn body(name: &str, time: Time, skip_while_open: bool, job: JobForm) -> Result<Value, Failure> {
    let mut job = serde_json::to_value(job.submit()?)?;
    if let Some(job) = job.as_object_mut() {
        job.retain(|_, value| !value.is_null());
    }
    let deduplication = if skip_while_open { "skip" } else { "allow" };
    Ok(json!({
        "name": name, "type": "schedule", "condition": time.condition(), "job": job, "deduplication": deduplication,
    }))
}

/// Runs the command.
pub(super) async fn run(remote: &Remote, api: &Api, verb: Verb) -> Done {
    match verb {
        Verb::Create { name, time, skip_while_open, job } => {
            let body = body(&name, time, skip_while_open, *job)?;
            show(remote, &api.post("/triggers", &body).await?)
        }
        Verb::List => list(remote, api).await,
        Verb::Show { id } => show(remote, &api.get(&path(&id, ""), &[]).await?),
        Verb::History { id } => {
            let found = api.get(&path(&id, "/history"), &[]).await?;
            remote.show(&found, &["fired_at", "due_at", "cause", "status", "job_id", "reason"])
        }
        Verb::Fire { id } => remote.show(&api.post(&path(&id, "/fire"), &json!({})).await?, &[]),
        Verb::Enable { id } => enable(remote, api, &id, true).await,
        Verb::Disable { id } => enable(remote, api, &id, false).await,
        Verb::Delete { id } => remote.show(&api.delete(&path(&id, "")).await?, &[]),
    }
}

/// A schedule with the agent of its job beside its own members.
fn flat(schedule: &Value) -> Value {
    let mut flat = schedule.clone();
    flat["agent"] = schedule["job"]["agent"].clone();
    flat
}

fn show(remote: &Remote, schedule: &Value) -> Done {
    if remote.json { remote.show(schedule, &[]) } else { remote.show(&flat(schedule), &SHOWN) }
}

/// Lists the schedules that submit jobs, of all pages.
async fn list(remote: &Remote, api: &Api) -> Done {
    let mut found: Vec<Value> = Vec::new();
    let mut query = vec![("type", "schedule".to_owned()), ("limit", "1000".to_owned())];
    loop {
        let page = api.get("/triggers", &query).await?;
        let page = page.as_array().map(Vec::as_slice).unwrap_or_default();
        found.extend(page.iter().filter(|trigger| trigger["job"].is_object()).cloned());
        let Some(last) = page.last().and_then(|trigger| trigger["trigger_id"].as_str()) else { break };
        query.truncate(2);
        query.push(("after", last.to_owned()));
    }
    if !remote.json {
        found = found.iter().map(flat).collect();
    }
    remote.show(&json!(found), &SHOWN)
}

async fn enable(remote: &Remote, api: &Api, id: &str, enabled: bool) -> Done {
    let path = path(id, "");
    let seen = api.get(&path, &[]).await?;
    let change = json!({ "enabled": enabled });
    show(remote, &api.patch_versioned(&path, &change, &seen["version"]).await?)
}
