//! Routes of agents' inboxes: settings, reading with a position per reader, waiting, marking seen, and following as a stream.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, delete, get, post, put, web};
use bytes::BytesMut;
use entente_domain::identity::keys::Dialect;
use entente_domain::inbox::{Attention, EntryKind, InboxCursor, Settings};
use entente_domain::limits::WAIT_SECONDS;
use entente_kernel::inbox;
use entente_kernel::inbox::Reader;
use entente_kernel::inbox::reading::{self, Content, InboxPage, ReadAsk, ShownEntry};
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{AppError, Caller};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Body, LastEventId, Query};
use crate::caller::Asker;
use crate::error::{Problem, Reply};
use crate::live::{Chunk, Source, last_event_id, respond, unreadable, write};
use crate::message::MessageBody;
use crate::presence::Presence;
use crate::routes::Routes;
use crate::wire::WireTime;
use crate::{HttpState, ok};

/// Default number of entries on a page.
pub const STEP: u32 = 50;

/// Maximum number of entries on a page.
pub const MOST: u32 = 200;

pub(super) fn routes(config: &mut Routes<'_>) {
    config.service(read).service(seen).service(put).service(settings).service(close).service(follow);
}

/// An entry of an inbox.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InboxEntry)]
pub struct EntryBody<'a> {
    /// Its place in the inbox, from 1 without gaps.
    place: i64,
    /// How soon to look at it: as it was given, or `next` instead of `wake` in quiet hours.
    attention: Attention,
    /// Kind of the object.
    kind: EntryKind,
    /// What happened: the type of a message or an envelope, the status of a job, the event of a decision or a task.
    #[schema(example = "request")]
    what: &'a str,
    /// When it happened.
    at: WireTime,
    /// How often it rang again because no reader has seen it.
    rings: i32,
    /// Id of the message, envelope, job, decision, task or intent; absent if it is withheld.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
    /// Intent of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    intent_id: Option<entente_domain::ids::IntentId>,
    /// Channel of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_id: Option<entente_domain::ids::ChannelId>,
    /// Agent, entity or person that it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<&'a str>,
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<MessageBody<'a>>,
    /// Whether the object was deleted since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    gone: bool,
    /// Whether the agent or its key may not read the object any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    withheld: bool,
}

impl<'a> EntryBody<'a> {
    /// Shapes an entry in the client's dialect.
    #[must_use]
    pub fn new(shown: &'a ShownEntry, strict: bool, dialect: Dialect) -> Self {
        let entry = &shown.entry;
        let withheld = matches!(shown.content, Content::Withheld);
        let message = match &shown.content {
            Content::Message(message) => Some(MessageBody::new(message, strict, dialect)),
            _ => None,
        };
        Self {
            place: entry.place,
            attention: shown.attention,
            kind: entry.kind,
            what: &entry.what,
            at: WireTime::new(entry.at, dialect),
            rings: entry.rings,
            reference: (!withheld).then_some(entry.reference.as_str()),
            intent_id: entry.intent_id.filter(|_| !withheld),
            channel_id: entry.channel_id.filter(|_| !withheld),
            sender: entry.sender.as_deref().filter(|_| !withheld),
            message,
            gone: matches!(shown.content, Content::Gone),
            withheld,
        }
    }
}

/// The entries of one source of a digest.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InboxDigestSource)]
struct DigestSourceBody<'a> {
    /// Kind of the objects.
    kind: EntryKind,
    /// Number of entries.
    count: u64,
    /// The newest one.
    newest: Option<EntryBody<'a>>,
}

/// The entries of the level `digest`, collected.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InboxDigest)]
struct DigestBody<'a> {
    /// Number of entries.
    count: u64,
    /// Up to 50 sources (channels and senders), the one with the newest entry first.
    sources: Vec<DigestSourceBody<'a>>,
    /// Number of entries of other sources.
    others: u64,
}

/// A page of an inbox.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InboxPage)]
pub struct PageBody<'a> {
    /// The agent.
    agent_id: &'a str,
    /// The reader.
    reader: &'a str,
    /// Place up to which the reader has marked entries seen.
    seen: i64,
    /// Position after which the page begins.
    from: String,
    /// The entries in order; before them those that rang again.
    entries: Vec<EntryBody<'a>>,
    /// Entries of the level `digest`; null if there are none.
    digest: Option<DigestBody<'a>>,
    /// Position after the page: `place` of `seen`, or `since` of the next page.
    #[schema(example = "42.0")]
    next: String,
    /// Place of that position, to mark the page seen.
    next_place: i64,
    /// Whether there is more now.
    has_more: bool,
    /// Number of entries after `from` that expired or were evicted before this read.
    missed: i64,
    /// Number of entries on the page that the agent may not read any more.
    withheld: usize,
    /// Place of the oldest entry in the inbox.
    oldest: Option<i64>,
    /// Place of the newest entry ever.
    newest: i64,
    /// Whether these are quiet hours.
    quiet: bool,
}

impl<'a> PageBody<'a> {
    /// Shapes a page in the client's dialect.
    #[must_use]
    pub fn new(agent: &'a str, page: &'a InboxPage, strict: bool, dialect: Dialect) -> Self {
        let entry = |shown| EntryBody::new(shown, strict, dialect);
        let sources = page.digest.sources.iter().map(|source| DigestSourceBody {
            kind: source.kind,
            count: source.count,
            newest: page.newest_of.iter().find(|one| one.entry.place == source.newest).map(entry),
        });
        let digest = (page.digest.count > 0).then(|| DigestBody {
            count: page.digest.count,
            sources: sources.collect(),
            others: page.digest.others,
        });
        Self {
            agent_id: agent,
            reader: &page.reader.name,
            seen: page.reader.place,
            from: page.from.to_string(),
            entries: page.entries.iter().map(entry).collect(),
            digest,
            next: page.next.to_string(),
            next_place: page.next.place,
            has_more: page.has_more,
            missed: page.missed,
            withheld: page.withheld(),
            oldest: page.oldest,
            newest: page.newest,
            quiet: page.is_quiet,
        }
    }
}

impl PageBody<'_> {
    /// Returns a summary of the page, for a model.
    #[must_use]
    pub fn summary(&self) -> String {
        let collected = self
            .digest
            .as_ref()
            .map_or_else(String::new, |digest| format!(", {} in the digest", digest.count));
        let missed = if self.missed > 0 { format!("; {} were missed", self.missed) } else { String::new() };
        format!("{} entries{collected}{missed}", self.entries.len())
    }
}

fn ask(query: &Query) -> Result<ReadAsk, Problem> {
    Ok(ReadAsk {
        reader: query.text("reader").map(str::to_owned),
        since: query.parsed("since", "a position, such as `42` or `42.7`", InboxCursor::parse)?,
        levels: query.parsed("attention", "levels of `wake`, `next` and `digest`", Attention::parse_list)?,
        expand: query.parsed("expand", "true or false", |text| text.parse().ok())?.unwrap_or(false),
        limit: query.number("limit", STEP, 1, MOST)?,
    })
}

/// Read an agent's inbox
///
/// Messages, envelopes, ends of jobs, decisions and tasks that reached the agent, after the position that the server keeps for
/// the reader. The position moves only when the reader marks entries seen (`POST …/inbox/seen`), so a page that was lost is
/// read again. The first read opens the inbox, which begins then.
///
/// A new reader begins where the furthest reader of the same levels has got to. `missed` counts entries that are not there
/// any more. Entries refer to objects: a message is included, as far as the agent may still read it.
#[utoipa::path(operation_id = "read_inbox", tag = "agents",
    params(("agent_id" = String, Path, description = "The agent"),
           ("reader" = Option<String>, Query, description = "Name of the reader, whose position the server keeps; defaults to `default`"),
           ("attention" = Option<String>, Query, description = "Levels, separated by commas: `wake`, `next`, `digest`; defaults to those that the reader read before, or all"),
           ("since" = Option<String>, Query, description = "A position (`next` of a page) to read after instead of the reader's own; entries that rang again since are returned too"),
           ("expand" = Option<bool>, Query, description = "Return the entries of the level `digest` one by one; defaults to false"),
           ("limit" = Option<u32>, Query, description = "Maximum number of entries, 1 to 200; defaults to 50"),
           ("wait" = Option<u32>, Query, description = "Seconds to wait if there are no entries, up to 120; defaults to 0", maximum = 120)),
    responses((status = 200, description = "The entries", body = PageBody)))]
#[get("/agents/{agent_id}/inbox")]
async fn read(
    api: web::Data<HttpState>,
    asker: Asker,
    presence: Presence,
    path: web::Path<String>,
    query: Query,
) -> Reply {
    let ask = ask(&query)?;
    let wait = query.wait(WAIT_SECONDS)?;
    let (ctx, caller) = (&api.ctx, &asker.caller);
    let page = if wait == 0 {
        reading::read_now(ctx, caller, &path, &ask).await?
    } else {
        let _permit = asker.caller.waits(api.limits.max_streams_per_key)?;
        tokio::select! {
            found = reading::wait(ctx, caller, &path, &ask, Duration::from_secs(wait.into())) => found?,
            () = presence.over().cancelled() => reading::read_now(ctx, caller, &path, &ask).await?,
        }
    };
    ok(&PageBody::new(&path, &page, ctx.settings.strict, asker.dialect))
}

/// The entries that a reader has seen.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = InboxSeen, example = json!({ "reader": "session-1", "place": 42 }))]
struct SeenBody {
    /// Name of the reader; defaults to `default`.
    reader: Option<String>,
    /// Every entry up to this place: `next_place` of a page.
    place: i64,
}

/// A reader of an inbox.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InboxReader)]
struct ReaderBody {
    /// Its name.
    reader: String,
    /// Place up to which it has marked entries seen.
    place: i64,
    /// Levels that it reads.
    attention: Vec<Attention>,
    /// When it last marked entries or, to the hour, read.
    used_at: WireTime,
}

impl ReaderBody {
    fn new(reader: Reader, dialect: Dialect) -> Self {
        Self {
            reader: reader.name,
            place: reader.place,
            attention: reader.levels,
            used_at: WireTime::new(reader.used_at, dialect),
        }
    }
}

/// Mark entries of an inbox seen
///
/// Moves the reader's position. A smaller place than before changes nothing. Entries that a reader of the level `wake` has
/// seen ring no more.
#[utoipa::path(operation_id = "mark_inbox_seen", tag = "agents", request_body = SeenBody,
    params(("agent_id" = String, Path, description = "The agent")),
    responses((status = 200, description = "The reader", body = ReaderBody)))]
#[post("/agents/{agent_id}/inbox/seen")]
async fn seen(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<SeenBody>,
) -> Reply {
    let SeenBody { reader, place } = body.value;
    let reader = reading::mark_seen(&api.ctx, &asker.caller, &path, reader.as_deref(), place).await?;
    ok(&ReaderBody::new(reader, asker.dialect))
}

/// An open inbox.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Inbox)]
struct InboxBody {
    /// The agent.
    agent_id: String,
    /// When it was opened.
    opened_at: WireTime,
    /// Settings of its agent.
    settings: Settings,
    /// Place of the newest entry ever.
    newest: i64,
    /// Number of stored entries.
    entries: i64,
    /// Number of entries that were evicted unseen because the inbox was full.
    evicted: i64,
    /// Its readers.
    readers: Vec<ReaderBody>,
}

impl InboxBody {
    fn new(inbox: inbox::Inbox, readers: Vec<Reader>, dialect: Dialect) -> Self {
        Self {
            agent_id: inbox.agent,
            opened_at: WireTime::new(inbox.opened_at, dialect),
            settings: inbox.settings,
            newest: inbox.last_place,
            entries: inbox.entries,
            evicted: inbox.evicted,
            readers: readers.into_iter().map(|reader| ReaderBody::new(reader, dialect)).collect(),
        }
    }
}

/// Open an agent's inbox, or set it up anew
///
/// Replaces all settings. An inbox begins when it is opened.
#[utoipa::path(operation_id = "put_inbox", tag = "agents", request_body = Settings,
    params(("agent_id" = String, Path, description = "The agent")),
    responses((status = 200, description = "The inbox", body = InboxBody)))]
#[put("/agents/{agent_id}/inbox")]
async fn put(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<Settings>,
) -> Reply {
    inbox::put(&api.ctx, &asker.caller, &path, &body.value).await?;
    let (inbox, readers) = inbox::get(&api.ctx, &asker.caller, &path).await?;
    ok(&InboxBody::new(inbox, readers, asker.dialect))
}

/// Get an inbox's settings and readers
#[utoipa::path(operation_id = "get_inbox", tag = "agents",
    params(("agent_id" = String, Path, description = "The agent")),
    responses((status = 200, description = "The inbox", body = InboxBody)))]
#[get("/agents/{agent_id}/inbox/settings")]
async fn settings(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let (inbox, readers) = inbox::get(&api.ctx, &asker.caller, &path).await?;
    ok(&InboxBody::new(inbox, readers, asker.dialect))
}

/// Close an inbox
///
/// Deletes its entries and readers. The messages, jobs and other objects that the entries refer to stay.
#[utoipa::path(operation_id = "close_inbox", tag = "agents",
    params(("agent_id" = String, Path, description = "The agent")),
    responses((status = 204, description = "The inbox is closed")))]
#[delete("/agents/{agent_id}/inbox")]
async fn close(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    inbox::close(&api.ctx, &asker.caller, &path).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Follow an inbox
///
/// A stream of server-sent events: `entry` for each entry, `ring` for one that rang again because no reader has seen it. Each
/// frame's `id` is a position; `Last-Event-ID` resumes after it, on any server. Without it, the stream begins at the reader's
/// position. Entries of the level `digest` come one by one. Following marks nothing seen.
#[utoipa::path(operation_id = "follow_inbox", tag = "agents",
    params(("agent_id" = String, Path, description = "The agent"),
           ("reader" = Option<String>, Query, description = "Name of the reader; defaults to `default`"),
           ("attention" = Option<String>, Query, description = "Levels, separated by commas; defaults to those that the reader read before, or all"),
           LastEventId),
    responses((status = 200, description = "Server-sent events", body = String, content_type = "text/event-stream")))]
#[get("/agents/{agent_id}/inbox/stream")]
async fn follow(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    query: Query,
) -> Reply {
    let resumed = last_event_id(&request)
        .map(|text| InboxCursor::parse(text.trim()).ok_or_else(|| unreadable("Last-Event-ID")))
        .transpose()?;
    let agent = path.into_inner();
    let mut listener = api.ctx.feed.wakeups().listener();
    listener.add(WakeKey::AgentInbox(agent.clone()));
    let mut ask = ask(&query)?;
    (ask.expand, ask.limit, ask.since) = (true, STEP, resumed);
    let page = reading::read_now(&api.ctx, &asker.caller, &agent, &ask).await?;
    // A stream that begins has heard all rings so far.
    let begins = InboxCursor { place: page.from.place, ring: page.next.ring };
    ask.since = Some(resumed.unwrap_or(begins));
    let followed = Followed { ctx: api.ctx.clone(), agent, ask, dialect: asker.dialect };
    respond(api.into_inner(), asker.caller, followed, Some(listener))
}

/// Source of an inbox's stream.
struct Followed {
    ctx: entente_kernel::Ctx,
    agent: String,
    ask: ReadAsk,
    dialect: Dialect,
}

impl Source for Followed {
    const KIND: &'static str = "inbox";

    fn start(&self) -> String {
        self.ask.since.unwrap_or_default().to_string()
    }

    async fn read(&mut self, caller: &Caller) -> Result<Chunk, AppError> {
        let mut conn = self.ctx.pool.acquire().await?;
        let page = reading::read(&mut conn, &self.ctx, caller, &self.agent, &self.ask).await?;
        drop(conn);
        let since = self.ask.since.unwrap_or_default();
        let mut text = BytesMut::new();
        for shown in &page.entries {
            let is_new = shown.entry.place > since.place;
            let at = InboxCursor { place: shown.entry.place.max(since.place), ring: since.ring };
            let event = if is_new { "entry" } else { "ring" };
            write(
                &mut text,
                &at.to_string(),
                event,
                &EntryBody::new(shown, self.ctx.settings.strict, self.dialect),
            )?;
        }
        self.ask.since = Some(page.next);
        Ok(Chunk { text, over: false, behind: page.has_more })
    }
}
