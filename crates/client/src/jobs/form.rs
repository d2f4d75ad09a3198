//! The options of `entente job submit` and `entente job schedule create` that describe a job.

use std::io::{self, Read as _};

use clap::Args;
use entente_domain::arcp::jobs::ask::{Constraints, Submit};
use entente_domain::arcp::jobs::limits::Concurrency;
use serde_json::value::RawValue;

use super::control;
use crate::Failure;

/// Bytes read from a file or standard input at most: more than the server accepts, so that the server reports
/// the excess.
const MOST: u64 = 8 * 1024 * 1024;

/// A job to submit.
#[derive(Debug, Args)]
pub(super) struct JobForm {
    /// The agent: a name, or NAME@VERSION
    #[arg(long)]
    agent: String,
    /// The job's input: JSON, @FILE, or `-` for standard input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// The requested authority, patterns by namespace: JSON such as `{"tool.call":["search.*"]}`, @FILE, or
    /// `-`
    #[arg(long, value_name = "JSON")]
    lease: Option<String>,
    /// An amount that the job may spend, such as USD:1.00; repeatable
    #[arg(long, value_name = "AMOUNT")]
    budget: Vec<String>,
    /// The end of the lease, RFC 3339 with Z
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
    /// Seconds after which the job times out
    #[arg(long, value_name = "SECONDS")]
    max_runtime: Option<i64>,
    /// Seconds that the job may wait for a worker before it times out
    #[arg(long, value_name = "SECONDS")]
    queue_timeout: Option<i64>,
    /// Retries after failures: JSON such as `{"max_attempts":5}`, @FILE, or `-`
    #[arg(long, value_name = "JSON")]
    retry: Option<String>,
    /// The intent that the job works for
    #[arg(long)]
    intent: Option<String>,
    /// The priority, -100 to 100: jobs with a higher one start first [default: 0]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    priority: Option<i64>,
    /// A label to find the job by, such as team=billing; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,
    /// A key of your jobs, of which only --max-running run at once
    #[arg(long, value_name = "KEY")]
    concurrency_key: Option<String>,
    /// How many jobs with the concurrency key may run at once [default: 1]
    #[arg(long, value_name = "N", requires = "concurrency_key")]
    max_running: Option<i64>,
}

/// Reads an argument's text: given directly, in a file (`@name`), or on standard input (`-`).
pub(crate) fn given(text: &str) -> Result<String, io::Error> {
    match text.strip_prefix('@') {
        Some(name) => io::read_to_string(std::fs::File::open(name)?.take(MOST)),
        None if text == "-" => io::read_to_string(io::stdin().lock().take(MOST)),
        None => Ok(text.to_owned()),
    }
}

impl JobForm {
    /// Builds the body of a submission.
    ///
    /// # Errors
    /// An option is malformed, or its file cannot be read.
    pub(super) fn submit(self) -> Result<Submit, Failure> {
        let input = self.input.as_deref().map(given).transpose()?;
        let input =
            input.map(RawValue::from_string).transpose().map_err(|e| format!("--input is no JSON: {e}"))?;
        let lease = self.lease.as_deref().map(given).transpose()?;
        let mut lease_request = match lease {
            Some(text) => Some(
                serde_json::from_str(&text)
                    .map_err(|e| format!("--lease must be an object of lists of patterns: {e}"))?,
            ),
            None => None,
        };
        if !self.budget.is_empty() {
            let lease: &mut std::collections::BTreeMap<String, Vec<String>> =
                lease_request.get_or_insert_default();
            lease.entry("cost.budget".to_owned()).or_default().extend(self.budget);
        }
        let retry = self.retry.as_deref().map(given).transpose()?;
        let retry = retry.as_deref().map(serde_json::from_str).transpose();
        Ok(Submit {
            agent: self.agent,
            input,
            lease_request,
            lease_constraints: self.expires_at.map(|at| Constraints { expires_at: Some(at) }),
            max_runtime_sec: self.max_runtime,
            intent_id: self.intent,
            priority: self.priority,
            retry: retry.map_err(|e| format!("--retry is no retry policy: {e}"))?,
            queue_timeout_sec: self.queue_timeout,
            labels: control::labels(&self.label)?,
            concurrency: self.concurrency_key.map(|key| Concurrency {
                key,
                max_running: self.max_running,
                max_starts: None,
                per_sec: None,
            }),
            ..Submit::default()
        })
    }
}
