//! Departures: an agent leaves, and its channels are notified (RFC-0016, RFC-0021 §7.2).

use std::collections::HashMap;

use entente_domain::clock::Timestamp;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::log::events::{Draft as EventDraft, Kind};
use entente_domain::openintent::agents::{Agent, AgentStatus};
use entente_domain::openintent::channels::{Channel, ChannelStatus};
use entente_domain::openintent::messages::{Draft, Message, MessageType, Ruling};
use entente_domain::payload::Payload;
use entente_domain::traces::Trace;
use entente_kernel::channels;
use entente_kernel::due::run_each;
use entente_kernel::identity::agents;
use entente_kernel::identity::agents::{find, require_keeper, save};
use entente_kernel::log::writer::IntentLog;
use entente_kernel::messages::pending;
use entente_kernel::webhooks::endpoints;
use entente_kernel::{Caller, Outcome, Tx, not_found};
use serde_json::json;
use sqlx::PgConnection;

use super::changed;
use crate::Ctx;
use crate::messages::writer::say;
use crate::{leases, tasks};

/// Deregisters an agent; repeating it has no effect.
///
/// The agent is removed from the members of open channels, which get a notify; its leases end, requests that
/// wait only for it expire, and its tasks become available to others.
///
/// # Errors
/// The agent does not exist, or the caller may not manage it.
pub async fn deregister(ctx: &Ctx, caller: &Caller, agent_id: &str) -> Outcome<Agent> {
    require_keeper(ctx, caller, agent_id)?;
    let (agent, _left) = depart(ctx, agent_id, &caller.agent, caller.trace, |_, _| true).await?;
    Ok(agent)
}

/// Deregisters up to `limit` draining agents whose drain timeout has passed.
///
/// # Errors
/// A database error.
pub async fn finish_drains(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let due = agents::drained(&ctx.pool, ctx.now(), limit).await?;
    run_each(due.into_iter().map(|agent_id| finish_drain(ctx, agent_id))).await
}

async fn finish_drain(ctx: &Ctx, agent_id: String) -> Outcome<u64> {
    // Checked again under the lock: the drain may have been cancelled, or another server may have finished
    // it.
    let (_, left) = depart(ctx, &agent_id, SYSTEM, None, Agent::drained).await?;
    Ok(u64::from(left))
}

/// Deregisters an agent if it is `due`; returns its record, and whether it left now.
async fn depart(
    ctx: &Ctx,
    agent_id: &str,
    actor: &str,
    trace: Option<Trace>,
    due: impl Fn(&Agent, Timestamp) -> bool,
) -> Outcome<(Agent, bool)> {
    loop {
        let (mut tx, intents) = begin(ctx, agent_id).await?;
        let mut system_log = IntentLog::open(&mut tx, IntentId::SYSTEM, trace, ctx.now()).await?;
        let before = find(&mut tx, agent_id).await?.ok_or_else(|| not_found("agent"))?;
        if before.status == AgentStatus::Deregistered || !due(&before, system_log.now()) {
            return Ok((before, false));
        }
        agents::hold(&mut tx, agent_id).await?;
        if concerned(&mut tx, agent_id).await?.iter().any(|intent| !intents.contains(intent)) {
            // It joined another channel or took a task since the intents were listed. Their locks must be
            // taken before the first write, so start over.
            continue;
        }
        for intent in &intents {
            leave(&mut tx, ctx, *intent, agent_id, actor, trace).await?;
        }
        let now = system_log.now();
        let after = Agent {
            status: AgentStatus::Deregistered,
            draining_since: None,
            version: before.version + 1,
            ..before.clone()
        };
        save(&mut tx, &after).await?;
        system_log.record(ctx, changed(&before, &after, actor));
        endpoints::leave_with_agent(&mut tx, ctx, &mut system_log, agent_id).await?;
        system_log.save(&mut tx).await?;
        tx.commit().await?;
        tracing::info!(agent.id = agent_id, at = %now, "agent deregistered");
        ctx.feed.notify_committed(IntentId::SYSTEM);
        intents.iter().for_each(|intent| ctx.feed.notify_committed(*intent));
        return Ok((after, true));
    }
}

/// Begins a transaction with the locks of the system log and of every intent that the agent is involved in.
async fn begin(ctx: &Ctx, agent_id: &str) -> Outcome<(Tx, Vec<IntentId>)> {
    let mut connection = ctx.pool.acquire().await?;
    let intents = concerned(&mut connection, agent_id).await?;
    drop(connection);
    let mut locks = intents.clone();
    locks.push(IntentId::SYSTEM);
    Ok((ctx.begin(&locks).await?, intents))
}

/// Returns the intents on which the agent is a member of an open channel, is awaited by a request, or has a
/// lease or a task.
async fn concerned(conn: &mut PgConnection, agent_id: &str) -> Outcome<Vec<IntentId>> {
    let mut intents = channels::intents_with_member(conn, agent_id).await?;
    intents.extend(pending::intents_awaiting(conn, agent_id).await?);
    intents.extend(leases::intents_of_holder(conn, agent_id).await?);
    intents.extend(tasks::intents_of_agent(conn, agent_id).await?);
    intents.sort_unstable();
    intents.dedup();
    Ok(intents)
}

/// Removes the agent from one intent's channels, and ends its leases and tasks there.
async fn leave(
    conn: &mut PgConnection,
    ctx: &Ctx,
    intent: IntentId,
    agent_id: &str,
    actor: &str,
    trace: Option<Trace>,
) -> Outcome<()> {
    let mut log = IntentLog::open(conn, intent, trace, ctx.now()).await?;
    // Tasks that end here close their channels, which then get no notice of the departure.
    tasks::agent_left(conn, ctx, &mut log, agent_id, actor).await?;
    let mut told: HashMap<ChannelId, Channel> = HashMap::new();
    for channel in channels::remove_member(conn, intent, agent_id).await? {
        let payload = json!({
            "channel_id": channel.id, "name": channel.name, "members": channel.members, "updated": ["members"],
            "departed": agent_id,
        });
        log.record(ctx, EventDraft::of(Kind::ChannelCreated, actor, payload));
        told.insert(channel.id, channel);
    }
    leases::end_of_agent(conn, ctx, &mut log, agent_id, actor).await?;
    let awaiting = pending::expire_for_agent(conn, &mut log, agent_id).await?;
    for channel in channels::load_all(conn, &awaiting).await? {
        told.entry(channel.id).or_insert(channel);
    }
    // A channel past its time to live is closed, swept or not; a notice would reopen it.
    let now = log.now();
    told.retain(|_, channel| channel.status_at(now) == ChannelStatus::Open);
    let mut told: Vec<Channel> = told.into_values().collect();
    told.sort_by_key(|channel| channel.id);
    let mut notices = Vec::with_capacity(told.len());
    for channel in &mut told {
        notices.push(notice(ctx, &mut log, channel, agent_id)?);
    }
    log.save_with(conn, &notices.iter().collect::<Vec<_>>(), &told.iter().collect::<Vec<_>>()).await
}

/// Sends the notify that announces the departure on a channel.
fn notice(ctx: &Ctx, log: &mut IntentLog, channel: &mut Channel, agent_id: &str) -> Outcome<Message> {
    let said = json!({ "event": "agent_departed", "agent_id": agent_id });
    let draft = Draft {
        sender: SYSTEM.to_owned(),
        to: None,
        message_type: MessageType::Notify,
        correlation_id: None,
        payload: Payload::stored(said.to_string())?,
        metadata: None,
        expires_at: None,
    };
    say(ctx, log, channel, draft, Ruling { to: None, recipients: None })
}
