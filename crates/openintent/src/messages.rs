//! Messages (RFC-0021 §2): listing, reading and acknowledging them. Table `messages`, in
//! `crates/kernel/src/messages/rows.rs`; `messages/writer` sends them, `messages/retention.rs` deletes them.

pub mod asks;
pub mod retention;
pub mod waiting;
pub mod writer;

use std::ops::Range;

use entente_domain::clock::Timestamp;
use entente_domain::cursors::{Since, after};
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ChannelId, IntentId, MessageId};
use entente_domain::log::receipts::{Receipt, ReceiptKind};
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::messages::{Message, MessageStatus, MessageType, Viewer};
use entente_kernel::channels::access::{ChannelAccess, home, visit_within, visits};
use entente_kernel::feed::streams::news;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::messages::{MessageFilter, pending, receipts, rows};
use entente_kernel::operations::{Operation, apply_within};
use entente_kernel::pages::Measure;
use entente_kernel::{Caller, IntentTx, LargeAnswer, Outcome, not_found};

use sqlx::PgConnection;

use crate::Ctx;

/// A page of messages.
#[derive(Debug, Clone)]
pub struct MessagePage {
    /// Messages, oldest first.
    pub messages: Vec<Message>,
    /// Cursor of the next page.
    pub next: String,
    /// Whether the page was cut short because of its size.
    pub cut: bool,
    /// Permit of a large page, held until the page is written.
    pub large: Option<LargeAnswer>,
    /// Messages that the reader has missed, if it reads on from a message.
    pub missed: Option<Missed>,
}

/// Messages after a reader's position that are no longer shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed {
    /// Number of messages that the channel has evicted, whoever they were to (RFC-0021 §1.2, `max_messages`), and of messages
    /// to the reader that have expired.
    pub count: i64,
    /// Number of the oldest message that the channel still has.
    pub oldest: i64,
    /// Number of the newest message.
    pub newest: i64,
}

/// Lists the channel's messages that the caller may see: those after a position, or the newest, oldest first
/// in both cases (RFC-0021 §2.4, OI-10.4, OI-10.5).
///
/// # Errors
/// The channel does not exist; the caller is not one of its members.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    channel_id: ChannelId,
    filter: &MessageFilter,
) -> Outcome<MessagePage> {
    caller.require(Scope::ChannelsRead)?;
    let visit = visit(ctx, caller, channel_id).await?;
    let viewer = visit.viewer(caller, ctx.settings.strict);
    viewer.require(&visit.channel)?;
    let now = ctx.now();
    let mut connection = ctx.pool.acquire().await?;
    let mut measure = Measure::of(caller);
    let mut messages =
        rows::page(&mut connection, &visit.channel, &viewer, filter, now, &mut measure).await?;
    let cut = measure.cut();
    // A cut page of the newest messages leaves out older ones, so nothing after it is missing.
    let full = cut && filter.since.is_some()
        || u32::try_from(messages.len()).is_ok_and(|count| count >= filter.limit);
    let last = messages.last().map_or(0, |message| message.number);
    // Messages may have arrived since the channel was read; drop those that they have evicted.
    let floor = last.saturating_sub(visit.channel.options.max_messages);
    messages.retain(|message| message.number > floor);
    // The next page also skips the messages that this one skipped as hidden from the caller.
    let seen = u32::try_from(visit.channel.message_count).unwrap_or(u32::MAX);
    let next = after(if full { last } else { last.max(seen) });
    let since = filter.since.and_then(Since::number);
    let missed = match since {
        Some(since) if i64::from(since) < visit.channel.message_count => {
            let until = if full { i64::from(last) } else { visit.channel.message_count };
            let numbers = i64::from(since)..until;
            Some(
                Box::pin(missed(&mut connection, &visit.channel, &viewer, numbers, messages.len(), now))
                    .await?,
            )
        }
        _ => None,
    };
    Ok(MessagePage { messages, next, cut, large: measure.large(), missed })
}

/// Loads a channel for the caller, in one query with others that wait for theirs.
async fn visit(ctx: &Ctx, caller: &Caller, channel_id: ChannelId) -> Outcome<ChannelAccess> {
    let read = |asked: Vec<(ChannelId, String)>| {
        Box::pin(async move {
            let mut connection = ctx.pool.acquire().await?;
            // The time of the query, not of the request: access that ended while it waited does not count.
            visits(&mut connection, &asked, ctx.now()).await
        })
    };
    let found = ctx.state.channels.load((channel_id, caller.agent.clone()), read).await?;
    found.ok_or_else(|| not_found("channel"))
}

/// Counts the messages that a reader has missed after the range's start up to its end, of which `shown` are shown.
async fn missed(
    conn: &mut PgConnection,
    channel: &Channel,
    viewer: &Viewer<'_>,
    numbers: Range<i64>,
    shown: usize,
    now: Timestamp,
) -> Outcome<Missed> {
    let evicted = (channel.floor() - numbers.start).max(0);
    let left = numbers.start.max(channel.floor())..numbers.end;
    // Mostly each number has its message, and nothing can have expired.
    let hidden = i64::try_from(shown).is_ok_and(|shown| left.end - left.start > shown);
    let expired = if hidden { rows::expired_between(conn, channel, viewer, left, now).await? } else { 0 };
    Ok(Missed { count: evicted + expired, oldest: channel.floor() + 1, newest: channel.message_count })
}

/// Waits for messages for the caller after a position, until the time is up; then lists them.
///
/// # Errors
/// As [`list`].
pub async fn wait(
    ctx: &Ctx,
    caller: &Caller,
    channel_id: ChannelId,
    filter: &MessageFilter,
    time: std::time::Duration,
) -> Outcome<MessagePage> {
    let intent_id = home(ctx, channel_id).await?;
    // Registered before the first read, so that no later commit is missed.
    let mut follower = ctx.feed.follow(intent_id, i64::MAX);
    let deadline = tokio::time::Instant::now() + time;
    loop {
        let page = list(ctx, caller, channel_id, filter).await?;
        let news = news(&mut follower, &caller.grant);
        if !page.messages.is_empty() || tokio::time::timeout_at(deadline, news).await.is_err() {
            return Ok(page);
        }
        caller.require_key(ctx.now())?;
        let _position_is_past_everything = follower.read();
    }
}

/// Returns one message.
///
/// # Errors
/// The message does not exist or is not for the caller.
pub async fn get(ctx: &Ctx, caller: &Caller, channel_id: ChannelId, id: MessageId) -> Outcome<Message> {
    caller.require(Scope::ChannelsRead)?;
    let visit = visit(ctx, caller, channel_id).await?;
    let viewer = visit.viewer(caller, ctx.settings.strict);
    viewer.require(&visit.channel)?;
    let now = ctx.now();
    let mut connection = ctx.pool.acquire().await?;
    let message = rows::find(&mut connection, &visit.channel, id, now).await?;
    message.filter(|message| message.visible_to(&viewer)).ok_or_else(|| not_found("message"))
}

/// Marks a message as read by the caller; repeating it changes nothing.
///
/// # Errors
/// The message does not exist, is not for the caller, or has expired.
pub async fn mark_read(ctx: &Ctx, caller: &Caller, channel_id: ChannelId, id: MessageId) -> Outcome<Message> {
    caller.require(Scope::ChannelsRead)?;
    let intent_id = home(ctx, channel_id).await?;
    ctx.operate(caller, intent_id, MarkRead { channel_id, id }, None).await
}

/// Like [`mark_read`], in a transaction that holds the lock of the channel's intent; the caller commits it, and then publishes
/// the returned log.
///
/// # Errors
/// As [`mark_read`].
pub async fn mark_read_within(
    ctx: &Ctx,
    conn: &mut PgConnection,
    caller: &Caller,
    intent_id: IntentId,
    channel_id: ChannelId,
    id: MessageId,
) -> Outcome<IntentLog> {
    caller.require(Scope::ChannelsRead)?;
    let (_message, log) = apply_within(ctx, conn, caller, intent_id, &MarkRead { channel_id, id }).await?;
    Ok(log)
}

/// A message to mark as read.
struct MarkRead {
    channel_id: ChannelId,
    id: MessageId,
}

impl Operation for MarkRead {
    type Answer = Message;
    type Rows = ();

    const NAME: &'static str = "mark_message_read";

    async fn apply(&self, caller: &Caller, work: &mut IntentTx<'_>, (): ()) -> Outcome<Message> {
        let (ctx, intent_id, now) = (work.ctx(), work.intent_id(), work.now());
        let Self { channel_id, id } = *self;
        let visit = visit_within(work, caller, channel_id).await?;
        let viewer = visit.viewer(caller, ctx.settings.strict);
        viewer.require(&visit.channel)?;
        let message = rows::find(work.reading(), &visit.channel, id, now).await?;
        let mut message =
            message.filter(|message| message.visible_to(&viewer)).ok_or_else(|| not_found("message"))?;
        message.may_be_marked_read(&viewer)?;
        if rows::has_read(work.reading(), channel_id, id, &caller.agent).await? {
            return Ok(message);
        }
        let (seq, at) = work.log().advance();
        let agent = caller.agent.clone();
        let receipt =
            Receipt { seq, intent_id, channel_id, message_id: id, kind: ReceiptKind::Read, agent, at };
        receipts::insert(work.conn(), &[receipt]).await?;
        if message.message_type != MessageType::Request {
            // A request keeps waiting for its response.
            pending::settle(work.conn(), channel_id, id).await?;
        }
        message.status = MessageStatus::Read;
        message.read_at.get_or_insert(at);
        Ok(message)
    }
}
