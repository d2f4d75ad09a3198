//! Data of the dashboard, read across all resources and never written. Everything is bounded and limited to
//! the viewer's access; the scope `admin` sees all. `overview/work.rs` covers jobs and webhooks.

mod charts;
mod counts;
mod levels;
mod search;
mod work;

use std::cmp::Reverse;

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ChannelId, IntentId, JobId, MessageId};
use entente_domain::log::kinds::MESSAGE_EVENTS;

use super::{Caller, Ctx, Outcome};
use crate::access::membership;

pub use charts::{AnsweredQuestions, EndedJobs, answered_questions, ended_jobs};
pub use counts::{Counts, counts, health};
pub use levels::levels;
pub use search::{IntentSearch, agent_history, find_intents};
pub use work::{Gauge, JobOfIntent, Receiver, Spend, Work, jobs_of_intent, receivers, url_host, works};

/// Maximum number of intents.
const INTENTS: i64 = 40;
/// Maximum number of waits.
const WAITS: i64 = 500;
/// Maximum number of timeline entries on a page.
pub const ENTRIES_SHOWN: usize = 60;
/// The same, as a limit of a query.
const ENTRIES: i64 = 60;
/// Number of latest intents, and of an intent's latest messages, searched for visible ones.
const LOOKED_AT: i64 = 2_000;

/// Summary of an intent.
#[derive(Debug, Clone)]
pub struct IntentSummary {
    /// Its id.
    pub id: IntentId,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: String,
    /// Its creator.
    pub created_by: String,
    /// Time of the last activity.
    pub last_at: Timestamp,
    /// Number of its requests that wait for an answer.
    pub waiting: i64,
}

/// An agent that waits for an answer.
#[derive(Debug, Clone)]
pub struct Wait {
    /// The intent.
    pub intent_id: IntentId,
    /// Name of the channel.
    pub channel: String,
    /// The request.
    pub message_id: MessageId,
    /// Waiting agent.
    pub waiting: String,
    /// Awaited agent; `None` if the request went to a role or to everybody.
    pub awaited: Option<String>,
    /// Start of the wait.
    pub since: Timestamp,
    /// Expiry of the request.
    pub until: Option<Timestamp>,
}

/// Kind of a timeline entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Messages.
    Messages,
    /// Events of the intent.
    Events,
    /// Events of jobs.
    Jobs,
    /// Decisions and questions to people.
    Decisions,
}

/// An entry of an intent's timeline.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Number in the intent's log.
    pub seq: i64,
    /// Time of the entry.
    pub at: Timestamp,
    /// Kind of the entry.
    pub lane: Lane,
    /// Type of the event or message.
    pub what: String,
    /// Its author.
    pub who: String,
    /// Recipient and channel, or the subject.
    pub about: String,
    /// Its channel.
    pub channel_id: Option<ChannelId>,
    /// The job that it is about.
    pub job_id: Option<JobId>,
}

/// Lists the latest intents that the caller can read, those with the most recent activity first.
///
/// # Errors
/// The caller lacks the scope.
pub async fn intents(ctx: &Ctx, caller: &Caller) -> Outcome<Vec<IntentSummary>> {
    caller.require(Scope::IntentsRead)?;
    let rows = sqlx::query!(
        r#"-- overview::intents
         SELECT i.id, i.title, i.status, i.created_by, coalesce(c.last_at, i.updated_at) AS "last_at!",
                (SELECT count(*) FROM pending p WHERE p.intent_id = i.id AND p.is_request
                 AND (p.expires_at IS NULL OR p.expires_at > $2)) AS "waiting!"
         FROM (SELECT * FROM intents ORDER BY id DESC LIMIT $5) i LEFT JOIN acls a ON a.intent_id = i.id
         LEFT JOIN LATERAL (SELECT * FROM intent_clock e WHERE e.intent_id = i.id ORDER BY e.block DESC LIMIT 1) c ON true
         WHERE $3 OR a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $1 OR EXISTS (
                SELECT 1 FROM acl_entries e WHERE e.intent_id = i.id AND e.principal_id = $1
                AND (e.expires_at IS NULL OR e.expires_at > $2))
         ORDER BY i.id DESC LIMIT $4"#,
        caller.agent,
        ctx.now(),
        caller.has(Scope::Admin),
        INTENTS,
        LOOKED_AT
    )
    .fetch_all(&ctx.pool)
    .await?;
    let mut found: Vec<IntentSummary> = rows
        .into_iter()
        .map(|row| IntentSummary {
            id: row.id.into(),
            title: row.title,
            status: row.status,
            created_by: row.created_by,
            last_at: row.last_at,
            waiting: row.waiting,
        })
        .collect();
    found.sort_by_key(|intent| Reverse(intent.last_at));
    Ok(found)
}

/// Returns one intent, if the caller can read it.
///
/// # Errors
/// The caller lacks the scope.
pub async fn intent(ctx: &Ctx, caller: &Caller, id: IntentId) -> Outcome<Option<IntentSummary>> {
    caller.require(Scope::IntentsRead)?;
    let now = ctx.now();
    let mut connection = ctx.pool.acquire().await?;
    if !caller.has(Scope::Admin) {
        let membership = membership::find(&mut connection, &caller.agent, id, now).await?;
        if !membership.is_some_and(|membership| membership.access.reaches(Level::Read)) {
            return Ok(None);
        }
    }
    let row = sqlx::query!(
        r#"-- overview::intent
         SELECT i.title, i.status, i.created_by, coalesce(c.last_at, i.updated_at) AS "last_at!",
                (SELECT count(*) FROM pending p WHERE p.intent_id = i.id AND p.is_request
                 AND (p.expires_at IS NULL OR p.expires_at > $2)) AS "waiting!"
         FROM intents i LEFT JOIN LATERAL (SELECT * FROM intent_clock e WHERE e.intent_id = i.id ORDER BY e.block DESC LIMIT 1) c ON true
         WHERE i.id = $1"#,
        id.uuid(),
        now
    )
    .fetch_optional(&mut *connection)
    .await?;
    Ok(row.map(|row| IntentSummary {
        id,
        title: row.title,
        status: row.status,
        created_by: row.created_by,
        last_at: row.last_at,
        waiting: row.waiting,
    }))
}

/// Lists the waits of requests that the caller may see; an admin sees all.
///
/// # Errors
/// The caller lacks the scope.
pub async fn waits(ctx: &Ctx, caller: &Caller) -> Outcome<Vec<Wait>> {
    caller.require(Scope::ChannelsRead)?;
    let rows = sqlx::query!(
        r#"-- overview::waits
         SELECT p.intent_id, p.message_id, p.sender, p.agent_id, p.expires_at, ch.name, m.created_at
         FROM pending p JOIN channels ch ON ch.id = p.channel_id
         JOIN messages m ON m.channel_id = p.channel_id AND m.number = p.number
         JOIN intents i ON i.id = p.intent_id LEFT JOIN acls a ON a.intent_id = i.id
         WHERE p.is_request AND (p.expires_at IS NULL OR p.expires_at > $2)
           AND ($3 OR (a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $1 OR EXISTS (
                    SELECT 1 FROM acl_entries e WHERE e.intent_id = i.id AND e.principal_id = $1
                    AND (e.expires_at IS NULL OR e.expires_at > $2)))
                AND (p.sender = $1 OR p.agent_id = $1 OR ch.created_by = $1
                    OR (ch.member_policy = 'intent' OR $1 = ANY(ch.members))
                       AND (m.recipients IS NULL OR $1 = ANY(m.recipients))))
         ORDER BY p.message_id LIMIT $4"#,
        caller.agent,
        ctx.now(),
        caller.has(Scope::Admin),
        WAITS
    )
    .fetch_all(&ctx.pool)
    .await?;
    let waits = rows.into_iter().map(|row| Wait {
        intent_id: row.intent_id.into(),
        channel: row.name,
        message_id: row.message_id.into(),
        waiting: row.sender,
        awaited: row.agent_id,
        since: row.created_at,
        until: row.expires_at,
    });
    Ok(waits.collect())
}

/// Lists the latest entries of an intent, of all kinds by their numbers in the log, newest first; with `before`, those before
/// that number.
///
/// # Errors
/// The caller lacks the scope; the intent does not exist or is not readable.
pub async fn timeline(
    ctx: &Ctx,
    caller: &Caller,
    intent: IntentId,
    before: Option<i64>,
) -> Outcome<Vec<Entry>> {
    caller.require(Scope::IntentsRead)?;
    if !caller.has(Scope::Admin) {
        let mut connection = ctx.pool.acquire().await?;
        membership::require(&mut connection, &caller.agent, intent, Level::Read, ctx.now()).await?;
    }
    let before = before.unwrap_or(i64::MAX);
    let mut entries = events(ctx, intent, before).await?;
    entries.extend(messages(ctx, caller, intent, before).await?);
    entries.sort_by_key(|entry| Reverse(entry.seq));
    entries.truncate(ENTRIES_SHOWN);
    Ok(entries)
}

async fn events(ctx: &Ctx, intent: IntentId, before: i64) -> Outcome<Vec<Entry>> {
    // An audited message is already in the log as a message.
    let rows = sqlx::query!(
        "-- overview::events
         SELECT seq, event_type, actor, payload, created_at FROM events
         WHERE intent_id = $1 AND seq < $4 AND (posted OR event_type <> ALL($3)) ORDER BY seq DESC LIMIT $2",
        intent.uuid(),
        ENTRIES,
        &MESSAGE_EVENTS as &[&str],
        before
    )
    .fetch_all(&ctx.pool)
    .await?;
    let entries = rows
        .into_iter()
        .map(|row| event_entry(row.seq, row.created_at, row.event_type, row.actor, &row.payload));
    Ok(entries.collect())
}

async fn messages(ctx: &Ctx, caller: &Caller, intent: IntentId, before: i64) -> Outcome<Vec<Entry>> {
    let rows = sqlx::query!(
        "-- overview::messages
         SELECT m.seq, m.message_type, m.sender, m.recipient, m.created_at, m.channel_id, ch.name
         FROM (SELECT * FROM messages WHERE intent_id = $1 AND seq < $6 ORDER BY seq DESC LIMIT $5) m
         JOIN channels ch ON ch.id = m.channel_id
         WHERE ($3 OR m.sender = $2 OR ch.created_by = $2
                OR (ch.member_policy = 'intent' OR $2 = ANY(ch.members))
                   AND (m.recipients IS NULL OR $2 = ANY(m.recipients)))
         ORDER BY m.seq DESC LIMIT $4",
        intent.uuid(),
        caller.agent,
        caller.has(Scope::Admin),
        ENTRIES,
        LOOKED_AT,
        before
    )
    .fetch_all(&ctx.pool)
    .await?;
    let entries = rows.into_iter().map(|row| Entry {
        seq: row.seq,
        at: row.created_at,
        lane: Lane::Messages,
        about: match row.recipient.as_deref() {
            None | Some("*") => format!("to everybody in {}", row.name),
            Some(to) => format!("to {to} in {}", row.name),
        },
        what: row.message_type,
        who: row.sender,
        channel_id: Some(row.channel_id.into()),
        job_id: None,
    });
    Ok(entries.collect())
}

/// Returns the entry of an event.
fn event_entry(seq: i64, at: Timestamp, event_type: String, actor: String, payload: &str) -> Entry {
    let payload: serde_json::Value = serde_json::from_str(payload).unwrap_or_default();
    let named = |member: &str| payload.get(member).and_then(serde_json::Value::as_str);
    Entry {
        seq,
        at,
        lane: lane(&event_type),
        about: about(&payload),
        what: event_type,
        who: actor,
        channel_id: named("channel_id").and_then(|id| id.parse().ok()),
        job_id: named("job_id").and_then(|id| id.parse().ok()),
    }
}

/// Timeline kind of an event type.
fn lane(event_type: &str) -> Lane {
    let decides = ["moment", "decision", "arbitration"];
    if event_type.starts_with("job") {
        Lane::Jobs
    } else if decides.iter().any(|word| event_type.starts_with(word)) {
        Lane::Decisions
    } else {
        Lane::Events
    }
}

/// Short description of an event: the members of its payload that people recognise.
fn about(payload: &serde_json::Value) -> String {
    const TELLING: [&str; 8] =
        ["title", "name", "status", "to", "agent_id", "principal_id", "synopsis", "reason"];
    let texts = TELLING.iter().filter_map(|member| payload.get(*member)?.as_str());
    texts.take(2).collect::<Vec<_>>().join(", ")
}

/// Returns a number that changes with most of the data on the overview.
///
/// A page finds the missed changes at its next regular reload: a transaction that commits after a later one,
/// an agent that falls silent, a delivery that ends.
///
/// # Errors
/// The database query fails.
pub async fn fingerprint(ctx: &Ctx) -> Outcome<i64> {
    let fingerprint = sqlx::query_scalar!(
        r#"-- overview::fingerprint
         SELECT (SELECT last_value FROM log_unsequenced_id_seq)
                + coalesce((SELECT max(id) FROM webhook_deliveries), 0) AS "fingerprint!""#
    )
    .fetch_one(&ctx.pool)
    .await?;
    Ok(fingerprint)
}
