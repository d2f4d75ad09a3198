//! Answering the question that an intent waits with. Only a person answers, with a login or a key of its own, and not who asks: the
//! one who is asked, who so closes the moment; where nobody could be asked, or the moment has lapsed before the question, whom the
//! operator has named, or a person who administers the intent.

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::IntentId;
use entente_domain::keys::Scope;
use entente_domain::moments::MomentState;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::suspensions::{End, Suspension, SuspensionState};
use serde_json::{Map, Value};
use sqlx::PgConnection;

use super::{Given, ends, rows};
use crate::moments::{self, Reach, Turn};
use crate::{Caller, Ctx, Outcome, idempotency, intents, not_found, seats};

/// An answer.
#[derive(Debug, Clone)]
pub struct Said {
    /// To which question.
    pub suspension_id: String,
    /// The answer.
    pub value: Value,
    /// What else its surface says.
    pub metadata: Option<Map<String, Value>>,
    /// The digest of the moment, for who has read that.
    pub digest: Option<String>,
}

/// An answer that counts.
#[derive(Debug, Clone)]
pub struct Responded {
    /// The question, answered.
    pub suspension: Suspension,
    /// The answer.
    pub value: Value,
    /// The label and the description of the choice that it is.
    pub choice: Option<(String, String)>,
    /// When.
    pub at: Timestamp,
}

/// Answers the question that an intent waits with. The same answer by the same again is a retry. The caller acts as whoever
/// answers.
///
/// # Errors
/// The intent is not there or not the caller's to see; it does not wait with this question, or no longer; the value is no answer
/// to it; somebody else is asked.
pub async fn respond(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    said: Said,
    once: Option<&Idempotency>,
) -> Outcome<Responded> {
    caller.require(Scope::MomentsWrite)?;
    let mut conn = ctx.pool.acquire().await?;
    let found = rows::load(&mut conn, intent_id, &said.suspension_id).await?;
    let moment = match found.as_ref().and_then(|one| one.moment_id) {
        Some(id) => moments::load(&mut conn, id).await?,
        None => None,
    };
    let addressed =
        |kept: &moments::Kept| caller.is_itself() && kept.moment.is_addressed_to(&caller.agent, ctx.now());
    // Who is asked, or named for all questions, hears of this one wherever it is from.
    let is_addressed = moment.as_ref().is_some_and(addressed) || is_named(ctx, caller);
    if !is_addressed {
        seats::require(&mut conn, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    }
    caller.require_person()?;
    let one = found.ok_or_else(no_question)?;
    let mut reach = match &moment {
        Some(kept) => Reach::of(&mut conn, kept).await?,
        None => Reach::default(),
    };
    drop(conn);
    reach.about(Some(intent_id), None);
    reach.once(caller, once);
    let mut turn = Turn::begin(ctx, caller.trace, reach).await?;
    let one = rows::load(&mut turn.tx, intent_id, &one.id).await?.ok_or_else(no_question)?;
    if idempotency::find::<String>(&mut turn.tx, caller, once).await?.is_some()
        || one.state_at(turn.now) != SuspensionState::Open
    {
        return again(&mut turn.tx, caller, one, &said, turn.now).await;
    }
    let intent = intents::load(&mut turn.tx, intent_id).await?.ok_or_else(|| not_found("intent"))?;
    let asked = ends::asked(&intent)?;
    let current = match &moment {
        Some(kept) => turn.current(ctx, kept.moment.id).await?,
        None => None,
    };
    let open = current.filter(|kept| kept.moment.state_at(turn.now) == MomentState::Open);
    if let Some(mut kept) = open {
        // First whether it is theirs to answer, then whether it is an answer.
        kept.moment.may_decide(&moments::decider(caller), turn.now)?;
        let resolution = asked.accept(&said.value)?;
        let Said { value, metadata, digest, .. } = said.clone();
        turn.given = Some(Given { value, metadata });
        moments::answer(ctx, caller, &mut turn, &mut kept, digest.as_deref(), resolution).await?;
    } else {
        require_admin(ctx, &mut turn, caller, &one).await?;
        asked.accept(&said.value)?;
        let Said { value, metadata, .. } = said.clone();
        let (by, authority) = (caller.agent.clone(), caller.authority().cloned());
        let end = End::Responded { value, by, metadata, authority };
        let (tx, line) = turn.parts(intent_id)?;
        ends::end(tx, ctx, line, (&intent, &one), end, &caller.agent).await?;
    }
    let choice = asked.chosen(&said.value).map(|one| (one.label.clone(), one.description.clone()));
    idempotency::keep(&mut turn.tx, caller, once, &one.id, turn.now).await?;
    let suspension = rows::load(&mut turn.tx, intent_id, &one.id).await?.ok_or_else(no_question)?;
    let at = suspension.ended_at.unwrap_or(turn.now);
    turn.conclude(ctx).await?;
    Ok(Responded { suspension, value: said.value, choice, at })
}

fn no_question() -> Refusal {
    let message = "The intent does not wait with this question. Look at `_suspension` in its state: its `id` is the one to name.";
    Refusal::new(Code::InvalidTransition, message)
}

/// What is over: the same answer again is as after a lost reply, anything else comes too late.
async fn again(
    conn: &mut PgConnection,
    caller: &Caller,
    one: Suspension,
    said: &Said,
    now: Timestamp,
) -> Outcome<Responded> {
    let intent = intents::load(conn, one.intent_id).await?.ok_or_else(|| not_found("intent"))?;
    let record = ends::record(&intent, &one.id).unwrap_or_default();
    let mine =
        one.responded_by.as_deref() == Some(&caller.agent) && record.get("response") == Some(&said.value);
    if one.state != SuspensionState::Responded || !mine {
        let message = format!(
            "This question takes no answer any more: it is {}. Look at `_suspension` in the intent's state.",
            one.state_at(now).as_str()
        );
        return Err(Refusal::new(Code::InvalidTransition, message).into());
    }
    let asked = ends::asked(&intent)?;
    let choice = asked.chosen(&said.value).map(|one| (one.label.clone(), one.description.clone()));
    let at = one.ended_at.unwrap_or(now);
    Ok(Responded { suspension: one, value: said.value.clone(), choice, at })
}

/// Whether this is the person whom the operator has named for questions that name nobody.
fn is_named(ctx: &Ctx, caller: &Caller) -> bool {
    caller.require_person().is_ok() && ctx.settings.moments.person.as_deref() == Some(&caller.agent)
}

/// Whether a person may answer where none is asked: the one whom the operator has named, or an admin of the intent; not who
/// asks, under whatever name.
async fn require_admin(ctx: &Ctx, turn: &mut Turn, caller: &Caller, one: &Suspension) -> Outcome<()> {
    if one.is_asked_by(&caller.agent) {
        let message = "Nobody could be asked, so the people who administer the intent answer; but who asks cannot be who answers.";
        return Err(Refusal::new(Code::NotThePrincipal, message).into());
    }
    if is_named(ctx, caller) {
        return Ok(());
    }
    let seat = seats::seat(&mut turn.tx, &caller.agent, one.intent_id, turn.now).await?;
    let seat = seat.ok_or_else(|| not_found("intent"))?;
    Ok(seat.standing.require(Level::Admin)?)
}
