//! A writer's cache of the intents that it writes to: the ends of their logs, their channels, their policies, and the
//! access levels of senders. The cache may be outdated; the write itself checks it
//! (`crates/kernel/src/log/guarded_write.rs`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use entente_domain::access::{AccessLevel, Facts, Level, Policy, access};
use entente_domain::clock::Timestamp;
use entente_domain::identity::epochs::required_here;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::log::events::Tail;
use entente_domain::openintent::agents::Agent;
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::governance::GovernancePolicy;
use entente_domain::refusal::Refusal;
use entente_kernel::Outcome;
use entente_kernel::access::membership;
use entente_kernel::channels::Row;
use entente_kernel::identity::agents;
use entente_kernel::log::writer::digest;
use entente_runtime::cache::OwnedCache;
use entente_runtime::fences;
use entente_runtime::metrics::Metrics;
use serde_json::{Map, Value};
use sqlx::PgConnection;

use super::Command;
use super::append::Append;

/// Maximum number of intents in the cache of a writer; the least recently used one is dropped. A batch names far fewer
/// intents, and [`IntentCache::prepare`] uses all of them: none is dropped while the batch needs it.
const CAPACITY: usize = 16_384;
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
    /// Its governance policy (RFC-0013), which restricts who posts events.
    pub policy: Option<Arc<GovernancePolicy>>,
    created_by: String,
    /// Whether it has an access list.
    listed: bool,
    standings: HashMap<String, Standing>,
}

/// An agent's standing on an intent that has an access list or a policy.
#[derive(Debug, Clone, Copy)]
struct Standing {
    access: AccessLevel,
    /// Whether the agent is assigned to the intent.
    assigned: bool,
    /// Whether its writes there have to name its epoch.
    strict: bool,
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
        commands: &[&Append],
        now: Timestamp,
    ) -> Outcome<BatchContext> {
        let intents: HashSet<IntentId> = commands.iter().map(|command| command.intent_id()).collect();
        for intent in intents {
            let has_room = |intent_state: &CachedIntent| {
                intent_state.channels.len() < PER_INTENT && intent_state.standings.len() < PER_INTENT
            };
            if self.cache.find(&intent, |intent_state| has_room(intent_state).then_some(())).is_none() {
                self.cache.remove(&intent);
            }
        }
        let mut context = BatchContext::default();
        self.load_channels(conn, commands, &mut context).await?;
        self.load_intents(conn, commands, &mut context).await?;
        load_holders(conn, commands, &mut context).await?;
        self.load_standings(conn, commands, &context, now).await?;
        Ok(context)
    }

    /// Returns the access level of `agent` on an intent.
    pub fn access(&self, intent: IntentId, agent: &str) -> AccessLevel {
        let none = AccessLevel { level: None, granted: false, until: None };
        match self.get(intent) {
            None => none,
            Some(intent_state) if intent_state.listed => {
                intent_state.standings.get(agent).map_or(none, |standing| standing.access)
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

    /// Requires that a command names the epoch of its actor where it has to.
    ///
    /// # Errors
    /// `EpochRequired`.
    pub fn require_fenced(&self, command: &Append) -> Result<(), Refusal> {
        let intent_state = self.get(command.intent_id()).filter(|intent_state| intent_state.listed);
        let standing = intent_state.and_then(|intent_state| intent_state.standings.get(command.actor()));
        let is_strict = standing.is_some_and(|standing| standing.strict);
        if is_strict && fences::lack_epoch_of(&command.fences, command.actor()) {
            return Err(required_here());
        }
        Ok(())
    }

    /// Returns whether `agent` is assigned to an intent that has a policy.
    pub fn is_assigned(&self, intent: IntentId, agent: &str) -> bool {
        let standing = self.get(intent).and_then(|intent_state| intent_state.standings.get(agent));
        standing.is_some_and(|standing| standing.assigned)
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
    fn strange(&self, commands: &[&Append]) -> Vec<uuid::Uuid> {
        let sends: Vec<&Command> = commands.iter().filter_map(|command| command.message()).collect();
        let known = |command: &&&Command| {
            let intent_state = self.get(command.intent_id);
            intent_state.is_some_and(|intent_state| intent_state.channels.contains_key(&command.channel_id))
        };
        let strange: HashSet<IntentId> =
            sends.iter().filter(|command| !known(command)).map(|command| command.intent_id).collect();
        let of_strange = sends.iter().filter(|command| strange.contains(&command.intent_id));
        let ids: HashSet<uuid::Uuid> = of_strange.map(|command| command.channel_id.uuid()).collect();
        ids.into_iter().collect()
    }

    async fn load_channels(
        &mut self,
        conn: &mut PgConnection,
        commands: &[&Append],
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
                    c.message_count AS "message_count!", c.last_message_at, i.created_by AS intent_created_by,
                    i.governance_policy, k.last_seq, k.sequence, k.head_hash, k.last_at,
                    coalesce((SELECT true FROM acls a WHERE a.intent_id = c.intent_id),
                             (SELECT true FROM acl_entries e WHERE e.intent_id = c.intent_id LIMIT 1), false) AS "listed!"
             FROM channel_states c
             JOIN intents i ON i.id = c.intent_id
             CROSS JOIN LATERAL (SELECT * FROM intent_clock e WHERE e.intent_id = c.intent_id ORDER BY e.block DESC LIMIT 1) k
             WHERE c.id = ANY($1) AND c.deleted_at IS NULL"#,
            &ids
        )
        .fetch_all(conn)
        .await?;
        for row in rows {
            let head = row.head_hash.map(digest).transpose()?;
            let tail = Tail { seq: row.last_seq, sequence: row.sequence, head, at: row.last_at };
            let intent_id = IntentId::from(row.intent_id);
            let policy = policy(row.governance_policy.as_deref())?;
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
            self.remember(intent_id, tail, row.intent_created_by, row.listed, policy);
            if let Some(intent_state) = self.get_mut(intent_id) {
                intent_state.channels.insert(channel.id, channel);
            }
            context.fresh.insert(intent_id);
        }
        Ok(())
    }

    /// Reads the intents that events are posted to and that are not cached.
    async fn load_intents(
        &mut self,
        conn: &mut PgConnection,
        commands: &[&Append],
        context: &mut BatchContext,
    ) -> Outcome<()> {
        let posts = commands.iter().filter_map(|command| command.event());
        let strange = posts.map(|command| command.intent_id).filter(|intent| self.get(*intent).is_none());
        let ids: HashSet<uuid::Uuid> = strange.map(IntentId::uuid).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let rows = sqlx::query!(
            r#"-- cache::intents
             SELECT i.id, i.created_by, i.governance_policy, k.last_seq, k.sequence, k.head_hash, k.last_at,
                    coalesce((SELECT true FROM acls a WHERE a.intent_id = i.id),
                             (SELECT true FROM acl_entries e WHERE e.intent_id = i.id LIMIT 1), false) AS "listed!"
             FROM intents i
             CROSS JOIN LATERAL (SELECT * FROM intent_clock e WHERE e.intent_id = i.id ORDER BY e.block DESC LIMIT 1) k
             WHERE i.id = ANY($1)"#,
            &ids.into_iter().collect::<Vec<_>>()
        )
        .fetch_all(conn)
        .await?;
        for row in rows {
            let head = row.head_hash.map(digest).transpose()?;
            let tail = Tail { seq: row.last_seq, sequence: row.sequence, head, at: row.last_at };
            let intent_id = IntentId::from(row.id);
            let policy = policy(row.governance_policy.as_deref())?;
            self.remember(intent_id, tail, row.created_by, row.listed, policy);
            context.fresh.insert(intent_id);
        }
        Ok(())
    }

    /// Starts a new entry of an intent, unless there is one with the same end of the log.
    fn remember(
        &mut self,
        intent: IntentId,
        tail: Tail,
        created_by: String,
        listed: bool,
        policy: Option<Arc<GovernancePolicy>>,
    ) {
        if self.get(intent).is_some_and(|intent_state| intent_state.tail.seq == tail.seq) {
            return;
        }
        let (channels, standings) = (HashMap::new(), HashMap::new());
        self.cache.put(intent, CachedIntent { tail, channels, policy, created_by, listed, standings });
    }

    async fn load_standings(
        &mut self,
        conn: &mut PgConnection,
        commands: &[&Append],
        context: &BatchContext,
        now: Timestamp,
    ) -> Outcome<()> {
        let mut asked: Vec<(IntentId, &str)> = Vec::new();
        for command in commands {
            let matters = |intent_state: &&CachedIntent| {
                intent_state.listed || (intent_state.policy.is_some() && command.event().is_some())
            };
            let Some(intent_state) = self.get(command.intent_id()).filter(matters) else { continue };
            let holders = context.holders.iter().map(|agent| agent.agent_id.as_str());
            let agents = std::iter::once(command.actor()).chain(holders);
            let known = |agent: &str| {
                let standing = intent_state.standings.get(agent);
                standing.is_some_and(|standing| standing.access.until.is_none_or(|until| until > now))
            };
            asked.extend(agents.filter(|agent| !known(agent)).map(|agent| (command.intent_id(), agent)));
        }
        if asked.is_empty() {
            return Ok(());
        }
        asked.sort_unstable();
        asked.dedup();
        for ((intent, agent), membership) in membership::find_all(conn, &asked, now).await? {
            if let Some(intent_state) = self.get_mut(intent) {
                let strict = membership.is_strict();
                let standing = Standing { access: membership.access, assigned: membership.assigned, strict };
                intent_state.standings.insert(agent, standing);
            }
        }
        Ok(())
    }
}

/// Reads a stored policy.
fn policy(text: Option<&str>) -> Outcome<Option<Arc<GovernancePolicy>>> {
    let given: Option<Map<String, Value>> = text.map(serde_json::from_str).transpose()?;
    Ok(given.as_ref().map(GovernancePolicy::kept).map(Arc::new))
}

async fn load_holders(
    conn: &mut PgConnection,
    commands: &[&Append],
    context: &mut BatchContext,
) -> Outcome<()> {
    let sends = commands.iter().filter_map(|command| command.message());
    let mut roles: Vec<&str> =
        sends.filter_map(|command| command.draft.to.as_deref()?.strip_prefix("role:")).collect();
    if roles.is_empty() {
        return Ok(());
    }
    roles.sort_unstable();
    roles.dedup();
    // Roles are not part of the intent's log, so their holders are never cached.
    context.holders = agents::holding(conn, &roles).await?;
    Ok(())
}
