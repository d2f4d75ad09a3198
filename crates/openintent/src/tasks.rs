//! Tasks (RFC-0012): creating, reading and changing them. Table `tasks`.
//!
//! The rows are in `tasks/rows.rs`, and relations between tasks in `tasks/links.rs`. The consequences of a task's
//! end, of an agent's departure and of time are in `tasks/ends.rs`; plans are in `tasks/plans.rs`.

mod checks;
mod ends;
mod found;
mod handover;
mod links;
mod plan_rows;
pub mod plans;
mod rows;
pub mod within;

use std::collections::BTreeMap;

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, PlanId, TaskId};
use entente_domain::openintent::agents::Agent;
use entente_domain::openintent::tasks as domain;
use entente_domain::openintent::tasks::change::{Change, Verb};
use entente_domain::openintent::tasks::course::Course;
use entente_domain::openintent::tasks::graph::{Wait, check_no_circle};
use entente_domain::openintent::tasks::may::By;
use entente_domain::openintent::tasks::{Task, TaskAsk, TaskStatus};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::membership;
use entente_kernel::access::membership::Membership;
use entente_kernel::identity::agents;
use entente_kernel::operations::{Asked, Operation};
use entente_kernel::{Caller, IntentTx, Outcome, not_found};
use serde::Serialize;
use sqlx::PgConnection;

pub(crate) use checks::{no_task, require_unresolved, visit};
pub use ends::expire_due;
pub(crate) use ends::{
    agent_left, begin_with_agent, end_of_intent, intents_of_agent, take_from, take_without_access,
};
use ends::{record, settle};
use found::{Found, find};
pub(crate) use handover::hand_over;
use rows::{ChangedTask, NewTask};
pub(crate) use rows::{among, load_all};

use crate::Ctx;

/// A task with the tasks that wait for it.
#[derive(Debug, Clone, Serialize)]
pub struct TaskView {
    /// The task at this moment.
    pub task: Task,
    /// The tasks that depend on it.
    pub blocks: Vec<TaskId>,
}

/// Creates a task on an intent.
///
/// Returns the task as it was requested, pending (OI-8.1). If it waits for nothing it becomes ready at once,
/// which does not count as a new version.
///
/// # Errors
/// Fails if the intent does not exist, is not writable or is resolved, if a task or plan that it names is not on the
/// intent, or if the request is invalid.
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: TaskAsk,
    once: Option<&Idempotency>,
) -> Outcome<Task> {
    caller.require(Scope::IntentsWrite)?;
    let creator = caller.acting_as(caller.speaker("created_by", None, ctx.settings.strict)?);
    let task = ctx.operate(&creator, intent_id, Create(ask), once).await?;
    ctx.state.task_intents.put(task.id, intent_id);
    Ok(task)
}

/// A task to create.
struct Create(TaskAsk);

impl Operation for Create {
    type Answer = Task;
    type Rows = ();

    const NAME: &'static str = "create_task";

    fn reads(&self) -> bool {
        self.0.plan_id.is_some() || self.0.parent_task_id.is_some() || !self.0.depends_on.is_empty()
    }

    async fn apply(&self, caller: &Caller, work: &mut IntentTx<'_>, (): ()) -> Outcome<Task> {
        let membership = work.require(Level::Write)?;
        if let Some(done) = work.repeated()? {
            return Ok(done);
        }
        require_unresolved(&membership)?;
        work.admit()?;
        let (ctx, intent_id, now) = (work.ctx(), work.intent_id(), work.now());
        let id = TaskId::mint(now, &*ctx.chance);
        let task = domain::create(self.0.clone(), &caller.agent, intent_id, id, now)?;
        if let Some(plan) = task.plan_id {
            checks::require_joinable(work.reading(), intent_id, plan).await?;
        }
        let parent: Vec<TaskId> = task.parent_task_id.into_iter().collect();
        wait_for(work.reading(), intent_id, "parent_task_id", &parent).await?;
        let wait = wait_for(work.reading(), intent_id, "depends_on", &task.depends_on).await?;
        let made = task.clone();
        let course = Course::made(task, &wait);
        let answer = if course.task.status == TaskStatus::Ready { made } else { course.task.clone() };
        work.defer(NewTask(course.task));
        record(ctx, work.log(), &caller.agent, course.told);
        Ok(answer)
    }
}

/// Returns the state of these dependencies; each must be a task of the intent.
async fn wait_for(
    conn: &mut PgConnection,
    intent_id: IntentId,
    member: &str,
    ids: &[TaskId],
) -> Outcome<Wait> {
    if ids.is_empty() {
        return Ok(Wait::default());
    }
    let found = among(conn, intent_id, ids).await?;
    if let Some(missing) = ids.iter().find(|id| found.iter().all(|(known, ..)| known != *id)) {
        return Err(no_task(member, &missing.to_string()).into());
    }
    Ok(Wait::of(&found.into_iter().map(|(id, status, _)| (id, status)).collect::<Vec<_>>()))
}

/// Returns one task.
///
/// # Errors
/// Fails if the task does not exist or its intent is not readable.
pub async fn get(ctx: &Ctx, caller: &Caller, id: TaskId) -> Outcome<TaskView> {
    caller.require(Scope::IntentsRead)?;
    let now = ctx.now();
    let mut connection = ctx.pool.acquire().await?;
    let task = rows::load(&mut connection, id).await?.ok_or_else(|| not_found("task"))?;
    visit(&mut connection, ctx, caller, task.intent_id, "task").await?;
    shown(&mut connection, vec![task.at(now)]).await?.pop().ok_or_else(|| not_found("task"))
}

async fn shown(conn: &mut PgConnection, tasks: Vec<Task>) -> Outcome<Vec<TaskView>> {
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    let mut blocks: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
    for (id, dependent) in links::blocks(conn, &ids).await? {
        blocks.entry(id).or_default().push(dependent);
    }
    Ok(tasks
        .into_iter()
        .map(|task| TaskView { blocks: blocks.remove(&task.id).unwrap_or_default(), task })
        .collect())
}

/// Filter for an intent's tasks.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    /// Only tasks in this status.
    pub status: Option<TaskStatus>,
    /// Only tasks of this agent.
    pub assigned_agent: Option<String>,
    /// Only tasks of this plan.
    pub plan_id: Option<PlanId>,
    /// Maximum number of results.
    pub limit: u32,
    /// Number of the oldest tasks to skip.
    pub offset: u32,
}

/// Lists an intent's tasks, oldest first.
///
/// # Errors
/// Fails if the intent does not exist or is not readable.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    filter: &TaskFilter,
) -> Outcome<Vec<TaskView>> {
    caller.require(Scope::IntentsRead)?;
    let now = ctx.now();
    let mut connection = ctx.pool.acquire().await?;
    membership::require(&mut connection, &caller.agent, intent_id, Level::Read, now).await?;
    let stored = rows::page(&mut connection, intent_id, filter, now).await?.into_iter();
    let fits = |task: &Task| {
        filter.status.is_none_or(|status| task.status == status)
            && (filter.assigned_agent.is_none() || task.assigned_agent == filter.assigned_agent)
    };
    shown(&mut connection, stored.map(|task| task.at(now)).filter(fits).collect()).await
}

/// Rows by which an operation on a task decides.
#[derive(Default)]
struct TaskRows {
    /// The task, with the records that end or continue with it; `None` if there is no such task.
    found: Option<Found>,
    /// The claimer's record, locked, if a claim is asked for and the claimer has one.
    record: Option<Agent>,
}

/// A task that an operation works on, under its intent's lock.
struct Locked<'a, 'b> {
    work: &'a mut IntentTx<'b>,
    membership: Membership,
    course: Course,
    /// The task as it was stored, with the records that end or continue with it.
    found: Found,
}

impl<'a, 'b> Locked<'a, 'b> {
    fn open(work: &'a mut IntentTx<'b>, found: Option<Found>) -> Outcome<Self> {
        let membership = work.visit("task")?;
        membership.access.require(Level::Write)?;
        work.admit()?;
        let found = found.ok_or_else(|| not_found("task"))?;
        let course = Course::begin(found.task.clone(), work.now());
        Ok(Self { work, membership, course, found })
    }

    /// Applies a decision of the domain rules, with all facts that they need.
    ///
    /// `claimer` is the agent that a claim may be made for, and `record` its record, which is locked.
    async fn ask(
        &mut self,
        caller: &Caller,
        claimer: Option<&str>,
        record: Option<Agent>,
        token: Option<i64>,
        jumps: bool,
        ask: impl FnOnce(&mut Course, &By<'_>) -> Result<(), Refusal>,
    ) -> Outcome<()> {
        let ctx = self.work.ctx();
        let claims = claimer.is_some() && !self.course.task.is_held();
        let record = record.filter(|_| claims).map(|agent| agents::shown(ctx, agent));
        let plan = match self.course.task.plan_id.filter(|_| claims) {
            Some(id) => plan_rows::load(self.work.reading(), id).await?,
            None => None,
        };
        let by = By {
            agent: &caller.agent,
            claimer: claimer.unwrap_or(&caller.agent),
            record: record.as_ref(),
            manages: self.membership.access.manages() || self.membership.coordinates,
            token,
            jumps,
            strict: ctx.settings.strict,
            plan: plan.as_ref(),
            now: self.work.now(),
        };
        Ok(ask(&mut self.course, &by)?)
    }

    /// Requires that the agent that is to get the task has not left and may write to its intent.
    async fn require_worker(&mut self, agent: &str) -> Outcome<()> {
        let refuse = |kind: &str, message: String| {
            Err(Refusal::field(Code::Unprocessable, "assigned_agent", kind, message).into())
        };
        let ctx = self.work.ctx();
        let record = agents::hold(self.work.reading(), agent).await?.map(|agent| agents::shown(ctx, agent));
        if record.is_some_and(|record| record.status.has_left()) {
            return refuse("gone", format!("`{agent}` has left. Choose another agent."));
        }
        let intent_id = self.course.task.intent_id;
        let membership = membership::find(self.work.reading(), agent, intent_id, ctx.now()).await?;
        if membership.is_some_and(|membership| membership.access.reaches(Level::Write)) {
            return Ok(());
        }
        refuse("no_access", format!("`{agent}` may not write to this intent. Grant it access first."))
    }

    /// Writes the changes of the task and their consequences.
    async fn close(self, actor: &str) -> Outcome<TaskView> {
        let Self { work, course, found, .. } = self;
        let (ctx, task, blocks) = (work.ctx(), course.task.clone(), found.blocks.clone());
        if course.told.is_empty() {
            return Ok(TaskView { task, blocks });
        }
        if found.is_all_of(&course.task) {
            work.defer(ChangedTask(course.task));
            record(ctx, work.log(), actor, course.told);
        } else {
            let (conn, log) = work.parts();
            settle(conn, ctx, log, actor, vec![course]).await?;
        }
        Ok(TaskView { task, blocks })
    }
}

/// Applies one verb to a task.
///
/// Of several concurrent claims of a task one succeeds. The claim has a number, and a caller that names an older one
/// is told that its claim no longer holds.
///
/// # Errors
/// Fails if the task does not exist or is not writable, if the version or the claim is stale, or if the domain rules
/// refuse it.
pub async fn act(
    ctx: &Ctx,
    caller: &Caller,
    id: TaskId,
    seen: Option<i64>,
    token: Option<i64>,
    verb: Verb,
) -> Outcome<TaskView> {
    let intent_id = home(ctx, caller, id).await?;
    if matches!(verb, Verb::Claim | Verb::Start) {
        ctx.stops.objection(caller, &caller.agent, Some(intent_id)).map_or(Ok(()), Err)?;
    }
    ctx.operate(caller, intent_id, Act { id, seen, token, verb }, None).await
}

/// Returns the intent of a task that the caller wants to change; it never changes.
async fn home(ctx: &Ctx, caller: &Caller, id: TaskId) -> Outcome<IntentId> {
    caller.require(Scope::IntentsWrite)?;
    if let Some(intent_id) = ctx.state.task_intents.get(&id) {
        return Ok(intent_id);
    }
    let mut connection = ctx.pool.acquire().await?;
    let intent_id = rows::home(&mut connection, id).await?.ok_or_else(|| not_found("task"))?;
    ctx.state.task_intents.put(id, intent_id);
    Ok(intent_id)
}

/// A verb to apply.
struct Act {
    id: TaskId,
    seen: Option<i64>,
    token: Option<i64>,
    verb: Verb,
}

impl Operation for Act {
    type Answer = TaskView;
    type Rows = TaskRows;

    const NAME: &'static str = "change_task";

    async fn read(
        conn: &mut PgConnection,
        asked: &[Asked<'_, Self>],
        _now: Timestamp,
    ) -> Outcome<Vec<TaskRows>> {
        let tasks: Vec<TaskId> = asked.iter().map(|one| one.operation.id).collect();
        let claims = |one: &&Asked<'_, Self>| one.operation.verb == Verb::Claim;
        let claimers: Vec<&str> = asked.iter().filter(claims).map(|one| one.caller.agent.as_str()).collect();
        let found = find(conn, &tasks).await?;
        let records = agents::hold_all(conn, &claimers).await?;
        let rows = |one: &Asked<'_, Self>| TaskRows {
            found: found.iter().find(|found| found.task.id == one.operation.id).cloned(),
            record: records.iter().find(|agent| agent.agent_id == one.caller.agent).cloned(),
        };
        Ok(asked.iter().map(rows).collect())
    }

    async fn apply(&self, caller: &Caller, work: &mut IntentTx<'_>, rows: TaskRows) -> Outcome<TaskView> {
        let mut locked = Locked::open(work, rows.found)?;
        if let Some(seen) = self.seen {
            locked.course.task.require_version(seen)?;
        }
        if let Verb::Delegate { to, .. } = &self.verb {
            locked.require_worker(to).await?;
        }
        let task = &locked.course.task;
        let wait = wait_for(locked.work.reading(), task.intent_id, "depends_on", &task.depends_on).await?;
        let claimer = (self.verb == Verb::Claim).then_some(caller.agent.as_str());
        let verb = self.verb.clone();
        let act = |course: &mut Course, by: &By<'_>| course.act(verb, &wait, by);
        locked.ask(caller, claimer, rows.record, self.token, false, act).await?;
        locked.close(&caller.agent).await
    }
}

/// Changes a task, if `seen` is its current version.
///
/// # Errors
/// Fails if the task does not exist or is not writable, if the version is stale, if a new dependency is not on the
/// intent or would create a cycle, or if the domain rules refuse it.
pub async fn change(ctx: &Ctx, caller: &Caller, id: TaskId, seen: i64, change: Change) -> Outcome<TaskView> {
    let intent_id = home(ctx, caller, id).await?;
    ctx.operate(caller, intent_id, ChangeTask { id, seen, change }, None).await
}

/// A change to apply.
struct ChangeTask {
    id: TaskId,
    seen: i64,
    change: Change,
}

impl Operation for ChangeTask {
    type Answer = TaskView;
    type Rows = ();

    const NAME: &'static str = "change_task";

    async fn apply(&self, caller: &Caller, work: &mut IntentTx<'_>, (): ()) -> Outcome<TaskView> {
        let change = self.change.clone();
        let found = find(work.reading(), &[self.id]).await?.pop();
        let mut locked = Locked::open(work, found)?;
        locked.course.task.require_version(self.seen)?;
        let claimer = change.claimer().unwrap_or(&caller.agent).to_owned();
        if claimer != caller.agent {
            locked.require_worker(&claimer).await?;
        }
        let depends_on = change.depends_on.as_ref().unwrap_or(&locked.course.task.depends_on);
        let intent_id = locked.course.task.intent_id;
        let wait = wait_for(locked.work.reading(), intent_id, "depends_on", depends_on).await?;
        if let Some(depends_on) = &change.depends_on {
            let below = links::below(locked.work.reading(), depends_on).await?.into_iter().collect();
            check_no_circle(self.id, depends_on, &below)?;
        }
        let jumps = !locked.work.ctx().settings.strict;
        // No other record is locked: two records locked in different orders could deadlock.
        let record = if locked.course.task.is_held() {
            None
        } else {
            agents::hold(locked.work.reading(), &claimer).await?
        };
        let ask = |course: &mut Course, by: &By<'_>| course.change(change, &wait, by);
        locked.ask(caller, Some(&claimer), record, None, jumps, ask).await?;
        locked.close(&caller.agent).await
    }
}
