//! The federation outbox (RFC-0022). Table `federation_letters`. Each attempt signs a message again, so that
//! it is always fresh; the messages of one dispatch are sent one after the other. Undeliverable ones are
//! given up after about a day (`entente_domain::webhooks::retries`), which the system log records.

use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{DispatchId, IntentId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::federation::dispatches::{RECEIVE, State};
use entente_domain::openintent::federation::{callbacks, deliveries, is_final, signing};
use entente_domain::webhooks::retries::{Failure, again_after};
use entente_kernel::Outcome;
use entente_kernel::log::writer::IntentLog;
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use super::rows::{self, Telling};
use super::{Dispatch, set_up};
use crate::Ctx;

/// Seconds that an attempt may take; if the server dies, another one tries after that.
const HOLD_SECONDS: i64 = 90;

/// Characters of an answer that are copied to a log.
const SHOWN: usize = 300;

/// A due outbox message.
#[derive(Debug, Clone)]
pub struct Due {
    id: i64,
    peer: String,
    is_dispatch: bool,
    dispatch_id: String,
    intent_id: Option<IntentId>,
    url: Option<String>,
    body: String,
    attempts: i32,
}

/// A peer's answer, or the error.
#[derive(Debug, Clone)]
pub struct Answered {
    /// How the attempt failed; `None` if it did not.
    pub failure: Option<Failure>,
    /// The text of the answer, or of the error.
    pub text: String,
    /// Seconds after which the peer asks to be retried.
    pub retry_after: Option<u32>,
}

/// The result of an attempt.
enum Verdict {
    /// Delivered and accepted, with the peer's id for it and a text.
    Taken(Option<String>, String),
    /// Delivered, but refused by the peer.
    Refused(String),
    /// To be retried at this time.
    Later(Timestamp),
    /// Given up.
    Lost(String),
}

/// Queues the message of a dispatch.
pub(super) async fn post_dispatch(
    conn: &mut PgConnection,
    dispatch: &Dispatch,
    letter: &Map<String, Value>,
    now: Timestamp,
) -> Outcome<()> {
    let queued = OutboxMessage {
        peer: &dispatch.peer,
        kind: "dispatch",
        dispatch_id: &dispatch.id.to_string(),
        intent_id: Some(dispatch.intent_id),
        url: None,
        body: letter,
    };
    post(conn, &queued, now).await
}

/// Queues the message of a callback.
pub(super) async fn post_callback(
    conn: &mut PgConnection,
    of: &Telling,
    url: &str,
    callback: &Map<String, Value>,
    now: Timestamp,
) -> Outcome<()> {
    let queued = OutboxMessage {
        peer: &of.peer,
        kind: "callback",
        dispatch_id: &of.dispatch_id,
        intent_id: None,
        url: Some(url),
        body: callback,
    };
    post(conn, &queued, now).await
}

/// A message to queue.
struct OutboxMessage<'a> {
    /// DID of the receiving peer.
    peer: &'a str,
    /// `dispatch` or `callback`.
    kind: &'static str,
    /// Dispatch that it belongs to.
    dispatch_id: &'a str,
    /// Intent of our own dispatch, whose log records the peer's answer.
    intent_id: Option<IntentId>,
    /// URL of a callback.
    url: Option<&'a str>,
    /// The message, unsigned.
    body: &'a Map<String, Value>,
}

async fn post(conn: &mut PgConnection, message: &OutboxMessage<'_>, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- federation::post
         INSERT INTO federation_letters (peer, kind, dispatch_id, intent_id, url, body, attempts, due_at, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $7)",
        message.peer,
        message.kind,
        message.dispatch_id,
        message.intent_id.map(IntentId::uuid),
        message.url,
        serde_json::to_string(message.body)?,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Claims due messages: for each of these peers (by DID) at most this many, and of each dispatch only the
/// oldest; several servers share them.
///
/// # Errors
/// A database error.
pub async fn claim(ctx: &Ctx, free: &[(String, i64)]) -> Outcome<Vec<Due>> {
    let now = ctx.now();
    let rows = sqlx::query!(
        r#"-- federation::claim
         UPDATE federation_letters l SET attempts = l.attempts + 1, due_at = $4
         FROM UNNEST($1::text[], $2::bigint[]) AS p (peer, free)
         CROSS JOIN LATERAL (
             SELECT o.id FROM federation_letters o
             WHERE o.peer = p.peer AND o.due_at <= $3 AND NOT EXISTS (
                 SELECT 1 FROM federation_letters e WHERE e.peer = o.peer AND e.kind = o.kind
                 AND e.dispatch_id = o.dispatch_id AND e.id < o.id)
             ORDER BY o.due_at LIMIT p.free FOR UPDATE SKIP LOCKED) AS due
         WHERE l.id = due.id
         RETURNING l.id, l.peer, l.kind, l.dispatch_id, l.intent_id, l.url, l.body, l.attempts"#,
        &free.iter().map(|(peer, _)| peer.clone()).collect::<Vec<_>>(),
        &free.iter().map(|(_, free)| *free).collect::<Vec<_>>(),
        now,
        now + TimeDelta::seconds(HOLD_SECONDS)
    )
    .fetch_all(&ctx.pool)
    .await?;
    let read = rows.into_iter().map(|row| Due {
        id: row.id,
        peer: row.peer,
        is_dispatch: row.kind == "dispatch",
        dispatch_id: row.dispatch_id,
        intent_id: row.intent_id.map(IntentId::from),
        url: row.url,
        body: row.body,
        attempts: row.attempts,
    });
    Ok(read.collect())
}

impl Due {
    /// Returns the DID of the receiving peer.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.peer
    }
}

/// Signs a message as of now; returns its URL and body, or `None` if the peer is no longer configured or the
/// URL is no longer the peer's.
///
/// # Errors
/// The stored message is malformed.
pub fn letter(ctx: &Ctx, due: &Due) -> Outcome<Option<(String, String)>> {
    let federation = set_up(ctx)?;
    let Some(peer) = federation.peers.iter().find(|peer| peer.did == due.peer) else { return Ok(None) };
    let body: Map<String, Value> = serde_json::from_str(&due.body)?;
    let (url, stamp) = match &due.url {
        Some(url) if !due.is_dispatch => (url.clone(), callbacks::STAMP),
        _ => (format!("{}{RECEIVE}", peer.url), deliveries::STAMP),
    };
    if !peer.owns(&url) {
        return Ok(None);
    }
    Ok(Some((url, signing::sign(body, stamp, &ctx.server_keys.signer, ctx.now()))))
}

/// Records the result of an attempt.
///
/// # Errors
/// A database error.
pub async fn record(ctx: &Ctx, due: &Due, answered: &Answered) -> Outcome<()> {
    let verdict = judge(ctx, due, answered);
    if let Verdict::Later(at) = verdict {
        let mut conn = ctx.pool.acquire().await?;
        return put_off(&mut conn, due, at).await;
    }
    settle(ctx, due, verdict).await
}

fn judge(ctx: &Ctx, due: &Due, answered: &Answered) -> Verdict {
    let said: String = answered.text.chars().filter(|letter| !letter.is_control()).take(SHOWN).collect();
    let failure = match answered.failure {
        None if !due.is_dispatch => return Verdict::Taken(None, String::new()),
        None => match serde_json::from_str::<Value>(&answered.text) {
            Ok(reply) if reply.get("accepted") == Some(&Value::Bool(true)) => {
                let id = reply.get("local_intent_id").and_then(Value::as_str);
                let id = id.filter(|id| id.len() <= SHOWN).map(str::to_owned);
                return Verdict::Taken(id, "The peer has taken it".to_owned());
            }
            Ok(reply) if reply.get("accepted") == Some(&Value::Bool(false)) => {
                let why = reply.get("message").and_then(Value::as_str).unwrap_or("without a word");
                return Verdict::Refused(
                    why.chars().filter(|letter| !letter.is_control()).take(SHOWN).collect(),
                );
            }
            // The peer may have accepted it; a repeated request gets the same answer.
            _ => Failure::Unreachable,
        },
        Some(Failure::Status(status)) if is_final(status, &answered.text) => {
            return Verdict::Refused(format!("It answered {status}: {said}"));
        }
        Some(failure) => failure,
    };
    let made = u32::try_from(due.attempts).unwrap_or(u32::MAX);
    let bits = ctx.chance.bits().to_le_bytes();
    let chance = bits.first_chunk().map_or(0, |half| u64::from_le_bytes(*half));
    match again_after(made, failure, answered.retry_after, chance) {
        Some(wait) => {
            let wait = TimeDelta::milliseconds(i64::try_from(wait).unwrap_or(i64::MAX));
            Verdict::Later(ctx.now() + wait)
        }
        None => Verdict::Lost(format!("given up after {made} attempts: {said}")),
    }
}

/// Gives up a message that has waited too long.
pub(super) async fn give_up(ctx: &Ctx, due: Due) -> Outcome<u64> {
    let why = "it has waited for days, for a peer that is none any more or behind what the peer did not take";
    settle(ctx, &due, Verdict::Lost(why.to_owned())).await?;
    Ok(1)
}

/// Removes a message and records its result in the intent's log, and in the system log if it was refused or
/// lost.
async fn settle(ctx: &Ctx, due: &Due, verdict: Verdict) -> Outcome<()> {
    // Of a callback, only a refusal or a loss is recorded.
    let failed = !matches!(verdict, Verdict::Taken(..));
    let mut logs: Vec<IntentId> = due.intent_id.into_iter().collect();
    if failed {
        logs.push(IntentId::SYSTEM);
    }
    let mut tx = ctx.begin(&logs).await?;
    if !delete(&mut tx, due).await? {
        // Another server was faster; its result counts.
        return Ok(());
    }
    if let (Some(intent_id), Ok(id)) = (due.intent_id, due.dispatch_id.parse::<DispatchId>()) {
        answer(&mut tx, ctx, intent_id, id, &verdict).await?;
    }
    if let Verdict::Refused(why) | Verdict::Lost(why) = &verdict {
        let mut log = IntentLog::open(&mut tx, IntentId::SYSTEM, None, ctx.now()).await?;
        let payload = json!({
            "peer": due.peer, "kind": if due.is_dispatch { "dispatch" } else { "callback" },
            "dispatch_id": due.dispatch_id, "attempts": due.attempts, "error": why,
            "refused": matches!(verdict, Verdict::Refused(_)),
        });
        log.record(ctx, Draft::of(Kind::FederationUndelivered, SYSTEM, payload));
        log.save(&mut tx).await?;
        tracing::warn!(
            peer = due.peer,
            dispatch.id = due.dispatch_id,
            error = why,
            "a peer did not take a letter"
        );
    }
    tx.commit().await?;
    logs.into_iter().for_each(|log| ctx.feed.notify_committed(log));
    Ok(())
}

/// Records a peer's answer to a dispatch.
async fn answer(
    conn: &mut PgConnection,
    ctx: &Ctx,
    intent_id: IntentId,
    id: DispatchId,
    verdict: &Verdict,
) -> Outcome<()> {
    let Some(mut dispatch) = rows::dispatch(conn, id).await? else { return Ok(()) };
    let mut log = IntentLog::open(conn, intent_id, None, ctx.now()).await?;
    let (kind, state, word, message) = match verdict {
        Verdict::Taken(remote, message) => {
            dispatch.remote_intent_id.clone_from(remote);
            (Kind::FederationCallback, State::Accepted, "accepted", message.as_str())
        }
        Verdict::Refused(why) => (Kind::FederationFailed, State::Rejected, "rejected", why.as_str()),
        Verdict::Lost(why) => (Kind::FederationFailed, State::Dead, "undelivered", why.as_str()),
        Verdict::Later(_) => return Ok(()),
    };
    dispatch.hears(state, message, log.now());
    rows::save_dispatch(conn, &dispatch).await?;
    let payload = json!({
        "dispatch_id": id, "peer": dispatch.peer, "remote_intent_id": dispatch.remote_intent_id,
        "event_type": word, "reason": message,
    });
    log.record(ctx, Draft::of(kind, SYSTEM, payload));
    log.save(conn).await
}

async fn put_off(conn: &mut PgConnection, due: &Due, at: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- federation::put_off
         UPDATE federation_letters SET due_at = $3 WHERE id = $1 AND attempts = $2",
        due.id,
        due.attempts,
        at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes a message; returns whether it was still queued at this attempt.
async fn delete(conn: &mut PgConnection, due: &Due) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- federation::delete
         DELETE FROM federation_letters WHERE id = $1 AND attempts = $2",
        due.id,
        due.attempts
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Removes the message of a dispatch, even if a server is sending it.
pub(super) async fn call_off(conn: &mut PgConnection, peer: &str, dispatch_id: &str) -> Outcome<()> {
    sqlx::query!(
        "-- federation::call_off
         DELETE FROM federation_letters WHERE peer = $1 AND kind = 'dispatch' AND dispatch_id = $2",
        peer,
        dispatch_id
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns messages that were queued before a time and are not delivered yet.
pub(super) async fn older(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<Vec<Due>> {
    let rows = sqlx::query!(
        "-- federation::older
         SELECT id, peer, kind, dispatch_id, intent_id, url, body, attempts FROM federation_letters
         WHERE created_at <= $1 ORDER BY created_at LIMIT $2",
        before,
        limit
    )
    .fetch_all(conn)
    .await?;
    let read = rows.into_iter().map(|row| Due {
        id: row.id,
        peer: row.peer,
        is_dispatch: row.kind == "dispatch",
        dispatch_id: row.dispatch_id,
        intent_id: row.intent_id.map(IntentId::from),
        url: row.url,
        body: row.body,
        attempts: row.attempts,
    });
    Ok(read.collect())
}
