//! The person's operations: answering, closing a deliberation, viewing. Only the person asked may, with a key
//! of their own: no agent, service or admin, whatever their keys act as (binding moment §11.4). The domain
//! rules decide this; here the caller is identified.

use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::MomentId;
use entente_domain::log::events::Kind;
use entente_domain::moments::{
    Answered, Circumstances, Moment, MomentState, Resolution, ResolutionKind, is_same,
};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, Outcome, idempotency, not_found};
use serde_json::json;
use sqlx::PgConnection;

use super::rows::{self, RelatedState, StoredMoment, select};
use super::{LockSet, MomentTx, MomentView, decider, get, role};
use crate::Ctx;

/// Attempts of a refusal, which starts over when the same question is asked meanwhile.
const TRIES: usize = 4;

/// State of a moment's job and intent for the domain rules.
pub(super) fn circumstances(related: &RelatedState) -> Circumstances<'_> {
    Circumstances {
        job_status: related.job_status.as_deref(),
        intent_status: related.intent_status.as_deref(),
    }
}

/// Answers a question whose digest the person saw: with an option, in free text, or by refusing the question.
///
/// Exactly one answer counts; the same answer again by the same person is a retry.
///
/// # Errors
/// The caller is not the person asked; the question is already answered, is a different one, has expired, or
/// was asked for a state of the job or intent that has changed.
pub async fn resolve(
    ctx: &Ctx,
    caller: &Caller,
    id: MomentId,
    digest: &str,
    resolution: Resolution,
    once: Option<&Idempotency>,
) -> Outcome<MomentView> {
    caller.require(Scope::MomentsWrite)?;
    let (mut work, mut kept, same) = if resolution.kind() == ResolutionKind::Dialogue {
        take_same(ctx, caller, id, once).await?
    } else {
        let (work, kept) = MomentTx::take(ctx, caller, id, once).await?;
        (work, kept, Vec::new())
    };
    let decider = decider(caller);
    kept.moment.may_decide(&decider, work.now)?;
    if idempotency::find::<MomentId>(&mut work.tx, caller, once).await?.is_some() {
        return again(ctx, caller, work, kept, &resolution).await;
    }
    if !answer(ctx, caller, &mut work, &mut kept, Some(digest), resolution).await? {
        return work.shown(ctx, caller, kept).await;
    }
    let by = caller.principal();
    for mut other in same {
        let Some(moment) = other.moment.lose_cause("same_question_refused", work.now) else { continue };
        other.moment = moment;
        let why = json!({ "reason": other.moment.end_reason, "refused": id });
        work.end(ctx, &mut other, Kind::MomentWithdrawn, by, &why, None).await?;
    }
    idempotency::keep(&mut work.tx, caller, once, &id, work.now).await?;
    work.shown(ctx, caller, kept).await
}

/// Answers a locked question as the person asked; returns whether this was the first answer.
///
/// Without a digest, the current question is answered: a person answering an intent has read it there
/// (RFC-0025).
///
/// # Errors
/// The caller may not decide; the question is not open or has changed; the answer does not fit it.
pub async fn answer(
    ctx: &Ctx,
    caller: &Caller,
    work: &mut MomentTx,
    kept: &mut StoredMoment,
    digest: Option<&str>,
    resolution: Resolution,
) -> Outcome<bool> {
    let (decider, kind) = (decider(caller), resolution.kind());
    let digest = digest.or(kept.moment.digest.as_deref()).unwrap_or_default().to_owned();
    let answered =
        kept.moment.resolve(&decider, &digest, resolution, circumstances(&kept.related), work.now)?;
    kept.moment = match answered {
        Answered::First(moment) => moment,
        Answered::Again(_) => return Ok(false),
    };
    let (event, settled) = (kind_of(kind), kept.moment.resolution.as_ref());
    let told = json!({
        "kind": kind, "option_idx": settled.and_then(|one| one.option_idx), "resolved_by": caller.principal(),
        "resolved_via": decider.via, "key_id": decider.key_id, "authority": decider.authority,
    });
    let by = caller.principal();
    work.end(ctx, kept, event, by, &told, Some(by)).await?;
    Ok(true)
}

fn kind_of(kind: ResolutionKind) -> Kind {
    if kind == ResolutionKind::Dialogue { Kind::MomentVetoed } else { Kind::MomentResolved }
}

/// Locks a question that is to be refused, with its open duplicates for the same person.
///
/// Otherwise asking twice beforehand would evade the objection. The lock of agent and person prevents further
/// duplicates; one asked while the locks were taken is found under them, and the attempt starts over.
async fn take_same(
    ctx: &Ctx,
    caller: &Caller,
    id: MomentId,
    once: Option<&Idempotency>,
) -> Outcome<(MomentTx, StoredMoment, Vec<StoredMoment>)> {
    for _ in 0..TRIES {
        let mut conn = ctx.pool.acquire().await?;
        let found = rows::load(&mut conn, id).await?.ok_or_else(|| not_found("moment"))?;
        role(caller, &found.moment, ctx.now()).ok_or_else(|| not_found("moment"))?;
        let mut locks_needed = LockSet::of(&mut conn, &found).await?;
        for other in same(&mut conn, &found.moment, caller.principal()).await? {
            locks_needed.include(&mut conn, &other).await?;
        }
        drop(conn);
        locks_needed.once(caller, once);
        let mut work = MomentTx::begin(ctx, caller.trace, locks_needed).await?;
        let kept = work.current(ctx, id).await?.ok_or_else(|| not_found("moment"))?;
        let same = same(&mut work.tx, &kept.moment, caller.principal()).await?;
        if same.iter().all(|other| work.reaches(&other.moment)) {
            return Ok((work, kept, same));
        }
    }
    let message = "The agent asks faster than this can be refused. Nothing was changed; try again.";
    Err(Refusal::new(Code::Unavailable, message).into())
}

/// The agent's other open questions that repeat this one, to the original addressee or to the person
/// answering.
///
/// The second line of the condition follows from the first: it is that of the partial indexes `moments_waiting…`.
async fn same(conn: &mut PgConnection, moment: &Moment, by: &str) -> Outcome<Vec<StoredMoment>> {
    let rows = select!(
        "moments::same",
        "WHERE m.agent_id = $1 AND (m.principal_id = ANY($2) OR m.escalate_to = ANY($2)) AND m.state = 'open'
           AND (m.state IN ('open', 'deliberating') OR m.resolution_kind = 'dialogue' AND m.veto_settled_at IS NULL)
           AND m.id <> $3 ORDER BY m.id",
        moment.agent_id,
        &[moment.principal_id.as_str(), by] as &[&str],
        moment.id.uuid()
    )
    .fetch_all(conn)
    .await?;
    let others = rows.into_iter().map(StoredMoment::try_from).collect::<Outcome<Vec<StoredMoment>>>()?;
    Ok(others.into_iter().filter(|other| is_same(moment, &other.moment)).collect())
}

/// A retry under a key: returns the first answer if it is the same one, or can no longer be compared.
async fn again(
    ctx: &Ctx,
    caller: &Caller,
    work: MomentTx,
    kept: StoredMoment,
    resolution: &Resolution,
) -> Outcome<MomentView> {
    let same = kept.moment.scrubbed_at.is_some() || kept.moment.is_retry(&decider(caller), resolution);
    if same { work.shown(ctx, caller, kept).await } else { Err(Idempotency::mismatch().into()) }
}

/// Ends a deliberation and lifts the block set by the refusal; repeating it, as after a lost reply, changes
/// nothing.
///
/// # Errors
/// The caller is not the person asked; the question still waits for its answer, or is over.
pub async fn close(ctx: &Ctx, caller: &Caller, id: MomentId, reason: Option<String>) -> Outcome<MomentView> {
    caller.require(Scope::MomentsWrite)?;
    let (mut work, mut kept) = MomentTx::take(ctx, caller, id, None).await?;
    kept.moment.may_decide(&decider(caller), work.now)?;
    if kept.moment.state == MomentState::Closed {
        return work.shown(ctx, caller, kept).await;
    }
    kept.moment = kept.moment.close(&decider(caller), reason, work.now)?;
    let by = caller.principal();
    work.end(ctx, &mut kept, Kind::MomentClosed, by, &json!({}), Some(by)).await?;
    work.shown(ctx, caller, kept).await
}

/// Records that the person has seen the question; no effect when repeated, or for other callers that may see
/// it.
///
/// # Errors
/// The caller may not see the moment.
pub async fn view(ctx: &Ctx, caller: &Caller, id: MomentId) -> Outcome<MomentView> {
    // Most views are not the first and need no lock.
    let found = get(ctx, caller, id).await?;
    if found.moment.view(&decider(caller), ctx.now()).is_none() {
        return Ok(found);
    }
    let (mut work, mut kept) = MomentTx::take(ctx, caller, id, None).await?;
    if let Some(moment) = kept.moment.view(&decider(caller), work.now) {
        kept.moment = moment;
        work.record(ctx, Kind::MomentSeen, caller.principal(), &kept.moment, &json!({}))?;
        work.save(ctx, &mut kept).await?;
    }
    work.shown(ctx, caller, kept).await
}
