//! A writer's cache of the intents that it writes to: the ends of their logs, their channels, and the access levels
//! of senders. The cache may be outdated; the write itself checks it
//! (`crates/kernel/src/log/guarded_write.rs`).

use std::collections::{HashMap, HashSet};

use entente_domain::access::{AccessLevel, Facts, Level, Policy, access};
use entente_domain::clock::Timestamp;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::log::events::Tail;
use entente_domain::openintent::agents::Agent;
use entente_domain::openintent::channels::Channel;
use entente_kernel::Outcome;
use entente_kernel::access::membership;
use entente_kernel::channels::Row;
use entente_kernel::identity::agents;
use entente_kernel::log::writer::digest;
use entente_runtime::cache::OwnedCache;
use entente_runtime::metrics::Metrics;
use sqlx::PgConnection;

use super::Command;

/// Maximum number of intents in the cache of a writer; the least recently used one is dropped. A batch names far fewer
/// intents, and [`IntentCache::prepare`] uses all of them: none is dropped while the batch needs it.
const CAPACITY: usize = 4_096;
/// Number of channels, or of senders, cached for one intent at which its entry is loaded anew. It is checked between
/// batches only, because a batch needs all senders that it has loaded, however many.
const PER_INTENT: usize = 10_000;

/// Cached state of one intent.
#[derive(Debug, Clone)]
pub(crate) struct CachedIntent {
    /// End of its log.
    pub tail: Tail,
    /// Its channels.
    pub channels: HashMap<ChannelId, Channel>,
    created_by: String,
    /// Whether it has an access list.
    listed: bool,
    access_levels: HashMap<String, AccessLevel>,
}

/// A writer's cache of intents.
#[derive(Debug)]
pub(crate) struct IntentCache {
    cache: OwnedCache<IntentId, CachedIntent>,
}

/// Facts that one attempt at a batch needs besides the cache.
#[derive(Debug, Default)]
pub(crate) struct BatchContext {
    /// The intents with an entry that was read or confirmed for this very attempt.
    pub fresh: HashSet<IntentId>,
    /// The agents that hold the addressed roles.
    holders: Vec<Agent>,
}

impl Default for IntentCache {
    /// Creates the empty cache of commands that wait beside the batches, which no metric shows.
    fn default() -> Self {
        Self { cache: OwnedCache::uncounted(CAPACITY) }
    }
}

impl IntentCache {
    /// Creates the empty cache of a writer.
    pub fn of_writer(metrics: &Metrics) -> Self {
        Self { cache: OwnedCache::new("message_intents", CAPACITY, metrics) }
    }

    pub fn get_mut(&mut self, intent: IntentId) -> Option<&mut CachedIntent> {
        self.cache.peek_mut(&intent)
    }

    pub fn get(&self, intent: IntentId) -> Option<&CachedIntent> {
        self.cache.peek(&intent)
    }

    /// Removes an intent whose entry is, or may be, outdated.
    pub fn forget(&mut self, intent: IntentId) {
        self.cache.remove(&intent);
    }

    /// Reads the facts that the commands need and that are not cached.
    pub async fn prepare(
        &mut self,
        conn: &mut PgConnection,
        commands: &[&Command],
        now: Timestamp,
    ) -> Outcome<BatchContext> {
        let intents: HashSet<IntentId> = commands.iter().map(|command| command.intent_id).collect();
        for intent in intents {
            let has_room = |intent_state: &CachedIntent| {
                intent_state.channels.len() < PER_INTENT && intent_state.access_levels.len() < PER_INTENT
            };
            if self.cache.find(&intent, |intent_state| has_room(intent_state).then_some(())).is_none() {
                self.cache.remove(&intent);
            }
        }
        let mut context = BatchContext::default();
        self.load_channels(conn, commands, &mut context).await?;
        load_holders(conn, commands, &mut context).await?;
        self.load_access_levels(conn, commands, &context, now).await?;
        Ok(context)
    }

    /// Returns the access level of `agent` on an intent.
    pub fn access(&self, intent: IntentId, agent: &str) -> AccessLevel {
        let none = AccessLevel { level: None, granted: false, until: None };
        match self.get(intent) {
            None => none,
            Some(intent_state) if intent_state.listed => {
                intent_state.access_levels.get(agent).copied().unwrap_or(none)
            }
            Some(intent_state) => {
                let facts = Facts {
                    created_by: &intent_state.created_by,
                    policy: Policy::Open,
                    has_entries: false,
                    own: None,
                };
                access(agent, facts)
            }
        }
    }

    /// Returns the agents that hold the role addressed by `to`, are at work and can read the intent (RFC-0021 §4.2).
    pub fn holders(
        &self,
        context: &BatchContext,
        intent: IntentId,
        to: Option<&str>,
        now: Timestamp,
    ) -> Vec<String> {
        let Some(role) = to.and_then(|to| to.strip_prefix("role:")) else { return Vec::new() };
        let holds = |agent: &&Agent| {
            agent.role_id.as_deref() == Some(role)
                && agent.status_at(now).takes_work()
                && self.access(intent, &agent.agent_id).reaches(Level::Read)
        };
        context.holders.iter().filter(holds).map(|agent| agent.agent_id.clone()).collect()
    }

    /// Returns the channels that the commands name on intents with an uncached channel.
    ///
    /// All of them are read again: an outdated entry is replaced as a whole, and its other channels would then seem
    /// missing.
    fn strange(&self, commands: &[&Command]) -> Vec<uuid::Uuid> {
        let known = |command: &&&Command| {
            let intent_state = self.get(command.intent_id);
            intent_state.is_some_and(|intent_state| intent_state.channels.contains_key(&command.channel_id))
        };
        let strange: HashSet<IntentId> =
            commands.iter().filter(|command| !known(command)).map(|command| command.intent_id).collect();
        let of_strange = commands.iter().filter(|command| strange.contains(&command.intent_id));
        let ids: HashSet<uuid::Uuid> = of_strange.map(|command| command.channel_id.uuid()).collect();
        ids.into_iter().collect()
    }

    async fn load_channels(
        &mut self,
        conn: &mut PgConnection,
        commands: &[&Command],
        context: &mut BatchContext,
    ) -> Outcome<()> {
        let ids = self.strange(commands);
        if ids.is_empty() {
            return Ok(());
        }
        let rows = sqlx::query!(
            r#"-- cache::channels
             SELECT c.id AS "id!", c.intent_id AS "intent_id!", c.task_id, c.name AS "name!",
                    c.created_by AS "created_by!", c.members AS "members!", c.member_policy AS "member_policy!",
                    c.given_options, c.audit AS "audit!", c.ttl_seconds, c.max_messages AS "max_messages!",
                    c.status AS "status!", c.created_at AS "created_at!", c.closed_at,
                    c.message_count AS "message_count!", c.last_message_at, i.created_by AS intent_created_by, k.last_seq, k.sequence, k.head_hash, k.last_at,
                    (EXISTS (SELECT 1 FROM acls a WHERE a.intent_id = c.intent_id) OR EXISTS (
                        SELECT 1 FROM acl_entries e WHERE e.intent_id = c.intent_id)) AS "listed!"
             FROM channel_states c
             JOIN intents i ON i.id = c.intent_id
             JOIN intent_clock k ON k.intent_id = c.intent_id
             WHERE c.id = ANY($1) AND c.deleted_at IS NULL"#,
            &ids
        )
        .fetch_all(conn)
        .await?;
        for row in rows {
            let head = row.head_hash.map(digest).transpose()?;
            let tail = Tail { seq: row.last_seq, sequence: row.sequence, head, at: row.last_at };
            let intent_id = IntentId::from(row.intent_id);
            let channel = Channel::try_from(Row {
                id: row.id,
                intent_id: row.intent_id,
                task_id: row.task_id,
                name: row.name,
                created_by: row.created_by,
                members: row.members,
                member_policy: row.member_policy,
                given_options: row.given_options,
                audit: row.audit,
                ttl_seconds: row.ttl_seconds,
                max_messages: row.max_messages,
                status: row.status,
                created_at: row.created_at,
                closed_at: row.closed_at,
                message_count: row.message_count,
                last_message_at: row.last_message_at,
            })?;
            self.remember(intent_id, tail, row.intent_created_by, row.listed, channel);
            context.fresh.insert(intent_id);
        }
        Ok(())
    }

    /// Adds a channel to its intent's entry, or starts a new entry if the log has advanced since.
    fn remember(&mut self, intent: IntentId, tail: Tail, created_by: String, listed: bool, channel: Channel) {
        let current = self.get(intent).is_some_and(|intent_state| intent_state.tail.seq == tail.seq);
        if !current {
            let intent_state = CachedIntent {
                tail,
                channels: HashMap::new(),
                created_by,
                listed,
                access_levels: HashMap::new(),
            };
            self.cache.put(intent, intent_state);
        }
        if let Some(intent_state) = self.get_mut(intent) {
            intent_state.channels.insert(channel.id, channel);
        }
    }

    async fn load_access_levels(
        &mut self,
        conn: &mut PgConnection,
        commands: &[&Command],
        context: &BatchContext,
        now: Timestamp,
    ) -> Outcome<()> {
        let mut asked: Vec<(IntentId, &str)> = Vec::new();
        for command in commands {
            let Some(intent_state) = self.get(command.intent_id).filter(|intent_state| intent_state.listed)
            else {
                continue;
            };
            let holders = context.holders.iter().map(|agent| agent.agent_id.as_str());
            let agents = std::iter::once(command.draft.sender.as_str()).chain(holders);
            let known = |agent: &str| {
                intent_state
                    .access_levels
                    .get(agent)
                    .is_some_and(|access| access.until.is_none_or(|until| until > now))
            };
            asked.extend(agents.filter(|agent| !known(agent)).map(|agent| (command.intent_id, agent)));
        }
        if asked.is_empty() {
            return Ok(());
        }
        asked.sort_unstable();
        asked.dedup();
        for ((intent, agent), membership) in membership::find_all(conn, &asked, now).await? {
            if let Some(intent_state) = self.get_mut(intent) {
                intent_state.access_levels.insert(agent, membership.access);
            }
        }
        Ok(())
    }
}

async fn load_holders(
    conn: &mut PgConnection,
    commands: &[&Command],
    context: &mut BatchContext,
) -> Outcome<()> {
    let mut roles: Vec<&str> =
        commands.iter().filter_map(|command| command.draft.to.as_deref()?.strip_prefix("role:")).collect();
    if roles.is_empty() {
        return Ok(());
    }
    roles.sort_unstable();
    roles.dedup();
    // Roles are not part of the intent's log, so their holders are never cached.
    context.holders = agents::holding(conn, &roles).await?;
    Ok(())
}
