//! Routes of tasks (RFC-0012): making, finding and changing them. Two paths to make one, the RFC's and the reference server's
//! (contract 15.25). The verbs are `task_verbs.rs`.

use actix_web::http::header::ETAG;
use actix_web::{HttpRequest, HttpResponse, get, patch, post, web};
use entente_domain::ids::{IntentId, PlanId, TaskId};
use entente_domain::keys::Dialect;
use entente_domain::refusal::Refusal;
use entente_domain::tasks::change::{Assignee, Change};
use entente_domain::tasks::{Task, TaskAsk, TaskStatus};
use entente_kernel::tasks::{self, Shown};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::body::{Body, Query, id, if_match_of, intent_of, named, one};
use super::caller::Asker;
use super::error::{Problem, Reply};
use super::wire::WireTime;
use super::{Doors, listed};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(create).service(create_rfc).service(list).service(get).service(change);
}

/// A task.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskBody {
    /// Its id.
    id: TaskId,
    /// The intent that it is a piece of.
    intent_id: IntentId,
    /// The plan that it belongs to.
    plan_id: Option<PlanId>,
    /// The task that it is a piece of.
    parent_task_id: Option<TaskId>,
    /// What is to be done, in a line.
    #[schema(example = "Read the annual report")]
    name: String,
    /// The same in full.
    description: Option<String>,
    /// Where it is in its life.
    status: TaskStatus,
    /// How much it matters.
    #[schema(example = "normal")]
    priority: String,
    /// What it is done with.
    #[schema(value_type = Object)]
    input: Map<String, Value>,
    /// What came of it.
    #[schema(value_type = Option<Object>)]
    output: Option<Map<String, Value>>,
    /// What was made on the way, by reference.
    artifacts: Vec<String>,
    /// Who has it, who had it last, or whom it is kept for.
    assigned_agent: Option<String>,
    /// The token of the claim that holds: send it with what follows, and be told when it holds no longer.
    claim_token: Option<i64>,
    /// No task is under one yet; there for clients of the reference server.
    lease_id: Option<String>,
    /// What an agent must be able to do.
    capabilities_required: Vec<String>,
    /// The tasks that must be completed before it.
    depends_on: Vec<TaskId>,
    /// The tasks that wait for it.
    blocks: Vec<TaskId>,
    /// How long it rests between two attempts.
    retry_policy: Option<String>,
    /// Seconds that one attempt may take.
    timeout_seconds: Option<u32>,
    /// Which attempt this is, from 1.
    attempt: u32,
    /// Attempts at the most.
    max_attempts: u32,
    /// Kept as given.
    permissions: String,
    /// Kept as given.
    #[schema(value_type = Option<Object>)]
    memory_policy: Option<Map<String, Value>>,
    /// Kept as given.
    requires_tools: Vec<Value>,
    /// Why it cannot go on.
    blocked_reason: Option<String>,
    /// What went wrong last.
    error: Option<String>,
    /// The client's own object.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// The same, under the reference server's name.
    #[schema(value_type = Object)]
    task_metadata: Map<String, Value>,
    /// Guards writes: send it in `If-Match`.
    version: i64,
    /// Who asked for it.
    created_by: String,
    /// When.
    created_at: WireTime,
    /// When work on the current attempt began.
    started_at: Option<WireTime>,
    /// When it was over.
    completed_at: Option<WireTime>,
    /// When time changes it: the end of the attempt's time, or of the pause before the next one.
    due_at: Option<WireTime>,
}

impl TaskBody {
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

/// A 200 with the task and its version as `ETag`.
pub(super) fn shown(shown: Shown, asker: &Asker) -> Reply {
    let etag = format!("\"{}\"", shown.task.version);
    let text = serde_json::to_vec(&TaskBody::new(shown.task, shown.blocks, asker.dialect));
    let text = text.map_err(|e| Problem::internal(&e.to_string()))?;
    Ok(HttpResponse::Ok().content_type("application/json").insert_header((ETAG, etag)).body(text))
}

/// A new task.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewTask)]
#[schema(example = json!({ "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "name": "Read the annual report" }))]
struct CreateBody {
    /// The intent; not needed where the path names it.
    intent_id: Option<String>,
    /// What is to be done, in a line.
    name: String,
    /// The same in full.
    description: Option<String>,
    /// The plan to put it into.
    plan_id: Option<String>,
    /// The task that it is a piece of.
    parent_task_id: Option<String>,
    /// How much it matters; `normal` when nothing is said.
    priority: Option<String>,
    /// What it is done with.
    #[schema(value_type = Option<Object>)]
    input: Option<Map<String, Value>>,
    /// What an agent must be able to do to claim it.
    capabilities_required: Option<Vec<String>>,
    /// Tasks of the same intent that must be completed before it.
    depends_on: Option<Vec<String>>,
    /// How long it rests between two attempts: `fixed:SECONDS`, `exponential:SECONDS`, or a word of your own for no rest.
    retry_policy: Option<String>,
    /// Seconds that one attempt may take.
    timeout_seconds: Option<u32>,
    /// Attempts at the most, 1 to 100; 3 when nothing is said.
    max_attempts: Option<u32>,
    /// Kept as given; `inherit` when nothing is said.
    permissions: Option<String>,
    /// Kept as given.
    #[schema(value_type = Option<Object>)]
    memory_policy: Option<Map<String, Value>>,
    /// Kept as given.
    requires_tools: Option<Vec<Value>>,
    /// Your own object.
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

async fn create_one(
    request: &HttpRequest,
    doors: &Doors,
    asker: &Asker,
    intent: IntentId,
    body: Body<CreateBody>,
) -> Reply {
    let once = body.once(request)?;
    let ask = body.value.ask()?;
    let task = tasks::create(&doors.ctx, &asker.caller, intent, ask, once.as_ref()).await?;
    shown(Shown { task, blocks: Vec::new() }, asker)
}

/// Make a task
///
/// The answer says `pending`; a task that waits for nothing is `ready` at once, under the same version.
#[utoipa::path(operation_id = "create_task", tag = "tasks", request_body = CreateBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 200, description = "The task", body = TaskBody)))]
#[post("/tasks")]
async fn create(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    body: Body<CreateBody>,
) -> Reply {
    let intent = intent_of(body.value.intent_id.as_ref())?;
    create_one(&request, &doors, &asker, intent, body).await
}

/// Make a task of an intent
///
/// As `POST /tasks`, on the RFC's path.
#[utoipa::path(operation_id = "create_intent_task", tag = "tasks", request_body = CreateBody,
    params(("intent_id" = String, Path, description = "The intent"),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 200, description = "The task", body = TaskBody)))]
#[post("/intents/{intent_id}/tasks")]
async fn create_rfc(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<CreateBody>,
) -> Reply {
    create_one(&request, &doors, &asker, id("intent", &path)?, body).await
}

/// List an intent's tasks
///
/// The oldest first.
#[utoipa::path(operation_id = "list_tasks", tag = "tasks",
    params(("intent_id" = String, Path, description = "The intent"),
           ("status" = Option<TaskStatus>, Query, description = "Only in this status"),
           ("assigned_agent" = Option<String>, Query, description = "Only those of this agent"),
           ("plan_id" = Option<String>, Query, description = "Only those of this plan"),
           ("limit" = Option<u32>, Query, description = "At most this many, 1 to 1,000; 100 when nothing is said", maximum = 1000),
           ("offset" = Option<u32>, Query, description = "Pass over this many")),
    responses((status = 200, description = "The tasks", body = Vec<TaskBody>)))]
#[get("/intents/{intent_id}/tasks")]
async fn list(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let filter = tasks::Filter {
        status: query.parsed("status", "a task's status", TaskStatus::parse)?,
        assigned_agent: query.text("assigned_agent").map(str::to_owned),
        plan_id: query.parsed("plan_id", "a plan's id", |text| text.parse().ok())?,
        limit: query.limit(100)?,
        offset: query.offset()?,
    };
    let found = tasks::list(&doors.ctx, &asker.caller, id("intent", &path)?, &filter).await?;
    let bodies = found.into_iter().map(|shown| TaskBody::new(shown.task, shown.blocks, asker.dialect));
    listed(bodies)
}

/// Get a task
#[utoipa::path(operation_id = "get_task", tag = "tasks",
    params(("task_id" = String, Path, description = "The task")),
    responses((status = 200, description = "The task; its version is the ETag", body = TaskBody)))]
#[get("/tasks/{task_id}")]
async fn get(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    shown(tasks::get(&doors.ctx, &asker.caller, id("task", &path)?).await?, &asker)
}

/// A change of a task. What is missing stays.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TaskChange)]
#[schema(example = json!({ "status": "completed", "output": { "pages": 12 } }))]
struct ChangeBody {
    /// The new status. Steps that are left out are done on the way.
    status: Option<TaskStatus>,
    /// Who is to have it; null for whoever takes it.
    #[serde(default, deserialize_with = "assignee")]
    #[schema(value_type = Option<String>)]
    assigned_agent: Option<Assignee>,
    /// What came of it.
    #[schema(value_type = Option<Object>)]
    output: Option<Map<String, Value>>,
    /// What was made on the way.
    artifacts: Option<Vec<String>>,
    /// What went wrong.
    error: Option<String>,
    /// Why it cannot go on.
    blocked_reason: Option<String>,
    /// The whole new list, while nobody has the task.
    depends_on: Option<Vec<String>>,
    /// The new name.
    name: Option<String>,
    /// The new description.
    description: Option<String>,
    /// The new priority.
    priority: Option<String>,
    /// The whole new input.
    #[schema(value_type = Option<Object>)]
    input: Option<Map<String, Value>>,
    /// The whole new object.
    #[serde(alias = "task_metadata")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// Tells a null, which lets go of the task, from a member that is missing.
fn assignee<'de, D: Deserializer<'de>>(member: D) -> Result<Option<Assignee>, D::Error> {
    let given = Option::<String>::deserialize(member)?;
    Ok(Some(given.map_or(Assignee::Anybody, Assignee::Agent)))
}

/// Change a task
///
/// Under its version: send the one you last read in `If-Match`. A task that an agent has claimed is changed by that agent
/// and by those who manage the intent. `failed` is for good; an attempt that failed is `POST /tasks/{task_id}/fail`.
#[utoipa::path(operation_id = "update_task", tag = "tasks", request_body = ChangeBody,
    params(("task_id" = String, Path, description = "The task"),
           ("If-Match" = i64, Header, description = "The version that you last read")),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`version_conflict`, `claim_conflict`, `invalid_transition`", body = super::error::ProblemBody),
              (status = 428, description = "`precondition_required`", body = super::error::ProblemBody)))]
#[patch("/tasks/{task_id}")]
async fn change(
    request: HttpRequest,
    doors: web::Data<Doors>,
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
    shown(tasks::change(&doors.ctx, &asker.caller, id, seen, change).await?, &asker)
}
