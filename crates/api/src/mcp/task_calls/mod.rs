//! Calls of tools as tasks: `submit_job` and `ask_principal` return at once, and the host asks for the result until
//! there is one. A task has no record of its own: its id is that of the job or of the question, and reading and
//! cancelling it are the operations on these, with their permissions. So a task lasts as long as they do, any server
//! answers, and the job or question that REST or another tool made is a task too.
//!
//! 2026-07-28 has tasks as an extension, whose clients declare it and leave the decision to the server (`handler.rs`);
//! 2025-11-25 has the experimental tasks of `handshake.rs`.

pub(super) mod handshake;

use entente_arcp::jobs;
use entente_arcp::jobs::Canceller;
use entente_arcp_api::jobs::JobBody;
use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::clock::rfc3339;
use entente_domain::ids::{JobId, MomentId};
use entente_domain::moments::{Moment, MomentState};
use entente_domain::refusal::Refusal;
use entente_http::error::Problem;
use entente_kernel::wakeups::WakeKey;
use entente_moments as moments;
use rmcp::model::{CreateTaskResult, DetailedTask, MetaObject, Task, TaskPayload, TaskStatus};
use serde_json::{Map, Value, json};

use super::asking::{asked, inbox};
use super::jobs::told as told_of_job;
use super::moments::{shown, told as told_of_moment};
use super::{Answer, Call};

/// Tools that can be called as tasks.
pub(super) const TOOLS: [&str; 2] = ["ask_principal", "submit_job"];

/// Milliseconds between two requests for a task's state: of a program's job, and of a person's answer.
const JOB_POLL: u64 = 2_000;
const MOMENT_POLL: u64 = 5_000;

/// Member of `_meta` with the text that the model receives while the task runs (2025-11-25, experimental).
const NOW: &str = "io.modelcontextprotocol/model-immediate-response";
/// Member of `_meta` with the question, which `endpoint.rs` copies to the top of the result (binding moment §7.1).
pub(super) const MOMENT: &str = "entente/binding_moment";

/// The job or the question behind a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Job(JobId),
    Moment(MomentId),
}

impl Subject {
    /// Parses a task's id.
    ///
    /// # Errors
    /// It is neither the id of a job nor that of a question.
    pub fn parse(id: &str) -> Result<Self, Problem> {
        if let Ok(job) = id.parse::<JobId>() {
            return Ok(Self::Job(job));
        }
        let moment = id.parse::<MomentId>().map_err(|_no_id| Refusal::not_found("task"))?;
        Ok(Self::Moment(moment))
    }

    /// Returns the subject of the task that a call began; `None` if its result names none.
    fn of(answer: &Answer) -> Option<Self> {
        let member = |name: &str| answer.body.get(name).and_then(Value::as_str);
        let id = member("moment_id").or_else(|| member("job_id"))?;
        Self::parse(id).ok()
    }

    /// Returns the tool whose call this task is.
    pub fn tool(self) -> &'static str {
        match self {
            Self::Job(_) => "submit_job",
            Self::Moment(_) => "ask_principal",
        }
    }

    /// Returns the wake-up that reports its end.
    fn wakeup(self) -> WakeKey {
        match self {
            Self::Job(id) => WakeKey::Job(id),
            Self::Moment(id) => WakeKey::Moment(id),
        }
    }
}

/// A task.
#[derive(Debug)]
pub(super) struct TaskView {
    id: String,
    status: TaskStatus,
    message: String,
    created_at: String,
    updated_at: String,
    poll_millis: u64,
}

impl TaskView {
    fn of_job(job: &Job) -> Self {
        let status = match job.status {
            JobStatus::Pending | JobStatus::Running => TaskStatus::Working,
            JobStatus::Cancelled => TaskStatus::Cancelled,
            JobStatus::Success | JobStatus::Error | JobStatus::TimedOut => TaskStatus::Completed,
        };
        Self {
            id: job.id.to_string(),
            status,
            message: told_of_job(job),
            created_at: rfc3339(job.created_at),
            updated_at: rfc3339(job.ended_at.unwrap_or(job.created_at)),
            poll_millis: JOB_POLL,
        }
    }

    fn of_moment(call: &Call, moment: &Moment) -> Self {
        let (status, message) = match moment.state {
            MomentState::Open => {
                let page = inbox(call, moment.id);
                (
                    TaskStatus::Working,
                    format!("{} The page for the answer is {page}.", told_of_moment(moment)),
                )
            }
            MomentState::Withdrawn => (TaskStatus::Cancelled, told_of_moment(moment)),
            // A refusal of the question is an answer too. Nothing is approved by a question that has expired.
            _ => (TaskStatus::Completed, told_of_moment(moment)),
        };
        let answered = moment.resolution.as_ref().map(|settled| settled.at);
        Self {
            id: moment.id.to_string(),
            status,
            message,
            created_at: rfc3339(moment.created_at),
            updated_at: rfc3339(moment.ended_at.or(answered).unwrap_or(moment.created_at)),
            poll_millis: MOMENT_POLL,
        }
    }

    /// Returns the task in the form of the extension.
    fn task(&self) -> Task {
        Task::new(&self.id, self.status, &self.created_at, &self.updated_at)
            .with_status_message(&self.message)
            .with_poll_interval_ms(self.poll_millis)
    }
}

/// A task, with the result of its call once it is over.
#[derive(Debug)]
pub(super) struct Loaded {
    view: TaskView,
    result: Option<Value>,
}

impl Loaded {
    /// Loads a task.
    ///
    /// # Errors
    /// There is no such job or question, or the caller may not read it.
    pub async fn load(call: &Call, subject: Subject) -> Result<Self, Problem> {
        let (view, answer) = match subject {
            Subject::Job(id) => {
                let found = jobs::describe(&call.ctx().arcp, &call.caller, id).await?;
                let mut body = object(&JobBody::load(&call.ctx().moments, &call.caller, &found).await?)?;
                // Clients check the result by the schema of `submit_job`.
                body["accepted_at"] = json!(rfc3339(found.job.created_at));
                body["repeated"] = json!(false);
                (TaskView::of_job(&found.job), Answer::new(told_of_job(&found.job), &body)?)
            }
            Subject::Moment(id) => {
                let found = moments::get(&call.ctx().moments, &call.caller, id).await?;
                // The members of `check_decision`, and those of `ask_principal`, by whose schema clients check it.
                let mut body = asked(call, &found, &[])?.body;
                if let (Value::Object(body), Value::Object(decision)) = (&mut body, shown(&found)) {
                    for (name, value) in decision {
                        body.entry(name).or_insert(value);
                    }
                }
                (TaskView::of_moment(call, &found.moment), Answer::new(told_of_moment(&found.moment), &body)?)
            }
        };
        let mut result = answer.result();
        result["isError"] =
            json!(matches!(subject, Subject::Job(_)) && result["structuredContent"]["status"] != "success");
        let over = view.status != TaskStatus::Working;
        Ok(Self { view, result: over.then_some(result) })
    }

    /// Returns the task with its result in the form of the extension.
    pub fn detailed(self) -> DetailedTask {
        let payload = match (self.view.status, self.result) {
            (TaskStatus::Cancelled, _) => TaskPayload::Cancelled,
            (_, Some(Value::Object(result))) => TaskPayload::Completed { result },
            _ => TaskPayload::Working,
        };
        DetailedTask::new(self.view.task(), payload)
    }
}

/// The begin of a task: its state, and the answer that the model receives meanwhile.
pub(super) struct Begun {
    view: TaskView,
    meta: Map<String, Value>,
}

impl Begun {
    /// Returns the task that a call began; `None` if the caller may not read the job or question that it made, and then
    /// receives the result of the call at once.
    pub async fn of(call: &Call, answer: &Answer) -> Option<Self> {
        let Loaded { view, .. } = Loaded::load(call, Subject::of(answer)?).await.ok()?;
        let mut meta = Map::new();
        meta.insert(NOW.to_owned(), json!(answer.text));
        if let Some(moment) = answer.body.get("binding_moment").filter(|moment| !moment.is_null()) {
            meta.insert(MOMENT.to_owned(), moment.clone());
        }
        Some(Self { view, meta })
    }

    /// Returns the result of the call in the form of the extension.
    pub fn result(self) -> CreateTaskResult {
        CreateTaskResult::new(self.view.task()).with_meta(MetaObject(self.meta))
    }
}

/// Cancels a job, or withdraws a question. Returns `false` if the task was over.
///
/// # Errors
/// There is no such job or question, or the caller may not end it.
pub(super) async fn cancel(call: &Call, subject: Subject) -> Result<bool, Problem> {
    if Loaded::load(call, subject).await?.result.is_some() {
        return Ok(false);
    }
    let (ctx, caller) = (call.ctx(), &call.caller);
    match subject {
        Subject::Job(id) => {
            let job = jobs::describe(&ctx.arcp, caller, id).await?.job;
            jobs::cancel(&ctx.arcp, caller, id, Canceller::of(caller, &job), None, None).await?;
        }
        Subject::Moment(id) => {
            moments::withdraw(&ctx.moments, caller, id, None).await?;
        }
    }
    Ok(true)
}

fn object(body: &impl serde::Serialize) -> Result<Value, Problem> {
    serde_json::to_value(body).map_err(|e| Problem::internal(&e.to_string()))
}
