//! Finding: results that the caller could read by their own GET at this moment, newest first.
//!
//! SQL finds documents of the logs and jobs that the caller may read as a whole (`documents.rs`); messages are then
//! judged one by one, with the rules of their channels. A page looks at a bounded number of documents, so it may be
//! short, and its cursor continues behind the last one that was looked at.

use std::collections::HashMap;

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{ChannelId, EventId, IntentId, JobId, MessageId};
use entente_domain::log::search::{Place, Query, SourceKind, strings};
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::messages::Viewer;
use entente_domain::refusal::{Code, Refusal};
use sqlx::PgConnection;
use uuid::Uuid;

use super::documents::{self, Ask, Candidate};
use super::follower;
use super::sources::{self, Entry, JobTexts};
use crate::access::membership;
use crate::log::order;
use crate::{Caller, Ctx, Outcome, channels, messages};

/// Maximum number of results of a page: for the excerpt, each one's text is read.
pub const PAGE: u32 = 100;

/// Documents that the first look of a page reads beyond its size, and each further one; and number of looks.
const FIRST: i64 = 20;
const FURTHER: i64 = 2_000;
const LOOKS: u32 = 6;

/// The source of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A message.
    Message {
        /// Its id.
        id: MessageId,
        /// Its channel.
        channel_id: ChannelId,
        /// Its type.
        message_type: String,
        /// Its sender.
        sender: String,
    },
    /// An event.
    Event {
        /// Its id.
        id: EventId,
        /// Its type.
        event_type: String,
        /// Its actor.
        actor: String,
    },
    /// A job.
    Job {
        /// Its id.
        id: JobId,
        /// The agent that runs it.
        agent: String,
        /// Its status.
        status: String,
    },
}

/// A result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Its source.
    pub source: Source,
    /// The intent that it belongs to.
    pub intent_id: Option<IntentId>,
    /// Time of the entry, or when the job was accepted.
    pub at: Timestamp,
    /// A part of its text around a word.
    pub excerpt: Option<String>,
}

/// How far the index has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indexed {
    /// Messages and events committed before this time were searched; `None`: nothing is known.
    pub log_until: Option<Timestamp>,
    /// Jobs accepted before this time were searched; `None`: nothing is known.
    pub jobs_until: Option<Timestamp>,
}

/// A page of results.
#[derive(Debug, Clone)]
pub struct Found {
    /// The results, newest first.
    pub hits: Vec<Hit>,
    /// Place where the next page begins; `None` if this is the last one.
    pub next: Option<Place>,
    /// How far the index had come.
    pub indexed: Indexed,
}

/// Searches for words.
///
/// # Errors
/// The search is switched off here; the key has no scope to read such objects; the intent does not exist, or is closed to the
/// caller; the limit is invalid.
pub async fn find(ctx: &Ctx, caller: &Caller, ask: &Ask) -> Outcome<Found> {
    let kinds = kinds(caller, ask)?;
    if ask.limit == 0 || ask.limit > PAGE {
        let message = format!("`limit` must be a number from 1 to {PAGE}.");
        return Err(Refusal::field(Code::InvalidRequest, "limit", "range", message).into());
    }
    if !ctx.settings.search {
        let message = "The search is switched off on this server (ENTENTE_SEARCH). Ask its operator.";
        return Err(Refusal::new(Code::Unprocessable, message).into());
    }
    let now = ctx.now();
    let mut conn = ctx.pool.acquire().await?;
    if let Some(intent_id) = ask.intent_id {
        membership::require(&mut conn, &caller.agent, intent_id, Level::Read, now).await?;
    }
    // This is read before the search, so that it cannot claim more than was searched.
    let indexed = indexed(&mut conn, now).await?;
    let wanted = ask.limit as usize + 1;
    let (mut hits, mut before, mut is_over) = (Vec::with_capacity(wanted), ask.before, false);
    for look in 0..LOOKS {
        let limit = if look == 0 { i64::from(ask.limit) + FIRST } else { FURTHER };
        let found = documents::matching(&mut conn, caller, ask, &kinds, before, limit, now).await?;
        is_over = i64::try_from(found.len()).is_ok_and(|count| count < limit);
        before = found.last().map(|one| one.place).or(before);
        let shown = judge(ctx, &mut conn, caller, found, now).await?;
        let missing = wanted - hits.len();
        hits.extend(read(&mut conn, caller, ask, &shown, missing).await?);
        if is_over || hits.len() >= wanted {
            break;
        }
    }
    let is_full = hits.len() >= wanted;
    hits.truncate(ask.limit as usize);
    let next = if is_full { hits.last().map(|(place, _)| *place) } else { before.filter(|_| !is_over) };
    Ok(Found { hits: hits.into_iter().map(|(_, hit)| hit).collect(), next, indexed })
}

/// Returns the kinds to search.
fn kinds(caller: &Caller, ask: &Ask) -> Result<Vec<SourceKind>, Refusal> {
    for kind in &ask.kinds {
        caller.require(kind.scope())?;
    }
    if !ask.kinds.is_empty() {
        return Ok(ask.kinds.clone());
    }
    let readable: Vec<SourceKind> =
        SourceKind::ALL.into_iter().filter(|kind| caller.has(kind.scope())).collect();
    if readable.is_empty() {
        caller.require(SourceKind::Message.scope())?;
    }
    Ok(readable)
}

/// Returns how far the index has come.
async fn indexed(conn: &mut PgConnection, now: Timestamp) -> Outcome<Indexed> {
    let ends = order::advance(conn).await?;
    let position = follower::load(conn).await?;
    let is_caught_up = position.logs >= ends.logs;
    let log_until = if is_caught_up { Some(now) } else { position.logs_until };
    Ok(Indexed { log_until, jobs_until: position.jobs_until })
}

/// Returns those candidates that the caller may see.
async fn judge(
    ctx: &Ctx,
    conn: &mut PgConnection,
    caller: &Caller,
    found: Vec<Candidate>,
    now: Timestamp,
) -> Outcome<Vec<Candidate>> {
    let places: Vec<(IntentId, i64)> = found
        .iter()
        .filter(|one| one.kind == SourceKind::Message)
        .map(|one| (one.log(), one.place.seq))
        .collect();
    if places.is_empty() {
        return Ok(found);
    }
    let rows = messages::bare(conn, &places).await?;
    let mut ids: Vec<ChannelId> = rows.iter().map(|row| row.channel_id.into()).collect();
    ids.sort_unstable();
    ids.dedup();
    let channels: HashMap<ChannelId, Channel> =
        channels::load_all(conn, &ids).await?.into_iter().map(|channel| (channel.id, channel)).collect();
    let mut asked: Vec<(IntentId, &str)> =
        channels.values().map(|channel| (channel.intent_id, caller.agent.as_str())).collect();
    asked.sort_unstable();
    asked.dedup();
    let members: HashMap<IntentId, _> = membership::find_all(conn, &asked, now)
        .await?
        .into_iter()
        .map(|((intent, _), membership)| (intent, membership))
        .collect();
    let mut seen = HashMap::new();
    for row in rows {
        let message = row.message(now)?;
        let is_seen = channels.get(&message.channel_id).is_some_and(|channel| {
            members.get(&channel.intent_id).is_some_and(|membership| {
                let agent = caller.agent.as_str();
                let viewer = Viewer {
                    agent,
                    admitted: channel.admits(agent),
                    manages: channel.managed_by(agent, membership.access, membership.coordinates),
                    sees_all: caller.sees_all(ctx.settings.strict),
                };
                membership.access.reaches(Level::Read)
                    && viewer.require(channel).is_ok()
                    && message.delivered_to(&viewer)
                    && i64::from(message.number) > channel.floor()
            })
        });
        seen.insert((message.intent_id, message.seq), is_seen);
    }
    let shows = |one: &Candidate| {
        one.kind != SourceKind::Message || seen.get(&(one.log(), one.place.seq)).copied().unwrap_or_default()
    };
    Ok(found.into_iter().filter(shows).collect())
}

/// Reads the texts of the first candidates, and returns up to `limit` results; a source that was deleted in between is left
/// out.
async fn read(
    conn: &mut PgConnection,
    caller: &Caller,
    ask: &Ask,
    shown: &[Candidate],
    limit: usize,
) -> Outcome<Vec<(Place, Hit)>> {
    let mut hits = Vec::new();
    for page in shown.chunks(limit.max(1)) {
        let (jobs, logged): (Vec<&Candidate>, Vec<&Candidate>) =
            page.iter().partition(|one| one.kind == SourceKind::Job);
        let intents: Vec<Uuid> = logged.iter().map(|one| one.place.source_id).collect();
        let seqs: Vec<i64> = logged.iter().map(|one| one.place.seq).collect();
        let ids: Vec<Uuid> = jobs.iter().map(|one| one.place.source_id).collect();
        let mut found: HashMap<(Uuid, i64), Hit> = HashMap::new();
        for entry in sources::entries(conn, &intents, &seqs, &seqs).await? {
            found.insert((entry.intent_id.uuid(), entry.seq), entry_hit(entry, &ask.query));
        }
        for job in sources::jobs(conn, &ids).await? {
            found.insert((job.id, 0), job_hit(job, caller, &ask.query));
        }
        let placed = page.iter().filter_map(|one| {
            found.remove(&(one.place.source_id, one.place.seq)).map(|hit| (one.place, hit))
        });
        hits.extend(placed);
        if hits.len() >= limit {
            hits.truncate(limit);
            break;
        }
    }
    Ok(hits)
}

fn entry_hit(entry: Entry, query: &Query) -> Hit {
    let texts = strings(&entry.payload);
    let excerpt = query.excerpt(texts.iter().map(String::as_str));
    let source = match entry.channel_id {
        Some(channel_id) => Source::Message {
            id: entry.id.into(),
            channel_id: channel_id.into(),
            message_type: entry.type_,
            sender: entry.agent,
        },
        None => Source::Event { id: entry.id.into(), event_type: entry.type_, actor: entry.agent },
    };
    let intent_id = (entry.intent_id != IntentId::SYSTEM).then_some(entry.intent_id);
    Hit { source, intent_id, at: entry.at, excerpt }
}

fn job_hit(job: JobTexts, caller: &Caller, query: &Query) -> Hit {
    let own = if job.principal == caller.agent { job.own() } else { Vec::new() };
    let texts: Vec<String> = own.into_iter().chain(job.shown()).collect();
    let excerpt = query.excerpt(texts.iter().map(String::as_str));
    let source = Source::Job { id: job.id.into(), agent: job.agent, status: job.status };
    Hit { source, intent_id: job.intent_id.map(IntentId::from), at: job.created_at, excerpt }
}
