//! Access to a channel: the channel as one agent may see it, and the intent that it belongs to. Every operation on a
//! channel, except sends, begins with [`visit`], or [`visits`] for several readers; the hot path of sends has its own
//! (`crates/openintent/src/messages/writer/`).

use std::collections::HashMap;

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::openintent::channels::{Channel, ChannelStatus};
use entente_domain::openintent::messages::Viewer;
use entente_runtime::cache::Cache;
use entente_runtime::metrics::Metrics;
use sqlx::PgConnection;

use crate::access::membership;
use crate::access::membership::Membership;
use crate::channels::{load, load_all};
use crate::{Caller, Ctx, IntentTx, Outcome, not_found};

/// Maximum number of channels in the cache; the least recently used one is dropped.
const CAPACITY: usize = 100_000;

/// Cache of the intent of each channel, which never changes; entries are therefore never outdated.
#[derive(Debug)]
pub struct ChannelIntentCache(Cache<ChannelId, IntentId>);

impl ChannelIntentCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Self(Cache::new("channel_intents", CAPACITY, metrics))
    }
}

/// Sets a channel's status at this moment: one past its lifetime is closed, swept or not.
pub fn settle(channel: &mut Channel, now: Timestamp) {
    if channel.status == ChannelStatus::Open && channel.status_at(now) == ChannelStatus::Closed {
        channel.status = ChannelStatus::Closed;
        channel.closed_at = channel.ttl_ends_at();
    }
}

/// A channel with one agent's access to it.
#[derive(Debug)]
pub struct ChannelAccess {
    /// The channel, in its state at this moment.
    pub channel: Channel,
    /// Whether the agent manages the channel.
    pub manages: bool,
}

impl ChannelAccess {
    /// Returns the agent's view of the channel's messages.
    #[must_use]
    pub fn viewer<'a>(&self, caller: &'a Caller, strict: bool) -> Viewer<'a> {
        Viewer {
            agent: &caller.agent,
            admitted: self.channel.admits(&caller.agent),
            manages: self.manages,
            sees_all: caller.sees_all(strict),
        }
    }
}

/// Loads a channel for an agent; without read access to its intent it is not found (RFC-0021 §5).
///
/// # Errors
/// The channel does not exist, or the caller may not read its intent.
pub async fn visit(
    conn: &mut PgConnection,
    caller: &Caller,
    id: ChannelId,
    now: Timestamp,
) -> Outcome<ChannelAccess> {
    let found = visits(conn, &[(id, caller.agent.clone())], now).await?.pop();
    found.map(|(_, access)| access).ok_or_else(|| not_found("channel"))
}

/// As [`visit`], for several agents: each access with its place in `asked`. Channels that are not found are left out.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn visits(
    conn: &mut PgConnection,
    asked: &[(ChannelId, String)],
    now: Timestamp,
) -> Outcome<Vec<(usize, ChannelAccess)>> {
    let channels = load_all(conn, &asked.iter().map(|(id, _)| *id).collect::<Vec<_>>()).await?;
    let channels: HashMap<ChannelId, Channel> =
        channels.into_iter().map(|channel| (channel.id, channel)).collect();
    if channels.is_empty() {
        return Ok(Vec::new());
    }
    let members: Vec<(IntentId, &str)> = asked
        .iter()
        .filter_map(|(id, agent)| channels.get(id).map(|channel| (channel.intent_id, agent.as_str())))
        .collect();
    let memberships: HashMap<(IntentId, String), Membership> =
        membership::find_all(conn, &members, now).await?.into_iter().collect();
    let visit = |(place, (id, agent)): (usize, &(ChannelId, String))| {
        let channel = channels.get(id)?;
        let membership = memberships.get(&(channel.intent_id, agent.clone()))?;
        let reads = membership.access.reaches(Level::Read);
        reads.then(|| (place, of_member(channel.clone(), agent, membership, now)))
    };
    Ok(asked.iter().enumerate().filter_map(visit).collect())
}

/// As [`visit`], within an operation on the channel's intent.
///
/// # Errors
/// As [`visit`].
pub async fn visit_within(work: &mut IntentTx<'_>, caller: &Caller, id: ChannelId) -> Outcome<ChannelAccess> {
    let (membership, now) = (work.visit("channel")?, work.now());
    let channel = load(work.reading(), id).await?.ok_or_else(|| not_found("channel"))?;
    Ok(of_member(channel, &caller.agent, &membership, now))
}

/// Returns a channel that was loaded, for a member of its intent.
#[must_use]
pub fn of_member(
    mut channel: Channel,
    agent: &str,
    membership: &Membership,
    now: Timestamp,
) -> ChannelAccess {
    let manages = channel.managed_by(agent, membership.access, membership.coordinates);
    settle(&mut channel, now);
    ChannelAccess { channel, manages }
}

/// Returns the intent that a channel belongs to.
///
/// # Errors
/// Fails if the channel does not exist.
pub async fn home(ctx: &Ctx, id: ChannelId) -> Outcome<IntentId> {
    if let Some(intent) = ctx.channel_intents.0.get(&id) {
        return Ok(intent);
    }
    let found = sqlx::query_scalar!(
        "-- channel_access::home
         SELECT intent_id FROM channels WHERE id = $1 AND deleted_at IS NULL",
        id.uuid()
    )
    .fetch_optional(&ctx.pool)
    .await?;
    let intent = IntentId::from(found.ok_or_else(|| not_found("channel"))?);
    ctx.channel_intents.0.put(id, intent);
    Ok(intent)
}
