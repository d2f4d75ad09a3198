//! Tasks that an agent hands over to another one, which has their claims from then on: under the intent's lock, so that no step of
//! the former agent comes between.

use entente_domain::ids::{PlanId, TaskId};
use entente_domain::openintent::agents::handovers::HandedTask;
use entente_domain::openintent::plans::Plan;
use entente_domain::openintent::tasks::TaskStatus;
use entente_domain::openintent::tasks::change::Verb;
use entente_domain::openintent::tasks::course::Course;
use entente_domain::openintent::tasks::may::By;
use entente_kernel::Outcome;
use entente_kernel::identity::agents;
use entente_kernel::log::writer::IntentLog;
use sqlx::PgConnection;

use super::ends::settle;
use super::{no_task, plan_rows, rows, wait_for};
use crate::Ctx;

/// Hands tasks of `from` over to `to`: those named, or all. A held task is claimed anew for `to`; another one is kept for it.
///
/// # Errors
/// A named task is not one of the agent's open tasks on the intent; `to` may not claim one of them.
pub(crate) async fn hand_over(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    from: &str,
    to: &str,
    named: Option<&[TaskId]>,
    reason: Option<&str>,
) -> Outcome<Vec<HandedTask>> {
    let now = log.now();
    let own: Vec<TaskId> = rows::assigned(conn, log.intent_id)
        .await?
        .into_iter()
        .filter(|(_, agent)| agent == from)
        .map(|(id, _)| id)
        .collect();
    if let Some(missing) = named.iter().copied().flatten().find(|id| !own.contains(id)) {
        return Err(no_task("tasks", &missing.to_string()).into());
    }
    let ids = named.map_or(own, <[TaskId]>::to_vec);
    // Also locks the record, so that the agent does not leave meanwhile.
    let record = agents::hold(conn, to).await?.map(|agent| agents::shown(ctx, agent));
    let mut courses = Vec::with_capacity(ids.len());
    for task in rows::load_all(conn, &ids).await? {
        let plan = plan_of(conn, task.plan_id).await?;
        let wait = wait_for(conn, log.intent_id, "depends_on", &task.depends_on).await?;
        let mut course = Course::begin(task, now);
        let by = By {
            agent: from,
            claimer: to,
            record: record.as_ref(),
            manages: false,
            token: None,
            jumps: false,
            strict: ctx.settings.strict,
            plan: plan.as_ref(),
            now,
        };
        let is_held = course.task.is_held();
        course.act(Verb::Delegate { to: to.to_owned(), reason: reason.map(str::to_owned) }, &wait, &by)?;
        if is_held && course.task.status == TaskStatus::Ready {
            course.act(Verb::Claim, &wait, &by)?;
        }
        courses.push(course);
    }
    let handed = courses
        .iter()
        .map(|course| HandedTask { task_id: course.task.id, claim_token: course.task.claim_token() })
        .collect();
    settle(conn, ctx, log, from, courses).await?;
    Ok(handed)
}

async fn plan_of(conn: &mut PgConnection, id: Option<PlanId>) -> Outcome<Option<Plan>> {
    match id {
        Some(id) => plan_rows::load(conn, id).await,
        None => Ok(None),
    }
}
