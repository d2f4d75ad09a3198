//! What follows from tasks: those that wait for one that is over become ready or are blocked, its channels close
//! (RFC-0021 §7.3), its plan goes on or ends; and what follows for tasks when their intent resolves, their agent leaves or
//! their time is up.

use std::collections::BTreeMap;

use entente_domain::events::Draft;
use entente_domain::ids::{IntentId, TaskId};
use entente_domain::principals::HOUSE;
use entente_domain::tasks::course::Course;
use entente_domain::tasks::graph::Wait;
use entente_domain::tasks::{Task, TaskStatus};
use sqlx::PgConnection;

use super::{links, rows};
use crate::lines::Line;
use crate::rounds::round;
use crate::{Ctx, Outcome, Tx, agents, channels, memory, plans, seats};

/// Writes tasks that have gone on, records what is to be told, and does what follows, within a deed that holds the
/// intent's lock.
pub(crate) async fn settle(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    actor: &str,
    courses: Vec<Course>,
) -> Outcome<()> {
    let mut courses = courses;
    while !courses.is_empty() {
        let mut ended: Vec<Task> = Vec::new();
        for course in courses {
            let task = write(conn, ctx, line, actor, course).await?;
            if task.status.is_terminal() {
                ended.push(task);
            }
        }
        let ids: Vec<TaskId> = ended.iter().map(|task| task.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        channels::close_of_tasks(conn, ctx, line, &ids, actor).await?;
        memory::end_of_tasks(conn, ctx, line, &ids, actor).await?;
        for waiting in waiting_for(conn, line, &ids).await? {
            write(conn, ctx, line, actor, waiting).await?;
        }
        // The plan may end, and its open tasks with it: those are looked at as they are now.
        courses = plans::tasks_ended(conn, ctx, line, actor, &ended).await?;
    }
    Ok(())
}

async fn write(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    actor: &str,
    course: Course,
) -> Outcome<Task> {
    rows::update(conn, &course.task).await?;
    record(ctx, line, actor, course.told);
    Ok(course.task)
}

/// Records what is to be told of a task or a plan.
pub(crate) fn record(
    ctx: &Ctx,
    line: &mut Line,
    actor: &str,
    told: Vec<(entente_domain::events::Kind, serde_json::Value)>,
) {
    for (kind, payload) in told {
        line.record(ctx, Draft::of(kind, actor, payload));
    }
}

/// The tasks that no longer wait as they did, now that these are over.
async fn waiting_for(conn: &mut PgConnection, line: &Line, ended: &[TaskId]) -> Outcome<Vec<Course>> {
    let ids = links::waiting_for(conn, ended).await?;
    let tasks = rows::load_all(conn, &ids).await?;
    let mut dependencies: Vec<TaskId> = tasks.iter().flat_map(|task| task.depends_on.clone()).collect();
    dependencies.sort_unstable();
    dependencies.dedup();
    let found = rows::among(conn, line.intent_id, &dependencies).await?;
    let statuses: BTreeMap<TaskId, TaskStatus> =
        found.into_iter().map(|(id, status, _)| (id, status)).collect();
    let mut moved = Vec::new();
    for task in tasks {
        let own: Vec<_> = task.depends_on.iter().filter_map(|id| Some((*id, *statuses.get(id)?))).collect();
        let mut course = Course::of(task);
        course.await_dependencies(&Wait::of(&own), line.now());
        if !course.told.is_empty() {
            moved.push(course);
        }
    }
    Ok(moved)
}

/// Calls off every open task of an intent that is resolved, and its plans.
pub(crate) async fn end_of_intent(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    actor: &str,
) -> Outcome<()> {
    let open = rows::open_of_intent(conn, line.intent_id).await?;
    for task in rows::load_all(conn, &open).await? {
        let mut course = Course::of(task);
        course.end(TaskStatus::Cancelled, Some("The intent is resolved."), line.now());
        record(ctx, line, actor, course.told);
    }
    rows::cancel_all(conn, line.intent_id, line.now()).await?;
    plans::end_of_intent(conn, ctx, line, actor).await
}

/// The intents on which an agent has a task, or is to take one.
pub(crate) async fn intents_of_agent(conn: &mut PgConnection, agent: &str) -> Outcome<Vec<IntentId>> {
    let mut intents: Vec<IntentId> =
        rows::of_agent(conn, agent).await?.into_iter().map(|(intent, _)| intent).collect();
    intents.sort_unstable();
    intents.dedup();
    Ok(intents)
}

/// Takes from an agent that has left what it had and what was kept for it on one intent.
pub(crate) async fn agent_left(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    agent: &str,
    actor: &str,
) -> Outcome<()> {
    let own = rows::of_agent(conn, agent).await?;
    let ids: Vec<TaskId> =
        own.into_iter().filter(|(intent, _)| *intent == line.intent_id).map(|(_, id)| id).collect();
    take(conn, ctx, line, &ids, ("agent_left", actor)).await
}

/// Takes these tasks from whoever has them or is to have them.
async fn take(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    ids: &[TaskId],
    (why, actor): (&str, &str),
) -> Outcome<()> {
    let now = line.now();
    let mut courses = Vec::new();
    for task in rows::load_all(conn, ids).await? {
        let mut course = Course::begin(task, now);
        // Its time may have been up before.
        if course.task.assigned_agent.is_some() && !course.task.status.is_terminal() {
            course.agent_left(why, now);
        }
        courses.push(course);
    }
    settle(conn, ctx, line, actor, courses).await
}

/// Takes, within a deed that changed who has access, what they had and what was kept for them from those who may no longer
/// write: they could not go on with it, and nobody else would get it.
pub(crate) async fn take_without_access(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    actor: &str,
) -> Outcome<()> {
    let assigned = rows::assigned(conn, line.intent_id).await?;
    let mut agents: Vec<(IntentId, &str)> =
        assigned.iter().map(|(_, agent)| (line.intent_id, agent.as_str())).collect();
    agents.sort_unstable();
    agents.dedup();
    let writers = seats::writers(conn, &agents, line.now()).await?;
    let lost = assigned.iter().filter(|(_, agent)| !writers.contains(agent));
    let ids: Vec<TaskId> = lost.map(|(id, _)| *id).collect();
    take(conn, ctx, line, &ids, ("access_lost", actor)).await
}

/// Begins a transaction with the lock of the house, and if the agent `leaves` those of every intent on which it has a task.
pub(crate) async fn begin_with_agent(ctx: &Ctx, agent: &str, leaves: bool) -> Outcome<(Tx, Vec<IntentId>)> {
    let mut intents = Vec::new();
    if leaves {
        let mut connection = ctx.pool.acquire().await?;
        intents = intents_of_agent(&mut connection, agent).await?;
    }
    let mut locks = intents.clone();
    locks.push(IntentId::HOUSE);
    Ok((ctx.begin(&locks).await?, intents))
}

/// As [`agent_left`], on all these intents, whose locks are held. False when the agent has taken a task on another one
/// since they were listed: then nothing was done.
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
        let mut line = Line::open(conn, *intent, None, ctx.now()).await?;
        agent_left(conn, ctx, &mut line, agent, actor).await?;
        line.save(conn).await?;
    }
    Ok(true)
}

/// Writes down what time has done to tasks: attempts that took too long, pauses that are over; up to `limit` of them, an
/// intent at a time.
///
/// # Errors
/// The database.
pub async fn pass_time(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let mut connection = ctx.pool.acquire().await?;
    let mut due: BTreeMap<IntentId, Vec<TaskId>> = BTreeMap::new();
    for (intent, id) in rows::due(&mut connection, ctx.now(), limit).await? {
        due.entry(intent).or_default().push(id);
    }
    drop(connection);
    round(due.into_iter().map(|(intent, ids)| pass_time_on(ctx, intent, ids))).await
}

/// As [`pass_time`], with these tasks of one intent.
async fn pass_time_on(ctx: &Ctx, intent: IntentId, ids: Vec<TaskId>) -> Outcome<u64> {
    let mut tx = ctx.begin(&[intent]).await?;
    let mut line = Line::open(&mut tx, intent, None, ctx.now()).await?;
    let tasks = rows::load_all(&mut tx, &ids).await?;
    let courses: Vec<Course> = tasks
        .into_iter()
        .map(|task| Course::begin(task, line.now()))
        // Another server was faster, or somebody went on with it.
        .filter(|course| !course.told.is_empty())
        .collect();
    if courses.is_empty() {
        return Ok(0);
    }
    let done = courses.len() as u64;
    settle(&mut tx, ctx, &mut line, HOUSE, courses).await?;
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(intent);
    Ok(done)
}
