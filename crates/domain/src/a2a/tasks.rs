//! Tasks (A2A §4.1.1 to §4.1.3): the state of a job, the reports of its worker, and the form on the wire.

use chrono::SecondsFormat;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::artifacts::Artifact;
use super::messages::{Message, Part};
use crate::arcp::jobs::JobStatus;
use crate::arcp::jobs::wire::ErrorPayload;
use crate::clock::Timestamp;

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum TaskState {
    /// Accepted; no worker has begun it.
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    /// In progress.
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    /// Finished.
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
    /// Failed, or out of time.
    #[serde(rename = "TASK_STATE_FAILED")]
    Failed,
    /// Cancelled.
    #[serde(rename = "TASK_STATE_CANCELED")]
    Canceled,
    /// The agent waits for a message.
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED")]
    InputRequired,
    /// The agent has declined.
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
    /// The agent waits for credentials.
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED")]
    AuthRequired,
}

impl TaskState {
    /// All states with their names on the wire.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Submitted, "TASK_STATE_SUBMITTED"),
        (Self::Working, "TASK_STATE_WORKING"),
        (Self::Completed, "TASK_STATE_COMPLETED"),
        (Self::Failed, "TASK_STATE_FAILED"),
        (Self::Canceled, "TASK_STATE_CANCELED"),
        (Self::InputRequired, "TASK_STATE_INPUT_REQUIRED"),
        (Self::Rejected, "TASK_STATE_REJECTED"),
        (Self::AuthRequired, "TASK_STATE_AUTH_REQUIRED"),
    ];

    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.into_iter().find(|(state, _)| *state == self).map_or("", |(_, name)| name)
    }

    /// Parses a name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, name)| *name == text).map(|(state, _)| state)
    }

    /// Whether the task is over.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Whether the agent waits for its client.
    #[must_use]
    pub fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }

    /// Returns the statuses of jobs that tasks in this state may have.
    #[must_use]
    pub fn statuses(self) -> &'static [JobStatus] {
        match self {
            Self::Submitted => &[JobStatus::Pending],
            // A job that waits for its next attempt is at work.
            Self::Working => &[JobStatus::Pending, JobStatus::Running],
            Self::InputRequired | Self::AuthRequired => &[JobStatus::Running],
            Self::Completed => &[JobStatus::Success],
            Self::Failed => &[JobStatus::Error, JobStatus::TimedOut],
            Self::Rejected => &[JobStatus::Error],
            Self::Canceled => &[JobStatus::Cancelled],
        }
    }
}

/// A worker's report on its job: a `status` event.
#[derive(Debug, Clone)]
pub struct Said {
    /// Number of the event in the job.
    pub seq: i64,
    /// When it was said.
    pub at: Timestamp,
    /// The state that it stands for.
    pub state: TaskState,
    /// The words, if there are any.
    pub parts: Vec<Part>,
}

#[derive(Deserialize)]
struct StatusBody<'a> {
    #[serde(default)]
    phase: Option<String>,
    #[serde(default, borrow)]
    message: Option<&'a RawValue>,
    #[serde(default, borrow)]
    parts: Option<&'a RawValue>,
}

/// A message that a worker wrote as an object; only its parts count.
#[derive(Deserialize)]
struct Worded {
    parts: Vec<Part>,
}

impl Said {
    /// Reads a `status` event. Its `phase` is `input_required`, `auth_required`, or anything else for work in progress; its
    /// words are `parts`, or a `message`: a text, or an object with `parts`.
    #[must_use]
    pub fn read(seq: i64, at: Timestamp, body: &str) -> Self {
        let Ok(said) = serde_json::from_str::<StatusBody<'_>>(body) else {
            return Self { seq, at, state: TaskState::Working, parts: Vec::new() };
        };
        let state = match said.phase.as_deref().map(|phase| phase.replace('-', "_")).as_deref() {
            Some("input_required") => TaskState::InputRequired,
            Some("auth_required") => TaskState::AuthRequired,
            _ => TaskState::Working,
        };
        let parts = said.parts.and_then(|raw| serde_json::from_str::<Vec<Part>>(raw.get()).ok());
        let worded = || said.message.and_then(|raw| serde_json::from_str::<Worded>(raw.get()).ok());
        let text = || said.message.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        let parts = parts
            .or_else(|| worded().map(|worded| worded.parts))
            .or_else(|| text().map(|text| vec![Part::text(text)]))
            .unwrap_or_default();
        let lawful = parts.iter().all(|part| part.check("").is_ok());
        Self { seq, at, state, parts: if lawful { parts } else { Vec::new() } }
    }

    /// Returns the words as a message; `None` if there are none.
    #[must_use]
    pub fn message(&self, context: &str, task: &str) -> Option<Message> {
        let id = format!("{task}.{}", self.seq);
        (!self.parts.is_empty()).then(|| Message::of_agent(id, context, task, self.parts.clone()))
    }
}

/// The facts that determine the state of a task.
#[derive(Debug, Clone, Copy)]
pub struct Standing<'a> {
    /// The job's status.
    pub status: JobStatus,
    /// Number of times that the job was claimed.
    pub attempt: u32,
    /// The last report of its worker.
    pub said: Option<&'a Said>,
    /// Number of the last event before the client's last message.
    pub answered: Option<i64>,
    /// The failure, if the job ended with one.
    pub failure: Option<&'a ErrorPayload>,
}

impl Standing<'_> {
    /// Returns the state of the task.
    ///
    /// A request for input holds until the client sends a message after it.
    #[must_use]
    pub fn state(&self) -> TaskState {
        match self.status {
            JobStatus::Pending if self.attempt == 0 => TaskState::Submitted,
            JobStatus::Pending => TaskState::Working,
            JobStatus::Running => {
                let open = self.said.filter(|said| self.answered.is_none_or(|answered| said.seq > answered));
                open.map_or(TaskState::Working, |said| said.state)
            }
            JobStatus::Success => TaskState::Completed,
            JobStatus::Cancelled => TaskState::Canceled,
            JobStatus::Error if self.failure.is_some_and(rejects) => TaskState::Rejected,
            JobStatus::Error | JobStatus::TimedOut => TaskState::Failed,
        }
    }
}

/// Whether a failure says that the agent has declined: its `details` have `"rejected": true`.
#[must_use]
pub fn rejects(failure: &ErrorPayload) -> bool {
    let rejected = failure.details.as_ref().and_then(|details| details.get("rejected"));
    rejected.and_then(serde_json::Value::as_bool).unwrap_or(false)
}

/// Returns a time in A2A's form: UTC, milliseconds (§5.6.1).
#[must_use]
pub fn time(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A task's status on the wire.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// The state.
    pub state: TaskState,
    /// The agent's words about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// Since when.
    pub timestamp: String,
}

/// A task on the wire.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its id: the job's.
    pub id: String,
    /// The context that it belongs to.
    pub context_id: String,
    /// Its status.
    pub status: Status,
    /// Its artifacts; absent if they were not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<Artifact>>,
    /// Its latest messages, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    /// Metadata that this server adds.
    pub metadata: serde_json::Value,
}
