//! Task routes (RFC-0012): creating, finding and changing tasks. There are two paths to create one, the RFC's and the
//! reference server's (OI-15.25). The actions on tasks are in `task_verbs.rs`.

pub mod turns;
pub(crate) mod verbs;

use actix_web::{HttpRequest, get, patch, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{IntentId, PlanId, TaskId};
use entente_domain::openintent::tasks::change::{Assignee, Change};
use entente_domain::openintent::tasks::{Task, TaskAsk, TaskStatus};
use entente_domain::refusal::Refusal;
use entente_http::body::{
    Body, IdempotencyKey, IfMatch, Limit100, Query, id, if_match_of, intent_of, named, one,
};
use entente_http::caller::{Asker, state_of};
use entente_http::error::Reply;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_http::{listed, with_version};
use entente_openintent::tasks;
use entente_openintent::tasks::TaskView;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(create).service(create_rfc).service(list).service(get).service(change);
}

/// A task.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskBody {
    /// Task id.
    id: TaskId,
    /// The intent that the task belongs to.
    intent_id: IntentId,
    /// The plan that the task belongs to.
    plan_id: Option<PlanId>,
    /// The parent task.
    parent_task_id: Option<TaskId>,
    /// Summary of the task in one line.
    #[schema(example = "Read the annual report")]
    name: String,
    /// Full description.
    description: Option<String>,
    /// Status of the task.
    status: TaskStatus,
    /// Priority of the task.
    #[schema(example = "normal")]
    priority: String,
    /// Input of the task.
    #[schema(value_type = Object)]
    input: Map<String, Value>,
    /// Output of the task.
    #[schema(value_type = Option<Object>)]
    output: Option<Map<String, Value>>,
    /// References to artifacts of the work.
    artifacts: Vec<String>,
    /// The current, last or designated assignee.
    assigned_agent: Option<String>,
    /// Token of the current claim: send it with later actions, which fail once the claim is lost.
    claim_token: Option<i64>,
    /// Always null; present for clients of the reference server.
    lease_id: Option<String>,
    /// Capabilities that an agent needs to claim the task.
    capabilities_required: Vec<String>,
    /// Tasks that must be completed first.
    depends_on: Vec<TaskId>,
    /// Tasks that wait for this one.
    blocks: Vec<TaskId>,
    /// Pause between attempts.
    retry_policy: Option<String>,
    /// Time limit of one attempt in seconds.
    timeout_seconds: Option<u32>,
    /// Number of the current attempt, from 1.
    attempt: u32,
    /// Maximum number of attempts.
    max_attempts: u32,
    /// Permissions, stored as given.
    permissions: String,
    /// Memory policy, stored as given.
    #[schema(value_type = Option<Object>)]
    memory_policy: Option<Map<String, Value>>,
    /// Required tools, stored as given.
    requires_tools: Vec<Value>,
    /// Why the task is blocked.
    blocked_reason: Option<String>,
    /// Error of the last failed attempt.
    error: Option<String>,
    /// Metadata, an object of the client's own.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// Same as `metadata`, under the reference server's name.
    #[schema(value_type = Object)]
    task_metadata: Map<String, Value>,
    /// Version that guards writes: send it in `If-Match`.
    version: i64,
    /// Agent that created the task.
    created_by: String,
    /// When the task was created.
    created_at: WireTime,
    /// When work on the current attempt began.
    started_at: Option<WireTime>,
    /// When the task ended.
    completed_at: Option<WireTime>,
    /// Next change by time: the end of the attempt's time limit, or of the pause before the next attempt.
    due_at: Option<WireTime>,
}

impl TaskBody {
    /// Writes a task in the client's dialect.
    #[must_use]
    pub fn of(shown: TaskView, dialect: Dialect) -> Self {
        Self::new(shown.task, shown.blocks, dialect)
    }

    fn new(task: Task, blocks: Vec<TaskId>, dialect: Dialect) -> Self {
        let time = |at| WireTime::new(at, dialect);
        Self {
            claim_token: task.claim_token(),
            id: task.id,
            intent_id: task.intent_id,
            plan_id: task.plan_id,
            parent_task_id: task.parent_task_id,
            name: task.name,
            description: task.description,
            status: task.status,
            priority: task.priority,
            input: task.input,
            output: task.output,
            artifacts: task.artifacts,
            assigned_agent: task.assigned_agent,
            lease_id: None,
            capabilities_required: task.capabilities_required,
            depends_on: task.depends_on,
            blocks,
            retry_policy: task.retry_policy,
            timeout_seconds: task.timeout_seconds,
            attempt: task.attempt,
            max_attempts: task.max_attempts,
            permissions: task.permissions,
            memory_policy: task.memory_policy,
            requires_tools: task.requires_tools,
            blocked_reason: task.blocked_reason,
            error: task.error,
            metadata: task.metadata.clone(),
            task_metadata: task.metadata,
            version: task.version,
            created_by: task.created_by,
            created_at: time(task.created_at),
            started_at: task.started_at.map(time),
            completed_at: task.completed_at.map(time),
            due_at: task.due_at.map(time),
        }
    }
}

/// Returns a 200 with the task, and its version as `ETag`.
pub(crate) fn response(shown: TaskView, asker: &Asker) -> Reply {
    with_version(shown.task.version, &TaskBody::of(shown, asker.dialect))
}

/// A task to create.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewTask)]
#[schema(example = json!({ "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "name": "Read the annual report" }))]
struct CreateBody {
    /// The intent; not needed if the path names it.
    intent_id: Option<String>,
    /// Summary of the task in one line.
    name: String,
    /// Full description.
    description: Option<String>,
    /// The plan to add the task to.
    plan_id: Option<String>,
    /// The parent task.
    parent_task_id: Option<String>,
    /// Priority; defaults to `normal`.
    priority: Option<String>,
    /// Input of the task.
    #[schema(value_type = Option<Object>)]
    input: Option<Map<String, Value>>,
    /// Capabilities that an agent needs to claim the task.
    capabilities_required: Option<Vec<String>>,
    /// Tasks of the same intent that must be completed first.
    depends_on: Option<Vec<String>>,
    /// Pause between attempts: `fixed:SECONDS`, `exponential:SECONDS`, or any other word for no pause.
    retry_policy: Option<String>,
    /// Time limit of one attempt in seconds.
    timeout_seconds: Option<u32>,
    /// Maximum number of attempts, 1 to 100; defaults to 3.
    max_attempts: Option<u32>,
    /// Permissions, stored as given; defaults to `inherit`.
    permissions: Option<String>,
    /// Memory policy, stored as given.
    #[schema(value_type = Option<Object>)]
    memory_policy: Option<Map<String, Value>>,
    /// Required tools, stored as given.
    requires_tools: Option<Vec<Value>>,
    /// Metadata, an object of the client's own.
    #[serde(alias = "task_metadata")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

impl CreateBody {
    fn ask(self) -> Result<TaskAsk, Refusal> {
        Ok(TaskAsk {
            plan_id: one("plan_id", self.plan_id)?,
            parent_task_id: one("parent_task_id", self.parent_task_id)?,
            depends_on: named("depends_on", &self.depends_on.unwrap_or_default())?,
            name: self.name,
            description: self.description,
            priority: self.priority,
            input: self.input.unwrap_or_default(),
            capabilities_required: self.capabilities_required.unwrap_or_default(),
            retry_policy: self.retry_policy,
            timeout_seconds: self.timeout_seconds,
            max_attempts: self.max_attempts,
            permissions: self.permissions,
            memory_policy: self.memory_policy,
            requires_tools: self.requires_tools.unwrap_or_default(),
            metadata: self.metadata.unwrap_or_default(),
        })
    }
}

async fn create_one(request: &HttpRequest, asker: &Asker, intent: IntentId, body: Body<CreateBody>) -> Reply {
    let api = state_of::<ApiState>(request)?;
    let once = body.once(request)?;
    let ask = body.value.ask()?;
    let task = tasks::create(&api.ctx, &asker.caller, intent, ask, once.as_ref()).await?;
    response(TaskView { task, blocks: Vec::new() }, asker)
}

/// Create a task
///
/// The response says `pending`; a task without open dependencies becomes `ready` immediately, under the same version.
#[utoipa::path(operation_id = "create_task", tag = "tasks", request_body = CreateBody, params(IdempotencyKey),
    responses((status = 200, description = "The task", body = TaskBody)))]
#[post("/tasks")]
async fn create(request: HttpRequest, asker: Asker, body: Body<CreateBody>) -> Reply {
    let intent = intent_of(body.value.intent_id.as_ref())?;
    create_one(&request, &asker, intent, body).await
}

/// Create a task of an intent
///
/// Same as `POST /tasks`, on the RFC's path.
#[utoipa::path(operation_id = "create_intent_task", tag = "tasks", request_body = CreateBody, params(IdempotencyKey),
    responses((status = 200, description = "The task", body = TaskBody)))]
#[post("/intents/{intent_id}/tasks")]
async fn create_rfc(
    request: HttpRequest,
    asker: Asker,
    path: web::Path<String>,
    body: Body<CreateBody>,
) -> Reply {
    create_one(&request, &asker, id("intent", &path)?, body).await
}

/// List an intent's tasks
///
/// Oldest first.
#[utoipa::path(operation_id = "list_tasks", tag = "tasks",
    params(("status" = Option<TaskStatus>, Query, description = "Only tasks in this status"),
           ("assigned_agent" = Option<String>, Query, description = "Only tasks assigned to this agent"),
           ("plan_id" = Option<String>, Query, description = "Only tasks of this plan"), Limit100,
           ("offset" = Option<u32>, Query, description = "Number of tasks to skip; defaults to 0")),
    responses((status = 200, description = "The tasks", body = Vec<TaskBody>)))]
#[get("/intents/{intent_id}/tasks")]
async fn list(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let filter = tasks::TaskFilter {
        status: query.parsed("status", "a task's status", TaskStatus::parse)?,
        assigned_agent: query.text("assigned_agent").map(str::to_owned),
        plan_id: query.parsed("plan_id", "a plan's id", |text| text.parse().ok())?,
        limit: query.limit(100)?,
        offset: query.offset()?,
    };
    let found = tasks::list(&api.ctx, &asker.caller, id("intent", &path)?, &filter).await?;
    let bodies = found.into_iter().map(|shown| TaskBody::new(shown.task, shown.blocks, asker.dialect));
    listed(bodies)
}

/// Get a task
#[utoipa::path(operation_id = "get_task", tag = "tasks",
    responses((status = 200, description = "The task; its version is the ETag", body = TaskBody)))]
#[get("/tasks/{task_id}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    response(tasks::get(&api.ctx, &asker.caller, id("task", &path)?).await?, &asker)
}

/// A change of a task; missing fields stay unchanged.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TaskChange)]
#[schema(example = json!({ "status": "completed", "output": { "pages": 12 } }))]
struct ChangeBody {
    /// New status; skipped intermediate steps are performed automatically.
    status: Option<TaskStatus>,
    /// Agent to assign; null leaves the task to any agent.
    #[serde(default, deserialize_with = "assignee")]
    #[schema(value_type = Option<String>)]
    assigned_agent: Option<Assignee>,
    /// Output of the task.
    #[schema(value_type = Option<Object>)]
    output: Option<Map<String, Value>>,
    /// References to artifacts of the work.
    artifacts: Option<Vec<String>>,
    /// Error of the failed attempt.
    error: Option<String>,
    /// Why the task is blocked.
    blocked_reason: Option<String>,
    /// The complete new list of dependencies; allowed while the task is unassigned.
    depends_on: Option<Vec<String>>,
    /// New name.
    name: Option<String>,
    /// New description.
    description: Option<String>,
    /// New priority.
    priority: Option<String>,
    /// The complete new input.
    #[schema(value_type = Option<Object>)]
    input: Option<Map<String, Value>>,
    /// The complete new metadata.
    #[serde(alias = "task_metadata")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// Distinguishes null, which releases the task, from a missing field.
fn assignee<'de, D: Deserializer<'de>>(member: D) -> Result<Option<Assignee>, D::Error> {
    let given = Option::<String>::deserialize(member)?;
    Ok(Some(given.map_or(Assignee::Anybody, Assignee::Agent)))
}

/// Change a task
///
/// Requires the version last read in `If-Match`. A claimed task can be changed by its agent and by the managers of the
/// intent. The status `failed` is final; to report a failed attempt, use `POST /tasks/{task_id}/fail`.
#[utoipa::path(operation_id = "update_task", tag = "tasks", request_body = ChangeBody, params(IfMatch),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`version_conflict`, `claim_conflict`, `invalid_transition`", body = entente_http::error::ProblemBody),
              (status = 428, description = "`precondition_required`", body = entente_http::error::ProblemBody)))]
#[patch("/tasks/{task_id}")]
async fn change(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ChangeBody>,
) -> Reply {
    let id: TaskId = id("task", &path)?;
    let seen = if_match_of("task", &request)?;
    let given = body.value;
    let depends_on = given.depends_on.as_deref().map(|ids| named("depends_on", ids)).transpose()?;
    let change = Change {
        status: given.status,
        assigned_agent: given.assigned_agent,
        output: given.output,
        artifacts: given.artifacts,
        error: given.error,
        blocked_reason: given.blocked_reason,
        depends_on,
        name: given.name,
        description: given.description,
        priority: given.priority,
        input: given.input,
        metadata: given.metadata,
    };
    response(tasks::change(&api.ctx, &asker.caller, id, seen, change).await?, &asker)
}
