//! Plans (RFC-0012): creating, reading and changing them, and deciding their checkpoints. Table `plans`
//! (`plan_rows.rs`); the tasks themselves record the plan that they belong to (`rows.rs`). The consequences of
//! finished tasks for their plan are in `ends.rs`.

use entente_domain::access::Level;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, PlanId, TaskId};
use entente_domain::openintent::plans as domain;
use entente_domain::openintent::plans::course::PlanCourse;
use entente_domain::openintent::plans::{Plan, PlanAsk};
use entente_domain::openintent::tasks::TaskStatus;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::governance;
use entente_kernel::access::governance::Attempt;
use entente_kernel::access::membership;
use entente_kernel::{Caller, IntentTx, Outcome, not_found};
use sqlx::PgConnection;

use super::checks::{no_task, require_unresolved, visit};
use super::ends::{record, settle, write_plan};
use super::plan_rows::{insert, load, of_intent, statuses};
use super::rows::{among, set_plan};
use crate::Ctx;

/// Creates a plan on an intent.
///
/// # Errors
/// Fails if the intent does not exist, is not writable or is resolved, if one of its tasks is not on the intent or
/// belongs to another plan, or if the request is invalid.
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: PlanAsk,
    once: Option<&Idempotency>,
) -> Outcome<Plan> {
    caller.require(Scope::IntentsWrite)?;
    let agent = caller.speaker("created_by", None, ctx.settings.strict)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    let membership = membership::require(work.conn(), &agent, intent_id, Level::Write, ctx.now()).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    require_unresolved(&membership)?;
    let attempt = Attempt { intent_id, membership: &membership, agent: &agent, operation: "create_plan" };
    let mut work = governance::admit(caller, work, attempt).await?;
    let now = work.now();
    let mut course = domain::create(ask, &agent, intent_id, PlanId::mint(now, &*ctx.chance), now)?;
    let statuses = check_tasks(work.conn(), &course.plan).await?;
    course.look(&statuses, now);
    let plan = course.plan;
    insert(work.conn(), &plan).await?;
    set_plan(work.conn(), plan.id, &plan.tasks).await?;
    record(ctx, work.log(), &agent, course.told);
    work.finish(plan).await
}

/// Checks that the tasks of a plan are on its intent and in no other plan; returns their statuses.
async fn check_tasks(conn: &mut PgConnection, plan: &Plan) -> Outcome<Vec<(TaskId, TaskStatus)>> {
    let found = among(conn, plan.intent_id, &plan.tasks).await?;
    for id in &plan.tasks {
        let Some((.., other)) = found.iter().find(|(known, ..)| known == id) else {
            return Err(no_task("tasks", &id.to_string()).into());
        };
        if other.is_some_and(|other| other != plan.id) {
            let message = format!("{id} is in another plan already. Take it out of that one first.");
            return Err(Refusal::field(Code::Unprocessable, "tasks", "taken", message).into());
        }
    }
    Ok(found.into_iter().map(|(id, status, _)| (id, status)).collect())
}

/// Returns one plan.
///
/// # Errors
/// Fails if the plan does not exist or its intent is not readable.
pub async fn get(ctx: &Ctx, caller: &Caller, id: PlanId) -> Outcome<Plan> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    let plan = load(&mut connection, id).await?.ok_or_else(|| not_found("plan"))?;
    visit(&mut connection, ctx, caller, plan.intent_id, "plan").await?;
    Ok(plan)
}

/// Lists an intent's plans, oldest first: up to `limit` of them, after skipping `offset`.
///
/// # Errors
/// Fails if the intent does not exist or is not readable.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    limit: u32,
    offset: u32,
) -> Outcome<Vec<Plan>> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    membership::require(&mut connection, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    of_intent(&mut connection, intent_id, limit, offset).await
}

/// A plan that an operation works on, under its intent's lock.
struct Locked<'a> {
    work: IntentTx<'a>,
    course: PlanCourse,
    /// Whether the caller manages the intent.
    manages: bool,
}

impl<'a> Locked<'a> {
    async fn open(ctx: &'a Ctx, caller: &'a Caller, id: PlanId) -> Outcome<Self> {
        caller.require(Scope::IntentsWrite)?;
        let mut connection = ctx.pool.acquire().await?;
        let intent_id = load(&mut connection, id).await?.ok_or_else(|| not_found("plan"))?.intent_id;
        drop(connection);
        let mut work = IntentTx::begin(ctx, caller, intent_id, None).await?;
        let membership = visit(work.conn(), ctx, caller, intent_id, "plan").await?;
        membership.access.require(Level::Write)?;
        let attempt =
            Attempt { intent_id, membership: &membership, agent: &caller.agent, operation: "change_plan" };
        let mut work = governance::admit(caller, work, attempt).await?;
        let plan = load(work.conn(), id).await?.ok_or_else(|| not_found("plan"))?;
        let manages = membership.access.manages() || membership.coordinates;
        Ok(Self { work, course: PlanCourse::of(plan), manages })
    }

    /// Writes the changes of the plan and of its tasks, and commits.
    async fn close(self, ctx: &Ctx, actor: &str) -> Outcome<Plan> {
        let Self { mut work, course, .. } = self;
        if course.told.is_empty() {
            return Ok(course.plan);
        }
        let plan = course.plan.clone();
        let (conn, log) = work.parts();
        let ended = write_plan(conn, ctx, log, actor, course).await?;
        settle(conn, ctx, log, actor, ended).await?;
        work.finish(plan).await
    }
}

/// Changes a plan, if `seen` is its current version or is not given.
///
/// # Errors
/// Fails if the plan does not exist or is not writable, if the version is stale, if the plan is over, or if one of
/// its tasks is not on the intent or belongs to another plan.
pub async fn change(
    ctx: &Ctx,
    caller: &Caller,
    id: PlanId,
    seen: Option<i64>,
    ask: PlanAsk,
) -> Outcome<Plan> {
    let mut locked = Locked::open(ctx, caller, id).await?;
    if let Some(seen) = seen {
        locked.course.plan.require_version(seen)?;
    }
    let lists_tasks = ask.tasks.is_some();
    locked.course.change(ask, ctx.settings.strict, locked.work.now())?;
    if lists_tasks {
        check_tasks(locked.work.conn(), &locked.course.plan).await?;
        set_plan(locked.work.conn(), id, &locked.course.plan.tasks).await?;
    }
    let statuses = statuses(locked.work.conn(), id).await?;
    locked.course.look(&statuses, locked.work.now());
    locked.close(ctx, &caller.agent).await
}

/// Decides a checkpoint that the plan has reached: the plan continues or pauses.
///
/// # Errors
/// Fails if the plan does not exist or is not writable, if no such checkpoint waits, or if the caller may not decide
/// it.
pub async fn decide(
    ctx: &Ctx,
    caller: &Caller,
    id: PlanId,
    checkpoint: &str,
    decided_by: &str,
    approve: bool,
) -> Outcome<Plan> {
    let judge = caller.acting_as(decided_by.to_owned());
    let mut locked = Locked::open(ctx, &judge, id).await?;
    let statuses = statuses(locked.work.conn(), id).await?;
    let by = (decided_by, locked.manages);
    locked.course.decide(checkpoint, approve, by, &statuses, locked.work.now())?;
    locked.close(ctx, decided_by).await
}
