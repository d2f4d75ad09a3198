//! The person's side: answering, closing a deliberation, seeing. Only the person who is asked may, with a key of its own: no
//! agent, no service, no admin, whatever their keys act as (binding moment §11.4). The law says so; here is who asks.

use entente_core::events::Kind;
use entente_core::idempotency::Idempotency;
use entente_core::ids::MomentId;
use entente_core::keys::Scope;
use entente_core::moments::{Answered, Circumstances, MomentState, Resolution, ResolutionKind};
use serde_json::json;

use super::rows::{self, Around, Kept};
use super::{Shown, Turn, decider};
use crate::app::{Caller, Ctx, Outcome, idempotency};

/// What the law is told of a moment's job and intent.
pub(super) fn circumstances(around: &Around) -> Circumstances<'_> {
    Circumstances { job_status: around.job_status.as_deref(), intent_status: around.intent_status.as_deref() }
}

/// Answers a question whose digest the person saw: with an option, in its own words, or by refusing the question. Exactly one
/// answer counts; the same one again by the same person is a retry.
///
/// # Errors
/// The caller is not the person who is asked; somebody has answered; the question is another, has lapsed, or was for a state
/// of things that is no longer so.
pub async fn resolve(
    ctx: &Ctx,
    caller: &Caller,
    id: MomentId,
    digest: &str,
    resolution: Resolution,
    once: Option<&Idempotency>,
) -> Outcome<Shown> {
    caller.require(Scope::MomentsWrite)?;
    let (mut turn, mut kept) = Turn::take(ctx, caller, id, once).await?;
    let decider = decider(caller);
    kept.moment.may_decide(&decider, turn.now)?;
    if idempotency::find::<MomentId>(&mut turn.tx, caller, once).await?.is_some() {
        return again(ctx, caller, turn, kept, &resolution).await;
    }
    let kind = resolution.kind();
    let answered =
        kept.moment.resolve(&decider, digest, resolution, circumstances(&kept.around), turn.now)?;
    kept.moment = match answered {
        Answered::First(moment) => moment,
        Answered::Again(_) => return turn.shown(ctx, caller, kept).await,
    };
    let (event, settled) = (kind_of(kind), kept.moment.resolution.as_ref());
    let told = json!({
        "kind": kind, "option_idx": settled.and_then(|one| one.option_idx), "resolved_by": caller.principal(),
        "resolved_via": decider.via, "key_id": decider.key_id,
    });
    turn.record(ctx, event, caller.principal(), &kept.moment, &told);
    turn.tell_job(ctx, &kept.moment, false).await?;
    turn.save(ctx, &mut kept).await?;
    if kind != ResolutionKind::Dialogue {
        turn.settle(ctx, id).await?;
    }
    idempotency::keep(&mut turn.tx, caller, once, &id, turn.now).await?;
    turn.shown(ctx, caller, kept).await
}

fn kind_of(kind: ResolutionKind) -> Kind {
    if kind == ResolutionKind::Dialogue { Kind::MomentVetoed } else { Kind::MomentResolved }
}

impl Turn {
    /// The objections to what this moment has taken the place of are settled, back to the first.
    async fn settle(&mut self, ctx: &Ctx, id: MomentId) -> Outcome<()> {
        for mut before in rows::before(&mut self.tx, id).await? {
            if let Some(settled) = before.moment.settle_veto(self.now) {
                before.moment = settled;
                self.save(ctx, &mut before).await?;
            }
        }
        Ok(())
    }
}

/// A retry under a key: the first answer, as long as it is the same one, or that can no longer be told.
async fn again(
    ctx: &Ctx,
    caller: &Caller,
    turn: Turn,
    kept: Kept,
    resolution: &Resolution,
) -> Outcome<Shown> {
    let same = kept.moment.scrubbed_at.is_some() || kept.moment.is_retry(&decider(caller), resolution);
    if same { turn.shown(ctx, caller, kept).await } else { Err(Idempotency::mismatch().into()) }
}

/// Ends a deliberation, and with it what the refusal keeps the agent from. Again is the same, as after a reply that was lost.
///
/// # Errors
/// The caller is not the person who is asked; the question waits for its answer, or is over.
pub async fn close(ctx: &Ctx, caller: &Caller, id: MomentId, reason: Option<String>) -> Outcome<Shown> {
    caller.require(Scope::MomentsWrite)?;
    let (mut turn, mut kept) = Turn::take(ctx, caller, id, None).await?;
    kept.moment.may_decide(&decider(caller), turn.now)?;
    if kept.moment.state == MomentState::Closed {
        return turn.shown(ctx, caller, kept).await;
    }
    kept.moment = kept.moment.close(&decider(caller), reason, turn.now)?;
    turn.record(ctx, Kind::MomentClosed, caller.principal(), &kept.moment, &json!({}));
    turn.save(ctx, &mut kept).await?;
    turn.settle(ctx, id).await?;
    turn.shown(ctx, caller, kept).await
}

/// Notes that the person has the question before its eyes. Again, and by anybody else who may see it, changes nothing.
///
/// # Errors
/// It is not the caller's to see.
pub async fn view(ctx: &Ctx, caller: &Caller, id: MomentId) -> Outcome<Shown> {
    caller.require(Scope::MomentsRead)?;
    let (mut turn, mut kept) = Turn::take(ctx, caller, id, None).await?;
    if let Some(moment) = kept.moment.view(&decider(caller), turn.now) {
        kept.moment = moment;
        turn.save(ctx, &mut kept).await?;
    }
    turn.shown(ctx, caller, kept).await
}
