//! Mailboxes: where envelopes lie until their recipient takes them out (AEE §5). The rows are `mailboxes/rows.rs`.
//!
//! Items are numbered in the order in which they become visible, so that a cursor skips none. Who would rather have what is
//! most pressing picks: by priority and age together, so that the urgent never starve the low (AEE §11.6).

mod rows;

use std::time::Duration;

use entente_domain::clock::Timestamp;
use entente_domain::envelopes::is_bus;
use entente_domain::keys::Scope;
use entente_domain::limits::NAME_BYTES;
use entente_domain::refusal::{Code, Refusal};
use sqlx::PgConnection;
use tokio::time::{Instant, timeout_at};

pub(crate) use self::rows::{
    Item, find, forget, held_by, holders, lock, locked, moved, open_row, put, take_out,
};
use self::rows::{after, lock_rows, mark, next};
use super::envelopes::Kept;
use super::voices::speaks_for;
use super::{Caller, Ctx, Outcome, not_found};
use crate::feed::Touch;

/// Seconds that a picked item is kept from others at the most.
pub const HOLD_SECONDS: u32 = 3_600;

/// A mailbox.
#[derive(Debug, Clone)]
pub struct Mailbox {
    /// Whose.
    pub entity: String,
    /// The number of its last item.
    pub last_seq: i64,
    /// Everything up to here was taken out.
    pub acked_seq: i64,
}

/// An item with its envelope.
#[derive(Debug, Clone)]
pub struct Letter {
    /// Its number.
    pub seq: i64,
    /// When it came.
    pub received_at: Timestamp,
    /// Until when it is kept for whoever picked it.
    pub held_until: Option<Timestamp>,
    /// The envelope.
    pub envelope: Kept,
}

/// What of a mailbox is taken out.
#[derive(Debug, Clone)]
pub enum Ack {
    /// Everything up to this number.
    UpTo(i64),
    /// These.
    These(Vec<i64>),
}

/// Requires that an entity is the caller's. What is not is as if it were not there.
pub(crate) async fn require(conn: &mut PgConnection, caller: &Caller, entity: &str) -> Outcome<()> {
    if !is_bus(entity) && speaks_for(conn, caller, entity).await? {
        return Ok(());
    }
    Err(not_found("mailbox"))
}

/// Opens the mailbox of an entity of the caller's; again is the same.
///
/// # Errors
/// It is not the caller's; the name is none.
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

/// What lies in a mailbox after a number, the earlier first: what was not taken out yet when no number is said.
///
/// # Errors
/// It is not the caller's.
pub async fn read(
    ctx: &Ctx,
    caller: &Caller,
    entity: &str,
    from: Option<i64>,
    limit: u32,
) -> Outcome<(Mailbox, Vec<Letter>)> {
    caller.require(Scope::MailRead)?;
    let mut conn = ctx.pool.acquire().await?;
    require(&mut conn, caller, entity).await?;
    let nothing = || Mailbox { entity: entity.to_owned(), last_seq: 0, acked_seq: 0 };
    let mailbox = find(&mut conn, entity).await?.unwrap_or_else(nothing);
    let letters = after(&mut conn, entity, from.unwrap_or(mailbox.acked_seq), limit, from.is_some()).await?;
    Ok((mailbox, letters))
}

/// What lies in a mailbox after a number and was not taken out, the earlier first.
///
/// # Errors
/// It is not the caller's.
pub async fn waiting(
    ctx: &Ctx,
    caller: &Caller,
    entity: &str,
    from: i64,
    limit: u32,
) -> Outcome<Vec<Letter>> {
    caller.require(Scope::MailRead)?;
    let mut conn = ctx.pool.acquire().await?;
    require(&mut conn, caller, entity).await?;
    after(&mut conn, entity, from, limit, false).await
}

/// As [`read`]; when there is nothing, waits until there is, or the time is over.
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
) -> Outcome<(Mailbox, Vec<Letter>)> {
    let until = Instant::now() + patience;
    // First the ear, then the look: what comes in between is heard.
    let mut listener = ctx.feed.bells().listener();
    listener.add(Touch::Mailbox(entity.to_owned()));
    loop {
        let found = read(ctx, caller, entity, after, limit).await?;
        if !found.1.is_empty() || timeout_at(until, listener.rung()).await.is_err() {
            return Ok(found);
        }
        caller.require_key(ctx.now())?;
    }
}

/// Picks what is most pressing of what was not taken out, and keeps it from others for a while.
///
/// # Errors
/// It is not the caller's.
pub async fn pick(ctx: &Ctx, caller: &Caller, entity: &str, max: u32, hold: u32) -> Outcome<Vec<Letter>> {
    caller.require(Scope::MailWrite)?;
    let now = ctx.now();
    let until = entente_domain::clock::plus_seconds(now, hold);
    let mut tx = ctx.pool.begin().await?;
    require(&mut tx, caller, entity).await?;
    let letters = next(&mut tx, entity, max, now, until).await?;
    tx.commit().await?;
    Ok(letters)
}

/// Puts back what was picked by somebody who hung up before it was told: others may pick it at once.
///
/// # Errors
/// The database.
pub async fn put_back(ctx: &Ctx, entity: &str, letters: &[Letter]) -> Outcome<()> {
    let Some(until) = letters.first().and_then(|letter| letter.held_until) else { return Ok(()) };
    let seqs: Vec<i64> = letters.iter().map(|letter| letter.seq).collect();
    let mut conn = ctx.pool.acquire().await?;
    let free = rows::free(&mut conn, entity, &seqs, until).await?;
    drop(conn);
    tracing::info!(envelopes = free, "what was picked came back: whoever picked it had hung up");
    ctx.feed.ring(Touch::Mailbox(entity.to_owned()));
    Ok(())
}

/// Takes envelopes out: what was taken out is handed out only to who asks for it by number. Again is the same.
///
/// # Errors
/// It is not the caller's; a number is none that was handed out.
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
