//! Messages (RFC-0021 §2): listing, getting and acknowledging them. Table `messages`, rows in `messages/rows.rs`;
//! sending is `sends.rs`.

use entente_domain::cursors::{Since, after};
use entente_domain::ids::{ChannelId, MessageId};
use entente_domain::keys::Scope;
use entente_domain::messages::{Message, MessageStatus, MessageType};
use entente_domain::receipts::{Receipt, ReceiptKind, require_recipient};

use super::lines::Line;
use super::pages::Measure;
use super::streams::news;
use super::visits::{home, visit};
use super::{Caller, Ctx, LargeAnswer, Outcome, not_found, pending, receipts};

mod rows;

pub(crate) use rows::{Row, at, forget, has_any, load_all, of_house, of_line, responses};

/// Which messages of a channel to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only those after this place; `None` for the newest.
    pub since: Option<Since>,
    /// Only those for this address: an agent, including what is for its roles and for everybody; `role:…`; `*`.
    pub to: Option<String>,
    /// How many at the most.
    pub limit: u32,
}

/// A page of messages.
#[derive(Debug, Clone)]
pub struct Page {
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// Where to continue.
    pub next: String,
    /// Whether it was cut short because of its size.
    pub cut: bool,
    /// Held until the page is written, when it is a large one.
    pub large: Option<LargeAnswer>,
}

/// The messages of a channel that the caller may see: those after a place, or the newest, oldest first either way
/// (RFC-0021 §2.4, contract 10.4).
///
/// # Errors
/// The channel is not there; the caller is not one of its members.
pub async fn list(ctx: &Ctx, caller: &Caller, channel_id: ChannelId, filter: &Filter) -> Outcome<Page> {
    caller.require(Scope::ChannelsRead)?;
    let now = ctx.now();
    let mut connection = ctx.pool.acquire().await?;
    let visit = visit(&mut connection, caller, channel_id, now).await?;
    let viewer = visit.viewer(caller, ctx.settings.strict);
    viewer.require(&visit.channel)?;
    let mut measure = Measure::of(caller);
    let within = (now, &mut measure);
    let mut messages = rows::page(&mut connection, &visit.channel, &viewer, filter, within).await?;
    let cut = measure.cut();
    // Of the newest those are left out that are older; what comes after them all is there.
    let full = cut && filter.since.is_some()
        || u32::try_from(messages.len()).is_ok_and(|count| count >= filter.limit);
    let last = messages.last().map_or(0, |message| message.number);
    // The channel may have gone on since it was looked at: what its newest message has pushed out is gone.
    let floor = last.saturating_sub(visit.channel.options.max_messages);
    messages.retain(|message| message.number > floor);
    // What this page passed over because it is not for the caller is passed over by the next one too.
    let seen = u32::try_from(visit.channel.message_count).unwrap_or(u32::MAX);
    let next = after(if full { last } else { last.max(seen) });
    Ok(Page { messages, next, cut, large: measure.large() })
}

/// Waits until a channel has messages for the caller after a place, or the time is up; then lists them.
///
/// # Errors
/// As [`list`].
pub async fn wait(
    ctx: &Ctx,
    caller: &Caller,
    channel_id: ChannelId,
    filter: &Filter,
    time: std::time::Duration,
) -> Outcome<Page> {
    let intent_id = home(ctx, channel_id).await?;
    // Registered before the first look: what is committed after the look is heard.
    let mut follower = ctx.feed.follow(intent_id, i64::MAX);
    let deadline = tokio::time::Instant::now() + time;
    loop {
        let page = list(ctx, caller, channel_id, filter).await?;
        let news = news(&mut follower, &caller.grant);
        if !page.messages.is_empty() || tokio::time::timeout_at(deadline, news).await.is_err() {
            return Ok(page);
        }
        caller.require_key(ctx.now())?;
        let _position_is_past_everything = follower.glance();
    }
}

/// One message.
///
/// # Errors
/// It is not there or not for the caller.
pub async fn get(ctx: &Ctx, caller: &Caller, channel_id: ChannelId, id: MessageId) -> Outcome<Message> {
    caller.require(Scope::ChannelsRead)?;
    let now = ctx.now();
    let mut connection = ctx.pool.acquire().await?;
    let visit = visit(&mut connection, caller, channel_id, now).await?;
    let viewer = visit.viewer(caller, ctx.settings.strict);
    viewer.require(&visit.channel)?;
    let message = rows::find(&mut connection, &visit.channel, id, now).await?;
    message.filter(|message| message.visible_to(&viewer)).ok_or_else(|| not_found("message"))
}

/// Marks a message read by the caller. Doing it again changes nothing.
///
/// # Errors
/// It is not there; it is not for the caller; it has expired.
pub async fn mark_read(ctx: &Ctx, caller: &Caller, channel_id: ChannelId, id: MessageId) -> Outcome<Message> {
    caller.require(Scope::ChannelsRead)?;
    let intent_id = home(ctx, channel_id).await?;
    let mut tx = ctx.begin(&[intent_id]).await?;
    let mut line = Line::open(&mut tx, intent_id, caller.trace, ctx.now()).await?;
    let now = line.now();
    let visit = visit(&mut tx, caller, channel_id, now).await?;
    let viewer = visit.viewer(caller, ctx.settings.strict);
    viewer.require(&visit.channel)?;
    let message = rows::find(&mut tx, &visit.channel, id, now).await?;
    let mut message =
        message.filter(|message| message.visible_to(&viewer)).ok_or_else(|| not_found("message"))?;
    require_recipient(&message, &viewer)?;
    if rows::has_read(&mut tx, channel_id, id, &caller.agent).await? {
        return Ok(message);
    }
    let (seq, at) = line.advance();
    let agent = caller.agent.clone();
    let receipt = Receipt { seq, intent_id, channel_id, message_id: id, kind: ReceiptKind::Read, agent, at };
    receipts::insert(&mut tx, &[receipt]).await?;
    if message.message_type != MessageType::Request {
        // A request goes on waiting for its response.
        pending::settle(&mut tx, channel_id, id).await?;
    }
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(intent_id);
    message.status = MessageStatus::Read;
    message.read_at.get_or_insert(at);
    Ok(message)
}
