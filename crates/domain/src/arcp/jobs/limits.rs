//! Limits of jobs (beyond ARCP): how many jobs of an agent, of a principal or of a concurrency key run at once, and how many
//! start within a time; and the highest priority that a principal may ask for. A claim counts the running jobs under
//! the lock of each gate that a job passes, and admits the job or not.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::order::PRIORITY;
use crate::limits::NAME_BYTES;
use crate::refusal::{Code, Refusal};

/// Largest limit of running jobs, and of starts within a time: a claim counts them one by one.
pub const RUNNING: u32 = 10_000;
/// Longest time in seconds within which starts are counted: each start is remembered as long.
pub const PERIOD_SECONDS: u32 = 24 * 3600;

/// Limits of the jobs that pass one gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = JobLimits, example = json!({ "max_running": 4 }))]
pub struct Limits {
    /// How many jobs may run at once: 1 to 10,000; no limit if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running: Option<i64>,
    /// How many jobs may start within `per_sec` seconds: 1 to 10,000; needs `per_sec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_starts: Option<i64>,
    /// The seconds within which `max_starts` jobs may start: 1 to 86,400.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_sec: Option<i64>,
    /// The highest priority that a principal may ask for: 0 to 100. Only for principals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_priority: Option<i64>,
}

impl Limits {
    /// Requires that the limits are in their bounds, and that there is one. `at` is the member that has them, with a dot, or
    /// nothing.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`].
    pub fn check(&self, at: &str) -> Result<(), Refusal> {
        let within = |member: &str, said: Option<i64>, most: u32| match said {
            Some(said) if !(1..=i64::from(most)).contains(&said) => {
                let message = format!("`{at}{member}` must be a whole number from 1 to {most}.");
                Err(Refusal::field(Code::InvalidRequest, &format!("{at}{member}"), "range", message))
            }
            _ => Ok(()),
        };
        within("max_running", self.max_running, RUNNING)?;
        within("max_starts", self.max_starts, RUNNING)?;
        within("per_sec", self.per_sec, PERIOD_SECONDS)?;
        if self.max_priority.is_some_and(|said| !(0..=i64::from(PRIORITY)).contains(&said)) {
            let message = format!(
                "`{at}max_priority` must be a whole number from 0 to {PRIORITY}: 0 is normal, and anybody may ask for less."
            );
            return Err(Refusal::field(Code::InvalidRequest, &format!("{at}max_priority"), "range", message));
        }
        if self.max_starts.is_some() != self.per_sec.is_some() {
            let message = format!(
                "`{at}max_starts` and `{at}per_sec` belong together: so many starts within so many seconds."
            );
            return Err(Refusal::field(Code::InvalidRequest, &format!("{at}per_sec"), "required", message));
        }
        if self.max_running.is_none() && self.max_starts.is_none() && self.max_priority.is_none() {
            let message =
                format!("There is no limit. Give `{at}max_running`, or `{at}max_starts` with `{at}per_sec`.");
            return Err(Refusal::field(
                Code::InvalidRequest,
                &format!("{at}max_running"),
                "required",
                message,
            ));
        }
        Ok(())
    }

    /// Whether one more job may start.
    #[must_use]
    pub fn admit(&self, count: Count) -> bool {
        let below = |limit: Option<i64>, count: i64| limit.is_none_or(|limit| count < limit);
        below(self.max_running, count.running) && below(self.max_starts, count.started)
    }
}

/// The limits of a job's concurrency key, which its principal's jobs share.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = JobConcurrency, example = json!({ "key": "deploy/shop", "max_running": 1 }))]
pub struct Concurrency {
    /// The key, such as `deploy/shop`: of jobs of one principal with the same key, only so many run at once, of whichever
    /// agents.
    pub key: String,
    /// How many jobs with the key may run at once: 1 to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<i64>,
    /// How many jobs with the key may start within `per_sec` seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_starts: Option<i64>,
    /// The seconds within which `max_starts` jobs may start: 1 to 86,400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_sec: Option<i64>,
}

impl Concurrency {
    /// Requires that key and limits are in their bounds. Without a limit, one job runs at once.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`].
    pub fn check(self) -> Result<Self, Refusal> {
        if self.key.is_empty() || self.key.len() > NAME_BYTES || self.key.chars().any(char::is_control) {
            let message = format!(
                "`concurrency.key` must have 1 to {NAME_BYTES} bytes, none of them a control character, such as \
                 `deploy/shop`."
            );
            return Err(Refusal::field(Code::InvalidRequest, "concurrency.key", "length", message));
        }
        let none = self.max_running.is_none() && self.max_starts.is_none() && self.per_sec.is_none();
        let known = Self { max_running: if none { Some(1) } else { self.max_running }, ..self };
        known.limits().check("concurrency.")?;
        Ok(known)
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            max_running: self.max_running,
            max_starts: self.max_starts,
            per_sec: self.per_sec,
            max_priority: None,
        }
    }
}

/// A group in which running jobs are counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gate {
    /// The jobs of an agent, of all its versions.
    Agent(String),
    /// The jobs that a principal submitted.
    Principal(String),
    /// The jobs that a principal submitted with a concurrency key.
    Key(String, String),
}

impl fmt::Display for Gate {
    /// The stored form. Neither agents nor principals nor keys contain control characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(name) => write!(f, "agent\n{name}"),
            Self::Principal(name) => write!(f, "principal\n{name}"),
            Self::Key(principal, key) => write!(f, "key\n{principal}\n{key}"),
        }
    }
}

/// Jobs counted at a gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Jobs that run.
    pub running: i64,
    /// Starts within the time of a limit.
    pub started: i64,
}

/// A gate that a job passes, with the limits that it is judged by. Jobs with the same key may name different limits: each is
/// judged by its own.
pub type Passage = (Gate, Limits);

/// The counts of all gates of a claim, each for the times of its limits.
#[derive(Debug, Clone, Default)]
pub struct Counts(BTreeMap<(Gate, i64), Count>);

impl Counts {
    /// Adds the count at a gate, for a limit within this time.
    pub fn add(&mut self, gate: Gate, per_sec: Option<i64>, count: Count) {
        self.0.insert((gate, per_sec.unwrap_or_default()), count);
    }

    /// Returns the first gate that does not admit one more job; `None` if all do. A gate that was not counted admits none.
    #[must_use]
    pub fn closed<'a>(&self, passages: &'a [Passage]) -> Option<&'a Gate> {
        let open = |(gate, limits): &&Passage| {
            let counted = self.0.get(&(gate.clone(), limits.per_sec.unwrap_or_default()));
            counted.is_some_and(|count| limits.admit(*count))
        };
        passages.iter().find(|passage| !open(passage)).map(|(gate, _)| gate)
    }

    /// Counts one more job at these gates.
    pub fn pass(&mut self, passages: &[Passage]) {
        for ((gate, _), count) in &mut self.0 {
            if passages.iter().any(|(passed, _)| passed == gate) {
                count.running += 1;
                count.started += 1;
            }
        }
    }
}
