//! Answers to the question that an intent waits with. Only a person answers, with a login or an API key of its own,
//! and never the asker. The addressee answers and thereby closes the moment. If nobody could be asked, or if the
//! moment lapsed before the question, the person named by the operator or a person with admin access to the intent
//! answers.

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::moments::MomentState;
use entente_domain::openintent::suspensions::{End, Suspension, SuspensionState};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::membership;
use entente_kernel::hooks::Given;
use entente_kernel::intents;
use entente_kernel::{Caller, Outcome, idempotency, not_found};
use entente_moments as moments;
use entente_moments::{LockSet, MomentTx};
use entente_openintent::suspensions as ends;
use entente_openintent::suspensions::rows;
use serde_json::{Map, Value};
use sqlx::PgConnection;

use crate::Ctx;

/// An answer to a question.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Id of the question.
    pub suspension_id: String,
    /// The answer.
    pub value: Value,
    /// Other data of its client.
    pub metadata: Option<Map<String, Value>>,
    /// Digest of the moment, if the client has read it.
    pub digest: Option<String>,
}

/// An accepted answer.
#[derive(Debug, Clone)]
pub struct Responded {
    /// The answered question.
    pub suspension: Suspension,
    /// The answer.
    pub value: Value,
    /// Label and description of the chosen option.
    pub choice: Option<(String, String)>,
    /// Time of the answer.
    pub at: Timestamp,
}

/// Answers the question that an intent waits with; the caller acts as the answering person.
///
/// The same answer by the same person again is a retry.
///
/// # Errors
/// Fails if the intent does not exist or is not visible to the caller, if it does not, or no longer, wait with this
/// question, if the value is not a valid answer, or if another person is asked.
pub async fn respond(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    answer: Answer,
    once: Option<&Idempotency>,
) -> Outcome<Responded> {
    caller.require(Scope::MomentsWrite)?;
    let mut conn = ctx.pool.acquire().await?;
    let found = rows::load(&mut conn, intent_id, &answer.suspension_id).await?;
    let moment = match found.as_ref().and_then(|one| one.moment_id) {
        Some(id) => moments::load(&mut conn, id).await?,
        None => None,
    };
    let addressed = |kept: &moments::StoredMoment| {
        caller.is_itself() && kept.moment.is_addressed_to(&caller.agent, ctx.now())
    };
    // An addressee, or the person named for all questions, may see this one on any intent.
    let is_addressed = moment.as_ref().is_some_and(addressed) || is_named(ctx, caller);
    if !is_addressed {
        membership::require(&mut conn, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    }
    caller.require_person()?;
    let one = found.ok_or_else(no_question)?;
    let mut locks_needed = match &moment {
        Some(kept) => LockSet::of(&mut conn, kept).await?,
        None => LockSet::default(),
    };
    drop(conn);
    locks_needed.about(Some(intent_id), None);
    locks_needed.once(caller, once);
    let mut work = MomentTx::begin(&ctx.moments, caller.trace, locks_needed).await?;
    let one = rows::load(&mut work.tx, intent_id, &one.id).await?.ok_or_else(no_question)?;
    if idempotency::find::<String>(&mut work.tx, caller, once).await?.is_some()
        || one.state_at(work.now) != SuspensionState::Open
    {
        return again(&mut work.tx, caller, one, &answer, work.now).await;
    }
    let intent = intents::load(&mut work.tx, intent_id).await?.ok_or_else(|| not_found("intent"))?;
    let asked = ends::asked(&intent)?;
    let current = match &moment {
        Some(kept) => work.current(&ctx.moments, kept.moment.id).await?,
        None => None,
    };
    let open = current.filter(|kept| kept.moment.state_at(work.now) == MomentState::Open);
    if let Some(mut kept) = open {
        // First check the right to answer, then the answer.
        kept.moment.may_decide(&moments::decider(caller), work.now)?;
        let resolution = asked.accept(&answer.value)?;
        let Answer { value, metadata, digest, .. } = answer.clone();
        work.given = Some(Given { value, metadata });
        moments::answer(&ctx.moments, caller, &mut work, &mut kept, digest.as_deref(), resolution).await?;
    } else {
        require_admin(ctx, &mut work, caller, &one).await?;
        asked.accept(&answer.value)?;
        let Answer { value, metadata, .. } = answer.clone();
        let (by, authority) = (caller.agent.clone(), caller.authority().cloned());
        let end = End::Responded { value, by, metadata, authority };
        let (tx, log) = work.parts(intent_id)?;
        ends::end(tx, &ctx.openintent, log, &intent, &one, end, &caller.agent).await?;
    }
    let choice = asked.chosen(&answer.value).map(|one| (one.label.clone(), one.description.clone()));
    idempotency::keep(&mut work.tx, caller, once, &one.id, work.now).await?;
    let suspension = rows::load(&mut work.tx, intent_id, &one.id).await?.ok_or_else(no_question)?;
    let at = suspension.ended_at.unwrap_or(work.now);
    work.conclude(&ctx.moments).await?;
    Ok(Responded { suspension, value: answer.value, choice, at })
}

fn no_question() -> Refusal {
    let message = "The intent does not wait with this question. Look at `_suspension` in its state: its `id` is the one to name.";
    Refusal::new(Code::InvalidTransition, message)
}

/// Handles a question that is over: the same answer again succeeds, as after a lost reply, any other is too late.
async fn again(
    conn: &mut PgConnection,
    caller: &Caller,
    one: Suspension,
    answer: &Answer,
    now: Timestamp,
) -> Outcome<Responded> {
    let intent = intents::load(conn, one.intent_id).await?.ok_or_else(|| not_found("intent"))?;
    let record = ends::record(&intent, &one.id).unwrap_or_default();
    let mine =
        one.responded_by.as_deref() == Some(&caller.agent) && record.get("response") == Some(&answer.value);
    if one.state != SuspensionState::Responded || !mine {
        let message = format!(
            "This question takes no answer any more: it is {}. Look at `_suspension` in the intent's state.",
            one.state_at(now).as_str()
        );
        return Err(Refusal::new(Code::InvalidTransition, message).into());
    }
    let asked = ends::asked(&intent)?;
    let choice = asked.chosen(&answer.value).map(|one| (one.label.clone(), one.description.clone()));
    let at = one.ended_at.unwrap_or(now);
    Ok(Responded { suspension: one, value: answer.value.clone(), choice, at })
}

/// Returns whether the caller is the person that the operator named for questions without an addressee.
fn is_named(ctx: &Ctx, caller: &Caller) -> bool {
    caller.require_person().is_ok() && ctx.moments.state.settings.person.as_deref() == Some(&caller.agent)
}

/// Requires that a person may answer a question without an addressee: the operator's choice, or an admin of the
/// intent, but never the asker under any name.
async fn require_admin(ctx: &Ctx, work: &mut MomentTx, caller: &Caller, one: &Suspension) -> Outcome<()> {
    if one.is_asked_by(&caller.agent) {
        let message = "Nobody could be asked, so the people who administer the intent answer; but who asks cannot be who answers.";
        return Err(Refusal::new(Code::NotThePrincipal, message).into());
    }
    if is_named(ctx, caller) {
        return Ok(());
    }
    let membership = membership::find(&mut work.tx, &caller.agent, one.intent_id, work.now).await?;
    let membership = membership.ok_or_else(|| not_found("intent"))?;
    Ok(membership.access.require(Level::Admin)?)
}
