//! Delegation by a worker (ARCP §10): a part of a job's authority goes to another agent, as a child job in
//! the same session. A worker asks for a child by an event among others, or by a request of its own.

use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::jobs::ask::{JobAsk, Submit};
use entente_domain::arcp::jobs::delegations;
use entente_domain::arcp::jobs::order::Priority;
use entente_domain::arcp::jobs::wire::Accepted;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{JobId, SessionId};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{AppError, Caller, Outcome};
use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::acceptance::{Origin, Submission, accept, being_prepared, delegate_event};
use super::claim_tokens::token_digest;
use super::locked::{JobChange, LockedJobs};
use super::preparing::{Delegation, provide};
use super::reading::conceal;
use super::reports::{Checked, Child, Denied, EventAsk, Report, Reported, check, told};
use super::writer::JobWriter;
use super::writes::Fresh;
use super::{budgets, log, records, rows, writes};
use crate::Ctx;
use crate::{credentials, inventory, limits};

/// Kind of the event by which an agent delegates.
const DELEGATE: &str = "delegate";

/// Part of a request of events, with the index of its first event.
enum Part {
    /// Events to store.
    Events(usize, Vec<EventAsk>),
    /// An event that asks for a child.
    Child(usize, EventAsk, Box<Submit>),
}

/// Outcome of a delegation.
enum Verdict {
    /// The child.
    Made(Box<Accepted>),
    /// The reason against it, which the parent's followers are told.
    Refused(Refusal),
    /// The same event was refused before.
    Known,
}

impl Verdict {
    /// The child, without its credentials: only its worker gets these.
    fn made(child: &Job) -> Self {
        Self::Made(Box::new(Accepted::new(child, Vec::new())))
    }
}

impl JobWriter {
    /// Stores events of a job, all or none, and the progress to continue from. An event that asks for a child creates it
    /// in its place (§10).
    ///
    /// The request is checked as a whole. If it then fails at a child, for an outage for example, the events before
    /// the child are stored; sent again, they are known by their keys, and the child by its `delegate_id`.
    ///
    /// # Errors
    /// The claim is lost; an event is invalid.
    pub async fn post(
        &self,
        ctx: &Ctx,
        caller: &Caller,
        job_id: JobId,
        token: &str,
        events: Vec<EventAsk>,
        checkpoint: Option<&RawValue>,
    ) -> Outcome<Reported> {
        caller.require(Scope::JobsWork)?;
        let done = if events.iter().any(|event| event.kind == DELEGATE) {
            Box::pin(self.post_parts(ctx, caller, job_id, token, events, checkpoint)).await
        } else {
            let report = Report::with_checkpoint(job_id, token, events, checkpoint)?;
            self.hand_report(report.by(ctx, caller)).await
        };
        conceal(ctx, caller, job_id, done).await
    }

    async fn post_parts(
        &self,
        ctx: &Ctx,
        caller: &Caller,
        job_id: JobId,
        token: &str,
        events: Vec<EventAsk>,
        checkpoint: Option<&RawValue>,
    ) -> Outcome<Reported> {
        let _valid = Report::with_checkpoint(job_id, token, events.clone(), checkpoint)?;
        let mut reported = Reported::default();
        for part in parts(events)? {
            let next = match part {
                Part::Events(first, events) => {
                    let report = Report::of_events(job_id, token, events)?.by(ctx, caller);
                    let mut next = self.hand_report(report).await?;
                    for denied in &mut next.denied {
                        denied.index += first;
                    }
                    next
                }
                Part::Child(index, event, said) => {
                    Box::pin(delegate_by_event(ctx, job_id, token, index, event, *said)).await?
                }
            };
            reported = reported.then(next);
            if reported.is_over() {
                return Ok(reported);
            }
        }
        if checkpoint.is_some() {
            // After the events that it covers.
            let last = Report::with_checkpoint(job_id, token, Vec::new(), checkpoint)?;
            reported = reported.then(self.hand_report(last).await?);
        }
        Ok(reported)
    }
}

/// Requires that no event asks for a child, which is created in a transaction of its own.
pub(super) fn refuse_children(events: &[EventAsk]) -> Result<(), Refusal> {
    for (index, event) in events.iter().enumerate().filter(|(_, event)| event.kind == DELEGATE) {
        if delegations::asked(index, &event.body)?.is_some() {
            let message = format!(
                "The event at place {index} asks for a child job. Send it with `POST /jobs/{{job_id}}/delegate` before the turn."
            );
            return Err(Refusal::field(Code::InvalidRequest, "events", "delegate", message));
        }
    }
    Ok(())
}

/// Divides a request at the events that ask for children; checks these.
fn parts(events: Vec<EventAsk>) -> Result<Vec<Part>, Refusal> {
    let count = events.len();
    let mut parts = Vec::new();
    let mut plain: Vec<EventAsk> = Vec::new();
    for (index, event) in events.into_iter().enumerate() {
        let said = if event.kind == DELEGATE { delegations::asked(index, &event.body)? } else { None };
        let Some(said) = said else {
            plain.push(event);
            continue;
        };
        JobAsk::check(said.clone())?;
        if !plain.is_empty() {
            let before = std::mem::take(&mut plain);
            parts.push(Part::Events(index - before.len(), before));
        }
        parts.push(Part::Child(index, event, Box::new(said)));
    }
    if !plain.is_empty() {
        parts.push(Part::Events(count - plain.len(), plain));
    }
    Ok(parts)
}

async fn delegate_by_event(
    ctx: &Ctx,
    id: JobId,
    token: &str,
    index: usize,
    event: EventAsk,
    said: Submit,
) -> Outcome<Reported> {
    let delegate_id = said.delegate_id.clone().unwrap_or_default();
    let event = check(index, event)?;
    let (verdict, mut reported) = delegate_held(ctx, id, token, said, Some(&event)).await?;
    match verdict {
        Verdict::Made(child) => reported.children.push(Child { index, delegate_id, job_id: child.job_id }),
        Verdict::Refused(refusal) => {
            reported.denied.push(Denied { index, call_id: Some(delegate_id), refusal });
        }
        Verdict::Known => {}
    }
    Ok(reported)
}

/// Creates a child of a job, once per `delegate_id`.
///
/// # Errors
/// The claim is lost; the job may not delegate to that agent; the child would exceed the job's authority.
pub async fn delegate(ctx: &Ctx, caller: &Caller, id: JobId, token: &str, said: Submit) -> Outcome<Accepted> {
    caller.require(Scope::JobsWork)?;
    ctx.stops.objection(caller, &caller.agent, None).map_or(Ok(()), Err)?;
    let done = match delegate_held(ctx, id, token, said, None).await {
        Ok((Verdict::Made(child), _)) => Ok(*child),
        Ok((Verdict::Refused(refusal), _)) => Err(refusal.into()),
        Ok((Verdict::Known, _)) => Err(AppError::Inconsistent(format!("{id}: only an event can be known"))),
        Err(failure) => Err(failure),
    };
    conceal(ctx, caller, id, done).await
}

/// Creates a child; `event` is the `delegate` event that asks for it, if one does.
async fn delegate_held(
    ctx: &Ctx,
    id: JobId,
    token: &str,
    said: Submit,
    event: Option<&Checked>,
) -> Outcome<(Verdict, Reported)> {
    let Some(delegate_id) = said.delegate_id.clone() else {
        let message = "`delegate_id` is missing: the delegation's name, under which it is made once.";
        return Err(Refusal::field(Code::InvalidRequest, "delegate_id", "missing", message).into());
    };
    let said = Submit { parent_job_id: Some(id.to_string()), idempotency_key: None, ..said };
    let mut ask = JobAsk::check(said)?;
    let known = inventory::known(&mut *ctx.pool.acquire().await?, &[&ask.agent.name]).await?;
    let (mut tx, mut locked) = LockedJobs::begin(ctx, id).await?;
    let mut parent = locked.change(id)?;
    parent.job().hold(&token_digest(token), parent.now())?;
    // A child has its parent's intent.
    ask.intent_id = parent.job().intent_id;
    if let Some(before) = verdict_before(&mut tx, id, &delegate_id, event).await? {
        return Ok((before, told(&parent, Vec::new())));
    }
    let judged = if let Err(refusal) = may_delegate(&parent, &ask) {
        Err(AppError::from(refusal))
    } else {
        let principal = parent.job().principal.clone();
        let key = parent.job().key_id.zip(parent.job().owner.clone());
        let full = ctx.quotas.bar(key.as_ref().map_or(&principal, |key| &key.1));
        let owner = key.as_ref().map(|(_, owner)| owner.as_str());
        let wanted = Priority::of_new(ask.priority, Some(parent.job()));
        let max_priority = limits::max_priority(&mut *tx, Some(wanted), &principal, owner).await?;
        let (trace, origin, rerun) = (None, Origin::Parent, None);
        let submission = Submission { ask, principal, key, trace, origin, rerun, full, max_priority };
        accept(ctx, &mut tx, &mut locked, &known, &submission).await
    };
    let made = match judged {
        Ok(made) => Ok(made),
        // Refusals are recorded for the parent's followers; other errors are not.
        Err(AppError::Refused(refusal)) => {
            if let Some(event) = event {
                event.append(&mut parent);
            }
            parent.refuse(Some(&delegate_id), &refusal)?;
            Err(refusal)
        }
        Err(failure) => return Err(failure),
    };
    if let Ok(made) = &made {
        insert(ctx, &mut tx, &mut parent, made).await?;
    }
    let reported = told(&parent, Vec::new());
    locked.apply(parent);
    locked.conclude(ctx, tx).await?;
    let made = match made {
        Ok(made) => made,
        Err(refusal) => return Ok((Verdict::Refused(refusal), reported)),
    };
    if made.preparing {
        let by = Delegation { parent: id, token: token_digest(token) };
        return match (provide(ctx, made.job, Some(by)).await, event) {
            (Ok(child), _) => Ok((Verdict::made(&child.job), reported)),
            (Err(AppError::Refused(refusal)), Some(event)) if is_final(&refusal) => {
                refuse_late(ctx, id, token, &delegate_id, event, refusal).await
            }
            (Err(failure), _) => Err(failure),
        };
    }
    ctx.feed.wake(WakeKey::Work(made.job.agent.clone()));
    Ok((Verdict::made(&made.job), reported))
}

/// Whether a refusal while a child got its credentials is about the child: not about the claim, and not passing.
fn is_final(refusal: &Refusal) -> bool {
    !matches!(refusal.code, Code::ClaimLost | Code::Unavailable)
}

/// Records the refusal of a child that an event asked for and that was prepared already, as [`delegate_held`] records
/// an earlier one: the events after it are not lost with it.
async fn refuse_late(
    ctx: &Ctx,
    id: JobId,
    token: &str,
    delegate_id: &str,
    event: &Checked,
    refusal: Refusal,
) -> Outcome<(Verdict, Reported)> {
    let (mut tx, mut locked) = LockedJobs::begin(ctx, id).await?;
    let mut parent = locked.change(id)?;
    parent.job().hold(&token_digest(token), parent.now())?;
    // The same request may have been repeated meanwhile.
    if let Some(before) = verdict_before(&mut tx, id, delegate_id, Some(event)).await? {
        return Ok((before, told(&parent, Vec::new())));
    }
    event.append(&mut parent);
    parent.refuse(Some(delegate_id), &refusal)?;
    let reported = told(&parent, Vec::new());
    locked.apply(parent);
    locked.conclude(ctx, tx).await?;
    Ok((Verdict::Refused(refusal), reported))
}

/// Returns the outcome of the same delegation before: by its name, or as the same event.
async fn verdict_before(
    conn: &mut PgConnection,
    id: JobId,
    delegate_id: &str,
    event: Option<&Checked>,
) -> Outcome<Option<Verdict>> {
    if rows::child_preparing(conn, id, delegate_id).await? {
        return Err(being_prepared().into());
    }
    if let Some(child) = rows::child_named(conn, id, delegate_id).await? {
        return Ok(Some(Verdict::made(&child)));
    }
    let Some(key) = event.and_then(|event| event.event_key.clone()) else { return Ok(None) };
    let known = log::known(conn, &[(id, key)]).await?;
    Ok((!known.is_empty()).then_some(Verdict::Known))
}

/// Judges whether a job may delegate to the agent of a child.
fn may_delegate(parent: &JobChange, ask: &JobAsk) -> Result<(), Refusal> {
    let target = ask.agent.to_string();
    let whole = parent.job().lease.covers("agent.delegate", &target);
    parent.may("agent.delegate", if whole { &target } else { &ask.agent.name })
}

/// Inserts a child, and the parent's event on it.
async fn insert(ctx: &Ctx, conn: &mut PgConnection, parent: &mut JobChange, made: &Fresh) -> Outcome<()> {
    if made.preparing {
        credentials::prepare(ctx, conn, &made.job).await?;
    } else {
        parent.say(DELEGATE, &delegate_event(&made.job));
    }
    writes::insert(conn, std::slice::from_ref(made)).await?;
    records::insert(conn, &[(&made.job, &made.extra)]).await?;
    let budget = Budget::of(&made.job.lease)?;
    budgets::insert(conn, &[(made.job.id, &budget)]).await
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
