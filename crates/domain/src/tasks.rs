//! Tasks (RFC-0012): bounded pieces of an intent's work. What a task is and how it begins; how it goes on is
//! `tasks/course.rs`, who may do what with it `tasks/may.rs`, what it
//! waits for `tasks/graph.rs`, the plan that it may belong to `plans.rs`.

pub mod change;
pub mod course;
pub mod graph;
pub mod may;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::check_list;
use crate::clock::Timestamp;
use crate::ids::{IntentId, PlanId, TaskId};
use crate::limits::{
    ATTEMPTS, DEPENDENCIES, DURATION_SECONDS, LIST_ITEMS, METADATA_BYTES, PAUSE_SECONDS, PAYLOAD_BYTES,
    TEXT_BYTES, TITLE_BYTES,
};
use crate::principals::check_name;
use crate::refusal::{Code, Refusal};

/// Where a task is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// It waits for other tasks, or for the end of the pause before it is tried again.
    Pending,
    /// It can be claimed.
    Ready,
    /// An agent has it.
    Claimed,
    /// The agent works on it.
    Running,
    /// It cannot go on.
    Blocked,
    /// It is done.
    Completed,
    /// It failed for good.
    Failed,
    /// It was called off.
    Cancelled,
    /// It is not needed.
    Skipped,
}

impl TaskStatus {
    /// Every status.
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

    /// The status as it is written.
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

    /// Reads a status; `None` when there is no such status.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether the task is over: it never changes again, and its channels close (RFC-0021 §7.3).
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Skipped)
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// The intent that it is a piece of.
    pub intent_id: IntentId,
    /// The plan that it belongs to.
    pub plan_id: Option<PlanId>,
    /// The task that it is a piece of.
    pub parent_task_id: Option<TaskId>,
    /// What is to be done, in a line.
    pub name: String,
    /// The same in full.
    pub description: Option<String>,
    /// Where it is in its life, as last written; see [`Task::at`].
    pub status: TaskStatus,
    /// How much it matters: the client's own word.
    pub priority: String,
    /// What it is done with.
    pub input: Map<String, Value>,
    /// What came of it.
    pub output: Option<Map<String, Value>>,
    /// What was made on the way, by reference.
    pub artifacts: Vec<String>,
    /// Who has it, who had it last, or whom it is kept for.
    pub assigned_agent: Option<String>,
    /// How often it was claimed: the token of the claim that holds (fencing).
    pub claims: i64,
    /// When the claim that holds was made; `None` when nobody has the task.
    pub claimed_at: Option<Timestamp>,
    /// What an agent must be able to do to claim it.
    pub capabilities_required: Vec<String>,
    /// The tasks that must be completed before it.
    pub depends_on: Vec<TaskId>,
    /// How long it rests between two attempts: see [`pause_seconds`].
    pub retry_policy: Option<String>,
    /// Seconds that one attempt may take.
    pub timeout_seconds: Option<u32>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Attempts at the most.
    pub max_attempts: u32,
    /// Kept as given.
    pub permissions: String,
    /// RFC-0015: kept as given.
    pub memory_policy: Option<Map<String, Value>>,
    /// RFC-0014: kept as given.
    pub requires_tools: Vec<Value>,
    /// Why it cannot go on.
    pub blocked_reason: Option<String>,
    /// What went wrong last.
    pub error: Option<String>,
    /// The client's own object.
    pub metadata: Map<String, Value>,
    /// Rises with each change that somebody makes; guards writes (`If-Match`). Becoming ready is nobody's change.
    pub version: i64,
    /// Who asked for it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// When work on the current attempt began.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub completed_at: Option<Timestamp>,
    /// When time changes it: the end of the attempt's time while somebody has it, of the pause while it is pending.
    pub due_at: Option<Timestamp>,
}

/// What is asked for in a new task.
#[derive(Debug, Clone, Default)]
pub struct TaskAsk {
    /// What is to be done, in a line.
    pub name: String,
    /// The same in full.
    pub description: Option<String>,
    /// The plan to put it into.
    pub plan_id: Option<PlanId>,
    /// The task that it is a piece of.
    pub parent_task_id: Option<TaskId>,
    /// How much it matters; `normal` when nothing is said.
    pub priority: Option<String>,
    /// What it is done with.
    pub input: Map<String, Value>,
    /// What an agent must be able to do.
    pub capabilities_required: Vec<String>,
    /// The tasks that must be completed before it.
    pub depends_on: Vec<TaskId>,
    /// How long it rests between two attempts.
    pub retry_policy: Option<String>,
    /// Seconds that one attempt may take.
    pub timeout_seconds: Option<u32>,
    /// Attempts at the most; 3 when nothing is said (contract 8).
    pub max_attempts: Option<u32>,
    /// Kept as given; `inherit` when nothing is said.
    pub permissions: Option<String>,
    /// Kept as given.
    pub memory_policy: Option<Map<String, Value>>,
    /// Kept as given.
    pub requires_tools: Vec<Value>,
    /// The client's own object.
    pub metadata: Map<String, Value>,
}

/// Attempts when nothing is said (contract 8).
const DEFAULT_ATTEMPTS: u32 = 3;

/// Makes a task. It is pending: whether it is ready is for [`graph::Wait`] to say.
///
/// # Errors
/// A member that is missing, over its limit or out of its range.
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

/// Checks what clients write into a task.
///
/// # Errors
/// A member that is missing or over its limit.
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

/// Checks what came of a task, whichever way it is said.
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

/// Seconds that a task rests after this attempt failed. `fixed:30` rests that long each time, `exponential:5` twice as
/// long each time; every other word is the client's own and means no rest.
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
    /// Whether an agent has the task now.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.claimed_at.is_some() && !self.status.is_terminal()
    }

    /// The token of the claim that holds, if one does.
    #[must_use]
    pub fn claim_token(&self) -> Option<i64> {
        self.is_held().then_some(self.claims)
    }

    /// The task as it is at this moment: an attempt whose time is up has failed the instant it is, and a pause is over
    /// the instant it is, whether or not a sweep has written it down yet.
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
