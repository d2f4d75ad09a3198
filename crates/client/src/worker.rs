//! `entente worker`: runs jobs (ARCP) by running a command for each of them. It uses nothing that another worker could not:
//! the REST API of workers (contract 11.2). Which jobs it has is `worker/host.rs`, one job's command `worker/child.rs`, what
//! that says `worker/listener.rs` and `worker/lines.rs`, how it gets to the server `worker/reports.rs`.

mod child;
mod host;
mod lines;
mod listener;
mod reports;

use std::time::Duration;

use clap::{Args, Subcommand};
use entente_domain::clock::{Clock as _, rfc3339};
use entente_domain::versions::AgentRef;
use entente_runtime::environment::SystemClock;
use entente_runtime::signals::Signals;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::Done;
use super::remote::{Remote, segment};

/// What a command must know, in the words of its help.
const MANNERS: &str = "\
The command gets the job's input as one line of JSON on its standard input, and the rest in its environment:
ENTENTE_JOB_ID, ENTENTE_AGENT, ENTENTE_ATTEMPT, ENTENTE_LEASE, ENTENTE_LEASE_CONSTRAINTS, ENTENTE_BUDGET,
ENTENTE_DEADLINE, ENTENTE_CREDENTIALS, ENTENTE_RESULT_ID, ENTENTE_TRACE_ID and TRACEPARENT.

What a line that it writes means:
  {\"kind\": \"progress\", \"body\": {…}}    an event of the job
  {\"result\": …}                           the job is done
  {\"error\": {\"code\": …, \"message\": …}}  the job has failed
  {\"authorize\": {\"capability\": \"tool.call\", \"target\": …, \"call_id\": …, \"reserve\": {…}}}
                                            may I? Answered by one line on its standard input
  other JSON                                the result, if it is the last and the command ends with 0
  anything else                             a line of the log; from standard error, an error in the log

A command that ends otherwise than with 0, and has not said how the job ends, has failed with INTERNAL_ERROR. SIGTERM tells
it that the job was called off, or that the worker stops. Its standard input stays open for answers: a command that reads all
of it needs --filter.";

/// Run jobs: a command for each
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_long_help = MANNERS)]
pub(super) struct Worker {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Option<Verb>,
    /// An agent whose jobs it runs, NAME@VERSION; repeatable
    #[arg(long = "agent", value_name = "NAME@VERSION", required = true, value_parser = versioned)]
    agents: Vec<AgentRef>,
    /// The command, as `sh -c` takes it
    #[arg(long, value_name = "COMMAND", required = true)]
    exec: Option<String>,
    /// End the command's standard input after the input, for one that reads all of it (it can then ask for nothing)
    #[arg(long)]
    filter: bool,
    /// Jobs at once
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    slots: u16,
    /// What people know it by
    #[arg(long, default_value = "entente-worker")]
    name: String,
    /// Make these versions the ones that a bare name means
    #[arg(long)]
    default: bool,
    /// How long jobs may still run when the worker is told to stop; what is left then is given back
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    drain_seconds: u64,
    /// How long a command that was told to stop may take before it is killed
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    kill_seconds: u64,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List workers
    List,
    /// Tell one what to do: run, quiet (claim nothing more) or terminate (finish, and go)
    Direct {
        /// Its id
        id: String,
        /// run, quiet or terminate
        directive: String,
    },
}

/// Why a job's command is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    /// The worker stops, and somebody else is to do the job.
    Drained,
    /// The job was called off.
    Cancelled,
    /// The job is over, or somebody else's.
    Lost,
}

/// Says that a job is to stop; a weightier reason counts more than one that came before it.
fn stop(job: &watch::Sender<Option<Stop>>, why: Stop) {
    job.send_if_modified(|now| {
        let weightier = *now < Some(why);
        if weightier {
            *now = Some(why);
        }
        weightier
    });
}

/// A job, as it is handed out (contract 11.2). What a command gets is passed on as it was written.
#[derive(Debug, Deserialize)]
struct Claimed {
    job_id: String,
    agent: String,
    #[serde(default)]
    input: Option<Box<RawValue>>,
    #[serde(default)]
    lease: Option<Box<RawValue>>,
    #[serde(default)]
    lease_constraints: Option<Box<RawValue>>,
    #[serde(default)]
    budget: Option<Box<RawValue>>,
    #[serde(default)]
    credentials: Option<Box<RawValue>>,
    #[serde(default)]
    deadline: Option<String>,
    trace_id: String,
    #[serde(default)]
    attempt: u32,
    claim_token: String,
    #[serde(default)]
    result_id: String,
}

fn versioned(text: &str) -> Result<AgentRef, String> {
    AgentRef::parse(text)
        .filter(|agent| agent.version.is_some())
        .ok_or_else(|| "must be NAME@VERSION, the name in small letters: echo@1.0.0".to_owned())
}

/// Now, as it is written.
fn moment() -> String {
    rfc3339(SystemClock.now())
}

impl Worker {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let exec = match (self.verb, self.exec) {
            (Some(Verb::List), _) => {
                let answer = api.get("/workers", &[]).await?;
                let workers = answer.get("workers").unwrap_or(&answer);
                let columns = ["worker_id", "name", "state", "directive", "slots", "agents", "last_seen_at"];
                return self.remote.show(workers, &columns);
            }
            (Some(Verb::Direct { id, directive }), _) => {
                let path = format!("/workers/{}/directive", segment(&id));
                let answer = api.post(&path, &json!({ "directive": directive })).await?;
                return self.remote.show(&answer, &[]);
            }
            (None, Some(exec)) => exec,
            (None, None) => return Err("name a command with --exec".into()),
        };
        let signals = Signals::listen()?;
        for agent in &self.agents {
            let version = agent.version.as_deref().unwrap_or_default();
            let path = format!("/arcp/agents/{}/versions/{}", segment(&agent.name), segment(version));
            let body = if self.default { json!({ "default": true }) } else { json!({}) };
            api.act(Method::PUT, &path, &body).await?;
        }
        let manner =
            child::Manner { exec, filter: self.filter, grace: Duration::from_secs(self.kill_seconds) };
        let agents = self.agents.iter().map(ToString::to_string).collect();
        let drain = Duration::from_secs(self.drain_seconds);
        let host = host::Host::new(api, self.name, agents, usize::from(self.slots), manner, drain);
        host.run(signals).await
    }
}
