//! Agent heartbeats (RFC-0016) and the detection of silent agents.
//!
//! While the status stays the same, a heartbeat makes no event and no transaction of its own: heartbeats are
//! gathered in memory and written together, at a cost of one statement a second for a whole fleet. A crash
//! loses at most one second of heartbeats.

use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::IntentId;
use entente_domain::openintent::agents::{Agent, AgentStatus};
use entente_kernel::due::run_each;
use entente_kernel::identity::agents::{Beat, find, save, save_beats, shown, suspects};
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{Caller, IntentTx, Outcome, not_found};

use super::changed;
use crate::Ctx;
use crate::tasks;

/// Records a heartbeat.
///
/// # Errors
/// The agent does not exist or has left, or the caller may not act as it.
pub async fn heartbeat(
    ctx: &Ctx,
    caller: &Caller,
    agent_id: &str,
    current_load: i64,
    tasks_in_progress: Vec<String>,
) -> Outcome<Agent> {
    caller.require(Scope::AgentsWrite)?;
    entente_domain::access::check_list("tasks_in_progress", &tasks_in_progress)?;
    caller.speaker("agent_id", Some(agent_id), ctx.settings.strict)?;
    // A heartbeat is written later, with others; its session is judged now.
    let mut connection = ctx.pool.writing().await?;
    let mut agent = find(&mut connection, agent_id).await?.ok_or_else(|| not_found("agent"))?;
    drop(connection);
    ctx.beats.show(&mut agent);
    let now = ctx.now();
    let status = agent.beat(now)?;
    let beat = Beat { current_load, tasks_in_progress, at: now };
    ctx.beats.put(agent_id, beat);
    if status == agent.status {
        ctx.beats.show(&mut agent);
        return Ok(agent);
    }
    // The agent has recovered: this changes its status and is written at once.
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let agent = find(work.conn(), agent_id).await?.ok_or_else(|| not_found("agent"))?;
    let mut heard = Agent { last_heartbeat_at: Some(now), ..agent.clone() };
    // Write the content of this heartbeat too: gathered ones count only if newer than the record.
    ctx.beats.show(&mut heard);
    let next = heard.moved(status, work.now())?;
    save(work.conn(), &next).await?;
    work.record(changed(&agent, &next, agent_id));
    work.finish(next).await
}

/// Writes the heartbeats received since the last call.
///
/// Until then they count from memory, where the detection of silence reads them.
///
/// # Errors
/// The database query fails; the heartbeats are kept for the next call.
pub async fn flush_beats(ctx: &Ctx) -> Outcome<u64> {
    let beats = ctx.beats.all();
    if beats.is_empty() {
        return Ok(0);
    }
    let (ids, heard): (Vec<&str>, Vec<&Beat>) = beats.iter().map(|(id, beat)| (id.as_str(), beat)).unzip();
    let written = save_beats(ctx, &ids, &heard).await?;
    ctx.beats.written(&beats);
    Ok(written)
}

/// Records up to `limit` agents that have fallen silent, and releases the tasks of those declared dead.
///
/// # Errors
/// The database query fails.
pub async fn note_silence(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let now = ctx.now();
    let silent = suspects(&ctx.pool, now, limit).await?;
    run_each(silent.into_iter().map(|agent| note_silence_of(ctx, shown(ctx, agent), now))).await
}

/// Like [`note_silence`], for one agent.
async fn note_silence_of(ctx: &Ctx, suspect: Agent, now: Timestamp) -> Outcome<u64> {
    let (mut tx, intents) =
        tasks::begin_with_agent(ctx, &suspect.agent_id, suspect.status == AgentStatus::Dead).await?;
    let mut log = IntentLog::open(&mut tx, IntentId::SYSTEM, None, now).await?;
    let Some(mut agent) = find(&mut tx, &suspect.agent_id).await? else { return Ok(0) };
    ctx.beats.show(&mut agent);
    let status = agent.status_at(log.now());
    if status == agent.status {
        return Ok(0);
    }
    let next = Agent { status, version: agent.version + 1, ..agent.clone() };
    if status == AgentStatus::Dead
        && !tasks::take_from(&mut tx, ctx, &intents, &suspect.agent_id, SYSTEM).await?
    {
        // The agent has a task on an intent whose lock is not held; the next sweep takes that lock.
        return Ok(0);
    }
    save(&mut tx, &next).await?;
    log.record(ctx, changed(&agent, &next, SYSTEM));
    log.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(IntentId::SYSTEM);
    intents.iter().for_each(|intent| ctx.feed.notify_committed(*intent));
    Ok(1)
}
