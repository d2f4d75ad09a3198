//! Mailboxes: queues of envelopes for a recipient (AEE §5). The rows are in `mailboxes/rows.rs`.
//!
//! Items are numbered in the order in which they become visible, so that a cursor skips none. Alternatively a
//! reader picks the most urgent ones: by priority and age together, so that urgent items never starve low
//! ones (AEE §11.6).

mod rows;

use std::time::Duration;

use entente_domain::aee::envelopes::is_bus;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::limits::NAME_BYTES;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::identity::entities::speaks_for;
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{Caller, Outcome, not_found};
use entente_runtime::cache::OwnedCache;
use entente_runtime::metrics::Metrics;
use sqlx::PgConnection;
use tokio::time::{Instant, timeout_at};

use crate::Ctx;
use crate::envelopes::StoredEnvelope;
pub use crate::mailboxes::rows::find;
pub use crate::mailboxes::rows::take_out;
pub(crate) use crate::mailboxes::rows::{
    Item, forget, held_by, holders, lock, locked, open_row, put, versions,
};
use crate::mailboxes::rows::{after, lock_rows, mark, next};

/// Maximum number of seconds that a picked item is held.
pub const HOLD_SECONDS: u32 = 3_600;

/// A mailbox.
#[derive(Debug, Clone)]
pub struct Mailbox {
    /// Entity that owns it.
    pub entity: String,
    /// Number of its last item.
    pub last_seq: i64,
    /// Every item up to this number is acknowledged.
    pub acked_seq: i64,
}

/// Maximum number of mailboxes in a writer's cache; the least recently used one is dropped.
const REMEMBERED: usize = 100_000;

/// A writer's cache: the mailboxes known to exist, which are never deleted.
#[derive(Debug)]
pub struct Known(OwnedCache<String, ()>);

impl Known {
    /// Creates the empty cache of a writer.
    pub(crate) fn of_writer(metrics: &Metrics) -> Self {
        Self(OwnedCache::new("mailboxes", REMEMBERED, metrics))
    }

    /// Removes all mailboxes, because some of them may not exist after all.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    fn contains(&mut self, entity: &str) -> bool {
        self.0.get(entity).is_some()
    }

    fn add(&mut self, entity: &str) {
        let _dropped = self.0.put(entity.to_owned(), ());
    }
}

impl Default for Known {
    /// Creates the empty cache of a single transaction, which no metric shows.
    fn default() -> Self {
        Self(OwnedCache::uncounted(REMEMBERED))
    }
}

/// An item with its envelope.
#[derive(Debug, Clone)]
pub struct MailboxItem {
    /// Number of the item.
    pub seq: i64,
    /// Time of receipt.
    pub received_at: Timestamp,
    /// Time until which the item is held for its picker.
    pub held_until: Option<Timestamp>,
    /// The envelope.
    pub envelope: StoredEnvelope,
}

/// Items to acknowledge.
#[derive(Debug, Clone)]
pub enum Ack {
    /// Every item up to this number.
    UpTo(i64),
    /// Exactly these items.
    These(Vec<i64>),
}

/// Requires that the caller speaks for an entity; any other mailbox counts as missing.
///
/// # Errors
/// The entity is a bus, or the caller does not speak for it.
pub async fn require(conn: &mut PgConnection, caller: &Caller, entity: &str) -> Outcome<()> {
    if !is_bus(entity) && speaks_for(conn, caller, entity).await? {
        return Ok(());
    }
    Err(not_found("mailbox"))
}

/// Opens the mailbox of one of the caller's entities; repeating it changes nothing.
///
/// # Errors
/// The entity is not the caller's; the name is invalid.
pub async fn open(ctx: &Ctx, caller: &Caller, entity: &str) -> Outcome<Mailbox> {
    caller.require(Scope::MailWrite)?;
    if entity.len() > NAME_BYTES || entity.chars().any(char::is_control) || is_bus(entity) {
        let message =
            "This is no name of an entity that has a mailbox. `bus.…` are channels; subscribe to those.";
        return Err(Refusal::new(Code::InvalidParameter, message).into());
    }
    let mut tx = ctx.pool.begin().await?;
    require(&mut tx, caller, entity).await?;
    open_row(&mut tx, entity, caller.principal(), ctx.now()).await?;
    let mailbox = find(&mut tx, entity).await?;
    tx.commit().await?;
    mailbox.ok_or_else(|| not_found("mailbox"))
}

/// Lists the items of a mailbox after a number, oldest first; by default those not acknowledged.
///
/// # Errors
/// The mailbox is not the caller's.
pub async fn read(
    ctx: &Ctx,
    caller: &Caller,
    entity: &str,
    from: Option<i64>,
    limit: u32,
) -> Outcome<(Mailbox, Vec<MailboxItem>)> {
    caller.require(Scope::MailRead)?;
    let mut conn = ctx.pool.acquire().await?;
    require(&mut conn, caller, entity).await?;
    let nothing = || Mailbox { entity: entity.to_owned(), last_seq: 0, acked_seq: 0 };
    let mailbox = find(&mut conn, entity).await?.unwrap_or_else(nothing);
    let items = after(&mut conn, entity, from.unwrap_or(mailbox.acked_seq), limit, from.is_some()).await?;
    Ok((mailbox, items))
}

/// Lists the unacknowledged items of a mailbox after a number, oldest first.
///
/// # Errors
/// The mailbox is not the caller's.
pub async fn waiting(
    ctx: &Ctx,
    caller: &Caller,
    entity: &str,
    from: i64,
    limit: u32,
) -> Outcome<Vec<MailboxItem>> {
    caller.require(Scope::MailRead)?;
    let mut conn = ctx.pool.acquire().await?;
    require(&mut conn, caller, entity).await?;
    after(&mut conn, entity, from, limit, false).await
}

/// Like [`read`]; if there is nothing, waits for an item until the time is up.
///
/// # Errors
/// As [`read`].
pub async fn wait(
    ctx: &Ctx,
    caller: &Caller,
    entity: &str,
    after: Option<i64>,
    limit: u32,
    patience: Duration,
) -> Outcome<(Mailbox, Vec<MailboxItem>)> {
    let until = Instant::now() + patience;
    // Register before the first read, so that no notification in between is lost.
    let mut listener = ctx.feed.wakeups().listener();
    listener.add(WakeKey::Mailbox(entity.to_owned()));
    loop {
        let found = read(ctx, caller, entity, after, limit).await?;
        if !found.1.is_empty() || timeout_at(until, listener.rung()).await.is_err() {
            return Ok(found);
        }
        caller.require_key(ctx.now())?;
    }
}

/// Picks the most urgent unacknowledged items and holds them for a while.
///
/// # Errors
/// The mailbox is not the caller's.
pub async fn pick(
    ctx: &Ctx,
    caller: &Caller,
    entity: &str,
    max: u32,
    hold: u32,
) -> Outcome<Vec<MailboxItem>> {
    caller.require(Scope::MailWrite)?;
    let now = ctx.now();
    let until = entente_domain::clock::plus_seconds(now, hold);
    let mut tx = ctx.pool.begin().await?;
    require(&mut tx, caller, entity).await?;
    let items = next(&mut tx, entity, max, now, until).await?;
    tx.commit().await?;
    Ok(items)
}

/// Releases items after their picker disconnected before the response: others may pick them at once.
///
/// # Errors
/// The database query fails.
pub async fn put_back(ctx: &Ctx, entity: &str, items: &[MailboxItem]) -> Outcome<()> {
    let Some(until) = items.first().and_then(|item| item.held_until) else { return Ok(()) };
    let seqs: Vec<i64> = items.iter().map(|item| item.seq).collect();
    let mut conn = ctx.pool.acquire().await?;
    let free = rows::free(&mut conn, entity, &seqs, until).await?;
    drop(conn);
    tracing::info!(envelopes = free, "what was picked came back: whoever picked it had hung up");
    ctx.feed.wake(WakeKey::Mailbox(entity.to_owned()));
    Ok(())
}

/// Acknowledges items; later reads return them only by number.
///
/// Repeating it changes nothing.
///
/// # Errors
/// The mailbox is not the caller's or does not exist; a number is beyond the last item.
pub async fn ack(ctx: &Ctx, caller: &Caller, entity: &str, ack: &Ack) -> Outcome<Mailbox> {
    caller.require(Scope::MailWrite)?;
    let now = ctx.now();
    let mut tx = ctx.pool.begin().await?;
    require(&mut tx, caller, entity).await?;
    let ends = lock_rows(&mut tx, &[entity]).await?;
    let Some(last) = ends.get(entity).copied() else { return Err(not_found("mailbox")) };
    let highest = match ack {
        Ack::UpTo(seq) => Some(*seq),
        Ack::These(seqs) => seqs.iter().copied().max(),
    };
    if highest.is_some_and(|seq| seq > last) {
        let message = format!("The mailbox goes up to {last} so far. Take out what you were handed.");
        let named = if matches!(ack, Ack::UpTo(_)) { "up_to" } else { "seqs" };
        return Err(Refusal::field(Code::Unprocessable, named, "range", message).into());
    }
    mark(&mut tx, entity, ack, now).await?;
    let mailbox = find(&mut tx, entity).await?;
    tx.commit().await?;
    mailbox.ok_or_else(|| not_found("mailbox"))
}
