//! Delegation by a worker (ARCP §10): a part of a job's authority goes to another agent, as a child job in
//! the same session.

use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::jobs::ask::{JobAsk, Submit};
use entente_domain::arcp::jobs::wire::Accepted;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{JobId, SessionId};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{AppError, Caller, Outcome};
use sqlx::PgConnection;

use super::acceptance::{Origin, Submission, accept, being_prepared, delegate_event};
use super::claim_tokens::token_digest;
use super::locked::LockedJobs;
use super::preparing::{Delegation, provide};
use super::reading::conceal;
use super::{budgets, rows, writes};
use crate::Ctx;
use crate::{credentials, inventory};

/// Creates a child of a job, once per `delegate_id`.
///
/// # Errors
/// The claim is lost; the job may not delegate to that agent; the child would exceed the job's authority.
pub async fn delegate(ctx: &Ctx, caller: &Caller, id: JobId, token: &str, said: Submit) -> Outcome<Accepted> {
    caller.require(Scope::JobsWork)?;
    let done = delegate_held(ctx, id, token, said).await;
    conceal(ctx, caller, id, done).await
}

async fn delegate_held(ctx: &Ctx, id: JobId, token: &str, said: Submit) -> Outcome<Accepted> {
    let Some(delegate_id) = said.delegate_id.clone() else {
        let message = "`delegate_id` is missing: the delegation's name, under which it is made once.";
        return Err(Refusal::field(Code::InvalidRequest, "delegate_id", "missing", message).into());
    };
    let said = Submit { parent_job_id: Some(id.to_string()), idempotency_key: None, ..said };
    let mut ask = JobAsk::check(said)?;
    let mut conn = ctx.pool.acquire().await?;
    let known = inventory::known(&mut conn, &[&ask.agent.name]).await?;
    drop(conn);
    let (mut tx, mut locked) = LockedJobs::begin(ctx, id).await?;
    let mut parent = locked.change(id)?;
    parent.job().hold(&token_digest(token), parent.now())?;
    // A child has its parent's intent.
    ask.intent_id = parent.job().intent_id;
    if rows::child_preparing(&mut tx, id, &delegate_id).await? {
        return Err(being_prepared().into());
    }
    if let Some(before) = rows::child_named(&mut tx, id, &delegate_id).await? {
        return Ok(Accepted::new(&before, Vec::new()));
    }
    let target = ask.agent.to_string();
    let whole = parent.job().lease.covers("agent.delegate", &target);
    let covered = if whole { &target } else { &ask.agent.name };
    let judged = if let Err(refusal) = parent.may("agent.delegate", covered) {
        Err(AppError::from(refusal))
    } else {
        let principal = parent.job().principal.clone();
        let submission = Submission { ask, principal, trace: None, origin: Origin::Parent };
        accept(ctx, &mut tx, &mut locked, &known, &submission).await
    };
    let made = match judged {
        Ok(made) => Ok(made),
        // Refusals are recorded for the parent's followers; other errors are not.
        Err(AppError::Refused(refusal)) => {
            parent.refuse(Some(&delegate_id), &refusal)?;
            Err(refusal)
        }
        Err(failure) => return Err(failure),
    };
    if let Ok(made) = &made {
        if made.preparing {
            credentials::prepare(ctx, &mut tx, &made.job).await?;
        } else {
            parent.say("delegate", &delegate_event(&made.job));
        }
        writes::insert(&mut tx, std::slice::from_ref(made)).await?;
        let budget = Budget::of(&made.job.lease)?;
        budgets::insert(&mut tx, &[(made.job.id, &budget)]).await?;
    }
    locked.apply(parent);
    locked.conclude(ctx, tx).await?;
    let made = made?;
    if made.preparing {
        let by = Delegation { parent: id, token: token_digest(token) };
        // Only the child's worker gets the child's credentials.
        return Ok(Accepted::new(&provide(ctx, made.job, Some(by)).await?.job, Vec::new()));
    }
    ctx.feed.wake(WakeKey::Work(made.job.agent.clone()));
    Ok(Accepted::new(&made.job, Vec::new()))
}

/// Returns the acceptance of a job's child, if it belongs to the same session (ARCP §10).
pub(crate) async fn delegated(
    conn: &mut PgConnection,
    session: SessionId,
    parent: JobId,
    child: JobId,
) -> Outcome<Option<Accepted>> {
    let found = rows::load(conn, &[child]).await?.pop();
    let own = |job: &Job| job.parent_id == Some(parent) && job.counted && job.session_id == session;
    Ok(found.filter(own).map(|job| Accepted::new(&job, Vec::new())))
}
