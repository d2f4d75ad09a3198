//! Ends of moments: the agent withdraws or acknowledges its question, or the question's job or intent ends.
//! The end of an intent withdraws its questions in its own transaction, under the same lock. The end of a job
//! does not: a job without an intent ends under no log's lock, and taking that of the system log would
//! serialise all jobs' ends. Readers see such a question withdrawn as soon as the job is over (`passed`), and
//! the sweep records it (`time.rs`).

use std::collections::BTreeMap;

use entente_domain::identity::keys::Scope;
use entente_domain::ids::{JobId, MomentId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::moments::MomentState;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{Caller, Outcome};
use entente_runtime::metrics::MomentLabels;
use serde_json::json;
use sqlx::PgConnection;

use super::rows::{self, StoredMoment, select};
use super::tx::resume;
use super::{MomentTx, MomentView, due_at, event_payload, kind_of_end, passed, words};
use crate::Ctx;
use crate::jobs::WaitingJobs;

/// Withdraws a question; repeating it, as after a lost reply, changes nothing.
///
/// A refused question cannot be withdrawn, which would evade the objection.
///
/// # Errors
/// The question is not the caller's; it no longer waits for an answer.
pub async fn withdraw(
    ctx: &Ctx,
    caller: &Caller,
    id: MomentId,
    reason: Option<String>,
) -> Outcome<MomentView> {
    caller.require(Scope::MomentsWrite)?;
    let (mut work, mut kept) = MomentTx::take(ctx, caller, id, None).await?;
    if kept.moment.state == MomentState::Withdrawn && kept.moment.agent_id == caller.agent {
        return work.shown(ctx, caller, kept).await;
    }
    kept.moment = kept.moment.withdraw(&caller.agent, reason, work.now)?;
    let reason = json!({ "reason": "withdrawn" });
    work.end(ctx, &mut kept, Kind::MomentWithdrawn, &caller.agent, &reason, None).await?;
    work.shown(ctx, caller, kept).await
}

/// Acknowledges the answer or end of a question; repeating it changes nothing.
///
/// From then on the contents are kept only for the configured time.
///
/// # Errors
/// The question is not the caller's; there is nothing to acknowledge yet.
pub async fn acknowledge(ctx: &Ctx, caller: &Caller, id: MomentId) -> Outcome<MomentView> {
    caller.require(Scope::MomentsWrite)?;
    let (mut work, mut kept) = MomentTx::take(ctx, caller, id, None).await?;
    if let Some(moment) = kept.moment.acknowledge(&caller.agent, work.now)? {
        kept.moment = moment;
        work.record(ctx, Kind::MomentAcknowledged, &caller.agent, &kept.moment, &json!({}))?;
        if !work.scrub(ctx, &mut kept, &caller.agent).await? {
            work.save(ctx, &mut kept).await?;
        }
    }
    work.shown(ctx, caller, kept).await
}

impl MomentTx {
    /// Removes the contents of a moment if their retention is over; returns whether it did.
    pub(super) async fn scrub(&mut self, ctx: &Ctx, kept: &mut StoredMoment, actor: &str) -> Outcome<bool> {
        let due = due_at(&kept.moment, &ctx.state.settings).is_some_and(|due| due <= self.now);
        let Some(moment) = Some(&kept.moment).filter(|_| due).and_then(|moment| moment.scrub(self.now))
        else {
            return Ok(false);
        };
        kept.moment = moment;
        // The notes quote the question and are removed with it; code and place stay.
        kept.lints.iter_mut().for_each(|lint| lint.note.clear());
        self.record(ctx, Kind::MomentScrubbed, actor, &kept.moment, &json!({}))?;
        self.save(ctx, kept).await?;
        words::scrub(&mut self.tx, kept.moment.id).await?;
        Ok(true)
    }
}

/// Moments withdrawn with their intent, to be announced after the commit.
pub(crate) struct Ended {
    jobs: Box<dyn WaitingJobs>,
    touches: Vec<WakeKey>,
}

impl Ended {
    /// Wakes their waiters.
    pub fn announce(&self, ctx: &entente_kernel::Ctx) {
        self.jobs.announce(ctx);
        self.touches.iter().for_each(|touch| ctx.feed.wake(touch.clone()));
    }
}

/// Withdraws the questions of an intent that has just ended.
///
/// Refused questions stay, because an objection outlives the intent. A refused one that such a question
/// superseded may be in another log, which is not locked here: readers see it restored at once (`seen`), and
/// the sweep records it.
pub(crate) async fn end_of_intent(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    actor: &str,
) -> Outcome<Ended> {
    let rows = select!(
        "moments::of_intent",
        "WHERE m.intent_id = $1 AND m.state IN ('open', 'deliberating') ORDER BY m.id",
        log.intent_id.uuid()
    )
    .fetch_all(&mut *conn)
    .await?;
    withdraw_all(conn, ctx, log, actor, rows, "intent_ended").await
}

/// Withdraws the question that a suspended intent waits for (RFC-0025), after a change of the intent's
/// status.
pub(crate) async fn end_of_suspension(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    actor: &str,
    id: MomentId,
) -> Outcome<Ended> {
    let rows = select!("moments::of_suspension", "WHERE m.id = $1", id.uuid()).fetch_all(&mut *conn).await?;
    withdraw_all(conn, ctx, log, actor, rows, "suspension_ended").await
}

/// Withdraws these questions of the intent.
async fn withdraw_all(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    actor: &str,
    rows: Vec<rows::Row>,
    why: &str,
) -> Outcome<Ended> {
    let now = log.now();
    let mut ended = Vec::new();
    for row in rows {
        let mut kept = StoredMoment::try_from(row)?;
        let moment = passed(&kept, now).or_else(|| kept.moment.lose_cause(why, now));
        if let Some(moment) = moment {
            kept.moment = moment;
            ended.push(kept);
        }
    }
    // Lock all jobs first, in the order of their ids, then the clock of changes (`MomentTx`).
    let waited = ended.iter().map(|kept| &kept.moment).filter(|moment| moment.digest.is_some());
    let answered: BTreeMap<JobId, MomentId> =
        waited.filter_map(|moment| Some((moment.job_id?, moment.id))).collect();
    let ids: Vec<JobId> = answered.keys().copied().collect();
    let mut jobs = ctx.state.jobs.lock(conn, &ids, now).await?;
    let mut touches = Vec::new();
    for kept in &mut ended {
        rows::update(conn, kept, due_at(&kept.moment, &ctx.state.settings)).await?;
        let moment = &kept.moment;
        let reason = json!({ "reason": moment.end_reason });
        let kind = kind_of_end(moment);
        ctx.metrics.moments.get_or_create(&MomentLabels { event: kind.wire() }).inc();
        log.record(ctx, Draft::of(kind, actor, event_payload(moment, &reason)));
        let second = moment.escalation.as_ref().map(|one| WakeKey::Inbox(one.to.clone()));
        touches.extend([WakeKey::Moment(moment.id), WakeKey::Inbox(moment.agent_id.clone())]);
        touches.extend(second.into_iter().chain([WakeKey::Inbox(moment.principal_id.clone())]));
    }
    resume(conn, &mut *jobs, &answered).await?;
    jobs.save(ctx, conn).await?;
    Ok(Ended { jobs, touches })
}
