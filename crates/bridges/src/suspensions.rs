//! Human in the loop (RFC-0025): an intent is suspended with a question, a person is asked, and the answer resumes
//! it. The table and the ends of questions are OpenIntent's (`openintent/src/suspensions.rs`); answers are in
//! `suspensions/answering.rs`.
//!
//! The question reaches people like all other decisions: it becomes a binding moment in the transaction that suspends
//! the intent, so that inbox, terminal and MCP show it. The end of the moment ends the question in the moment's own
//! transaction ([`entente_kernel::hooks::Hook::moment_ended`]). It arrives in two ways: by `POST …/suspend` ([`suspend`]), or as the OpenIntent
//! SDK does it, which puts its record into the state of an intent that it has suspended before ([`put`]).
//!
//! Unlike a moment's text, this text is in the intent's state and log, where the SDK writes and reads it. The
//! question tells the person so.

mod addressing;
mod answering;

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, MomentId, SuspensionId};
use entente_domain::limits::{MOMENT_LEAST_SECONDS, MOMENT_MOST_SECONDS};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::moments::{MomentAsk, ValidWhile};
use entente_domain::openintent::intents::{Intent, IntentStatus, SUSPENSION, moved_payload, patched_payload};
use entente_domain::openintent::patch::{Change, Op, Patch};
use entente_domain::openintent::suspensions::{Asked, End, Suspension, check_room, question_in};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::governance;
use entente_kernel::access::governance::Attempt;
use entente_kernel::access::membership;
use entente_kernel::intents;
use entente_kernel::{AppError, Caller, Outcome, idempotency, not_found};
use entente_moments as moments;
use entente_moments::{LockSet, MomentTx};
use entente_openintent::leases;
use entente_openintent::suspensions as ends;
use entente_openintent::suspensions::{rows, seen, settle};
use serde_json::{Map, Value, json};

use crate::Ctx;
use crate::suspensions::addressing::{check_other, hinted, is_person};
pub use crate::suspensions::answering::{Answer, Responded, respond};

/// Addressees of a question, and its response to an objection.
#[derive(Debug, Clone, Default)]
pub struct Addressee {
    /// The person; defaults to the operator's choice, then to the first person among the intent's creator and admins.
    pub person: Option<String>,
    /// A second person, and the number of seconds after which that person is asked.
    pub second: Option<(String, u32)>,
    /// The refused question that this one replaces.
    pub supersedes: Option<MomentId>,
    /// Response to the objection to that one.
    pub objection_response: Option<String>,
}

/// A question with its current state.
#[derive(Debug, Clone)]
pub struct SuspensionView {
    /// The question.
    pub suspension: Suspension,
    /// The question and the answer in the intent's state; `None` if a later question replaced them.
    pub record: Option<Map<String, Value>>,
}

/// Suspends an intent with a question; `record` is the SDK's record of it, without an id.
///
/// # Errors
/// Fails if the intent does not exist, is not writable, is over or waits for an answer already, or if the question is
/// invalid.
pub async fn suspend(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    mut record: Map<String, Value>,
    whom: Addressee,
    once: Option<&Idempotency>,
) -> Outcome<SuspensionView> {
    caller.require(Scope::IntentsWrite)?;
    let id = SuspensionId::mint(ctx.now(), &*ctx.chance).to_string();
    record.insert("id".to_owned(), json!(id));
    let asked = Asked::read(&record)?;
    let mut setting = prepare(ctx, caller, intent_id, &asked, whom, true).await?;
    setting.locks_needed.once(caller, once);
    let (asking, mut work) = setting.begin(ctx, caller).await?;
    if let Some(id) = idempotency::find::<String>(&mut work.tx, caller, once).await? {
        let suspension =
            rows::load(&mut work.tx, intent_id, &id).await?.ok_or_else(|| not_found("suspension"))?;
        let intent = intents::load(&mut work.tx, intent_id).await?.ok_or_else(|| not_found("intent"))?;
        return Ok(SuspensionView { record: ends::record(&intent, &id), suspension });
    }
    let (mut work, intent) = ready(ctx, caller, work, intent_id).await?;
    if intent.status.is_terminal() {
        let message = "The intent is completed or abandoned; nothing is decided for it any more.";
        return Err(Refusal::new(Code::IntentResolved, message).into());
    }
    let now = work.now;
    record.insert("suspended_at".to_owned(), json!(entente_domain::clock::naive(now)));
    let suspension = Suspension::new(&asked, intent_id, 0, caller.author(), now);
    if let Some(at) = suspension.expires_at {
        record.insert("expires_at".to_owned(), json!(entente_domain::clock::naive(at)));
    }
    let patch = Patch { op: Op::Set, path: SUSPENSION.to_owned(), value: Value::Object(record) };
    let change = Change::Patches { patches: vec![patch] };
    let patched = intent.patched(&change, now)?;
    let (tx, log) = work.parts(intent_id)?;
    leases::guard(tx, log, &caller.agent, &change, None).await?;
    let (_, suspension) = Box::pin(open(ctx, caller, &mut work, &patched, &change, &asked, &asking)).await?;
    idempotency::keep(&mut work.tx, caller, once, &suspension.id, now).await?;
    work.conclude(&ctx.moments).await?;
    let record = ends::record(&patched, &suspension.id);
    Ok(SuspensionView { suspension, record })
}

/// Puts a question into the state of a suspended intent, as the SDK's agents do; otherwise like any change of a
/// state.
///
/// A question that a person has refused before is cancelled at once, which is how the SDK learns of it. A question
/// without an addressee waits for the intent's admins.
///
/// # Errors
/// As [`entente_openintent::intents::patch_state`]; also fails if the intent is not suspended or waits for an answer
/// already, or if the question is invalid.
pub async fn put(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    seen: i64,
    change: Change,
    fencing_token: Option<i64>,
) -> Outcome<Intent> {
    caller.require(Scope::IntentsWrite)?;
    // The request handler has checked that there is a question; without one, parsing fails.
    let record = question_in(&change).cloned().unwrap_or_default();
    let asked = Asked::read(&record)?;
    let setting = prepare(ctx, caller, intent_id, &asked, hinted(&asked), false).await?;
    let (asking, work) = setting.begin(ctx, caller).await?;
    let (mut work, intent) = ready(ctx, caller, work, intent_id).await?;
    intent.require_version(seen)?;
    if intent.status != IntentStatus::SuspendedAwaitingInput {
        let message = format!(
            "`{SUSPENSION}` is where a suspended intent has its question. Give it the status `suspended_awaiting_input` first, or \
             use POST …/suspend, which does both."
        );
        return Err(Refusal::new(Code::InvalidTransition, message).into());
    }
    let patched = intent.patched(&change, work.now)?;
    if patched.state.get(SUSPENSION).and_then(Value::as_object) != Some(&record) {
        let message = format!("Put a question under `{SUSPENSION}` with one patch, as a whole.");
        return Err(Refusal::field(Code::Unprocessable, "patches", "path", message).into());
    }
    let (tx, log) = work.parts(intent_id)?;
    leases::guard(tx, log, &caller.agent, &change, fencing_token).await?;
    let (intent, _) = Box::pin(open(ctx, caller, &mut work, &patched, &change, &asked, &asking)).await?;
    work.conclude(&ctx.moments).await?;
    Ok(intent)
}

/// Addressees of a question, with the strictness of its checks.
struct Asking {
    person: Option<String>,
    second: Option<(String, u32)>,
    supersedes: Option<MomentId>,
    objection_response: Option<String>,
    /// Whether an obstacle on the way to the person refuses the question.
    strict: bool,
}

struct Setting {
    asking: Asking,
    locks_needed: LockSet,
}

impl Setting {
    async fn begin(self, ctx: &Ctx, caller: &Caller) -> Outcome<(Asking, MomentTx)> {
        let work = MomentTx::begin(&ctx.moments, caller.trace, self.locks_needed).await?;
        Ok((self.asking, work))
    }
}

/// Determines the addressees before any lock is taken, so that all locks can be taken together.
async fn prepare(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    asked: &Asked,
    whom: Addressee,
    strict: bool,
) -> Outcome<Setting> {
    let mut conn = ctx.pool.acquire().await?;
    membership::require(&mut conn, &caller.agent, intent_id, Level::Write, ctx.now()).await?;
    let mut person = whom.person;
    if !strict && !is_person(&mut conn, person.as_deref(), caller).await? {
        person = None;
    }
    if strict {
        check_other(caller, person.as_deref(), whom.second.as_ref().map(|(to, _)| to.as_str()))?;
    }
    if person.is_none() {
        let named = ctx.moments.state.settings.person.clone();
        person = if is_person(&mut conn, named.as_deref(), caller).await? { named } else { None };
    }
    if person.is_none() {
        person =
            rows::person_of(&mut conn, intent_id, [&caller.agent, caller.principal()], ctx.now()).await?;
    }
    let mut second = whom.second;
    if !strict {
        let fits = second.as_ref().is_some_and(|(_, after)| asked.seconds.is_none_or(|most| *after < most));
        let to =
            second.as_ref().map(|(to, _)| to.as_str()).filter(|to| fits && Some(*to) != person.as_deref());
        if !is_person(&mut conn, to, caller).await? {
            second = None;
        }
    }
    let mut locks_needed = LockSet::default();
    locks_needed.about(Some(intent_id), None);
    locks_needed.between(&caller.agent, [person.as_deref(), second.as_ref().map(|(to, _)| to.as_str())]);
    let asking = Asking {
        person,
        second,
        supersedes: whom.supersedes,
        objection_response: whom.objection_response,
        strict,
    };
    let ask =
        MomentAsk { agent_id: caller.agent.clone(), supersedes: asking.supersedes, ..MomentAsk::default() };
    match moments::superseded(&mut conn, &ask).await {
        Ok(Some(before)) => locks_needed.include(&mut conn, &before).await?,
        Ok(None) => {}
        // It is refused again when the question is put before the person.
        Err(AppError::Refused(_)) if !strict => {}
        Err(failure) => return Err(failure),
    }
    Ok(Setting { asking, locks_needed })
}

/// Loads the intent under its lock and requires that it does not wait for an answer.
async fn ready(
    ctx: &Ctx,
    caller: &Caller,
    mut work: MomentTx,
    intent_id: IntentId,
) -> Outcome<(MomentTx, Intent)> {
    let membership =
        membership::require(&mut work.tx, &caller.agent, intent_id, Level::Write, work.now).await?;
    let attempt =
        Attempt { intent_id, membership: &membership, agent: &caller.agent, operation: "suspend_intent" };
    work.tx = governance::admit_tx(ctx, caller, work.tx, attempt).await?;
    let intent = intents::load(&mut work.tx, intent_id).await?.ok_or_else(|| not_found("intent"))?;
    let (tx, log) = work.parts(intent_id)?;
    let intent = settle(tx, &ctx.openintent, log, intent).await?;
    if ends::open(tx, intent_id).await?.is_none() {
        return Ok((work, intent));
    }
    let message = "The intent waits for the answer to another question. It waits for one at a time: wait for that, or have an \
                   admin of the intent call it off by giving the intent another status.";
    Err(Refusal::new(Code::InvalidTransition, message).into())
}

/// Stores a question and puts it before its person; returns the intent as it is then.
async fn open(
    ctx: &Ctx,
    caller: &Caller,
    work: &mut MomentTx,
    patched: &Intent,
    change: &Change,
    asked: &Asked,
    asking: &Asking,
) -> Outcome<(Intent, Suspension)> {
    check_room(&patched.state)?;
    let id = patched.id;
    if rows::load(&mut work.tx, id, &asked.id).await?.is_some() {
        let message = "The intent has had a question of this id. Give the new one an id of its own.";
        return Err(Refusal::field(Code::Unprocessable, "id", "taken", message).into());
    }
    let n = rows::last(&mut work.tx, id).await? + 1;
    let (tx, log) = work.parts(id)?;
    intents::update(tx, patched).await?;
    log.record(ctx, Draft::of(Kind::StatePatched, &caller.agent, patched_payload(change, patched)));
    let mut intent = patched.clone();
    if intent.status != IntentStatus::SuspendedAwaitingInput {
        intent = patched.moved(IntentStatus::SuspendedAwaitingInput, false, log.now())?;
        intents::update(tx, &intent).await?;
        log.record(ctx, Draft::of(Kind::StatusChanged, &caller.agent, moved_payload(patched, &intent, None)));
    }
    let mut one = Suspension::new(asked, id, n, caller.author(), log.now());
    let refused = match put_before(ctx, caller, work, &intent, asked, asking, one.expires_at).await {
        Ok(Ok(moment)) => {
            one.moment_id = Some(moment);
            None
        }
        Ok(Err(why)) => {
            one.unasked = Some(why.to_owned());
            None
        }
        Err(AppError::Refused(refusal)) if !asking.strict => Some(refusal.code),
        Err(failure) => return Err(failure),
    };
    // A question that cannot be put before this person waits for the intent's admins; a refused one waits for nobody.
    one.unasked = one.unasked.or_else(|| refused.map(|code| code.wire().to_owned()));
    rows::insert(&mut work.tx, &one).await?;
    let (tx, log) = work.parts(id)?;
    let told = json!({
        "id": one.id, "suspension_id": one.id, "response_type": asked.response_type, "asked_by": one.asked_by,
        "principal_id": one.moment_id.and(asking.person.as_deref()), "moment_id": one.moment_id,
        "unasked": one.unasked, "fallback_policy": one.fallback, "expires_at": one.expires_at,
    });
    log.record(ctx, Draft::of(Kind::IntentSuspended, &caller.agent, told));
    if matches!(refused, Some(Code::SameQuestion | Code::DeliberationRequired)) {
        let off = End::Cancelled("refused_before");
        intent = ends::end(
            tx,
            &ctx.openintent,
            log,
            &intent,
            &one,
            off,
            entente_domain::identity::principals::SYSTEM,
        )
        .await?;
    }
    Ok((intent, one))
}

/// Puts the question before the person as a binding moment; returns the reason if nobody can be asked.
async fn put_before(
    ctx: &Ctx,
    caller: &Caller,
    work: &mut MomentTx,
    intent: &Intent,
    asked: &Asked,
    asking: &Asking,
    until: Option<Timestamp>,
) -> Outcome<Result<MomentId, &'static str>> {
    let Some(person) = &asking.person else { return Ok(Err("nobody_to_ask")) };
    if !caller.has(Scope::MomentsWrite) {
        return Ok(Err("key_asks_nobody"));
    }
    let (brief, hatch_justification) = asked.brief(&caller.agent, &intent.title, until);
    let stands = asked.seconds.unwrap_or(MOMENT_MOST_SECONDS);
    let ask = MomentAsk {
        agent_id: caller.agent.clone(),
        principal_id: person.clone(),
        hatch_justification,
        supersedes: asking.supersedes,
        objection_response: asking.objection_response.clone(),
        expires_in: Some(stands.clamp(MOMENT_LEAST_SECONDS, MOMENT_MOST_SECONDS)),
        escalate_to: asking.second.as_ref().map(|(to, _)| to.clone()),
        escalate_after: asking.second.as_ref().map(|(_, after)| *after),
        intent_id: Some(intent.id),
        corr: Some(asked.id.clone()),
        valid_while: ValidWhile {
            job_status: None,
            intent_status: Some(IntentStatus::SuspendedAwaitingInput.as_str().to_owned()),
        },
        ..MomentAsk::default()
    };
    // It lapses together with the question, if a moment may last that long.
    let until = until.filter(|_| stands <= MOMENT_MOST_SECONDS);
    moments::put(&ctx.moments, work, ask, &brief, until).await.map(Ok)
}

/// Lists an intent's questions, newest first: up to `limit` with a number below `before`.
///
/// # Errors
/// Fails if the intent does not exist or is not readable.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    before: Option<i64>,
    limit: u32,
) -> Outcome<Vec<SuspensionView>> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    membership::require(&mut conn, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    let intent = intents::load(&mut conn, intent_id).await?.ok_or_else(|| not_found("intent"))?;
    let intent =
        seen(&mut conn, &ctx.openintent, vec![intent]).await?.pop().ok_or_else(|| not_found("intent"))?;
    let found = rows::list(&mut conn, intent_id, before, limit).await?;
    let each = found.into_iter().map(|suspension| {
        let record = ends::record(&intent, &suspension.id);
        SuspensionView { suspension, record }
    });
    Ok(each.collect())
}
