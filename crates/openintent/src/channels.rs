//! Channels (RFC-0021 §1): opening, finding and changing them. Their rows, and the operations of other protocols on
//! them inside a transaction, are the kernel's (`kernel/src/channels.rs`).

mod sweeps;

use entente_domain::access::Level;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::channels as domain;
use entente_domain::openintent::channels::{Channel, ChannelAsk, ChannelChange, ChannelStatus, CloseReason};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::membership;
use entente_kernel::channels::access::{home, settle, visit};
use entente_kernel::channels::rows::{self, mark_deleted, update};
use entente_kernel::channels::{close, event_payload, judge, save_new};
use entente_kernel::{Caller, IntentTx, Outcome};
use serde_json::json;
use sqlx::PgConnection;

pub use sweeps::close_idle;

use crate::Ctx;
use crate::tasks;

/// Opens a channel on an intent.
///
/// # Errors
/// The intent does not exist, is not writable or is resolved; an open channel has the name; the request is
/// invalid.
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: ChannelAsk,
    once: Option<&Idempotency>,
) -> Outcome<Channel> {
    caller.require(Scope::ChannelsWrite)?;
    let agent = caller.speaker("created_by", None, ctx.settings.strict)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    let membership = membership::require(work.conn(), &agent, intent_id, Level::Write, ctx.now()).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let (conn, log) = work.parts();
    let channel = judge(ctx, log, &membership, &agent, ask)?;
    check_task(conn, ctx, &channel).await?;
    let channel = save_new(conn, ctx, log, channel).await?;
    work.finish(channel).await
}

/// Requires in strict mode that `task_id` names an open task of the intent; otherwise it may be any text
/// (OI-2.2).
async fn check_task(conn: &mut PgConnection, ctx: &Ctx, channel: &Channel) -> Outcome<()> {
    let Some(named) = channel.task_id.as_deref().filter(|_| ctx.settings.strict) else { return Ok(()) };
    let known = match named.parse() {
        Ok(id) => tasks::among(conn, channel.intent_id, &[id]).await?.pop(),
        Err(_no_id) => None,
    };
    match known {
        None => Err(tasks::no_task("task_id", &format!("`{named}`")).into()),
        Some((id, status, _)) if status.is_terminal() => {
            let message = format!("{id} is {}: a channel for it would be closed already.", status.as_str());
            Err(Refusal::field(Code::Unprocessable, "task_id", "over", message).into())
        }
        Some(_) => Ok(()),
    }
}

/// Filters for listing an intent's channels.
#[derive(Debug, Clone, Default)]
pub struct ChannelFilter {
    /// Only channels in this status.
    pub status: Option<ChannelStatus>,
    /// Maximum number of channels.
    pub limit: u32,
    /// Number of channels to skip.
    pub offset: u32,
}

/// Lists an intent's channels: open ones first, then closed ones, each oldest first (OI-10.1.5).
///
/// Readers of the intent see names and members, but not messages (RFC-0021, open question 2).
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    filter: &ChannelFilter,
) -> Outcome<Vec<Channel>> {
    caller.require(Scope::ChannelsRead)?;
    let now = ctx.now();
    let mut connection = ctx.pool.acquire().await?;
    membership::require(&mut connection, &caller.agent, intent_id, Level::Read, now).await?;
    let status = filter.status.map(word);
    let mut channels = rows::list(&mut connection, intent_id, status, filter.limit, filter.offset).await?;
    channels.iter_mut().for_each(|channel| settle(channel, now));
    Ok(channels)
}

/// Returns a channel; every reader of its intent may see it.
///
/// # Errors
/// The channel does not exist, or its intent is not readable.
pub async fn get(ctx: &Ctx, caller: &Caller, id: ChannelId) -> Outcome<Channel> {
    caller.require(Scope::ChannelsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    let visit = visit(&mut connection, caller, id, ctx.now()).await?;
    Ok(visit.channel)
}

/// Changes a channel's members, policy, options or status.
///
/// # Errors
/// The channel does not exist; the caller does not manage it; it is closed; the change is invalid.
pub async fn change(ctx: &Ctx, caller: &Caller, id: ChannelId, change: ChannelChange) -> Outcome<Channel> {
    caller.require(Scope::ChannelsWrite)?;
    let intent_id = home(ctx, id).await?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, None).await?;
    let visit = visit(work.conn(), caller, id, ctx.now()).await?;
    let (next, changed) = domain::change(&visit.channel, change, visit.manages, work.now())?;
    if changed.is_empty() {
        return Ok(visit.channel);
    }
    let (conn, log) = work.parts();
    update(conn, &next).await?;
    if next.status != visit.channel.status {
        close(conn, ctx, log, &next, CloseReason::Requested, &caller.agent).await?;
    }
    if changed != ["status"] {
        let mut payload = event_payload(&next);
        if let Some(members) = payload.as_object_mut() {
            members.insert("updated".to_owned(), json!(changed));
        }
        work.record(Draft::of(Kind::ChannelCreated, &caller.agent, payload));
    }
    work.finish(next).await
}

/// Closes and hides a channel; its messages are purged soon after.
///
/// # Errors
/// The channel does not exist; the caller does not manage it.
pub async fn delete(ctx: &Ctx, caller: &Caller, id: ChannelId) -> Outcome<()> {
    caller.require(Scope::ChannelsWrite)?;
    let intent_id = home(ctx, id).await?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, None).await?;
    let visit = visit(work.conn(), caller, id, ctx.now()).await?;
    domain::require_manager(visit.manages)?;
    let (conn, log) = work.parts();
    // Even if it was closed before, because writers rely on every change to an intent advancing its log.
    close(conn, ctx, log, &visit.channel, CloseReason::Requested, &caller.agent).await?;
    mark_deleted(conn, id, log.now()).await?;
    work.commit().await
}

fn word(status: ChannelStatus) -> &'static str {
    match status {
        ChannelStatus::Open => "open",
        ChannelStatus::Closed => "closed",
    }
}
