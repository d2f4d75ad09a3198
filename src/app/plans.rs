//! Plans (RFC-0012): making, finding and changing them, deciding their checkpoints, and what the ends of tasks come to. Table
//! `plans`; which tasks a plan has is said by the tasks (`tasks/rows.rs`).

use entente_core::access::Level;
use entente_core::clock::Timestamp;
use entente_core::idempotency::Idempotency;
use entente_core::ids::{IntentId, PlanId, TaskId};
use entente_core::keys::Scope;
use entente_core::limits::PAGE;
use entente_core::plans::turn::Turn;
use entente_core::plans::{self as law, OnFailure, Plan, PlanAsk, PlanState};
use entente_core::refusal::{Code, Refusal};
use entente_core::tasks::course::Course;
use entente_core::tasks::{Task, TaskStatus};
use sqlx::PgConnection;

use super::lines::Line;
use super::tasks::{self, no_task, record, require_unresolved, visit};
use super::{AppError, Caller, Ctx, Outcome, Tx, idempotency, not_found, seats, unknown};

/// Makes a plan on an intent.
///
/// # Errors
/// The intent is not there, not writable or resolved; a task of it is not on the intent, or in another plan; the ask is not
/// lawful.
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: PlanAsk,
    once: Option<&Idempotency>,
) -> Outcome<Plan> {
    caller.require(Scope::IntentsWrite)?;
    let agent = caller.speaker("created_by", None, ctx.settings.strict)?;
    let mut tx = ctx.begin_once(&[intent_id], caller, once).await?;
    let seat = seats::require(&mut tx, &agent, intent_id, Level::Write, ctx.now()).await?;
    if let Some(done) = idempotency::find(&mut tx, caller, once).await? {
        return Ok(done);
    }
    require_unresolved(&seat)?;
    let mut line = Line::open(&mut tx, intent_id, caller.trace, ctx.now()).await?;
    let now = line.now();
    let turn = law::create(ask, &agent, intent_id, PlanId::mint(now, &*ctx.chance), now)?;
    let plan = turn.plan;
    check_tasks(&mut tx, &plan).await?;
    insert(&mut tx, &plan).await?;
    tasks::set_plan(&mut tx, plan.id, &plan.tasks).await?;
    record(ctx, &mut line, &agent, turn.told);
    line.save(&mut tx).await?;
    idempotency::keep(&mut tx, caller, once, &plan, now).await?;
    tx.commit().await?;
    ctx.feed.news(intent_id);
    Ok(plan)
}

/// The tasks of a plan are tasks of its intent, and of no other plan.
async fn check_tasks(conn: &mut PgConnection, plan: &Plan) -> Outcome<()> {
    let found = tasks::among(conn, plan.intent_id, &plan.tasks).await?;
    for id in &plan.tasks {
        let Some((.., other)) = found.iter().find(|(known, ..)| known == id) else {
            return Err(no_task("tasks", &id.to_string()).into());
        };
        if other.is_some_and(|other| other != plan.id) {
            let message = format!("{id} is in another plan already. Take it out of that one first.");
            return Err(Refusal::field(Code::Unprocessable, "tasks", "taken", message).into());
        }
    }
    Ok(())
}

/// One plan.
///
/// # Errors
/// It is not there, or its intent is not readable.
pub async fn get(ctx: &Ctx, caller: &Caller, id: PlanId) -> Outcome<Plan> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    let plan = load(&mut connection, id).await?.ok_or_else(|| not_found("plan"))?;
    visit(&mut connection, ctx, caller, plan.intent_id, "plan").await?;
    Ok(plan)
}

/// An intent's plans, the oldest first, [`PAGE`] of them at the most.
///
/// # Errors
/// The intent is not there or not readable.
pub async fn list(ctx: &Ctx, caller: &Caller, intent_id: IntentId) -> Outcome<Vec<Plan>> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    seats::require(&mut connection, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    of_intent(&mut connection, intent_id).await
}

/// A plan on which a deed is done, under its intent's lock.
struct Desk {
    tx: Tx,
    line: Line,
    turn: Turn,
    /// Whether the caller manages the intent.
    manages: bool,
}

impl Desk {
    async fn open(ctx: &Ctx, caller: &Caller, id: PlanId) -> Outcome<Self> {
        caller.require(Scope::IntentsWrite)?;
        let mut connection = ctx.pool.acquire().await?;
        let intent_id = load(&mut connection, id).await?.ok_or_else(|| not_found("plan"))?.intent_id;
        drop(connection);
        let mut tx = ctx.begin(&[intent_id]).await?;
        let seat = visit(&mut tx, ctx, caller, intent_id, "plan").await?;
        seat.standing.require(Level::Write)?;
        let line = Line::open(&mut tx, intent_id, caller.trace, ctx.now()).await?;
        let plan = load(&mut tx, id).await?.ok_or_else(|| not_found("plan"))?;
        let manages = seat.standing.manages() || seat.coordinates;
        Ok(Self { tx, line, turn: Turn::of(plan), manages })
    }

    /// Writes what has become of the plan and of its tasks, and commits.
    async fn close(self, ctx: &Ctx, actor: &str) -> Outcome<Plan> {
        let Self { mut tx, mut line, turn, .. } = self;
        if turn.told.is_empty() {
            return Ok(turn.plan);
        }
        let plan = turn.plan.clone();
        let ended = write(&mut tx, ctx, &mut line, actor, turn).await?;
        tasks::settle(&mut tx, ctx, &mut line, actor, ended).await?;
        line.save(&mut tx).await?;
        tx.commit().await?;
        ctx.feed.news(plan.intent_id);
        Ok(plan)
    }
}

/// Changes a plan, if the caller has seen its current version.
///
/// # Errors
/// It is not there or not writable; the version is stale; it is over; a task of it is not on the intent, or in another plan.
pub async fn change(
    ctx: &Ctx,
    caller: &Caller,
    id: PlanId,
    seen: Option<i64>,
    ask: PlanAsk,
) -> Outcome<Plan> {
    let mut desk = Desk::open(ctx, caller, id).await?;
    if let Some(seen) = seen {
        desk.turn.plan.require_version(seen)?;
    }
    let lists_tasks = ask.tasks.is_some();
    desk.turn.change(ask, ctx.settings.strict, desk.line.now())?;
    if lists_tasks {
        check_tasks(&mut desk.tx, &desk.turn.plan).await?;
        tasks::set_plan(&mut desk.tx, id, &desk.turn.plan.tasks).await?;
    }
    desk.close(ctx, &caller.agent).await
}

/// Decides a checkpoint that the plan has come to: it goes on, or rests.
///
/// # Errors
/// The plan is not there or not writable; no such checkpoint waits; it is not for the caller to decide.
pub async fn decide(
    ctx: &Ctx,
    caller: &Caller,
    id: PlanId,
    checkpoint: &str,
    decided_by: &str,
    approve: bool,
) -> Outcome<Plan> {
    let judge = caller.acting_as(decided_by.to_owned());
    let mut desk = Desk::open(ctx, &judge, id).await?;
    let statuses = statuses(&mut desk.tx, id).await?;
    let by = (decided_by, desk.manages);
    desk.turn.decide(checkpoint, approve, by, &statuses, desk.line.now())?;
    desk.close(ctx, decided_by).await
}

async fn statuses(conn: &mut PgConnection, plan: PlanId) -> Outcome<Vec<(TaskId, TaskStatus)>> {
    let found = tasks::of_plans(conn, &[plan]).await?;
    Ok(found.into_iter().map(|(_, id, status)| (id, status)).collect())
}

/// Requires that a new task may join a plan: one of its intent that is not over.
pub(crate) async fn require_joinable(
    conn: &mut PgConnection,
    intent_id: IntentId,
    id: PlanId,
) -> Outcome<()> {
    let refuse =
        |message: String| Err(Refusal::field(Code::Unprocessable, "plan_id", "unknown", message).into());
    match load(conn, id).await? {
        Some(plan) if plan.intent_id == intent_id && plan.state.is_terminal() => {
            refuse(format!("`plan_id` names {id}, which is {} and takes no more tasks.", plan.state.as_str()))
        }
        Some(plan) if plan.intent_id == intent_id => Ok(()),
        _ => refuse(format!("`plan_id` names {id}, which is no plan of this intent.")),
    }
}

/// Tasks are over: what follows for their plans. Answers with the tasks that end with a plan that ended.
pub(crate) async fn tasks_ended(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    actor: &str,
    ended: &[Task],
) -> Outcome<Vec<Course>> {
    let mut plans: Vec<PlanId> = ended.iter().filter_map(|task| task.plan_id).collect();
    plans.sort_unstable();
    plans.dedup();
    let mut follow = Vec::new();
    for id in plans {
        let Some(plan) = load(conn, id).await? else { continue };
        let statuses = statuses(conn, id).await?;
        let mut turn = Turn::of(plan);
        for task in ended.iter().filter(|task| task.plan_id == Some(id)) {
            turn.task_ended(task.id, task.status, &statuses, line.now());
        }
        if !turn.told.is_empty() {
            follow.extend(write(conn, ctx, line, actor, turn).await?);
        }
    }
    Ok(follow)
}

/// Writes a plan that has gone on; answers with its tasks that end with it, if it ended.
async fn write(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    actor: &str,
    turn: Turn,
) -> Outcome<Vec<Course>> {
    update(conn, &turn.plan).await?;
    record(ctx, line, actor, turn.told);
    let Some(status) = turn.ends_tasks else { return Ok(Vec::new()) };
    let open: Vec<TaskId> = statuses(conn, turn.plan.id)
        .await?
        .into_iter()
        .filter(|(_, status)| !status.is_terminal())
        .map(|(id, _)| id)
        .collect();
    let reason = format!("Its plan is {}.", turn.plan.state.as_str());
    let end = |task| {
        let mut course = Course::of(task);
        course.end(status, Some(&reason), line.now());
        course
    };
    Ok(tasks::load_all(conn, &open).await?.into_iter().map(end).collect())
}

/// Calls off every plan of an intent that is resolved. Its tasks are called off already.
pub(crate) async fn end_of_intent(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    actor: &str,
) -> Outcome<()> {
    for plan in of_intent(conn, line.intent_id).await? {
        if plan.state.is_terminal() {
            continue;
        }
        let mut turn = Turn::of(plan);
        turn.change(PlanAsk { state: Some(PlanState::Cancelled), ..PlanAsk::default() }, false, line.now())?;
        write(conn, ctx, line, actor, turn).await?;
    }
    Ok(())
}

struct Row {
    id: uuid::Uuid,
    intent_id: uuid::Uuid,
    state: String,
    checkpoints: String,
    conditions: String,
    on_failure: String,
    on_complete: String,
    metadata: String,
    version: i64,
    created_by: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl TryFrom<Row> for Plan {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            state: PlanState::parse(&row.state).ok_or_else(|| unknown("plan state", &row.state))?,
            tasks: Vec::new(),
            gates: serde_json::from_str(&row.checkpoints)?,
            conditions: serde_json::from_str(&row.conditions)?,
            on_failure: OnFailure::parse(&row.on_failure)
                .ok_or_else(|| unknown("plan's on_failure", &row.on_failure))?,
            on_complete: row.on_complete,
            metadata: serde_json::from_str(&row.metadata)?,
            version: row.version,
            created_by: row.created_by,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

/// A plan with its tasks.
pub(crate) async fn load(conn: &mut PgConnection, id: PlanId) -> Outcome<Option<Plan>> {
    let row = sqlx::query_as!(
        Row,
        "-- plans::load
         SELECT id, intent_id, state, checkpoints, conditions, on_failure, on_complete, metadata, version, created_by,
                created_at, updated_at
         FROM plans WHERE id = $1",
        id.uuid()
    )
    .fetch_optional(&mut *conn)
    .await?;
    Ok(with_tasks(conn, row.into_iter().collect()).await?.pop())
}

async fn of_intent(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Vec<Plan>> {
    let rows = sqlx::query_as!(
        Row,
        "-- plans::of_intent
         SELECT id, intent_id, state, checkpoints, conditions, on_failure, on_complete, metadata, version, created_by,
                created_at, updated_at
         FROM plans WHERE intent_id = $1 ORDER BY id LIMIT $2",
        intent_id.uuid(),
        i64::from(PAGE)
    )
    .fetch_all(&mut *conn)
    .await?;
    with_tasks(conn, rows).await
}

async fn with_tasks(conn: &mut PgConnection, rows: Vec<Row>) -> Outcome<Vec<Plan>> {
    let mut plans = rows.into_iter().map(Plan::try_from).collect::<Outcome<Vec<_>>>()?;
    let ids: Vec<PlanId> = plans.iter().map(|plan| plan.id).collect();
    for (plan, task, _) in tasks::of_plans(conn, &ids).await? {
        if let Some(plan) = plans.iter_mut().find(|known| known.id == plan) {
            plan.tasks.push(task);
        }
    }
    Ok(plans)
}

async fn insert(conn: &mut PgConnection, plan: &Plan) -> Outcome<()> {
    sqlx::query!(
        "-- plans::insert
         INSERT INTO plans (id, intent_id, state, checkpoints, conditions, on_failure, on_complete, metadata, version,
                            created_by, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        plan.id.uuid(),
        plan.intent_id.uuid(),
        plan.state.as_str(),
        serde_json::to_string(&plan.gates)?,
        serde_json::to_string(&plan.conditions)?,
        plan.on_failure.as_str(),
        plan.on_complete,
        serde_json::to_string(&plan.metadata)?,
        plan.version,
        plan.created_by,
        plan.created_at,
        plan.updated_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn update(conn: &mut PgConnection, plan: &Plan) -> Outcome<()> {
    sqlx::query!(
        "-- plans::update
         UPDATE plans SET state = $2, checkpoints = $3, conditions = $4, on_failure = $5, on_complete = $6, metadata = $7,
                version = $8, updated_at = $9
         WHERE id = $1",
        plan.id.uuid(),
        plan.state.as_str(),
        serde_json::to_string(&plan.gates)?,
        serde_json::to_string(&plan.conditions)?,
        plan.on_failure.as_str(),
        plan.on_complete,
        serde_json::to_string(&plan.metadata)?,
        plan.version,
        plan.updated_at
    )
    .execute(conn)
    .await?;
    Ok(())
}
