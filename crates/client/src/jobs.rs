//! `entente job`: submits jobs (ARCP) and manages them. `jobs/form.rs` has the options that describe a job, `jobs/schedules.rs`
//! the commands for schedules, `jobs/control.rs` those for jobs after their submission; `jobs/follow.rs` follows a job,
//! `jobs/limits.rs` limits them, `jobs/screen.rs` displays one on a terminal, and `worker.rs` runs jobs.

mod control;
mod follow;
mod form;
mod limits;
mod schedules;
mod screen;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use entente_domain::arcp::jobs::ask::Submit;
use serde_json::{Value, json};
use tokio::time::sleep;

use self::control::{Control, Found};
use self::form::JobForm;
pub(crate) use self::form::given;
use super::output::people::print_live_record;
use super::output::{note, print_json, print_record};
use super::remote::{Api, Failure as Refused, Remote, segment};
use super::{Done, Failure};

/// Jobs: submit, schedule, list, show, attempts, events, cancel, result, rerun, signal, tree, queue, limits
#[derive(Debug, Args)]
pub(super) struct Jobs {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Submit(Asked),
    /// List jobs, newest first
    List {
        /// Only jobs in this status; repeatable
        #[arg(long)]
        status: Vec<String>,
        /// Only jobs of this agent: a name, or name@version
        #[arg(long)]
        agent: Option<String>,
        #[command(flatten)]
        found: Found,
        /// Maximum number of jobs
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// The cursor printed with the previous page
        #[arg(long)]
        cursor: Option<String>,
    },
    #[command(flatten)]
    Control(Control),
    /// Show a job: its state, the worker that runs it, and until when
    #[command(alias = "get")]
    Show {
        /// The job's id
        id: String,
    },
    /// Show the attempts at a job: their workers and outcomes
    Attempts {
        /// The job's id
        id: String,
    },
    /// Show a job's events
    Events {
        /// The job's id
        id: String,
        /// Only events after this number
        #[arg(long, default_value_t = 0, value_name = "NUMBER")]
        after: u64,
        /// Follow the job until it ends; the exit status is then the job's
        #[arg(long)]
        follow: bool,
    },
    /// Cancel a job
    Cancel {
        /// The job's id
        id: String,
        /// The submitting session [default: as `job show` prints it to the submitter]
        #[arg(long)]
        session: Option<String>,
        /// The reason
        #[arg(long)]
        reason: Option<String>,
        /// Seconds that the worker has to stop, up to 3600 [default: the server's setting]
        #[arg(long, value_name = "SECONDS")]
        grace: Option<i64>,
    },
    /// Schedules: submit a job at each due time, once, however many servers there are
    Schedule {
        #[command(subcommand)]
        verb: schedules::Verb,
    },
    /// Limits of jobs, of agents and of principals
    Limits {
        #[command(subcommand)]
        verb: limits::Verb,
    },
    /// Write a job's result, byte for byte
    Result {
        /// The job's id
        id: String,
        /// The file to write [default: standard output]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Seconds that a submission with --follow waits for somebody who serves the agent: a worker started beside it registers first.
const AGENT_WAIT: u64 = 30;

/// Pause between two attempts to submit.
const AGENT_PAUSE: Duration = Duration::from_millis(250);

/// Submit a job
///
/// With --follow the exit status is the job's: 0 for success, 3 for an error, 4 when it was cancelled, 5 when
/// it timed out.
#[derive(Debug, Args)]
struct Asked {
    #[command(flatten)]
    job: JobForm,
    /// When the job may start, RFC 3339
    #[arg(long, value_name = "TIME")]
    start_at: Option<String>,
    /// The idempotency key: the same key with the same parameters yields the same job
    #[arg(long)]
    key: Option<String>,
    /// Show the job's events until it ends
    #[arg(long)]
    follow: bool,
    /// Seconds to wait until somebody serves the agent [default: 30 with --follow, else 0]
    #[arg(long, value_name = "SECONDS")]
    agent_wait: Option<u64>,
}

impl Asked {
    /// Builds the body of the request.
    fn submit(self) -> Result<Submit, Failure> {
        Ok(Submit { start_at: self.start_at, idempotency_key: self.key, ..self.job.submit()? })
    }
}

fn path(id: &str, rest: &str) -> String {
    format!("/jobs/{}{rest}", segment(id))
}

/// Submits a job; waits so long for somebody who serves its agent.
async fn submit(api: &Api, job: &Submit, patience: Duration) -> Result<Value, Refused> {
    let (began, mut is_told) = (Instant::now(), false);
    loop {
        match api.ask("/jobs", job).await {
            Err(refused)
                if began.elapsed() < patience
                    && matches!(
                        refused.code(),
                        Some("AGENT_NOT_AVAILABLE" | "AGENT_VERSION_NOT_AVAILABLE")
                    ) =>
            {
                if !is_told {
                    note(&format!(
                        "Nobody serves `{}` yet; waiting up to {} s for a worker. Ctrl-C gives up, and submits nothing.",
                        job.agent,
                        patience.as_secs()
                    ));
                }
                is_told = true;
                sleep(AGENT_PAUSE).await;
            }
            done => return done,
        }
    }
}

impl Jobs {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        match self.verb {
            Verb::Submit(asked) => {
                let follow = asked.follow;
                let patience = asked.agent_wait.unwrap_or(if follow { AGENT_WAIT } else { 0 });
                let accepted = submit(&api, &asked.submit()?, Duration::from_secs(patience)).await?;
                let id = accepted["job_id"].as_str().unwrap_or_default().to_owned();
                if !follow {
                    return self.remote.show(&accepted, &[]);
                }
                if self.remote.json {
                    let envelope = json!({
                        "arcp": "1.1", "type": "job.accepted", "job_id": id, "session_id": accepted["session_id"],
                        "payload": accepted,
                    });
                    writeln!(io::stdout().lock(), "{envelope}")?;
                } else {
                    print_record(&accepted)?;
                }
                follow::follow(&api, &id, 0, self.remote.json, &accepted["budget"]).await
            }
            Verb::List { status, agent, found, limit, cursor } => {
                let mut query = found.query(&status, agent);
                query.extend(cursor.map(|cursor| ("cursor", cursor)));
                query.push(("limit", limit.to_string()));
                list(&api, &self.remote, &query).await
            }
            Verb::Show { id } => {
                let job = api.get(&path(&id, ""), &[]).await?;
                if self.remote.json { print_json(&job) } else { print_live_record(&job) }
            }
            Verb::Attempts { id } => attempts(&self.remote, &api, &id).await,
            Verb::Events { id, after, follow: true } => {
                let job = api.get(&path(&id, ""), &[]).await?;
                follow::follow(&api, &id, after, self.remote.json, &job["budget"]).await
            }
            Verb::Events { id, after, follow: false } => {
                follow::pages(&api, &id, after, self.remote.json).await
            }
            Verb::Control(control) => control.run(&api, &self.remote).await,
            Verb::Cancel { id, session, reason, grace } => {
                // Its submitter finds the session with the job, such as that of a schedule's job.
                let session = match session {
                    Some(session) => json!(session),
                    None => api.get(&path(&id, ""), &[]).await?["session_id"].clone(),
                };
                let said = [("session_id", session), ("reason", json!(reason)), ("grace_sec", json!(grace))];
                let said = said.into_iter().filter(|(_, value)| !value.is_null());
                let body = Value::Object(said.map(|(name, value)| (name.to_owned(), value)).collect());
                self.remote.show(&api.post(&path(&id, "/cancel"), &body).await?, &[])
            }
            Verb::Schedule { verb } => schedules::run(&self.remote, &api, verb).await,
            Verb::Limits { verb } => limits::run(&self.remote, &api, verb).await,
            Verb::Result { id, output } => save(&api, &id, output).await,
        }
    }
}

/// Lists the jobs of a search.
async fn list(api: &Api, remote: &Remote, query: &[(&str, String)]) -> Done {
    let mut answer = api.get("/jobs", query).await?;
    if remote.json {
        return print_json(&answer);
    }
    for job in answer["jobs"].as_array_mut().into_iter().flatten() {
        // Names are for people; a worker that has left has only its id.
        let claim = job["claim"].clone();
        job["worker"] = claim.get("worker").or(claim.get("worker_id")).cloned().unwrap_or_default();
        job["since"] = claim["since"].clone();
        job["until"] = claim["expires_at"].clone();
        job["code"] = job["failure"]["code"].clone();
    }
    let columns =
        ["job_id", "status", "agent", "created_at", "last_event_seq", "code", "worker", "since", "until"];
    remote.show(&answer["jobs"], &columns)?;
    if let Some(cursor) = answer["next_cursor"].as_str() {
        writeln!(io::stderr(), "there are more: --cursor {cursor}")?;
    }
    Ok(())
}

/// Prints the attempts at a job.
async fn attempts(remote: &Remote, api: &Api, id: &str) -> Done {
    let found = api.get(&path(id, "/attempts"), &[]).await?;
    if remote.json {
        return print_json(&found);
    }
    let columns =
        ["attempt", "outcome", "worker", "claimed_at", "ended_at", "code", "message", "next_attempt_at"];
    remote.show(&found["attempts"], &columns)
}

/// Streams a result to its destination: it may be larger than memory.
async fn save(api: &Api, id: &str, output: Option<PathBuf>) -> Done {
    let mut answer = api.open(&path(id, "/result")).await?;
    let mut to: Box<dyn io::Write> = match &output {
        Some(path) => Box::new(std::fs::File::create(path)?),
        None => Box::new(io::stdout()),
    };
    while let Some(bytes) = answer.chunk().await? {
        to.write_all(&bytes)?;
    }
    to.flush()?;
    Ok(())
}
