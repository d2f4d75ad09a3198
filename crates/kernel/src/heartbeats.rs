//! Heartbeats (RFC-0016): hearing them, and noting silence.
//!
//! While the status stays, a beat makes no event and no transaction of its own: beats are gathered in memory and
//! written together, so that a fleet's hearts cost the database one statement a second. A crash loses at most that
//! second of beats.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use entente_domain::agents::{Agent, AgentStatus};
use entente_domain::clock::Timestamp;
use entente_domain::ids::IntentId;
use entente_domain::keys::Scope;
use entente_domain::principals::HOUSE;

use super::agents::{changed, find, save, shown, suspects};
use super::lines::Line;
use super::rounds::round;
use super::{Caller, Ctx, Outcome, not_found, tasks};

/// What an agent said at its last beat.
#[derive(Debug, Clone)]
pub struct Beat {
    /// What it carries.
    pub current_load: i64,
    /// What it works on.
    pub tasks_in_progress: Vec<String>,
    /// When.
    pub at: Timestamp,
}

/// Beats that were heard and not yet written.
#[derive(Debug, Default)]
pub struct Beats(Mutex<HashMap<String, Beat>>);

impl Beats {
    fn put(&self, agent: &str, beat: Beat) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(agent.to_owned(), beat);
    }

    fn all(&self) -> HashMap<String, Beat> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets those that were written, unless the agent has been heard again since.
    fn written(&self, written: &HashMap<String, Beat>) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|agent, beat| written.get(agent).is_none_or(|written| written.at != beat.at));
    }

    /// Shows in a record what was heard since it was written.
    pub(crate) fn show(&self, agent: &mut Agent) {
        if let Some(beat) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&agent.agent_id) {
            agent.last_heartbeat_at = agent.last_heartbeat_at.max(Some(beat.at));
            agent.current_load = beat.current_load;
            agent.tasks_in_progress.clone_from(&beat.tasks_in_progress);
        }
    }
}

/// Hears a heartbeat.
///
/// # Errors
/// There is no such agent, the caller may not speak for it, or it has left.
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
    let mut connection = ctx.pool.acquire().await?;
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
    // Back to health: that is news, and written at once.
    let mut tx = ctx.begin(&[IntentId::HOUSE]).await?;
    let mut line = Line::open(&mut tx, IntentId::HOUSE, caller.trace, now).await?;
    let agent = find(&mut tx, agent_id).await?.ok_or_else(|| not_found("agent"))?;
    let mut heard = Agent { last_heartbeat_at: Some(line.now()), ..agent.clone() };
    // What the beat says is written with it: the gathered beats count only where they are younger than the record.
    ctx.beats.show(&mut heard);
    let next = heard.moved(status, line.now())?;
    save(&mut tx, &next).await?;
    line.record(ctx, changed(&agent, &next, agent_id));
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(IntentId::HOUSE);
    Ok(next)
}

/// Writes the beats that were heard since the last call. Until they are written they count from memory: whoever notes silence
/// meanwhile sees them there.
///
/// # Errors
/// The database; the beats are kept for the next call.
pub async fn flush_beats(ctx: &Ctx) -> Outcome<u64> {
    let beats = ctx.beats.all();
    if beats.is_empty() {
        return Ok(0);
    }
    let (ids, heard): (Vec<&str>, Vec<&Beat>) = beats.iter().map(|(id, beat)| (id.as_str(), beat)).unzip();
    let written = super::agents::save_beats(ctx, &ids, &heard).await?;
    ctx.beats.written(&beats);
    Ok(written)
}

/// Writes down which agents have fallen silent, up to `limit` of them; the tasks of those that are given up are for everybody
/// again.
///
/// # Errors
/// The database.
pub async fn note_silence(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let now = ctx.now();
    let silent = suspects(&ctx.pool, now, limit).await?;
    round(silent.into_iter().map(|agent| note_silence_of(ctx, shown(ctx, agent), now))).await
}

/// As [`note_silence`], of one agent.
async fn note_silence_of(ctx: &Ctx, suspect: Agent, now: Timestamp) -> Outcome<u64> {
    let (mut tx, intents) =
        tasks::begin_with_agent(ctx, &suspect.agent_id, suspect.status == AgentStatus::Dead).await?;
    let mut line = Line::open(&mut tx, IntentId::HOUSE, None, now).await?;
    let Some(mut agent) = find(&mut tx, &suspect.agent_id).await? else { return Ok(0) };
    ctx.beats.show(&mut agent);
    let status = agent.status_at(line.now());
    if status == agent.status {
        return Ok(0);
    }
    let next = Agent { status, version: agent.version + 1, ..agent.clone() };
    if status == AgentStatus::Dead
        && !tasks::take_from(&mut tx, ctx, &intents, &suspect.agent_id, HOUSE).await?
    {
        // It has a task on an intent whose lock is not held; the next sweep holds it.
        return Ok(0);
    }
    save(&mut tx, &next).await?;
    line.record(ctx, changed(&agent, &next, HOUSE));
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(IntentId::HOUSE);
    intents.iter().for_each(|intent| ctx.feed.news(*intent));
    Ok(1)
}
