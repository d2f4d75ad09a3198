//! Earlier questions of an agent that matter for a new one: refused ones and waiting ones. Read under the
//! lock of agent and person (`tx.rs`).

use entente_domain::ids::{IntentId, JobId};
use entente_domain::moments::{self as domain, Brief, Moment, MomentAsk, MomentState, Vetoed};
use entente_kernel::Outcome;

use super::rows::{StoredMoment, select};
use super::{MomentTx, seen};

/// Judges a question against the agent's refused ones.
pub(super) async fn judged(
    work: &mut MomentTx,
    brief: &Brief,
    ask: &MomentAsk,
) -> Outcome<Vec<domain::Lint>> {
    let asked: Vec<&str> = [Some(&ask.principal_id), ask.escalate_to.as_ref()]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let found = select!(
        "moments::unsettled",
        "WHERE m.resolution_kind = 'dialogue' AND m.veto_settled_at IS NULL AND m.agent_id = $1
           AND (m.principal_id = ANY($2) OR m.resolved_by = ANY($2)) ORDER BY m.id",
        ask.agent_id,
        &asked as &[&str]
    )
    .fetch_all(&mut *work.tx)
    .await?;
    let mut found = found.into_iter().map(StoredMoment::try_from).collect::<Outcome<Vec<StoredMoment>>>()?;
    for kept in &mut found {
        kept.moment = seen(kept, work.now).unwrap_or_else(|| kept.moment.clone());
    }
    let vetoes: Vec<Vetoed<'_>> = found.iter().filter_map(|kept| vetoed(&kept.moment)).collect();
    Ok(domain::judge(brief, ask.supersedes, ask.objection_response.as_deref(), &vetoes)?)
}

/// The agent's questions about the same job and intent that wait for the person asked.
pub(super) async fn waiting(work: &mut MomentTx, ask: &MomentAsk) -> Outcome<Vec<Moment>> {
    let found = select!(
        "moments::asked_already",
        "WHERE m.state = 'open' AND m.agent_id = $1
           AND (m.principal_id = $2 OR (m.escalated_at IS NOT NULL AND m.escalate_to = $2))
           AND m.job_id IS NOT DISTINCT FROM $3 AND m.intent_id IS NOT DISTINCT FROM $4 ORDER BY m.id",
        ask.agent_id,
        ask.principal_id,
        ask.job_id.map(JobId::uuid),
        ask.intent_id.map(IntentId::uuid)
    )
    .fetch_all(&mut *work.tx)
    .await?;
    let found = found.into_iter().map(StoredMoment::try_from).collect::<Outcome<Vec<StoredMoment>>>()?;
    // Apply due ends, written or not: an ended question waits for no answer.
    let now = work.now;
    let current = found.into_iter().map(|kept| seen(&kept, now).unwrap_or(kept.moment));
    Ok(current.filter(|moment| moment.state == MomentState::Open).collect())
}

fn vetoed(moment: &Moment) -> Option<Vetoed<'_>> {
    Some(Vetoed {
        id: moment.id,
        brief: moment.brief.as_ref(),
        digest: moment.digest.as_deref()?,
        deliberated: moment.deliberated_at.is_some(),
        superseded: moment.state == MomentState::Superseded,
    })
}
