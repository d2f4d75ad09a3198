//! Finds the agents that entries of the logs are for, among those with an open inbox. Reads no content.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use entente_domain::access::Level;
use entente_domain::aee::envelopes::Priority;
use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::ids::{ChannelId, IntentId, MessageId};
use entente_domain::inbox::{Attention, EntryKind, KEPT_SECONDS, Source, asked_in};
use entente_domain::log::events::Kind;
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::messages::MessageType;
use serde_json::{Map, Value};
use sqlx::PgConnection;

use super::rows::{Entry, LockedInbox, NewEntry};
use crate::access::membership;
use crate::access::membership::Membership;
use crate::channels;
use crate::log::GlobalPosition;
use crate::log::order::Parts;
use crate::{Ctx, Outcome, unknown};

/// Events of decisions that their asker learns of: those of a person or of time.
const DECISIONS: [Kind; 6] = [
    Kind::MomentResolved,
    Kind::MomentVetoed,
    Kind::MomentWord,
    Kind::MomentExpired,
    Kind::MomentWithdrawn,
    Kind::MomentClosed,
];

/// Events of tasks that the assigned agent learns of, unless it did them itself.
const TASKS: [Kind; 14] = [
    Kind::TaskCreated,
    Kind::TaskReady,
    Kind::TaskClaimed,
    Kind::TaskStarted,
    Kind::TaskCompleted,
    Kind::TaskFailed,
    Kind::TaskRetrying,
    Kind::TaskBlocked,
    Kind::TaskUnblocked,
    Kind::TaskDelegated,
    Kind::TaskEscalated,
    Kind::TaskCancelled,
    Kind::TaskSkipped,
    Kind::TaskProgress,
];

/// Events of assignments to an intent, and of hand-overs.
const ASSIGNMENTS: [Kind; 3] = [Kind::AgentAssigned, Kind::AgentUnassigned, Kind::HandoverMade];

/// Events of loops and storms that their agents learn of. Those on closed channels name no agents.
const LOOPS: [Kind; 2] = [Kind::LoopFound, Kind::LoopCleared];

/// Where an item was read, so that an inbox gets only items from after its opening.
#[derive(Debug, Clone, Copy)]
pub(super) enum Origin {
    /// The logs.
    Log(GlobalPosition),
    /// The events of jobs: the number in their order, and the event in its job.
    Job(i64, i64),
    /// A mailbox, which an inbox reads from its own position.
    Mail,
}

/// The source of an item, which decides its level: an owned [`Source`].
#[derive(Debug, Clone)]
pub(super) enum ItemSource {
    Message { message_type: MessageType, is_directed: bool, asked: Option<Attention> },
    Mail(Priority),
    Job,
    Decision,
    Task,
}

/// Something that happened, and whom it may be for.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub origin: Origin,
    pub agents: Vec<String>,
    pub kind: EntryKind,
    pub what: String,
    pub reference: String,
    pub intent_id: Option<IntentId>,
    pub channel_id: Option<ChannelId>,
    pub sender: Option<String>,
    pub source: ItemSource,
    pub at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

/// An item with the place and the address of its record.
struct Addressed {
    place: GlobalPosition,
    item: Item,
    channel: Option<Arc<Channel>>,
    is_directed: bool,
}

/// Turns parts of the logs into items. A message is for its recipients, one to everybody for the members of its channel and
/// the agents that are assigned to its intent; whoever may not read it has no entry.
pub(super) async fn items(ctx: &Ctx, conn: &mut PgConnection, parts: &Parts) -> Outcome<Vec<Item>> {
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = messages(conn, parts).await?;
    found.extend(events(conn, parts).await?);
    let assigned = assigned(conn, &found).await?;
    for one in &mut found {
        if let Some(channel) = one.channel.as_ref().filter(|_| !one.is_directed) {
            let intent = one.item.intent_id.and_then(|intent| assigned.get(&intent));
            one.item.agents.extend(channel.members.iter().chain(intent.into_iter().flatten()).cloned());
            one.item.agents.sort_unstable();
            one.item.agents.dedup();
        }
        // An agent's own action is no news for it.
        let sender = one.item.sender.clone();
        one.item.agents.retain(|agent| Some(agent) != sender.as_ref());
    }
    keep_open(conn, &mut found).await?;
    let memberships = memberships(ctx, conn, &found).await?;
    for one in &mut found {
        let (item, channel) = (&mut one.item, one.channel.as_deref());
        let (kind, what, intent) = (item.kind, item.what.clone(), item.intent_id);
        item.agents.retain(|agent| may_learn(kind, &what, intent, channel, agent, &memberships));
    }
    found.retain(|one| !one.item.agents.is_empty());
    found.sort_by_key(|one| one.place);
    Ok(found.into_iter().map(|one| one.item).collect())
}

/// Reads the addresses of messages.
async fn messages(conn: &mut PgConnection, parts: &Parts) -> Outcome<Vec<Addressed>> {
    let rows = sqlx::query!(
        r#"-- inbox::messages
         SELECT m.intent_id, m.seq, m.channel_id, m.id, m.sender, m.recipients, m.message_type, m.created_at, m.expires_at,
                CASE WHEN m.metadata LIKE '%"attention"%' THEN m.metadata END AS metadata
         FROM UNNEST($1::uuid[], $2::bigint[], $3::bigint[]) AS p (intent_id, from_seq, to_seq)
         CROSS JOIN LATERAL (SELECT s.* FROM messages s
                             WHERE s.intent_id = p.intent_id AND s.seq BETWEEN p.from_seq AND p.to_seq OFFSET 0) m"#,
        &parts.intents,
        &parts.from,
        &parts.to
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut ids: Vec<ChannelId> = rows.iter().map(|row| row.channel_id.into()).collect();
    ids.sort_unstable();
    ids.dedup();
    let channels = if ids.is_empty() { Vec::new() } else { channels::load_all(conn, &ids).await? };
    let channels: HashMap<ChannelId, Arc<Channel>> =
        channels.into_iter().map(|channel| (channel.id, Arc::new(channel))).collect();
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        // The messages of a deleted channel are gone.
        let Some(channel) = channels.get(&row.channel_id.into()) else { continue };
        let message_type = MessageType::parse(&row.message_type)
            .ok_or_else(|| unknown("message type", &row.message_type))?;
        let intent = IntentId::from(row.intent_id);
        let place = parts.place(intent, row.seq);
        let is_directed = row.recipients.is_some();
        let item = Item {
            origin: Origin::Log(place),
            agents: row.recipients.unwrap_or_default(),
            kind: EntryKind::Message,
            what: row.message_type,
            reference: MessageId::from(row.id).to_string(),
            intent_id: Some(intent),
            channel_id: Some(channel.id),
            sender: Some(row.sender),
            source: ItemSource::Message {
                message_type,
                is_directed,
                asked: row.metadata.as_deref().and_then(asked_in),
            },
            at: row.created_at,
            expires_at: row.expires_at,
        };
        found.push(Addressed { place, item, channel: Some(Arc::clone(channel)), is_directed });
    }
    Ok(found)
}

/// Reads the server's own events about decisions, tasks and assignments.
async fn events(conn: &mut PgConnection, parts: &Parts) -> Outcome<Vec<Addressed>> {
    let types: Vec<&str> =
        DECISIONS.iter().chain(&TASKS).chain(&ASSIGNMENTS).chain(&LOOPS).map(|kind| kind.wire()).collect();
    let rows = sqlx::query!(
        r#"-- inbox::events
         SELECT e.intent_id, e.seq, e.event_type, e.actor, e.payload, e.created_at
         FROM UNNEST($1::uuid[], $2::bigint[], $3::bigint[]) AS p (intent_id, from_seq, to_seq)
         CROSS JOIN LATERAL (SELECT s.* FROM events s
                             WHERE s.intent_id = p.intent_id AND s.seq BETWEEN p.from_seq AND p.to_seq
                               AND NOT s.posted AND s.event_type = ANY($4) OFFSET 0) e"#,
        &parts.intents,
        &parts.from,
        &parts.to,
        &types as &[&str]
    )
    .fetch_all(conn)
    .await?;
    let mut found = Vec::new();
    for row in rows {
        let payload: Map<String, Value> = serde_json::from_str(&row.payload)?;
        let intent = IntentId::from(row.intent_id);
        let place = parts.place(intent, row.seq);
        let Some((kind, agents, reference, what)) = subject(&row.event_type, intent, &payload) else {
            continue;
        };
        let item = Item {
            origin: Origin::Log(place),
            agents,
            kind,
            what,
            reference,
            intent_id: (intent != IntentId::SYSTEM).then_some(intent),
            channel_id: None,
            sender: Some(row.actor),
            source: if kind == EntryKind::Decision { ItemSource::Decision } else { ItemSource::Task },
            at: row.created_at,
            expires_at: None,
        };
        found.push(Addressed { place, item, channel: None, is_directed: true });
    }
    Ok(found)
}

/// Returns the subject of an event: kind, agents, id of the object, and what happened.
fn subject(
    event_type: &str,
    intent: IntentId,
    payload: &Map<String, Value>,
) -> Option<(EntryKind, Vec<String>, String, String)> {
    let member = |name: &str| payload.get(name).and_then(Value::as_str).map(str::to_owned);
    if let Some(what) = event_type.strip_prefix("moment.") {
        return Some((EntryKind::Decision, vec![member("agent_id")?], member("moment_id")?, what.to_owned()));
    }
    if let Some(what) = event_type.strip_prefix("task.") {
        return Some((EntryKind::Task, vec![member("assigned_agent")?], member("task_id")?, what.to_owned()));
    }
    if event_type.starts_with("loop.") {
        let agents = payload.get("agents")?.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned);
        let is_found = event_type == Kind::LoopFound.wire();
        let what = if is_found { format!("loop_{}", member("state")?) } else { "loop_cleared".to_owned() };
        return Some((EntryKind::Task, agents.collect(), member("lineage_id")?, what));
    }
    if event_type == Kind::HandoverMade.wire() {
        return Some((
            EntryKind::Task,
            vec![member("to")?],
            intent.to_string(),
            "intent_handed_over".to_owned(),
        ));
    }
    let is_assigned = event_type == Kind::AgentAssigned.wire();
    let what = if is_assigned { "intent_assigned" } else { "intent_unassigned" };
    Some((EntryKind::Task, vec![member("agent_id")?], intent.to_string(), what.to_owned()))
}

/// Returns the agents with an open inbox that are assigned to the intents of messages to everybody.
async fn assigned(conn: &mut PgConnection, found: &[Addressed]) -> Outcome<HashMap<IntentId, Vec<String>>> {
    let mut intents: Vec<uuid::Uuid> = found
        .iter()
        .filter(|one| !one.is_directed)
        .filter_map(|one| one.item.intent_id.map(IntentId::uuid))
        .collect();
    intents.sort_unstable();
    intents.dedup();
    let mut agents: HashMap<IntentId, Vec<String>> = HashMap::new();
    if intents.is_empty() {
        return Ok(agents);
    }
    let rows = sqlx::query!(
        "-- inbox::assigned
         SELECT a.intent_id, a.agent_id FROM assignments a JOIN inboxes i ON i.agent_id = a.agent_id
         WHERE a.intent_id = ANY($1)",
        &intents
    )
    .fetch_all(conn)
    .await?;
    for row in rows {
        agents.entry(row.intent_id.into()).or_default().push(row.agent_id);
    }
    Ok(agents)
}

/// Drops agents without an open inbox.
async fn keep_open(conn: &mut PgConnection, found: &mut [Addressed]) -> Outcome<()> {
    let mut agents: Vec<&str> =
        found.iter().flat_map(|one| one.item.agents.iter().map(String::as_str)).collect();
    agents.sort_unstable();
    agents.dedup();
    if agents.is_empty() {
        return Ok(());
    }
    let open: HashSet<String> = sqlx::query_scalar!(
        "-- inbox::open_of
         SELECT agent_id FROM inboxes WHERE agent_id = ANY($1)",
        &agents as &[&str]
    )
    .fetch_all(conn)
    .await?
    .into_iter()
    .collect();
    for one in found {
        one.item.agents.retain(|agent| open.contains(agent));
    }
    Ok(())
}

type Memberships = HashMap<(IntentId, String), Membership>;

async fn memberships(ctx: &Ctx, conn: &mut PgConnection, found: &[Addressed]) -> Outcome<Memberships> {
    let mut pairs: Vec<(IntentId, &str)> = found
        .iter()
        .filter_map(|one| Some((one.item.intent_id?, one)))
        .flat_map(|(intent, one)| one.item.agents.iter().map(move |agent| (intent, agent.as_str())))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    if pairs.is_empty() {
        return Ok(HashMap::new());
    }
    Ok(membership::find_all(conn, &pairs, ctx.now()).await?.into_iter().collect())
}

/// Returns whether an agent may learn of an item, by the rule of its own stream (`feed/streams/visibility.rs`).
fn may_learn(
    kind: EntryKind,
    what: &str,
    intent: Option<IntentId>,
    channel: Option<&Channel>,
    agent: &str,
    memberships: &Memberships,
) -> bool {
    // Both parties of a decision learn of it, and an agent of the end of its own assignment.
    if kind == EntryKind::Decision || what.starts_with("intent_") {
        return true;
    }
    let membership = intent.and_then(|intent| memberships.get(&(intent, agent.to_owned())));
    let reads = membership.is_some_and(|membership| membership.access.reaches(Level::Read));
    reads && channel.is_none_or(|channel| channel.admits(agent))
}

/// Adds an item's entries to the inboxes that were open by then.
pub(super) fn enter(
    item: &Item,
    inboxes: &mut HashMap<String, LockedInbox>,
    roles: &HashMap<String, String>,
    now: Timestamp,
    added: &mut Vec<NewEntry>,
) {
    let sender = item.sender.as_deref().unwrap_or_default();
    let role = roles.get(sender).map(String::as_str);
    let source = match &item.source {
        ItemSource::Message { message_type, is_directed, asked } => Source::Message {
            sender,
            role,
            message_type: *message_type,
            is_directed: *is_directed,
            asked: *asked,
        },
        ItemSource::Mail(priority) => Source::Mail { sender, role, priority: *priority },
        ItemSource::Job => Source::Job,
        ItemSource::Decision => Source::Decision,
        ItemSource::Task => Source::Task,
    };
    let latest = plus_seconds(now, KEPT_SECONDS);
    for agent in &item.agents {
        let Some(inbox) = inboxes.get_mut(agent) else { continue };
        let is_new = match item.origin {
            Origin::Log(place) => place > inbox.begins,
            Origin::Job(number, seq) => (number, seq) > inbox.begins_job,
            Origin::Mail => true,
        };
        if !is_new {
            continue;
        }
        let level = inbox.settings.level(source);
        inbox.last_place += 1;
        inbox.entries += 1;
        let wakes = level.attention == Attention::Wake;
        added.push(NewEntry {
            agent: agent.clone(),
            entry: Entry {
                place: inbox.last_place,
                kind: item.kind,
                what: item.what.clone(),
                reference: item.reference.clone(),
                intent_id: item.intent_id,
                channel_id: item.channel_id,
                sender: item.sender.clone(),
                attention: level.attention,
                breaks_through: level.breaks_through,
                at: item.at,
                expires_at: item.expires_at.map_or(latest, |end| end.min(latest)),
                rings: 0,
                rings_at: wakes.then(|| inbox.settings.rings_at(now, level.breaks_through)),
            },
        });
    }
}

/// Returns the roles of the senders of these items, if the settings of an inbox name any role.
pub(super) async fn roles(
    conn: &mut PgConnection,
    items: &[Item],
    inboxes: &HashMap<String, LockedInbox>,
) -> Outcome<HashMap<String, String>> {
    if !inboxes.values().any(|inbox| inbox.settings.names_roles()) {
        return Ok(HashMap::new());
    }
    let senders: Vec<&str> = items.iter().filter_map(|item| item.sender.as_deref()).collect();
    let rows = sqlx::query!(
        r#"-- inbox::roles
         SELECT agent_id, role_id AS "role_id!" FROM agents WHERE agent_id = ANY($1) AND role_id IS NOT NULL"#,
        &senders as &[&str]
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.agent_id, row.role_id)).collect())
}
