//! Ends: the agent takes its question back, or says that it has the answer; what a question was for has ended. The end of an
//! intent withdraws its questions in its own transaction, under the lock of the same line. The end of a job does not: a job
//! that works for no intent ends under no line's lock, and taking the house's for it would have all jobs' ends wait for each
//! other. Such a question is withdrawn for everybody who reads it the instant the job is over (`passed`), and the sweep writes
//! that down (`time.rs`).

use std::collections::BTreeMap;

use entente_domain::events::{Draft, Kind};
use entente_domain::ids::{JobId, MomentId};
use entente_domain::keys::Scope;
use entente_domain::moments::MomentState;
use entente_runtime::metrics::MomentLabels;
use serde_json::json;
use sqlx::PgConnection;

use super::rows::{self, Kept, select};
use super::turn::resume;
use super::{Shown, Turn, described, due_at, kind_of_end, passed, words};
use crate::feed::Touch;
use crate::lines::Line;
use crate::{Caller, Ctx, Outcome, jobs};

/// Takes a question back. One that was refused cannot be: that would be a way around the objection. Again is the same, as after
/// a reply that was lost.
///
/// # Errors
/// It is not the caller's question; it no longer waits for an answer.
pub async fn withdraw(ctx: &Ctx, caller: &Caller, id: MomentId, reason: Option<String>) -> Outcome<Shown> {
    caller.require(Scope::MomentsWrite)?;
    let (mut turn, mut kept) = Turn::take(ctx, caller, id, None).await?;
    if kept.moment.state == MomentState::Withdrawn && kept.moment.agent_id == caller.agent {
        return turn.shown(ctx, caller, kept).await;
    }
    kept.moment = kept.moment.withdraw(&caller.agent, reason, turn.now)?;
    let reason = json!({ "reason": "withdrawn" });
    turn.end(ctx, &mut kept, Kind::MomentWithdrawn, &caller.agent, &reason, None).await?;
    turn.shown(ctx, caller, kept).await
}

/// The agent has the answer, or knows of the end: from now on the contents are kept only for as long as the operator says.
/// Again is the same.
///
/// # Errors
/// It is not the caller's question; there is nothing to acknowledge yet.
pub async fn acknowledge(ctx: &Ctx, caller: &Caller, id: MomentId) -> Outcome<Shown> {
    caller.require(Scope::MomentsWrite)?;
    let (mut turn, mut kept) = Turn::take(ctx, caller, id, None).await?;
    if let Some(moment) = kept.moment.acknowledge(&caller.agent, turn.now)? {
        kept.moment = moment;
        turn.record(ctx, Kind::MomentAcknowledged, &caller.agent, &kept.moment, &json!({}))?;
        if !turn.scrub(ctx, &mut kept, &caller.agent).await? {
            turn.save(ctx, &mut kept).await?;
        }
    }
    turn.shown(ctx, caller, kept).await
}

impl Turn {
    /// Takes the contents out of a moment, if they have been kept for long enough; whether it did.
    pub(super) async fn scrub(&mut self, ctx: &Ctx, kept: &mut Kept, actor: &str) -> Outcome<bool> {
        let due = due_at(&kept.moment, &ctx.settings.moments).is_some_and(|due| due <= self.now);
        let Some(moment) = Some(&kept.moment).filter(|_| due).and_then(|moment| moment.scrub(self.now))
        else {
            return Ok(false);
        };
        kept.moment = moment;
        // What was remarked about words goes with them; code and place stay.
        kept.lints.iter_mut().for_each(|lint| lint.note.clear());
        self.record(ctx, Kind::MomentScrubbed, actor, &kept.moment, &json!({}))?;
        self.save(ctx, kept).await?;
        words::scrub(&mut self.tx, kept.moment.id).await?;
        Ok(true)
    }
}

/// Moments that were withdrawn with what they were for, to be told of once that is committed.
pub(crate) struct Ended {
    jobs: jobs::Waiting,
    touches: Vec<Touch>,
}

impl Ended {
    /// Wakes whoever waits for them.
    pub fn announce(&self, ctx: &Ctx) {
        self.jobs.announce(ctx);
        self.touches.iter().for_each(|touch| ctx.feed.ring(touch.clone()));
    }
}

/// Withdraws the questions of the line's intent, which has just ended. Refused ones stay: an objection outlives the intent. One
/// whose place such a question had taken may be on another line, which is not locked here: it is deliberated again for
/// everybody who reads it at once (`seen`), and the sweep writes that down.
pub(crate) async fn end_of_intent(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    actor: &str,
) -> Outcome<Ended> {
    let rows = select!(
        "moments::of_intent",
        "WHERE m.intent_id = $1 AND m.state IN ('open', 'deliberating') ORDER BY m.id",
        line.intent_id.uuid()
    )
    .fetch_all(&mut *conn)
    .await?;
    withdraw_all(conn, ctx, line, actor, rows, "intent_ended").await
}

/// Withdraws the question that the line's intent waits with (RFC-0025), because somebody gave the intent another status.
pub(crate) async fn end_of_suspension(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    actor: &str,
    id: MomentId,
) -> Outcome<Ended> {
    let rows = select!("moments::of_suspension", "WHERE m.id = $1", id.uuid()).fetch_all(&mut *conn).await?;
    withdraw_all(conn, ctx, line, actor, rows, "suspension_ended").await
}

/// Withdraws these questions of the line's intent.
async fn withdraw_all(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    actor: &str,
    rows: Vec<rows::Row>,
    why: &str,
) -> Outcome<Ended> {
    let now = line.now();
    let mut ended = Vec::new();
    for row in rows {
        let mut kept = Kept::try_from(row)?;
        let moment = passed(&kept, now).or_else(|| kept.moment.lose_cause(why, now));
        if let Some(moment) = moment {
            kept.moment = moment;
            ended.push(kept);
        }
    }
    // First all jobs' rows, in the order of their ids, then the clock of changes (`Turn`).
    let waited = ended.iter().map(|kept| &kept.moment).filter(|moment| moment.digest.is_some());
    let answered: BTreeMap<JobId, MomentId> =
        waited.filter_map(|moment| Some((moment.job_id?, moment.id))).collect();
    let ids: Vec<JobId> = answered.keys().copied().collect();
    let mut jobs = jobs::Waiting::take(conn, &ids, now).await?;
    let mut touches = Vec::new();
    for kept in &mut ended {
        rows::update(conn, kept, due_at(&kept.moment, &ctx.settings.moments)).await?;
        let moment = &kept.moment;
        let reason = json!({ "reason": moment.end_reason });
        let kind = kind_of_end(moment);
        ctx.metrics.moments.get_or_create(&MomentLabels { event: kind.wire() }).inc();
        line.record(ctx, Draft::of(kind, actor, described(moment, &reason)));
        let second = moment.escalation.as_ref().map(|one| Touch::Inbox(one.to.clone()));
        touches.extend([Touch::Moment(moment.id), Touch::Inbox(moment.agent_id.clone())]);
        touches.extend(second.into_iter().chain([Touch::Inbox(moment.principal_id.clone())]));
    }
    resume(conn, &mut jobs, &answered).await?;
    jobs.save(ctx, conn).await?;
    Ok(Ended { jobs, touches })
}
