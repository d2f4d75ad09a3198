//! Channels (RFC-0021 §1) inside a transaction: opening and closing them, access to them, and the rows of the table
//! `channels`. Jobs and tasks have channels of their own, so this belongs to no single protocol.

pub mod access;
mod closing;
pub mod rows;

use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::ChannelId;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::channels as domain;
use entente_domain::openintent::channels::{Channel, ChannelAsk, ChannelStatus, CloseReason};
use entente_domain::refusal::{Code, Refusal};
use serde_json::json;
use sqlx::PgConnection;

pub use closing::close;
pub use closing::close_of_intent;
pub use closing::close_of_jobs;
pub use closing::close_of_tasks;
pub use rows::Row;
pub use rows::find_open;
pub use rows::intents_with_member;
pub(crate) use rows::load;
pub use rows::load_all;
pub use rows::remove_member;

use crate::access::membership::Membership;
use crate::log::writer::IntentLog;
use crate::{Ctx, Outcome};

/// Opens a channel within an operation that holds the intent's lock.
///
/// # Errors
/// The intent is resolved; the caller may not write to it; the channel is invalid; an open one has its name.
pub async fn open(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    membership: &Membership,
    agent: &str,
    ask: ChannelAsk,
) -> Outcome<Channel> {
    let channel = judge(ctx, log, membership, agent, ask)?;
    save_new(conn, ctx, log, channel).await
}

/// Judges a request for a channel, and returns the channel, which is not stored yet.
///
/// # Errors
/// The intent is resolved; the caller may not write to it; the channel is invalid.
pub fn judge(
    ctx: &Ctx,
    log: &IntentLog,
    membership: &Membership,
    agent: &str,
    ask: ChannelAsk,
) -> Result<Channel, Refusal> {
    if membership.status.is_terminal() {
        return Err(Refusal::new(
            Code::IntentResolved,
            format!(
                "The intent is {}; no channel can be opened on it any more (RFC-0021 §7.1).",
                membership.status.as_str()
            ),
        ));
    }
    let id = ChannelId::mint(log.now(), &*ctx.chance);
    domain::create(ask, log.intent_id, agent, membership.access, id, log.now())
}

/// Stores a new channel and records it.
///
/// # Errors
/// An open channel of the intent has its name; a database error.
pub async fn save_new(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    channel: Channel,
) -> Outcome<Channel> {
    let now = log.now();
    if let Some(open) = find_open(conn, log.intent_id, &channel.name).await? {
        if open.status_at(now) == ChannelStatus::Open {
            return Err(Refusal::new(
                Code::DuplicateName,
                format!("An open channel of this intent has that name already: {}. Use it, or choose another name.", open.id),
            )
            .into());
        }
        // It has expired, but no sweep has closed it yet.
        close(conn, ctx, log, &open, CloseReason::TtlExpired, SYSTEM).await?;
    }
    rows::insert(conn, &channel).await?;
    log.record(ctx, Draft::of(Kind::ChannelCreated, &channel.created_by, event_payload(&channel)));
    Ok(channel)
}

/// Builds the payload of the events about a channel.
#[must_use]
pub fn event_payload(channel: &Channel) -> serde_json::Value {
    json!({
        "channel_id": channel.id, "name": channel.name, "created_by": channel.created_by, "task_id": channel.task_id,
        "member_policy": channel.member_policy, "members": channel.members, "options": channel.options.filled(),
    })
}
