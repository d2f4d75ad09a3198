//! `entente worker`: runs jobs (ARCP) by running a command for each of them. It uses only the REST API of
//! workers (ARCP-W-11.2), which is open to every other worker. `worker/host.rs` claims the jobs,
//! `worker/child.rs` runs one job's command, `worker/listener.rs` and `worker/lines.rs` interpret its output,
//! `worker/reports.rs` sends that to the server, and `worker/watchdog.rs` ends the commands of a worker that was killed.

mod child;
mod host;
mod lines;
mod listener;
mod reports;
mod watchdog;

use std::cell::Cell;
use std::time::Duration;

use clap::{Args, Subcommand};
use entente_domain::arcp::jobs::retries::RetryPolicy;
use entente_domain::arcp::versions::AgentRef;
use entente_domain::clock::{Clock as _, Timestamp, rfc3339};
use entente_runtime::environment::SystemClock;
use entente_runtime::signals::Signals;
use reqwest::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Done;
use super::remote::{Remote, segment};

/// Time between SIGTERM and SIGKILL without `--kill-seconds`.
const KILL: Duration = Duration::from_secs(10);
/// Interface of the command, shown in the help.
const MANNERS: &str = "\
The command receives the job's input as one line of JSON on its standard input, and the rest in its environment:
ENTENTE_JOB_ID, ENTENTE_AGENT, ENTENTE_ATTEMPT, ENTENTE_CHECKPOINT (JSON, the progress that an earlier attempt stored;
otherwise `null`), ENTENTE_LEASE, ENTENTE_LEASE_CONSTRAINTS, ENTENTE_BUDGET, ENTENTE_DEADLINE, ENTENTE_CREDENTIALS, ENTENTE_RESULT_ID, ENTENTE_TRACE_ID and TRACEPARENT.

Each line that it writes to its standard output is one of:
  {\"kind\": \"progress\", \"body\": {…}}    an event of the job
  {\"kind\": \"delegate\", \"body\": {\"delegate_id\": …, \"agent\": …, \"input\": …, \"lease_request\": {…}}}
                                            a part of the job for another agent: a child job, once per delegate_id
  {\"checkpoint\": …}                       progress to continue from, any JSON up to 100 KiB: the next attempt gets it
  {\"result\": …}                           the job succeeds with this result
  {\"error\": {\"code\": …, \"message\": …}}  the job fails
  {\"authorize\": {\"capability\": \"tool.call\", \"target\": …, \"call_id\": …, \"reserve\": {…}}}
                                            a request for authority, answered by one line on its standard input
  {\"ack\": …}                              with --signals: the command has acted on the signals up to this `seq`
  other JSON                                the result, if it is the last one and the command exits with 0
  anything else                             a log line; lines of standard error are logged as errors

If the command exits with a status other than 0 and has reported no outcome, the job fails with INTERNAL_ERROR. SIGTERM
means that the job was cancelled, or that the worker stops or was killed. With --signals, a signal to the job is a line
{\"signal\": {\"seq\": …, \"name\": …, \"payload\": …}} on its standard input; without an \"ack\" the next attempt gets it too. The standard input stays open for answers: a command that reads
it to the end needs --filter.";

/// Run jobs, each with a command
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_long_help = MANNERS)]
pub(super) struct Worker {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Option<Verb>,
    /// An agent to run jobs for, NAME@VERSION; repeatable
    #[arg(long = "agent", value_name = "NAME@VERSION", required = true, value_parser = versioned)]
    agents: Vec<AgentRef>,
    /// The command that runs a job, for `sh -c`
    #[arg(long, value_name = "COMMAND", required = true)]
    exec: Option<String>,
    /// Close the command's standard input after the job's input, for commands that read it to the end (they
    /// cannot ask for authority then)
    #[arg(long)]
    filter: bool,
    /// Pass signals to the job on to the command, as lines of its standard input
    #[arg(long, conflicts_with = "filter")]
    signals: bool,
    /// Number of concurrent jobs
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    slots: u16,
    /// The worker's display name
    #[arg(long, default_value = "entente-worker")]
    name: String,
    /// Retries after failures, for jobs that ask for none of their own: JSON such as `{"max_attempts":5}`
    #[arg(long, value_name = "JSON", value_parser = retry_policy)]
    retry: Option<RetryPolicy>,
    /// Make these versions the defaults of their agents
    #[arg(long)]
    default: bool,
    /// Time for running jobs to finish when the worker stops; the remaining jobs are then released
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    drain_seconds: u64,
    /// Time between SIGTERM and SIGKILL for a command; without it 10 s, or for a cancelled job as long as the server waits for
    /// its worker (`--grace` of `job cancel`, or the server's setting), unless the worker itself stops
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=86_400))]
    kill_seconds: Option<u64>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List workers, with the jobs that they run, since when, and when their claims expire
    List,
    /// Send a worker a directive: run, quiet (claim no more jobs) or terminate (finish, then leave)
    Direct {
        /// The worker's id
        id: String,
        /// The directive: run, quiet or terminate
        directive: String,
    },
    /// End the commands of a worker that was killed: workers start this for themselves
    #[command(hide = true)]
    Watchdog {
        /// Time between SIGTERM and SIGKILL for a command
        #[arg(long, value_name = "SECONDS")]
        grace_seconds: u64,
    },
}

/// Reason to stop a job's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The worker stops, and another worker is to do the job.
    Drained,
    /// The job was cancelled.
    Cancelled {
        /// When the server ends the job; `None` if it does not tell, or if the worker stops.
        due: Option<Timestamp>,
    },
    /// The job has ended or belongs to another worker.
    Lost,
}

impl Stop {
    /// Returns the reason to act by when another one comes.
    ///
    /// A cancellation never gains time, whichever server tells of it, and a worker that stops has none to give.
    fn and(self, next: Self) -> Self {
        match (self, next) {
            (Self::Lost, _) | (_, Self::Lost) => Self::Lost,
            (Self::Drained, Self::Drained) => Self::Drained,
            (Self::Cancelled { due: Some(due) }, Self::Cancelled { due: other }) => {
                Self::Cancelled { due: Some(other.map_or(due, |other| other.min(due))) }
            }
            (Self::Cancelled { .. }, _) | (_, Self::Cancelled { .. }) => Self::Cancelled { due: None },
        }
    }
}

/// Requests a job to stop.
fn stop(job: &watch::Sender<Option<Stop>>, why: Stop) {
    job.send_if_modified(|now| {
        let next = now.map_or(why, |now| now.and(why));
        now.replace(next) != Some(next)
    });
}

/// A claimed job (ARCP-W-11.2.3). The command's data is passed on byte for byte.
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
    #[serde(default)]
    checkpoint: Option<Box<RawValue>>,
    claim_token: String,
    #[serde(default)]
    result_id: String,
}

fn versioned(text: &str) -> Result<AgentRef, String> {
    AgentRef::parse(text)
        .filter(|agent| agent.version.is_some())
        .ok_or_else(|| "must be NAME@VERSION, the name in small letters: echo@1.0.0".to_owned())
}

fn retry_policy(text: &str) -> Result<RetryPolicy, String> {
    serde_json::from_str(text).map_err(|e| format!("must be a retry policy: {e}"))
}

/// Writes the jobs of a worker for a table: each with the time of its claim, and the end of that.
fn shorten(worker: &mut Value) {
    let jobs = worker["jobs"].as_array().into_iter().flatten().map(|job| {
        let text = |member: &str| job[member].as_str().unwrap_or("?");
        format!("{} {} since {} until {}", text("job_id"), text("agent"), text("since"), text("expires_at"))
    });
    let jobs: Vec<String> = jobs.collect();
    worker["jobs"] = jobs.into();
}

/// Returns the current time, formatted.
fn moment() -> String {
    rfc3339(SystemClock.now())
}

impl Worker {
    pub(super) async fn run(self) -> Done {
        if let Some(Verb::Watchdog { grace_seconds }) = self.verb {
            return watchdog::run(Duration::from_secs(grace_seconds)).await;
        }
        let api = self.remote.api()?;
        let exec = match (self.verb, self.exec) {
            (Some(Verb::List), _) => {
                let answer = api.get("/workers", &[]).await?;
                let mut workers = answer.get("workers").unwrap_or(&answer).clone();
                if !self.remote.json {
                    workers.as_array_mut().into_iter().flatten().for_each(shorten);
                }
                let columns =
                    ["worker_id", "name", "state", "directive", "slots", "agents", "last_seen_at", "jobs"];
                return self.remote.show(&workers, &columns);
            }
            (Some(Verb::Direct { id, directive }), _) => {
                let path = format!("/workers/{}/directive", segment(&id));
                let answer = api.post(&path, &json!({ "directive": directive })).await?;
                return self.remote.show(&answer, &[]);
            }
            (None, Some(exec)) => exec,
            (Some(Verb::Watchdog { .. }), _) | (None, None) => {
                return Err("name a command with --exec".into());
            }
        };
        let signals = Signals::listen()?;
        for agent in &self.agents {
            let version = agent.version.as_deref().unwrap_or_default();
            let path = format!("/arcp/agents/{}/versions/{}", segment(&agent.name), segment(version));
            let mut body = if self.default { json!({ "default": true }) } else { json!({}) };
            if let Some(retry) = &self.retry {
                body["retry"] = json!(retry);
            }
            api.act(Method::PUT, &path, &body).await?;
        }
        let grace = self.kill_seconds.map_or(KILL, Duration::from_secs);
        let watchdog = watchdog::Watchdog::start(grace).map_err(|e| {
            format!("the process that ends the commands of a killed worker could not be started: {e}")
        })?;
        let settings = child::CommandSettings {
            exec,
            filter: self.filter,
            signals: self.signals,
            grace,
            keeps_cancel_grace: self.kill_seconds.is_none(),
            watchdog,
            hinted: Cell::new(false),
        };
        let agents = self.agents.iter().map(ToString::to_string).collect();
        let drain = Duration::from_secs(self.drain_seconds);
        let host = host::Host::new(api, self.name, agents, usize::from(self.slots), settings, drain);
        host.run(signals).await
    }
}

#[cfg(test)]
mod tests {
    use entente_domain::clock::{Clock as _, Timestamp};
    use entente_runtime::environment::SystemClock;
    use tokio::sync::watch;

    use super::{Stop, stop};

    fn cancelled(due: Option<Timestamp>) -> Stop {
        Stop::Cancelled { due }
    }

    #[test]
    fn a_cancellation_gains_no_time_and_a_worker_that_stops_has_none() {
        let soon = SystemClock.now();
        let late = soon + std::time::Duration::from_mins(1);
        let (soon, late) = (Some(soon), Some(late));
        for (told, expected) in [
            (vec![cancelled(late), cancelled(soon)], cancelled(soon)),
            (vec![cancelled(soon), cancelled(late)], cancelled(soon)),
            // A server of the release before answers without the time.
            (vec![cancelled(late), cancelled(None)], cancelled(late)),
            (vec![cancelled(None), cancelled(late)], cancelled(None)),
            (vec![cancelled(late), Stop::Drained], cancelled(None)),
            (vec![Stop::Drained, cancelled(late)], cancelled(None)),
            (vec![Stop::Drained, cancelled(late), Stop::Lost, cancelled(soon), Stop::Drained], Stop::Lost),
        ] {
            let job = watch::Sender::new(None);
            told.iter().for_each(|why| stop(&job, *why));
            assert_eq!(*job.borrow(), Some(expected), "{told:?}");
            let mut seen = job.subscribe();
            seen.mark_unchanged();
            stop(&job, expected);
            assert!(!seen.has_changed().unwrap(), "nothing has changed");
        }
    }
}
