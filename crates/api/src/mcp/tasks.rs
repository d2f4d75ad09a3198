//! The tool for tasks (RFC-0012): creating, finding and working on them. Jobs of agents are in `jobs.rs`.

use entente_domain::clock::rfc3339;
use entente_domain::ids::{IntentId, PlanId, TaskId};
use entente_domain::limits::{ATTEMPTS, DURATION_SECONDS, PAGE};
use entente_domain::openintent::tasks::change::Verb;
use entente_domain::openintent::tasks::{TaskAsk, TaskStatus};
use entente_http::body::{id, named, one};
use entente_http::error::Problem;
use entente_openintent::tasks;
use entente_openintent::tasks::{TaskFilter, TaskView};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::shapes::{Member, free, gives, list, may, must, retry_key, takes, text, whole, word};
use super::{Answer, Call, Hints, Tool, ToolResult, needed, within};

/// Default page size.
const STEP: u32 = 50;

/// The actions of the tool.
const ACTIONS: [&str; 15] = [
    "create", "list", "get", "claim", "start", "progress", "complete", "fail", "block", "unblock", "release",
    "delegate", "escalate", "cancel", "skip",
];

/// The statuses of a task.
const STATUSES: [&str; 9] =
    ["pending", "ready", "claimed", "running", "blocked", "completed", "failed", "cancelled", "skipped"];

/// Returns the tools of this file.
pub fn tools() -> [Tool; 1] {
    let task = gives(vec![
        must("id", text("The task.")),
        must("intent_id", text("Its intent.")),
        must("name", text("Its summary.")),
        must("status", text("Its status.")),
        must("assigned_agent", json!({ "type": ["string", "null"] })),
        must("claim_token", json!({ "type": ["integer", "null"] })),
        must("version", json!({ "type": "integer" })),
    ]);
    [Tool {
        name: "tasks",
        title: "Tasks of an intent",
        about: "Tasks are steps of an intent's work. To do one: `list` with status `ready`, `claim`, `start`, then `complete` \
                with `output` or `fail` with `reason`; send the `claim_token` of the claim with each. `create` and `list` need \
                `intent_id`, all others `task_id`.",
        takes: takes(members()),
        example: json!({ "action": "create", "intent_id": "intent_…", "name": "Read the annual report" }),
        gives: gives(vec![must("tasks", list(task, "The tasks."))]),
        hints: Hints::changes(),
        names: &[("error", "reason")],
        run: |call| Box::pin(run(call)),
    }]
}

fn members() -> Vec<Member> {
    vec![
        must("action", word("The action.", &ACTIONS)),
        may("intent_id", text("The intent, `intent_…`.")),
        may("task_id", text("The task, `task_…`.")),
        may("name", text("`create`: summary in one line.")),
        may("description", text("`create`: in full.")),
        may("input", free("`create`: the input.")),
        may("depends_on", list(json!({ "type": "string" }), "`create`: tasks to complete first.")),
        may(
            "capabilities_required",
            list(json!({ "type": "string" }), "`create`: what the agent must be capable of."),
        ),
        may("priority", text("`create`: defaults to `normal`.")),
        may("parent_task_id", text("`create`: the parent task.")),
        may("plan_id", text("`create`, `list`: the plan.")),
        may("timeout_seconds", whole("`create`: limit of one attempt.", 1, i64::from(DURATION_SECONDS))),
        may("max_attempts", whole("`create`: defaults to 3.", 1, i64::from(ATTEMPTS))),
        may("status", word("`list`: only tasks in this status.", &STATUSES)),
        may("assigned_agent", text("`list`: only tasks of this agent.")),
        may("limit", whole("`list`: defaults to 50.", 1, i64::from(PAGE))),
        may("offset", whole("`list`: tasks to skip.", 0, 1_000_000)),
        may("claim_token", whole("Token of your claim.", 0, i64::MAX)),
        may("version", whole("Refuse if the task has another version.", 0, i64::MAX)),
        may("output", free("`complete`: the result.")),
        may("artifacts", list(json!({ "type": "string" }), "`complete`: references to artifacts.")),
        may("details", free("`progress`: the report.")),
        may("to", text("`delegate`, `escalate`: the agent.")),
        may("reason", text("Reason of `fail`, `block`, `cancel` …")),
        may("idempotency_key", retry_key("`create`: ")),
    ]
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Create,
    List,
    Get,
    Claim,
    Start,
    Progress,
    Complete,
    Fail,
    Block,
    Unblock,
    Release,
    Delegate,
    Escalate,
    Cancel,
    Skip,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    action: Action,
    intent_id: Option<String>,
    task_id: Option<String>,
    name: Option<String>,
    description: Option<String>,
    input: Option<Map<String, Value>>,
    depends_on: Option<Vec<String>>,
    capabilities_required: Option<Vec<String>>,
    priority: Option<String>,
    parent_task_id: Option<String>,
    plan_id: Option<String>,
    timeout_seconds: Option<u32>,
    max_attempts: Option<u32>,
    status: Option<TaskStatus>,
    assigned_agent: Option<String>,
    limit: Option<u32>,
    offset: Option<u32>,
    claim_token: Option<i64>,
    version: Option<i64>,
    output: Option<Map<String, Value>>,
    artifacts: Option<Vec<String>>,
    details: Option<Map<String, Value>>,
    to: Option<String>,
    reason: Option<String>,
    idempotency_key: Option<String>,
}

impl Args {
    fn intent(&self) -> Result<IntentId, Problem> {
        id("intent", &needed("intent_id", self.intent_id.clone())?)
    }

    fn task(&self) -> Result<TaskId, Problem> {
        id("task", &needed("task_id", self.task_id.clone())?)
    }

    fn ask(self) -> Result<TaskAsk, Problem> {
        Ok(TaskAsk {
            name: needed("name", self.name)?,
            description: self.description,
            plan_id: one::<PlanId>("plan_id", self.plan_id)?,
            parent_task_id: one::<TaskId>("parent_task_id", self.parent_task_id)?,
            priority: self.priority,
            input: self.input.unwrap_or_default(),
            capabilities_required: self.capabilities_required.unwrap_or_default(),
            depends_on: named("depends_on", &self.depends_on.unwrap_or_default())?,
            timeout_seconds: self.timeout_seconds,
            max_attempts: self.max_attempts,
            ..TaskAsk::default()
        })
    }

    fn filter(self) -> Result<TaskFilter, Problem> {
        Ok(TaskFilter {
            status: self.status,
            assigned_agent: self.assigned_agent,
            plan_id: one::<PlanId>("plan_id", self.plan_id)?,
            limit: within("limit", self.limit, STEP, 1, PAGE)?,
            offset: within("offset", self.offset, 0, 0, 1_000_000)?,
        })
    }

    /// Returns the action on a task; the first three are none.
    fn verb(self) -> Result<Option<Verb>, Problem> {
        Ok(Some(match self.action {
            Action::Create | Action::List | Action::Get => return Ok(None),
            Action::Claim => Verb::Claim,
            Action::Start => Verb::Start,
            Action::Progress => Verb::Progress(self.details.unwrap_or_default()),
            Action::Complete => Verb::Complete { output: self.output, artifacts: self.artifacts },
            Action::Fail => Verb::Fail { error: self.reason, for_good: false },
            Action::Block => Verb::Block(self.reason),
            Action::Unblock => Verb::Unblock,
            Action::Release => Verb::HandBack,
            Action::Delegate => Verb::Delegate { to: needed("to", self.to)?, reason: self.reason },
            Action::Escalate => Verb::Escalate { to: self.to, reason: self.reason },
            Action::Cancel => Verb::Cancel(self.reason),
            Action::Skip => Verb::Skip(self.reason),
        }))
    }
}

async fn run(call: Call) -> ToolResult {
    let said: Args = call.read()?;
    let (ctx, caller) = (&call.ctx().openintent, &call.caller);
    match said.action {
        Action::Create => {
            let (intent_id, once) = (said.intent()?, call.once(said.idempotency_key.as_deref(), "tasks")?);
            let task = tasks::create(ctx, caller, intent_id, said.ask()?, once.as_ref()).await?;
            answer("Created", &[TaskView { task, blocks: Vec::new() }])
        }
        Action::List => {
            let intent_id = said.intent()?;
            answer("Found", &tasks::list(ctx, caller, intent_id, &said.filter()?).await?)
        }
        Action::Get => answer("Found", &[tasks::get(ctx, caller, said.task()?).await?]),
        _ => {
            let (task_id, seen, token) = (said.task()?, said.version, said.claim_token);
            let caller = caller.acting_as(call.speaker()?);
            let Some(verb) = said.verb()? else { return answer("Found", &[]) };
            answer("Changed", &[tasks::act(ctx, &caller, task_id, seen, token, verb).await?])
        }
    }
}

fn answer(done: &str, found: &[TaskView]) -> ToolResult {
    let tasks: Vec<Value> = found.iter().map(shown).collect();
    let summary = match found {
        [TaskView { task, .. }] => format!("{done} {}, which is {}.", task.id, task.status.as_str()),
        all => format!("{done} {} task(s).", all.len()),
    };
    Answer::new(summary, &json!({ "tasks": tasks }))
}

fn shown(view: &TaskView) -> Value {
    let task = &view.task;
    json!({
        "id": task.id, "intent_id": task.intent_id, "plan_id": task.plan_id, "parent_task_id": task.parent_task_id,
        "name": task.name, "description": task.description, "status": task.status, "priority": task.priority,
        "input": task.input, "output": task.output, "artifacts": task.artifacts, "assigned_agent": task.assigned_agent,
        "claim_token": task.claim_token(), "capabilities_required": task.capabilities_required,
        "depends_on": task.depends_on, "blocks": view.blocks, "attempt": task.attempt, "max_attempts": task.max_attempts,
        "blocked_reason": task.blocked_reason, "error": task.error, "version": task.version, "created_by": task.created_by,
        "created_at": rfc3339(task.created_at), "due_at": task.due_at.map(rfc3339),
    })
}
