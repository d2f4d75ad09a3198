//! Reading inboxes: a page after a reader's position, waiting for one, and marking entries seen.
//!
//! A reader's position moves only when it marks entries seen, so a page that was lost is read again. [`read`] and [`seen`]
//! borrow a connection: an operation that does several things in one transaction calls them too.

use std::time::Duration;

use chrono::TimeDelta;
use entente_domain::identity::keys::Scope;
use entente_domain::inbox::digest::Digest;
use entente_domain::inbox::{Attention, InboxCursor, READERS, check_reader};
use entente_domain::limits::SMALL_PAGE_BYTES;
use entente_domain::refusal::{Code, Refusal};
use sqlx::PgConnection;
use tokio::time::{Instant, timeout_at};

use super::readers::Reader;
use super::rows::{Entry, Range};
use super::{Inbox, contents, ensure_open, readers, require, rows};
use crate::wakeups::WakeKey;
use crate::{Caller, Ctx, Outcome, not_found};
pub use contents::Content;

/// Name of the reader that a request without one means.
pub const USUAL_READER: &str = "default";

/// Entries whose content is loaded at once.
const STEP: usize = 16;

/// Age after which a reader's last use is stored anew: it is kept for a month, and a poll should write nothing.
const USE_NOTED: TimeDelta = TimeDelta::hours(1);

/// A request for a page.
#[derive(Debug, Clone)]
pub struct ReadAsk {
    /// Name of the reader; [`USUAL_READER`] if there is none.
    pub reader: Option<String>,
    /// Position to read after instead of the reader's own.
    pub since: Option<InboxCursor>,
    /// Levels to read; those that the reader read before, or all.
    pub levels: Option<Vec<Attention>>,
    /// Whether entries of the level `digest` are returned one by one.
    pub expand: bool,
    /// Maximum number of entries.
    pub limit: u32,
}

/// An entry with its object.
#[derive(Debug, Clone)]
pub struct ShownEntry {
    /// The entry.
    pub entry: Entry,
    /// Its level at the moment.
    pub attention: Attention,
    /// The object that it refers to.
    pub content: Content,
}

/// A page of an inbox.
#[derive(Debug, Clone)]
pub struct InboxPage {
    /// The reader, at its position.
    pub reader: Reader,
    /// Position after which the page begins.
    pub from: InboxCursor,
    /// The entries, in order; those that rang again come first.
    pub entries: Vec<ShownEntry>,
    /// The entries of the level `digest`, unless they are expanded.
    pub digest: Digest,
    /// The newest entry of each source of the digest.
    pub newest_of: Vec<ShownEntry>,
    /// Position after the page, to mark seen and to read on from.
    pub next: InboxCursor,
    /// Number of entries after the page's beginning that expired or were evicted.
    pub missed: i64,
    /// Place of the oldest entry in the inbox.
    pub oldest: Option<i64>,
    /// Place of the newest entry ever.
    pub newest: i64,
    /// Whether there is more to read now.
    pub has_more: bool,
    /// Whether these are quiet hours.
    pub is_quiet: bool,
}

impl InboxPage {
    /// Returns whether the page has nothing for its reader.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.digest.count == 0
    }

    /// Returns the number of entries whose content the agent may not read.
    #[must_use]
    pub fn withheld(&self) -> usize {
        let shown = self.entries.iter().chain(&self.newest_of);
        shown.filter(|one| matches!(one.content, Content::Withheld)).count()
    }
}

/// Reads a page of an open inbox.
///
/// # Errors
/// The inbox is not open, or not the caller's; the reader is invalid, or one too many.
pub async fn read(
    conn: &mut PgConnection,
    ctx: &Ctx,
    caller: &Caller,
    agent: &str,
    ask: &ReadAsk,
) -> Outcome<InboxPage> {
    caller.require(Scope::AgentsRead)?;
    require(conn, caller, agent).await?;
    let inbox = rows::find(conn, agent).await?.ok_or_else(|| not_found("inbox"))?;
    let now = ctx.now();
    if let Some(since) = ask.since {
        check_place(&inbox, "since", since.place)?;
    }
    let reader = reader(conn, ctx, &inbox, ask).await?;
    let from = ask.since.unwrap_or(InboxCursor { place: reader.place, ring: 0 });
    let is_quiet = inbox.settings.is_quiet(now);
    let range = Range { agent, after: from.place, until: inbox.last_place, now, is_quiet };
    let mut levels = reader.levels.clone();
    levels.retain(|level| ask.expand || *level != Attention::Digest);
    let mut found = again(conn, &inbox, &reader, from, range, ask).await?;
    let (count, oldest) = rows::count(conn, range).await?;
    let limit = usize::try_from(ask.limit).unwrap_or(usize::MAX).saturating_sub(found.len()).max(1);
    if count > 0 {
        let more = i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1;
        found.extend(rows::page(conn, range, &levels, more).await?);
    }
    let most = limit.max(usize::try_from(ask.limit).unwrap_or(usize::MAX));
    let (entries, cut) = show(conn, ctx, caller, &inbox, found, most, is_quiet).await?;
    // A page that was cut ends with its last entry; else everything up to the end was looked at.
    let last = entries.last().map_or(from.place, |one| one.entry.place).max(from.place);
    let until = if cut { last } else { inbox.last_place };
    let digest_range = Range { until, ..range };
    let collected = !ask.expand && reader.levels.contains(&Attention::Digest) && count > 0;
    let digest = Digest::of(if collected { rows::digest(conn, digest_range).await? } else { Vec::new() });
    let places: Vec<i64> = digest.sources.iter().map(|source| source.newest).collect();
    let newest_of =
        if places.is_empty() { Vec::new() } else { rows::at_places(conn, agent, &places).await? };
    let sources = newest_of.len();
    let (newest_of, _) = show(conn, ctx, caller, &inbox, newest_of, sources, is_quiet).await?;
    Ok(InboxPage {
        reader,
        from,
        entries,
        digest,
        newest_of,
        next: InboxCursor { place: until, ring: inbox.last_ring },
        missed: (inbox.last_place - from.place - count).max(0),
        oldest,
        newest: inbox.last_place,
        has_more: cut,
        is_quiet,
    })
}

/// Returns the reader of a request, and stores a new one: it begins where others that read its levels have got to, or at the
/// beginning.
async fn reader(conn: &mut PgConnection, ctx: &Ctx, inbox: &Inbox, ask: &ReadAsk) -> Outcome<Reader> {
    let name = ask.reader.as_deref().unwrap_or(USUAL_READER);
    check_reader(name)?;
    let others = readers::of_inbox(conn, &inbox.agent).await?;
    let now = ctx.now();
    if let Some(known) = others.iter().find(|reader| reader.name == name) {
        let levels = ask.levels.clone().unwrap_or_else(|| known.levels.clone());
        let mut reader = Reader { levels, ..known.clone() };
        if reader.levels != known.levels || now - known.used_at >= USE_NOTED {
            reader.used_at = now;
            readers::save(conn, &inbox.agent, &reader).await?;
        }
        return Ok(reader);
    }
    check_room(&others)?;
    let levels = ask.levels.clone().unwrap_or_else(|| Attention::ALL.to_vec());
    let covers = |reader: &&Reader| levels.iter().all(|level| reader.levels.contains(level));
    let place = others.iter().filter(covers).map(|reader| reader.place).max().unwrap_or(0);
    let mut reader = Reader { name: name.to_owned(), place, levels, used_at: now };
    reader.place = readers::save(conn, &inbox.agent, &reader).await?;
    Ok(reader)
}

fn check_room(readers: &[Reader]) -> Result<(), Refusal> {
    if i64::try_from(readers.len()).is_ok_and(|count| count < READERS) {
        return Ok(());
    }
    let message = format!(
        "The inbox has {READERS} readers, as many as it may have. Use one of their names; those unused for 30 days are deleted."
    );
    Err(Refusal::field(Code::Unprocessable, "reader", "too_many", message))
}

/// Returns entries before the position that rang since, for a client that keeps its own.
async fn again(
    conn: &mut PgConnection,
    inbox: &Inbox,
    reader: &Reader,
    from: InboxCursor,
    range: Range<'_>,
    ask: &ReadAsk,
) -> Outcome<Vec<Entry>> {
    let wakes = reader.levels.contains(&Attention::Wake);
    if ask.since.is_none() || !wakes || inbox.last_ring <= from.ring || from.place <= reader.place {
        return Ok(Vec::new());
    }
    let unseen = Range { after: reader.place, ..range };
    rows::rung(conn, unseen, from, i64::from(ask.limit)).await
}

/// Loads the objects of entries, up to a number and a size; returns the entries with them, and whether some are left.
pub(super) async fn show(
    conn: &mut PgConnection,
    ctx: &Ctx,
    caller: &Caller,
    inbox: &Inbox,
    entries: Vec<Entry>,
    most: usize,
    is_quiet: bool,
) -> Outcome<(Vec<ShownEntry>, bool)> {
    let total = entries.len();
    let mut shown = Vec::with_capacity(total.min(most));
    let mut bytes = 0;
    for step in entries[..total.min(most)].chunks(STEP) {
        let contents = contents::load(conn, caller, &inbox.agent, step, ctx.now()).await?;
        for (entry, content) in step.iter().zip(contents) {
            if bytes >= SMALL_PAGE_BYTES {
                return Ok((shown, true));
            }
            if let Content::Message(message) = &content {
                let metadata = message.metadata.as_ref().map_or(0, |metadata| metadata.as_str().len());
                let size = message.payload.as_str().len() + metadata;
                bytes += i64::try_from(size).unwrap_or(i64::MAX / 2);
            }
            let attention = entry.attention.at(is_quiet, entry.breaks_through);
            shown.push(ShownEntry { entry: entry.clone(), attention, content });
        }
    }
    Ok((shown, total > most))
}

/// Reads a page; opens the inbox first if it is not open.
///
/// # Errors
/// As [`read`].
pub async fn read_now(ctx: &Ctx, caller: &Caller, agent: &str, ask: &ReadAsk) -> Outcome<InboxPage> {
    ensure_open(ctx, caller, agent).await?;
    let mut conn = ctx.pool.acquire().await?;
    read(&mut conn, ctx, caller, agent, ask).await
}

/// Like [`read_now`]; if there is nothing, waits for an entry until the time is up.
///
/// # Errors
/// As [`read`].
pub async fn wait(
    ctx: &Ctx,
    caller: &Caller,
    agent: &str,
    ask: &ReadAsk,
    patience: Duration,
) -> Outcome<InboxPage> {
    let until = Instant::now() + patience;
    ensure_open(ctx, caller, agent).await?;
    // Register before the first read, so that no notification in between is lost.
    let mut listener = ctx.feed.wakeups().listener();
    listener.add(WakeKey::AgentInbox(agent.to_owned()));
    loop {
        let page = read(&mut *ctx.pool.acquire().await?, ctx, caller, agent, ask).await?;
        if !page.is_empty() || timeout_at(until, listener.rung()).await.is_err() {
            return Ok(page);
        }
        caller.require_key(ctx.now())?;
    }
}

/// Marks the entries up to a place as seen by a reader; returns the reader. A smaller place than before changes nothing.
///
/// # Errors
/// The inbox is not open, or not the caller's; the place is beyond the last entry; the reader is invalid, or one too many.
pub async fn seen(
    conn: &mut PgConnection,
    ctx: &Ctx,
    caller: &Caller,
    agent: &str,
    reader: Option<&str>,
    place: i64,
) -> Outcome<Reader> {
    caller.require(Scope::AgentsRead)?;
    require(conn, caller, agent).await?;
    let inbox = rows::find(conn, agent).await?.ok_or_else(|| not_found("inbox"))?;
    check_place(&inbox, "place", place)?;
    let name = reader.unwrap_or(USUAL_READER);
    check_reader(name)?;
    let others = readers::of_inbox(conn, agent).await?;
    let known = others.iter().find(|reader| reader.name == name).cloned();
    if known.is_none() {
        check_room(&others)?;
    }
    let levels = known.map_or_else(|| Attention::ALL.to_vec(), |known| known.levels);
    let mut reader = Reader { name: name.to_owned(), place, levels, used_at: ctx.now() };
    reader.place = readers::save(conn, agent, &reader).await?;
    if reader.levels.contains(&Attention::Wake) {
        rows::disarm(conn, agent, reader.place).await?;
    }
    Ok(reader)
}

/// Like [`seen`], in a transaction of its own.
///
/// # Errors
/// As [`seen`].
pub async fn mark_seen(
    ctx: &Ctx,
    caller: &Caller,
    agent: &str,
    reader: Option<&str>,
    place: i64,
) -> Outcome<Reader> {
    let mut tx = ctx.pool.begin().await?;
    let reader = seen(&mut tx, ctx, caller, agent, reader, place).await?;
    tx.commit().await?;
    Ok(reader)
}

fn check_place(inbox: &Inbox, member: &str, place: i64) -> Result<(), Refusal> {
    if (0..=inbox.last_place).contains(&place) {
        return Ok(());
    }
    let message =
        format!("The inbox goes up to {} so far. Send a `next` that you were given.", inbox.last_place);
    Err(Refusal::field(Code::Unprocessable, member, "range", message))
}
