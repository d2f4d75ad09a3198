//! Ends of questions: by an answer, by expiry, or cancelled. All operations run under the lock of the intent, because
//! its state and status change with the question.

pub mod rows;

use entente_domain::clock::naive;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::moments::suspensions::Answer;
use entente_domain::moments::{Moment, MomentState};
use entente_domain::openintent::intents::{Intent, IntentStatus, SUSPENSION, moved_payload, patched_payload};
use entente_domain::openintent::suspensions::{Asked, End, Suspension, waits};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::due::run_each;
use entente_kernel::hooks::{AfterCommit, Given, IntentChange};
use entente_kernel::intents;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{AppError, Caller, IntentTx, Outcome};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use crate::Ctx;

/// Returns the question that the intent waits with.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn open(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Option<Suspension>> {
    Ok(rows::open(conn, &[intent_id.uuid()]).await?.pop())
}

/// Parses the question in the intent's state.
///
/// # Errors
/// The stored question is invalid.
pub fn asked(intent: &Intent) -> Outcome<Asked> {
    let record = intent.state.get(SUSPENSION).and_then(Value::as_object).cloned().unwrap_or_default();
    // Only the server changes it while it is open, and it was parsed when it was put there.
    Asked::read(&record).map_err(|fault| {
        AppError::Inconsistent(format!("the question of {} cannot be read: {}", intent.id, fault.message))
    })
}

/// Ends a question; returns the resumed intent.
///
/// # Errors
/// As [`Suspension::after`]; a database error.
pub async fn end(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    intent: &Intent,
    one: &Suspension,
    end: End,
    actor: &str,
) -> Outcome<Intent> {
    let now = log.now();
    let after = one.after(intent, &end, ctx.settings.strict, now)?;
    let over = one.ended(&end, now);
    intents::update(conn, &after.patched).await?;
    log.record(ctx, Draft::of(Kind::StatePatched, actor, patched_payload(&after.change, &after.patched)));
    if let Some(resumed) = &after.resumed {
        intents::update(conn, resumed).await?;
        log.record(ctx, Draft::of(Kind::StatusChanged, actor, moved_payload(intent, resumed, None)));
    }
    rows::end(conn, &over).await?;
    let mut told = json!({
        "id": one.id, "suspension_id": one.id, "resolution": over.state, "moment_id": one.moment_id,
        "asked_by": one.asked_by, "status": after.intent().status,
    });
    let kind = match &end {
        End::Responded { value, by, authority, .. } => {
            // The SDK and the reference server read these in the event (OI-11.2.2).
            told["value"] = value.clone();
            told["responded_by"] = json!(by);
            told["responded_at"] = json!(naive(now));
            told["authority"] = json!(authority);
            Kind::IntentResumed
        }
        End::Expired => {
            told["fallback_policy"] = json!(one.fallback);
            told["expires_at"] = json!(one.expires_at);
            Kind::IntentSuspensionExpired
        }
        End::Cancelled(_) | End::Overtaken => {
            told["reason"] = json!(end.reason());
            Kind::IntentResumed
        }
    };
    log.record(ctx, Draft::of(kind, actor, told));
    Ok(after.intent().clone())
}

/// Ends a question together with its moment, within the operation that ended the moment.
pub(crate) async fn moment_ended(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    moment: &Moment,
    actor: &str,
    given: Option<&Given>,
) -> Outcome<()> {
    let found = open(conn, log.intent_id).await?.filter(|one| one.moment_id == Some(moment.id));
    let Some(one) = found else { return Ok(()) };
    let intent = intents::load(conn, log.intent_id).await?;
    let intent = intent.ok_or_else(|| AppError::Inconsistent(format!("{} is gone", log.intent_id)))?;
    let (value, metadata) =
        given.map_or((None, None), |given| (Some(given.value.clone()), given.metadata.clone()));
    let how = match (moment.state, &moment.resolution) {
        (MomentState::Resolved, Some(settled)) => match asked(&intent)?.worth(settled)? {
            Answer::Value(worth) => {
                let (value, by) = (value.unwrap_or(worth), settled.by.clone());
                End::Responded { value, by, metadata, authority: settled.authority.clone() }
            }
            Answer::CallOff => End::Cancelled("called_off"),
        },
        // A refusal is no answer, and the asker must not wait for one: it is notified that there will be none, and
        // finds the objection in the moment. The restrictions of the refusal apply to its next question.
        (MomentState::Deliberating, _) => End::Cancelled("refused"),
        (MomentState::Withdrawn, _) => End::Cancelled("withdrawn"),
        (MomentState::Expired, _) if one.is_due(log.now()) => End::Expired,
        // The moment has lapsed before the question: the intent's admins can still answer.
        _ => return Ok(()),
    };
    end(conn, ctx, log, &intent, &one, how, actor).await?;
    Ok(())
}

/// Records the expiry of the intent's question if it is due, within an operation that is about to change the intent.
///
/// # Errors
/// As [`open`] and [`end`].
pub async fn settle(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    intent: Intent,
) -> Outcome<Intent> {
    if !waits(&intent.state) {
        return Ok(intent);
    }
    match open(conn, intent.id).await?.filter(|one| one.is_due(log.now())) {
        Some(one) => end(conn, ctx, log, &intent, &one, End::Expired, SYSTEM).await,
        None => Ok(intent),
    }
}

/// Cancels the intent's question, within the operation by which an admin gives the intent another status.
///
/// Only the asker or a person may cancel a question that a person was asked; otherwise any agent could.
///
/// # Errors
/// Fails if the caller is neither.
pub(crate) async fn call_off(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    intent: Intent,
    status: IntentStatus,
    caller: &Caller,
    after: &mut AfterCommit,
) -> Outcome<Intent> {
    if status == IntentStatus::SuspendedAwaitingInput || !waits(&intent.state) {
        return Ok(intent);
    }
    let Some(one) = open(conn, intent.id).await? else { return Ok(intent) };
    if caller.agent != one.asked_by && caller.require_person().is_err() {
        let message = format!(
            "The intent waits for a person's answer. Only who asks (`{}`) takes the question away, or a person who administers the \
             intent, with a key of their own. Wait for the answer, or ask one of them.",
            one.asked_by
        );
        return Err(Refusal::new(Code::NotThePrincipal, message).into());
    }
    let actor = &caller.agent;
    let intent = end(conn, ctx, log, &intent, &one, End::Overtaken, actor).await?;
    let Some(moment) = one.moment_id else { return Ok(intent) };
    let mut change = IntentChange { ctx, conn, log, actor };
    ctx.hooks.suspension_ended(&mut change, moment, after).await?;
    Ok(intent)
}

/// Records the expiry of up to `limit` questions; their moments lapse at the same instant.
///
/// # Errors
/// Returns database errors.
pub async fn expire_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let due = rows::due(&ctx.pool, ctx.now(), limit).await?;
    run_each(due.into_iter().map(|intent_id| expire_on(ctx, intent_id))).await
}

async fn expire_on(ctx: &Ctx, intent_id: IntentId) -> Outcome<u64> {
    let mut work = IntentTx::unattended(ctx, intent_id).await?;
    let (conn, log) = work.parts();
    let due = open(conn, intent_id).await?.filter(|one| one.is_due(log.now()));
    // Another server may have ended it already.
    let Some(one) = due else { return Ok(0) };
    let Some(intent) = intents::load(conn, intent_id).await? else { return Ok(0) };
    end(conn, ctx, log, &intent, &one, End::Expired, SYSTEM).await?;
    work.commit().await?;
    Ok(1)
}

/// Returns these intents as readers see them: the consequences of due questions are applied.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn seen(conn: &mut PgConnection, ctx: &Ctx, found: Vec<Intent>) -> Outcome<Vec<Intent>> {
    let waiting: Vec<uuid::Uuid> =
        found.iter().filter(|intent| waits(&intent.state)).map(|intent| intent.id.uuid()).collect();
    if waiting.is_empty() {
        return Ok(found);
    }
    let (open, now) = (rows::open(conn, &waiting).await?, ctx.now());
    let seen = |intent: Intent| {
        let one = open.iter().find(|one| one.intent_id == intent.id);
        one.and_then(|one| one.seen(&intent, ctx.settings.strict, now)).unwrap_or(intent)
    };
    Ok(found.into_iter().map(seen).collect())
}

/// Returns the record of a question with its outcome from the intent's state, if it is still there.
pub fn record(intent: &Intent, id: &str) -> Option<Map<String, Value>> {
    let record = intent.state.get(SUSPENSION)?.as_object()?;
    (record.get("id").and_then(Value::as_str) == Some(id)).then(|| record.clone())
}
