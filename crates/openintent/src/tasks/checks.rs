//! Checks that the operations on tasks and plans share, before they change anything.

use entente_domain::access::Level;
use entente_domain::ids::{IntentId, PlanId};
use entente_domain::limits::PLAN_TASKS;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::membership;
use entente_kernel::access::membership::Membership;
use entente_kernel::{Caller, Outcome, not_found};
use sqlx::PgConnection;

use super::plan_rows;
use crate::Ctx;

/// Loads the caller's membership in the intent of a task or a plan; without read access it is not found.
pub(crate) async fn visit(
    conn: &mut PgConnection,
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    noun: &str,
) -> Outcome<Membership> {
    let membership = membership::find(conn, &caller.agent, intent_id, ctx.now()).await?;
    membership.filter(|membership| membership.access.reaches(Level::Read)).ok_or_else(|| not_found(noun))
}

/// Requires that the intent is not resolved, because no work may begin on a resolved one.
pub(crate) fn require_unresolved(membership: &Membership) -> Outcome<()> {
    if !membership.status.is_terminal() {
        return Ok(());
    }
    let message =
        format!("The intent is {}; no work can be begun on it any more.", membership.status.as_str());
    Err(Refusal::new(Code::IntentResolved, message).into())
}

/// Builds the refusal of a name that is not a task of this intent.
pub(crate) fn no_task(member: &str, named: &str) -> Refusal {
    let message = format!("`{member}` names {named}, which is no task of this intent.");
    Refusal::field(Code::Unprocessable, member, "unknown", message)
}

/// Requires that a new task may join a plan: it belongs to the same intent, is not over and is not full.
pub(crate) async fn require_joinable(
    conn: &mut PgConnection,
    intent_id: IntentId,
    id: PlanId,
) -> Outcome<()> {
    let refuse =
        |message: String| Err(Refusal::field(Code::Unprocessable, "plan_id", "unknown", message).into());
    match plan_rows::load(conn, id).await? {
        Some(plan) if plan.intent_id == intent_id && plan.state.is_terminal() => {
            refuse(format!("`plan_id` names {id}, which is {} and takes no more tasks.", plan.state.as_str()))
        }
        Some(plan) if plan.intent_id == intent_id && plan.tasks.len() >= PLAN_TASKS => {
            refuse(format!("`plan_id` names {id}, which has {PLAN_TASKS} tasks, the most that a plan has."))
        }
        Some(plan) if plan.intent_id == intent_id => Ok(()),
        _ => refuse(format!("`plan_id` names {id}, which is no plan of this intent.")),
    }
}
