//! Commands for jobs after their submission: counts of a search, dead letters, running jobs again, signals, trees, and the queues
//! of agents.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{given, path};
use crate::output::print_json;
use crate::remote::{Api, Remote, segment};
use crate::{Done, Failure};

/// Conditions of a search for jobs.
#[derive(Debug, Args)]
pub(super) struct Found {
    /// Only jobs that this agent submitted; with the scope `admin`, everybody's are found without it
    #[arg(long)]
    principal: Option<String>,
    /// Only jobs with this label, such as team=billing; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,
    /// Only jobs that this one delegated
    #[arg(long, value_name = "JOB")]
    parent: Option<String>,
    /// Only jobs of this trace
    #[arg(long)]
    trace: Option<String>,
    /// Only jobs that ended with this error code, such as TIMEOUT
    #[arg(long, value_name = "CODE")]
    error_code: Option<String>,
    /// Only dead letters, which failed and are tried by nothing again: `open`, or `resolved`
    #[arg(long, value_name = "STATE", num_args = 0..=1, default_missing_value = "open")]
    dead_letter: Option<String>,
    /// Only jobs accepted after this time, RFC 3339
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Only jobs accepted before this time, RFC 3339
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
}

impl Found {
    /// Returns the conditions as parameters of a request.
    pub(super) fn query(self, status: &[String], agent: Option<String>) -> Vec<(&'static str, String)> {
        let status = (!status.is_empty()).then(|| status.join(","));
        let each = [
            ("status", status),
            ("agent", agent),
            ("principal", self.principal),
            ("parent_job_id", self.parent),
            ("trace_id", self.trace),
            ("error_code", self.error_code),
            ("dead_letter", self.dead_letter),
            ("created_after", self.created_after),
            ("created_before", self.created_before),
        ];
        let each = each.into_iter().filter_map(|(name, value)| Some((name, value?)));
        each.chain(self.label.into_iter().map(|label| ("label", label))).collect()
    }

    /// Returns the conditions as members of a body.
    fn body(self, status: &[String], agent: Option<String>) -> Result<Value, Failure> {
        if self.parent.is_some() {
            return Err("--parent finds delegated jobs, which are run again by their parent".into());
        }
        let mut body = json!({});
        if let Some(labels) = labels(&self.label)? {
            body["labels"] = json!(labels);
        }
        let each = [
            ("status", (!status.is_empty()).then(|| json!(status))),
            ("agent", agent.map(Value::from)),
            ("principal", self.principal.map(Value::from)),
            ("trace_id", self.trace.map(Value::from)),
            ("error_code", self.error_code.map(Value::from)),
            ("dead_letter", self.dead_letter.map(Value::from)),
            ("created_after", self.created_after.map(Value::from)),
            ("created_before", self.created_before.map(Value::from)),
        ];
        for (name, value) in each {
            if let Some(value) = value {
                body[name] = value;
            }
        }
        Ok(body)
    }
}

/// Parses labels given as `key=value`; `None` if there are none.
pub(super) fn labels(said: &[String]) -> Result<Option<BTreeMap<String, String>>, Failure> {
    let pair = |text: &String| {
        let (key, value) = text.split_once('=').ok_or_else(|| format!("--label {text} is not KEY=VALUE"))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    let labels: BTreeMap<String, String> = said.iter().map(pair).collect::<Result<_, Failure>>()?;
    Ok((!labels.is_empty()).then_some(labels))
}

/// Commands for jobs after their submission.
#[derive(Debug, Subcommand)]
pub(super) enum Control {
    /// Count jobs by status
    Count {
        /// Only jobs in this status; repeatable
        #[arg(long)]
        status: Vec<String>,
        /// Only jobs of this agent: a name, or name@version
        #[arg(long)]
        agent: Option<String>,
        #[command(flatten)]
        found: Found,
    },
    /// Run a job again that is over, or a page of those that a search finds
    Rerun {
        /// The job's id; without it, the jobs that the conditions find: by default those that failed or timed out
        id: Option<String>,
        /// Only jobs in this final status; repeatable
        #[arg(long, conflicts_with = "id")]
        status: Vec<String>,
        /// Only jobs of this agent: a name, or name@version
        #[arg(long, conflicts_with = "id")]
        agent: Option<String>,
        #[command(flatten)]
        found: Found,
        /// Maximum number of jobs, up to 200
        #[arg(long, default_value_t = 50, conflicts_with = "id")]
        limit: u32,
        /// The cursor printed with the previous page
        #[arg(long, conflicts_with = "id")]
        cursor: Option<String>,
        /// The idempotency key: under the same key a job is run again once; required for a search
        #[arg(long)]
        key: Option<String>,
        /// Use today's default version of the agent, not the one that ran the job
        #[arg(long)]
        default_version: bool,
        /// Only say which jobs would be run again
        #[arg(long, conflicts_with = "id")]
        dry_run: bool,
    },
    /// Resolve a dead letter: somebody has looked after the failed job
    Resolve {
        /// The job's id
        id: String,
        /// What was done about it
        #[arg(long)]
        note: Option<String>,
    },
    /// Send a signal to a job that waits or runs
    Signal {
        /// The job's id
        id: String,
        /// The signal's name, for the agent
        name: String,
        /// The payload: JSON, @FILE, or `-` for standard input
        #[arg(long, value_name = "JSON")]
        payload: Option<String>,
        /// The idempotency key: the same signal is stored once
        #[arg(long)]
        key: Option<String>,
    },
    /// List the signals of a job, with their acknowledgements
    Signals {
        /// The job's id
        id: String,
        /// Only signals after this number
        #[arg(long, default_value_t = 0, value_name = "NUMBER")]
        after: u64,
    },
    /// Show a job with everything that it delegated, and the costs of each
    Tree {
        /// The job's id
        id: String,
        /// Maximum number of jobs shown, up to 1000
        #[arg(long, default_value_t = 200)]
        limit: u32,
    },
    /// Show, pause, drain or open the queue of an agent's jobs
    Queue {
        /// The agent: a name for all of its versions, or name@version
        agent: String,
        /// `paused` accepts jobs and gives out none; `draining` accepts none and finishes those that it has; `open` ends both
        #[arg(long, value_name = "STATE")]
        set: Option<String>,
        /// The reason
        #[arg(long, requires = "set")]
        reason: Option<String>,
    },
}

impl Control {
    pub(super) async fn run(self, api: &Api, remote: &Remote) -> Done {
        match self {
            Self::Count { status, agent, found } => {
                remote.show(&api.get("/jobs/counts", &found.query(&status, agent)).await?, &[])
            }
            Self::Rerun { id: Some(id), key, default_version, .. } => {
                let body = json!({ "idempotency_key": key, "default_version": default_version });
                remote.show(&api.post(&path(&id, "/rerun"), &body).await?, &[])
            }
            Self::Rerun { id: None, status, agent, found, limit, cursor, key, default_version, dry_run } => {
                let mut body = found.body(&status, agent)?;
                body["limit"] = json!(limit);
                body["dry_run"] = json!(dry_run);
                body["default_version"] = json!(default_version);
                for (name, value) in [("cursor", cursor), ("idempotency_key", key)] {
                    if let Some(value) = value {
                        body[name] = json!(value);
                    }
                }
                remote.show(&api.post("/jobs/rerun", &body).await?, &[])
            }
            Self::Resolve { id, note } => {
                remote.show(&api.post(&path(&id, "/resolve"), &json!({ "note": note })).await?, &[])
            }
            Self::Signal { id, name, payload, key } => {
                let payload =
                    payload.as_deref().map(given).transpose()?.map(RawValue::from_string).transpose();
                let payload = payload.map_err(|e| format!("--payload is no JSON: {e}"))?;
                let body = json!({ "name": name, "payload": payload, "key": key });
                remote.show(&api.post(&path(&id, "/signals"), &body).await?, &[])
            }
            Self::Signals { id, after } => {
                let answer = api.get(&path(&id, "/signals"), &[("after", after.to_string())]).await?;
                if remote.json {
                    return print_json(&answer);
                }
                remote.show(
                    &answer["signals"],
                    &["seq", "name", "sender", "sent_at", "acknowledged_at", "payload"],
                )
            }
            Self::Tree { id, limit } => {
                let answer = api.get(&path(&id, "/tree"), &[("limit", limit.to_string())]).await?;
                if remote.json { print_json(&answer) } else { tree(remote, answer) }
            }
            Self::Queue { agent, set, reason } => {
                let path = format!("/arcp/agents/{}/queue", segment(&agent));
                let answer = match set {
                    None => api.get(&path, &[]).await?,
                    Some(state) => {
                        api.act(Method::PUT, &path, &json!({ "state": state, "reason": reason })).await?
                    }
                };
                remote.show(&answer, &[])
            }
        }
    }
}

/// Shows a tree as a list with indented ids, and its sums below.
fn tree(remote: &Remote, mut answer: Value) -> Done {
    for job in answer["jobs"].as_array_mut().into_iter().flatten() {
        let depth = job["depth"].as_u64().and_then(|depth| usize::try_from(depth).ok()).unwrap_or_default();
        job["job"] = json!(format!("{}{}", "  ".repeat(depth), job["job_id"].as_str().unwrap_or_default()));
    }
    remote.show(&answer["jobs"], &["job", "status", "agent", "cost", "total_cost"])?;
    let sums = json!({
        "count": answer["count"], "by_status": answer["by_status"], "total_cost": answer["total_cost"],
        "complete": answer["complete"],
    });
    remote.show(&sums, &[])
}
