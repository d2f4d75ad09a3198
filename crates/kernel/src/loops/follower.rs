//! The follower: reads committed messages, and the work given to agents, in the order over all logs, and computes
//! lineages, steps against them, and holds.
//!
//! One server at a time reads on from the position, and moves it in the same transaction: a crash repeats a step or
//! continues after it, and each message counts once. Events are left in a table by the same transaction, because the
//! follower holds no intent's lock; [`announce`] moves them into the logs, once each.

use std::collections::{BTreeMap, HashMap, HashSet};

use entente_domain::clock::Timestamp;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{ChannelId, IntentId, MessageId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::loops::policy::LoopPolicy;
use entente_domain::loops::talk::{GivenWork, News, Reach, Spoken, Talk};
use entente_domain::loops::words::{READ_BYTES, Sketch};
use entente_domain::openintent::channels::{Channel, MemberPolicy};
use entente_runtime::tasks::share_thread;
use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::days;
use super::rows::{self, StoredHold, TalkChanges};
use super::works::{self, Given};
use crate::log::GlobalPosition;
use crate::log::order::{self, Parts};
use crate::log::writer::IntentLog;
use crate::{Ctx, Outcome, channels, try_locks};

/// The advisory lock of the follower: only tried, so that the other servers do not wait for it.
const LOCK: i64 = 0x656e_7465_6e74_650a;

/// Entries of the logs that are read in one step.
pub const ENTRIES: i64 = 1_024;

/// Talks that are tidied in one step.
const TALKS: i64 = 64;

/// Intents whose events are written in one call of [`announce`].
const INTENTS: i64 = 64;

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There was nothing more to read.
    Idle,
    /// Another server is at it.
    Busy,
    /// There may be more. The number is the end of the order, which tells whether others write.
    More(i64),
}

/// A message as it is read.
struct Said {
    place: GlobalPosition,
    intent: IntentId,
    id: MessageId,
    channel: ChannelId,
    sender: String,
    recipients: Option<Vec<String>>,
    answers: Option<MessageId>,
    is_request: bool,
    at: Timestamp,
    sketch: Sketch,
}

/// Reads the next page of messages: of so many entries of logs, at most.
///
/// # Errors
/// A database error.
pub async fn step(ctx: &Ctx, entries: i64) -> Outcome<Step> {
    let now = ctx.now();
    let mut conn = ctx.pool.acquire().await?;
    if !ctx.settings.loops.enabled && !rows::is_any_enabled(&mut conn).await? {
        drop(conn);
        stop(ctx).await?;
        return Ok(Step::Idle);
    }
    let ends = order::advance(&mut conn).await?;
    drop(conn);
    let mut tx = ctx.pool.begin().await?;
    if try_locks(&mut tx, &[LOCK]).await?.is_empty() {
        return Ok(Step::Busy);
    }
    let Some(cursor) = rows::cursor(&mut tx).await? else {
        // Messages from before anybody looked are no evidence.
        rows::move_cursor(&mut tx, Some(ends.logs)).await?;
        tx.commit().await?;
        return Ok(Step::Idle);
    };
    let parts = Parts::after(&mut tx, cursor, entries).await?;
    let said = messages(&mut tx, &parts).await?;
    let given = works::given(&mut tx, &parts).await?;
    let due = rows::due(&mut tx, now, TALKS).await?;
    let is_full = i64::try_from(due.len()).is_ok_and(|count| count >= TALKS);
    days::add(&mut tx, said.iter().map(|one| (one.sender.as_str(), one.at)), now).await?;
    let have_changed = hear(ctx, &mut tx, &said, &given, due, now).await?;
    if parts.reached != cursor {
        rows::move_cursor(&mut tx, Some(parts.reached)).await?;
    }
    tx.commit().await?;
    if have_changed {
        ctx.loops.refresh(ctx).await?;
    }
    let more = parts.reached < ends.logs || is_full;
    Ok(if more { Step::More(ends.logs.global) } else { Step::Idle })
}

/// Forgets everything while no policy is on: whoever turns one on begins anew.
async fn stop(ctx: &Ctx) -> Outcome<()> {
    let mut tx = ctx.pool.begin().await?;
    if try_locks(&mut tx, &[LOCK]).await?.is_empty() || rows::cursor(&mut tx).await?.is_none() {
        return Ok(());
    }
    rows::forget_all(&mut tx).await?;
    // One may have been turned on meanwhile: whoever does so takes the row of the position.
    if rows::is_any_enabled(&mut tx).await? {
        return Ok(());
    }
    tx.commit().await?;
    ctx.loops.refresh(ctx).await
}

/// Adds messages to the talks of their intents, and tidies those that are due; returns whether the holds have changed.
async fn hear(
    ctx: &Ctx,
    conn: &mut PgConnection,
    said: &[Said],
    given: &[Given],
    due: Vec<IntentId>,
    now: Timestamp,
) -> Outcome<bool> {
    let mut of_intents: BTreeMap<IntentId, Vec<Heard<'_>>> =
        due.into_iter().map(|id| (id, Vec::new())).collect();
    for one in said {
        of_intents.entry(one.intent).or_default().push(Heard::Said(one));
    }
    for one in given {
        of_intents.entry(one.intent).or_default().push(Heard::Given(one));
    }
    if of_intents.is_empty() {
        return Ok(false);
    }
    let intents: Vec<IntentId> = of_intents.keys().copied().collect();
    let policies = super::policies(ctx, conn, &intents).await?;
    let mut talks = rows::lock_talks(conn, &intents).await?;
    let known = Known { channels: channels_of(conn, said).await?, people: people(conn, said, given).await? };
    let mut kept = TalkChanges::default();
    for (intent, mut heard) in of_intents {
        heard.sort_by_key(Heard::place);
        let policy = policies.get(&intent).unwrap_or(&ctx.settings.loops);
        let mut talk = talks.remove(&intent).unwrap_or_default();
        if !policy.enabled {
            talk.close();
            keep(&mut kept, intent, talk, policy);
            continue;
        }
        for (n, one) in heard.into_iter().enumerate() {
            share_thread(n).await;
            match one {
                Heard::Said(said) => {
                    if let Some(spoken) = known.spoken(said) {
                        talk.hear(&spoken, policy);
                    }
                }
                Heard::Given(given) => talk.give(&known.work(given), policy),
            }
        }
        talk.tidy(now, policy);
        keep(&mut kept, intent, talk, policy);
    }
    rows::save(conn, kept).await
}

/// Collects the changes of a talk.
pub(super) fn keep(kept: &mut TalkChanges, intent: IntentId, mut talk: Talk, policy: &LoopPolicy) {
    kept.news.extend(talk.take_news().iter().map(|news| {
        let (kind, payload) = event(news);
        (intent, kind.wire(), payload.to_string())
    }));
    kept.lineages.extend(talk.take_changed().into_iter().map(|lineage| (intent, lineage)));
    let slow_seconds = i64::from(policy.slow_seconds);
    let held = talk.held(policy).into_iter();
    kept.holds.extend(held.map(|hold| StoredHold { intent_id: intent, hold, slow_seconds }));
    match talk.due_at(policy).filter(|_| !talk.is_empty()) {
        Some(due_at) => kept.talks.push((intent, talk, due_at)),
        None => kept.gone.push(intent),
    }
    kept.intents.push(intent);
}

/// Returns the event of a piece of news.
pub(super) fn event(news: &News) -> (Kind, Value) {
    let mut payload = news.lineage.event_payload();
    let Some(ending) = news.ending else { return (Kind::LoopFound, payload) };
    payload["reason"] = json!(ending.as_str());
    (Kind::LoopCleared, payload)
}

/// An entry of a log, as far as lineages need it.
enum Heard<'a> {
    Said(&'a Said),
    Given(&'a Given),
}

impl Heard<'_> {
    fn place(&self) -> GlobalPosition {
        match self {
            Self::Said(said) => said.place,
            Self::Given(given) => given.place,
        }
    }
}

/// The channels and people that messages and work refer to.
struct Known {
    channels: HashMap<ChannelId, Channel>,
    people: HashSet<String>,
}

impl Known {
    /// Returns a message for the domain; `None` if its channel is gone.
    fn spoken<'a>(&'a self, said: &'a Said) -> Option<Spoken<'a>> {
        let channel = self.channels.get(&said.channel)?;
        let is_public = channel.member_policy == MemberPolicy::Intent;
        let reach = match &said.recipients {
            Some(agents) => Reach::These(agents),
            None if is_public => Reach::Everyone,
            None => Reach::Members(&channel.members),
        };
        Some(Spoken {
            id: said.id,
            channel_id: said.channel,
            sender: &said.sender,
            is_person: self.people.contains(&said.sender),
            reach,
            is_request: said.is_request,
            answers: said.answers,
            at: said.at,
            is_public,
            sketch: said.sketch.clone(),
        })
    }
}

impl Known {
    /// Returns work for the domain.
    fn work<'a>(&self, given: &'a Given) -> GivenWork<'a> {
        let is_person = self.people.contains(&given.giver);
        GivenWork { agent: &given.agent, giver: &given.giver, is_person, at: given.at }
    }
}

/// Reads the messages of these parts, in their order.
async fn messages(conn: &mut PgConnection, parts: &Parts) -> Outcome<Vec<Said>> {
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"-- loops::messages
         SELECT m.intent_id, m.seq, m.channel_id, m.id, m.sender, m.recipients, m.message_type, m.correlation_id, m.created_at,
                left(m.payload, $4) AS "payload!"
         FROM UNNEST($1::uuid[], $2::bigint[], $3::bigint[]) AS p (intent_id, from_seq, to_seq)
         CROSS JOIN LATERAL (SELECT s.* FROM messages s
                             WHERE s.intent_id = p.intent_id AND s.seq BETWEEN p.from_seq AND p.to_seq OFFSET 0) m"#,
        &parts.intents,
        &parts.from,
        &parts.to,
        i32::try_from(READ_BYTES).unwrap_or(i32::MAX)
    )
    .fetch_all(conn)
    .await?;
    let mut said = Vec::with_capacity(rows.len());
    for (n, row) in rows.into_iter().enumerate() {
        share_thread(n).await;
        let intent = IntentId::from(row.intent_id);
        said.push(Said {
            place: parts.place(intent, row.seq),
            intent,
            id: row.id.into(),
            channel: row.channel_id.into(),
            sender: row.sender,
            recipients: row.recipients,
            answers: row.correlation_id.map(MessageId::from),
            is_request: row.message_type == "request",
            at: row.created_at,
            sketch: Sketch::of(&row.payload),
        });
    }
    said.sort_by_key(|one| one.place);
    Ok(said)
}

async fn channels_of(conn: &mut PgConnection, said: &[Said]) -> Outcome<HashMap<ChannelId, Channel>> {
    let mut ids: Vec<ChannelId> = said.iter().map(|one| one.channel).collect();
    ids.sort_unstable();
    ids.dedup();
    let found = if ids.is_empty() { Vec::new() } else { channels::load_all(conn, &ids).await? };
    Ok(found.into_iter().map(|channel| (channel.id, channel)).collect())
}

/// Returns those senders and givers of work that are people.
async fn people(conn: &mut PgConnection, said: &[Said], given: &[Given]) -> Outcome<HashSet<String>> {
    let givers = given.iter().map(|one| one.giver.as_str());
    let mut senders: Vec<&str> = said.iter().map(|one| one.sender.as_str()).chain(givers).collect();
    senders.sort_unstable();
    senders.dedup();
    if senders.is_empty() {
        return Ok(HashSet::new());
    }
    let found = sqlx::query_scalar!(
        "-- loops::people
         SELECT id FROM principals WHERE id = ANY($1) AND kind = 'human'",
        &senders as &[&str]
    )
    .fetch_all(conn)
    .await?;
    Ok(found.into_iter().collect())
}

/// Writes events that steps have left into the logs of their intents; returns their number.
///
/// # Errors
/// A database error.
pub async fn announce(ctx: &Ctx) -> Outcome<usize> {
    let intents = rows::intents_with_news(&mut *ctx.pool.acquire().await?, INTENTS).await?;
    let mut count = 0;
    for intent in intents {
        let mut tx = ctx.begin(&[intent]).await?;
        let news = rows::take_news(&mut tx, intent).await?;
        if news.is_empty() {
            continue;
        }
        let mut log = IntentLog::open(&mut tx, intent, None, ctx.now()).await?;
        for (kind, payload) in &news {
            let payload: Map<String, Value> = serde_json::from_str(payload)?;
            let word = |member: &str| payload.get(member).and_then(Value::as_str).unwrap_or_default();
            let (lineage, state) = (word("lineage_id"), word("state"));
            tracing::info!(intent.id = %intent, lineage, state, "a loop or a storm of messages");
            log.record(ctx, Draft::of(*kind, SYSTEM, Value::Object(payload)));
        }
        log.save(&mut tx).await?;
        tx.commit().await?;
        ctx.feed.publish_log(&log);
        count += news.len();
    }
    Ok(count)
}

/// Columns of ids.
pub(super) fn uuids(intents: &[IntentId]) -> Vec<Uuid> {
    intents.iter().map(|intent| intent.uuid()).collect()
}
