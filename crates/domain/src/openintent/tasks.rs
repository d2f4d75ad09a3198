//! Tasks (RFC-0012): bounded pieces of an intent's work; their data and creation. State transitions are in
//! `tasks/course.rs`, permissions in `tasks/may.rs`, dependencies in `tasks/graph.rs`, plans in `plans.rs`.

pub mod change;
pub mod course;
pub mod graph;
pub mod may;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::check_list;
use crate::clock::Timestamp;
use crate::identity::principals::check_name;
use crate::ids::{IntentId, PlanId, TaskId};
use crate::limits::{
    ATTEMPTS, DEPENDENCIES, DURATION_SECONDS, LIST_ITEMS, METADATA_BYTES, PAUSE_SECONDS, PAYLOAD_BYTES,
    TEXT_BYTES, TITLE_BYTES,
};
use crate::refusal::{Code, Refusal};

/// Status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// Waits for other tasks, or for the end of the pause before the next attempt.
    Pending,
    /// Can be claimed.
    Ready,
    /// Claimed by an agent.
    Claimed,
    /// In progress.
    Running,
    /// Blocked.
    Blocked,
    /// Done.
    Completed,
    /// Failed permanently.
    Failed,
    /// Cancelled.
    Cancelled,
    /// Not needed.
    Skipped,
}

impl TaskStatus {
    /// All statuses.
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Ready,
        Self::Claimed,
        Self::Running,
        Self::Blocked,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Skipped,
    ];

    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Claimed => "claimed",
            Self::Running => "running",
            Self::Blocked => "blocked",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Returns whether the task is over: it never changes again, and its channels close (RFC-0021 §7.3).
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Skipped)
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Identifier.
    pub id: TaskId,
    /// Intent of the task.
    pub intent_id: IntentId,
    /// Plan of the task.
    pub plan_id: Option<PlanId>,
    /// Parent task.
    pub parent_task_id: Option<TaskId>,
    /// Name, in one line.
    pub name: String,
    /// Full description.
    pub description: Option<String>,
    /// Stored status; see [`Task::at`].
    pub status: TaskStatus,
    /// Priority: a client-defined name.
    pub priority: String,
    /// Input.
    pub input: Map<String, Value>,
    /// Output.
    pub output: Option<Map<String, Value>>,
    /// Artifacts, by reference.
    pub artifacts: Vec<String>,
    /// Agent that has it, had it last, or that it is reserved for.
    pub assigned_agent: Option<String>,
    /// Number of claims: the fencing token of the current claim.
    pub claims: i64,
    /// Time of the current claim; `None` if the task is not claimed.
    pub claimed_at: Option<Timestamp>,
    /// Capabilities that an agent needs to claim it.
    pub capabilities_required: Vec<String>,
    /// Tasks that must be completed before it.
    pub depends_on: Vec<TaskId>,
    /// Pause between two attempts: see [`pause_seconds`].
    pub retry_policy: Option<String>,
    /// Time limit of one attempt, in seconds.
    pub timeout_seconds: Option<u32>,
    /// Number of the current attempt, starting at 1.
    pub attempt: u32,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Permissions; stored as given.
    pub permissions: String,
    /// Memory policy (RFC-0015); stored as given, its limits apply to the task's working memory.
    pub memory_policy: Option<Map<String, Value>>,
    /// Required tools (RFC-0014); stored as given.
    pub requires_tools: Vec<Value>,
    /// Reason for being blocked.
    pub blocked_reason: Option<String>,
    /// Latest error.
    pub error: Option<String>,
    /// Client-defined object.
    pub metadata: Map<String, Value>,
    /// Version, incremented by each change that somebody makes, not by becoming ready; guards writes (`If-Match`).
    pub version: i64,
    /// Agent that created it.
    pub created_by: String,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time when work on the current attempt began.
    pub started_at: Option<Timestamp>,
    /// End time.
    pub completed_at: Option<Timestamp>,
    /// Time of the next automatic change: the end of the attempt while claimed, of the pause while pending.
    pub due_at: Option<Timestamp>,
}

/// Request to create a task.
#[derive(Debug, Clone, Default)]
pub struct TaskAsk {
    /// Name, in one line.
    pub name: String,
    /// Full description.
    pub description: Option<String>,
    /// Plan to add it to.
    pub plan_id: Option<PlanId>,
    /// Parent task.
    pub parent_task_id: Option<TaskId>,
    /// Priority; defaults to `normal`.
    pub priority: Option<String>,
    /// Input.
    pub input: Map<String, Value>,
    /// Capabilities that an agent needs.
    pub capabilities_required: Vec<String>,
    /// Tasks that must be completed before it.
    pub depends_on: Vec<TaskId>,
    /// Pause between two attempts.
    pub retry_policy: Option<String>,
    /// Time limit of one attempt, in seconds.
    pub timeout_seconds: Option<u32>,
    /// Maximum number of attempts; defaults to 3 (OI-8.1).
    pub max_attempts: Option<u32>,
    /// Permissions; stored as given, defaults to `inherit`.
    pub permissions: Option<String>,
    /// Memory policy; stored as given.
    pub memory_policy: Option<Map<String, Value>>,
    /// Required tools; stored as given.
    pub requires_tools: Vec<Value>,
    /// Client-defined object.
    pub metadata: Map<String, Value>,
}

/// Default number of attempts (OI-8.1).
const DEFAULT_ATTEMPTS: u32 = 3;

/// Creates a pending task; [`graph::Wait`] determines whether it is ready.
///
/// # Errors
/// A missing member, or one over its limit or out of its range.
pub fn create(
    ask: TaskAsk,
    created_by: &str,
    intent_id: IntentId,
    id: TaskId,
    now: Timestamp,
) -> Result<Task, Refusal> {
    let max_attempts = ask.max_attempts.unwrap_or(DEFAULT_ATTEMPTS);
    check_range("max_attempts", max_attempts, ATTEMPTS)?;
    if let Some(seconds) = ask.timeout_seconds {
        check_range("timeout_seconds", seconds, DURATION_SECONDS)?;
    }
    if let Some(policy) = &ask.retry_policy {
        check_name("retry_policy", policy)?;
        check_pause(policy)?;
    }
    let task = Task {
        id,
        intent_id,
        plan_id: ask.plan_id,
        parent_task_id: ask.parent_task_id,
        name: ask.name,
        description: ask.description,
        status: TaskStatus::Pending,
        priority: ask.priority.unwrap_or_else(|| "normal".to_owned()),
        input: ask.input,
        output: None,
        artifacts: Vec::new(),
        assigned_agent: None,
        claims: 0,
        claimed_at: None,
        capabilities_required: ask.capabilities_required,
        depends_on: graph::distinct(ask.depends_on),
        retry_policy: ask.retry_policy,
        timeout_seconds: ask.timeout_seconds,
        attempt: 1,
        max_attempts,
        permissions: ask.permissions.unwrap_or_else(|| "inherit".to_owned()),
        memory_policy: ask.memory_policy,
        requires_tools: ask.requires_tools,
        blocked_reason: None,
        error: None,
        metadata: ask.metadata,
        version: 1,
        created_by: created_by.to_owned(),
        created_at: now,
        started_at: None,
        completed_at: None,
        due_at: None,
    };
    check(&task)?;
    Ok(task)
}

/// Checks the members of a task that clients write.
///
/// # Errors
/// A missing member, or one over its limit.
pub fn check(task: &Task) -> Result<(), Refusal> {
    if task.name.trim().is_empty() || task.name.len() > TITLE_BYTES {
        let message = format!("`name` must have 1 to {TITLE_BYTES} bytes.");
        return Err(Refusal::field(Code::InvalidRequest, "name", "length", message));
    }
    let texts = [("description", &task.description), ("error", &task.error)];
    for (member, text) in texts.into_iter().chain([("blocked_reason", &task.blocked_reason)]) {
        check_text(member, text.as_deref())?;
    }
    check_name("priority", &task.priority)?;
    check_name("permissions", &task.permissions)?;
    check_list("capabilities_required", &task.capabilities_required)?;
    if task.depends_on.len() > DEPENDENCIES {
        return Err(too_long("depends_on", DEPENDENCIES));
    }
    check_outcome(task.output.as_ref(), &task.artifacts)?;
    check_size("input", &task.input, PAYLOAD_BYTES)?;
    check_size("metadata", &task.metadata, METADATA_BYTES)?;
    check_size("memory_policy", &task.memory_policy, METADATA_BYTES)?;
    check_size("requires_tools", &task.requires_tools, METADATA_BYTES)
}

/// Checks the results of a task.
fn check_outcome(output: Option<&Map<String, Value>>, artifacts: &[String]) -> Result<(), Refusal> {
    if artifacts.len() > LIST_ITEMS {
        return Err(too_long("artifacts", LIST_ITEMS));
    }
    check_size("artifacts", &artifacts, PAYLOAD_BYTES)?;
    check_size("output", &output, PAYLOAD_BYTES)
}

fn too_long(member: &str, most: usize) -> Refusal {
    let message = format!("`{member}` has at most {most} items.");
    Refusal::field(Code::TooLarge, member, "too_long", message)
}

pub(crate) fn check_size(member: &str, value: &impl Serialize, most: usize) -> Result<(), Refusal> {
    let bytes = serde_json::to_string(value).map_or(0, |text| text.len());
    if bytes <= most {
        return Ok(());
    }
    let message =
        format!("`{member}` has {bytes} bytes, at most {most} are allowed. Keep large data elsewhere.");
    Err(Refusal::field(Code::TooLarge, member, "too_large", message))
}

pub(crate) fn check_text(member: &str, text: Option<&str>) -> Result<(), Refusal> {
    if text.is_none_or(|text| text.len() <= TEXT_BYTES) {
        return Ok(());
    }
    let message = format!("`{member}` has at most {TEXT_BYTES} bytes.");
    Err(Refusal::field(Code::TooLarge, member, "too_long", message))
}

fn check_range(member: &str, given: u32, most: u32) -> Result<(), Refusal> {
    if (1..=most).contains(&given) {
        return Ok(());
    }
    let message = format!("`{member}` must be a number from 1 to {most}.");
    Err(Refusal::field(Code::InvalidRequest, member, "range", message))
}

fn check_pause(policy: &str) -> Result<(), Refusal> {
    let Some((word, seconds)) = policy.split_once(':') else { return Ok(()) };
    let lawful = seconds.parse().is_ok_and(|seconds: u32| (1..=PAUSE_SECONDS).contains(&seconds));
    if !["fixed", "exponential"].contains(&word) || lawful {
        return Ok(());
    }
    let message = format!("`retry_policy` is `{word}:` and a number of seconds from 1 to {PAUSE_SECONDS}.");
    Err(Refusal::field(Code::InvalidRequest, "retry_policy", "range", message))
}

/// Returns the pause in seconds after this attempt failed.
///
/// `fixed:30` pauses that long each time, `exponential:5` doubles the pause each time; any other value is
/// client-defined and means no pause.
#[must_use]
pub fn pause_seconds(policy: Option<&str>, attempt: u32) -> u32 {
    let Some((word, seconds)) = policy.and_then(|policy| policy.split_once(':')) else { return 0 };
    let seconds: u32 = seconds.parse().unwrap_or(0);
    match word {
        "fixed" => seconds.min(PAUSE_SECONDS),
        "exponential" => {
            let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1));
            seconds.saturating_mul(doubled).min(PAUSE_SECONDS)
        }
        _ => 0,
    }
}

impl Task {
    /// Returns whether an agent has the task now.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.claimed_at.is_some() && !self.status.is_terminal()
    }

    /// Returns the token of the current claim, if there is one.
    #[must_use]
    pub fn claim_token(&self) -> Option<i64> {
        self.is_held().then_some(self.claims)
    }

    /// Returns the task at this time: expired attempts and pauses take effect when due, even if no sweep has recorded them yet.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        course::Course::begin(self, now).task
    }

    /// Requires that the caller has seen the current version.
    ///
    /// # Errors
    /// [`Code::VersionConflict`] with the current version.
    pub fn require_version(&self, seen: i64) -> Result<(), Refusal> {
        if seen == self.version { Ok(()) } else { Err(Refusal::version_conflict(self.version)) }
    }
}
