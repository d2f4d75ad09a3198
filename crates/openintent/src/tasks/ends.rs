//! Consequences for and of tasks. When a task is over, the tasks that wait for it become ready or are blocked, its
//! channels close (RFC-0021 §7.3), and its plan continues or ends. Tasks also change when their intent is resolved,
//! their agent leaves, or they are due.

use std::collections::BTreeMap;

use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{IntentId, PlanId, TaskId};
use entente_domain::log::events::Draft;
use entente_domain::openintent::plans::course::PlanCourse;
use entente_domain::openintent::plans::{PlanAsk, PlanState};
use entente_domain::openintent::tasks::course::Course;
use entente_domain::openintent::tasks::graph::Wait;
use entente_domain::openintent::tasks::{Task, TaskStatus};
use entente_kernel::access::membership;
use entente_kernel::channels;
use entente_kernel::due::run_each;
use entente_kernel::identity::agents;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{IntentTx, Outcome, Tx};
use sqlx::PgConnection;

use super::{links, plan_rows, rows};
use crate::Ctx;
use crate::memory_entries;

/// Writes changed tasks, records their events, and applies the consequences, within an operation that holds the
/// intent's lock.
pub(super) async fn settle(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    actor: &str,
    courses: Vec<Course>,
) -> Outcome<()> {
    let mut courses = courses;
    while !courses.is_empty() {
        let mut ended: Vec<Task> = Vec::new();
        for course in courses {
            let task = write(conn, ctx, log, actor, course).await?;
            if task.status.is_terminal() {
                ended.push(task);
            }
        }
        let ids: Vec<TaskId> = ended.iter().map(|task| task.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let has = links::followers(conn, log.intent_id, &ids).await?;
        if has.channels {
            channels::close_of_tasks(conn, ctx, log, &ids, actor).await?;
        }
        if has.memory {
            memory_entries::end_of_tasks(conn, ctx, log, &ids, actor).await?;
        }
        let waiting = if has.dependents { waiting_for(conn, log, &ids).await? } else { Vec::new() };
        for waiting in waiting {
            write(conn, ctx, log, actor, waiting).await?;
        }
        // The plan may end together with its open tasks: these are loaded in their current state.
        courses = continue_plans(conn, ctx, log, actor, &ended).await?;
    }
    Ok(())
}

async fn write(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    actor: &str,
    course: Course,
) -> Outcome<Task> {
    rows::update(conn, &course.task).await?;
    record(ctx, log, actor, course.told);
    Ok(course.task)
}

/// Records the events of a task or a plan.
pub(super) fn record(
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    actor: &str,
    told: Vec<(entente_domain::log::events::Kind, serde_json::Value)>,
) {
    for (kind, payload) in told {
        log.record(ctx, Draft::of(kind, actor, payload));
    }
}

/// Returns the tasks with a changed wait, now that these tasks are over.
async fn waiting_for(conn: &mut PgConnection, log: &IntentLog, ended: &[TaskId]) -> Outcome<Vec<Course>> {
    let ids = links::waiting_for(conn, ended).await?;
    let tasks = rows::load_all(conn, &ids).await?;
    let mut dependencies: Vec<TaskId> = tasks.iter().flat_map(|task| task.depends_on.clone()).collect();
    dependencies.sort_unstable();
    dependencies.dedup();
    let found = rows::among(conn, log.intent_id, &dependencies).await?;
    let statuses: BTreeMap<TaskId, TaskStatus> =
        found.into_iter().map(|(id, status, _)| (id, status)).collect();
    let mut moved = Vec::new();
    for task in tasks {
        let own: Vec<_> = task.depends_on.iter().filter_map(|id| Some((*id, *statuses.get(id)?))).collect();
        let mut course = Course::of(task);
        course.await_dependencies(&Wait::of(&own), log.now());
        if !course.told.is_empty() {
            moved.push(course);
        }
    }
    Ok(moved)
}

/// Updates the plans of finished tasks; returns the tasks that end because their plan ended.
async fn continue_plans(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    actor: &str,
    ended: &[Task],
) -> Outcome<Vec<Course>> {
    let mut plans: Vec<PlanId> = ended.iter().filter_map(|task| task.plan_id).collect();
    plans.sort_unstable();
    plans.dedup();
    let mut follow = Vec::new();
    for id in plans {
        let Some(plan) = plan_rows::load(conn, id).await? else { continue };
        let statuses = plan_rows::statuses(conn, id).await?;
        let mut course = PlanCourse::of(plan);
        for task in ended.iter().filter(|task| task.plan_id == Some(id)) {
            course.task_ended(task.id, task.status, &statuses, log.now());
        }
        if !course.told.is_empty() {
            follow.extend(write_plan(conn, ctx, log, actor, course).await?);
        }
    }
    Ok(follow)
}

/// Writes a plan that has changed; returns the tasks that end with it, if it ended.
pub(super) async fn write_plan(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    actor: &str,
    course: PlanCourse,
) -> Outcome<Vec<Course>> {
    plan_rows::update(conn, &course.plan).await?;
    record(ctx, log, actor, course.told);
    let Some(status) = course.ends_tasks else { return Ok(Vec::new()) };
    let open: Vec<TaskId> = plan_rows::statuses(conn, course.plan.id)
        .await?
        .into_iter()
        .filter(|(_, status)| !status.is_terminal())
        .map(|(id, _)| id)
        .collect();
    let reason = format!("Its plan is {}.", course.plan.state.as_str());
    let end = |task| {
        let mut course = Course::of(task);
        course.end(status, Some(&reason), log.now());
        course.task.version += 1;
        course
    };
    Ok(rows::load_all(conn, &open).await?.into_iter().map(end).collect())
}

/// Cancels every open task and plan of an intent that is resolved.
pub(crate) async fn end_of_intent(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    actor: &str,
) -> Outcome<()> {
    let open = rows::open_of_intent(conn, log.intent_id).await?;
    for task in rows::load_all(conn, &open).await? {
        let mut course = Course::of(task);
        course.end(TaskStatus::Cancelled, Some("The intent is resolved."), log.now());
        record(ctx, log, actor, course.told);
    }
    rows::cancel_all(conn, log.intent_id, log.now()).await?;
    cancel_plans(conn, ctx, log, actor).await
}

/// Cancels every plan of an intent that is resolved; its tasks are cancelled already.
async fn cancel_plans(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    actor: &str,
) -> Outcome<()> {
    for plan in plan_rows::open_of_intent(conn, log.intent_id).await? {
        let mut course = PlanCourse::of(plan);
        course.change(
            PlanAsk { state: Some(PlanState::Cancelled), ..PlanAsk::default() },
            false,
            log.now(),
        )?;
        write_plan(conn, ctx, log, actor, course).await?;
    }
    Ok(())
}

/// Returns the intents on which an agent has open tasks or assignments.
pub(crate) async fn intents_of_agent(conn: &mut PgConnection, agent: &str) -> Outcome<Vec<IntentId>> {
    let mut intents: Vec<IntentId> =
        rows::of_agent(conn, agent).await?.into_iter().map(|(intent, _)| intent).collect();
    intents.sort_unstable();
    intents.dedup();
    Ok(intents)
}

/// Releases the tasks of an agent that has left, on one intent.
pub(crate) async fn agent_left(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    agent: &str,
    actor: &str,
) -> Outcome<()> {
    let own = rows::of_agent(conn, agent).await?;
    let ids: Vec<TaskId> =
        own.into_iter().filter(|(intent, _)| *intent == log.intent_id).map(|(_, id)| id).collect();
    take(conn, ctx, log, &ids, "agent_left", actor).await
}

/// Releases these tasks from the agents that have them or are to have them; `why` is recorded with each.
async fn take(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    ids: &[TaskId],
    why: &str,
    actor: &str,
) -> Outcome<()> {
    let now = log.now();
    let mut courses = Vec::new();
    for task in rows::load_all(conn, ids).await? {
        let mut course = Course::begin(task, now);
        // They may have been due before.
        if course.task.assigned_agent.is_some() && !course.task.status.is_terminal() {
            course.agent_left(why, now);
        }
        courses.push(course);
    }
    settle(conn, ctx, log, actor, courses).await
}

/// Releases the tasks of agents that may no longer write, within an operation that changed access.
///
/// Otherwise such an agent could not continue, and nobody else could claim the task.
pub(crate) async fn take_without_access(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    actor: &str,
) -> Outcome<()> {
    let assigned = rows::assigned(conn, log.intent_id).await?;
    let mut agents: Vec<(IntentId, &str)> =
        assigned.iter().map(|(_, agent)| (log.intent_id, agent.as_str())).collect();
    agents.sort_unstable();
    agents.dedup();
    let writers = membership::writers(conn, &agents, log.now()).await?;
    let lost = assigned.iter().filter(|(_, agent)| !writers.contains(agent));
    let ids: Vec<TaskId> = lost.map(|(id, _)| *id).collect();
    take(conn, ctx, log, &ids, "access_lost", actor).await
}

/// Begins a transaction with the lock of the system log and, if the agent `leaves`, of every intent on which it has a
/// task.
pub(crate) async fn begin_with_agent(ctx: &Ctx, agent: &str, leaves: bool) -> Outcome<(Tx, Vec<IntentId>)> {
    let mut intents = Vec::new();
    if leaves {
        let mut connection = ctx.pool.acquire().await?;
        intents = intents_of_agent(&mut connection, agent).await?;
    }
    let mut locks = intents.clone();
    locks.push(IntentId::SYSTEM);
    Ok((ctx.begin(&locks).await?, intents))
}

/// Like [`agent_left`], on all these intents, whose locks are held.
///
/// Returns false, without any change, if the agent has taken a task on another intent since they were listed.
pub(crate) async fn take_from(
    conn: &mut PgConnection,
    ctx: &Ctx,
    intents: &[IntentId],
    agent: &str,
    actor: &str,
) -> Outcome<bool> {
    agents::hold(conn, agent).await?;
    if intents_of_agent(conn, agent).await?.iter().any(|intent| !intents.contains(intent)) {
        return Ok(false);
    }
    for intent in intents {
        let mut log = IntentLog::open(conn, *intent, None, ctx.now()).await?;
        agent_left(conn, ctx, &mut log, agent, actor).await?;
        log.save(conn).await?;
    }
    Ok(true)
}

/// Records the changes of up to `limit` due tasks, one intent at a time: timeouts of attempts, and ends of pauses.
///
/// # Errors
/// Returns database errors.
pub async fn expire_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let mut connection = ctx.pool.acquire().await?;
    let mut due: BTreeMap<IntentId, Vec<TaskId>> = BTreeMap::new();
    for (intent, id) in rows::due(&mut connection, ctx.now(), limit).await? {
        due.entry(intent).or_default().push(id);
    }
    drop(connection);
    run_each(due.into_iter().map(|(intent, ids)| expire_due_on(ctx, intent, ids))).await
}

/// Does the work of [`expire_due`] for these tasks of one intent.
async fn expire_due_on(ctx: &Ctx, intent: IntentId, ids: Vec<TaskId>) -> Outcome<u64> {
    let mut work = IntentTx::unattended(ctx, intent).await?;
    let (conn, log) = work.parts();
    let tasks = rows::load_all(conn, &ids).await?;
    let courses: Vec<Course> = tasks
        .into_iter()
        .map(|task| Course::begin(task, log.now()))
        // Another server has written it already, or the task has changed.
        .filter(|course| !course.told.is_empty())
        .collect();
    if courses.is_empty() {
        return Ok(0);
    }
    let done = courses.len() as u64;
    settle(conn, ctx, log, SYSTEM, courses).await?;
    work.commit().await?;
    Ok(done)
}
