//! The endpoint that searches messages, events and jobs by words.

use actix_web::{get, web};
use entente_domain::clock;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{ChannelId, EventId, IntentId, JobId, MessageId};
use entente_domain::log::search::{Place, Query as Words, SourceKind};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::audit::search::{self, Ask, Found, Hit, Source};
use serde::Serialize;
use utoipa::ToSchema;

use crate::body::Query;
use crate::caller::Asker;
use crate::error::{Problem, Reply};
use crate::routes::Routes;
use crate::wire::{WireTime, event_type};
use crate::{HttpState, ok};

/// Default size of a page.
pub const STEP: u32 = 20;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(find);
}

/// Builds a search from its parts, as texts.
///
/// # Errors
/// A part is missing or malformed.
pub fn ask(
    words: Option<&str>,
    kinds: Option<&str>,
    intent_id: Option<IntentId>,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Ask, Refusal> {
    let missing =
        || Refusal::field(Code::InvalidRequest, "q", "missing", "`q` is missing: the words to search for.");
    Ok(Ask {
        query: Words::parse(words.ok_or_else(missing)?)?,
        kinds: kinds.map_or(Ok(Vec::new()), SourceKind::parse_list)?,
        intent_id,
        since: None,
        until: None,
        limit,
        before: cursor.map(Place::parse).transpose()?,
    })
}

/// A result.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SearchHit)]
pub struct HitBody {
    /// `message`, `event` or `job`.
    #[schema(example = "message")]
    kind: &'static str,
    /// The message, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<MessageId>,
    /// The message's channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_id: Option<ChannelId>,
    /// The event, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<EventId>,
    /// The job, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<JobId>,
    /// The intent that it belongs to; null for the system log, and for jobs without one.
    intent_id: Option<IntentId>,
    /// Type of the message or the event; status of the job.
    #[serde(rename = "type")]
    #[schema(example = "request")]
    type_: String,
    /// Sender of the message, actor of the event, or agent of the job.
    #[schema(example = "agent.researcher")]
    agent: String,
    /// When it was written; of a job, when it was accepted.
    #[schema(value_type = String)]
    at: WireTime,
    /// A part of its text around one of the words.
    #[serde(skip_serializing_if = "Option::is_none")]
    excerpt: Option<String>,
}

impl HitBody {
    fn new(hit: Hit, dialect: Dialect) -> Self {
        let at = WireTime::new(hit.at, dialect);
        let (kind, excerpt, intent_id) = (SourceKind::Message.as_str(), hit.excerpt, hit.intent_id);
        let mut body = Self {
            kind,
            message_id: None,
            channel_id: None,
            event_id: None,
            job_id: None,
            intent_id,
            type_: String::new(),
            agent: String::new(),
            at,
            excerpt,
        };
        match hit.source {
            Source::Message { id, channel_id, message_type, sender } => {
                (body.message_id, body.channel_id) = (Some(id), Some(channel_id));
                (body.type_, body.agent) = (message_type, sender);
            }
            Source::Event { id, event_type: stored, actor } => {
                (body.kind, body.event_id) = (SourceKind::Event.as_str(), Some(id));
                (body.type_, body.agent) = (event_type(&stored, dialect).to_owned(), actor);
            }
            Source::Job { id, agent, status } => {
                (body.kind, body.job_id) = (SourceKind::Job.as_str(), Some(id));
                (body.type_, body.agent) = (status, agent);
            }
        }
        body
    }
}

/// The times up to which records were searched.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SearchIndexed)]
pub struct IndexedBody {
    /// Messages and events that were written before this time were searched; null while nothing is known.
    #[schema(value_type = Option<String>)]
    log_until: Option<WireTime>,
    /// Jobs that were accepted before this time were searched; null while nothing is known. Most younger ones were too.
    #[schema(value_type = Option<String>)]
    jobs_until: Option<WireTime>,
}

/// A page of results.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SearchResults)]
pub struct FoundBody {
    /// The results, newest first.
    pub results: Vec<HitBody>,
    /// Cursor of the next page; null on the last one. A page may be short, or empty, and have one.
    next_cursor: Option<String>,
    /// How far the search reaches: a result may be missing only if it is newer.
    indexed: IndexedBody,
}

impl FoundBody {
    /// Returns the page in the client's dialect.
    #[must_use]
    pub fn new(found: Found, dialect: Dialect) -> Self {
        let time = |at: Option<_>| at.map(|at| WireTime::new(at, dialect));
        Self {
            next_cursor: found.next.map(|place| place.cursor()),
            indexed: IndexedBody {
                log_until: time(found.indexed.log_until),
                jobs_until: time(found.indexed.jobs_until),
            },
            results: found.hits.into_iter().map(|hit| HitBody::new(hit, dialect)).collect(),
        }
    }
}

/// Search messages, events and jobs
///
/// By words, newest first. `q` has words that a result must all have, `"words in this order"`, `or` between two words, and
/// `-word` for words that it must not have. Words are compared as they are written, in lower case and without stemming,
/// because texts of agents mix languages; `job.error` and `2026-11-27` are found by their parts. Searched are string values of
/// payloads, types, senders and actors, and of jobs the agent, the labels and the error; the input of a job is found by its own
/// principal only. The first 64 KiB of words of each are indexed, within a moment after they are written.
///
/// Each result is one that the caller can read by its own GET: of its intents, of channels that it takes part in, its own
/// jobs, and with the scope `admin` everybody's jobs and the system log.
#[utoipa::path(operation_id = "search", tag = "server",
    params(("q" = String, Query, description = "The words, up to 1,024 bytes", example = "deploy \"out of memory\" -staging"),
           ("kinds" = Option<String>, Query, description = "Some of `message`, `event` and `job`, separated by commas; defaults to those that the key may read"),
           ("intent_id" = Option<String>, Query, description = "Only results of this intent"),
           ("since" = Option<String>, Query, description = "Only results after this time"),
           ("until" = Option<String>, Query, description = "Only results before this time"),
           ("limit" = Option<u32>, Query, description = "Page size, 1 to 100; defaults to 20", maximum = 100),
           ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")),
    responses((status = 200, description = "The results", body = FoundBody)))]
#[get("/search")]
async fn find(api: web::Data<HttpState>, asker: Asker, query: Query) -> Reply {
    let intent_id = query.text("intent_id").map(|text| crate::body::id("intent", text)).transpose()?;
    let limit = query.number("limit", STEP, 1, search::PAGE)?;
    let mut ask = ask(query.text("q"), query.text("kinds"), intent_id, query.text("cursor"), limit)?;
    ask.since = query.parsed("since", "an RFC 3339 time", clock::parse)?;
    ask.until = query.parsed("until", "an RFC 3339 time", clock::parse)?;
    let found = search::find(&api.ctx, &asker.caller, &ask).await.map_err(Problem::from)?;
    ok(&FoundBody::new(found, asker.dialect))
}
