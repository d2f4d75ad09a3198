//! What a batch of sends has to know: its channels, where its senders stand, who holds the roles it addresses, and what
//! its responses answer. Read in a few statements for the whole batch, under the intents' locks, so that the law judges
//! by what is true until the commit.

use std::collections::HashMap;

use entente_core::access::{Facts, Level, Policy, Standing, standing};
use entente_core::agents::Agent;
use entente_core::channels::Channel;
use entente_core::clock::Timestamp;
use entente_core::events::Tail;
use entente_core::ids::{ChannelId, IntentId, MessageId};
use entente_core::messages::Message;
use sqlx::PgConnection;

use super::channels::Row;
use super::sends::Command;
use super::{AppError, Outcome, access, agents, messages};

/// The facts of a batch.
pub(crate) struct Cases {
    /// The batch's channels, those that are there.
    pub channels: HashMap<ChannelId, Channel>,
    /// Where the intents' lines end.
    pub tails: HashMap<IntentId, Tail>,
    /// The messages that the batch's responses answer, in their status at this moment.
    pub originals: HashMap<(ChannelId, MessageId), Message>,
    /// Who created each intent, and whether it has an access list at all.
    intents: HashMap<IntentId, (String, bool)>,
    /// Standings on the intents that have one.
    listed: HashMap<(IntentId, String), Standing>,
    /// The agents that hold the roles that are addressed.
    holders: Vec<Agent>,
}

impl Cases {
    /// Reads the facts of these commands.
    pub async fn load(conn: &mut PgConnection, commands: &[Command], now: Timestamp) -> Outcome<Self> {
        let mut cases = Self {
            channels: HashMap::new(),
            tails: HashMap::new(),
            originals: HashMap::new(),
            intents: HashMap::new(),
            listed: HashMap::new(),
            holders: Vec::new(),
        };
        cases.load_channels(conn, commands).await?;
        cases.load_holders(conn, commands).await?;
        cases.load_standings(conn, commands, now).await?;
        cases.load_originals(conn, commands, now).await?;
        Ok(cases)
    }

    /// Where `agent` stands with the channel's intent.
    pub fn standing(&self, channel: &Channel, agent: &str) -> Standing {
        let none = Standing { level: None, granted: false, until: None };
        match self.intents.get(&channel.intent_id) {
            None => none,
            Some((created_by, false)) => {
                standing(agent, Facts { created_by, policy: Policy::Open, has_entries: false, own: None })
            }
            Some((_, true)) => {
                self.listed.get(&(channel.intent_id, agent.to_owned())).copied().unwrap_or(none)
            }
        }
    }

    /// Those who hold the role that `to` addresses, are at work and can read the channel's intent (RFC-0021 §4.2).
    pub fn holders(&self, channel: &Channel, to: Option<&str>, now: Timestamp) -> Vec<String> {
        let Some(role) = to.and_then(|to| to.strip_prefix("role:")) else { return Vec::new() };
        let holds = |agent: &&Agent| {
            agent.role_id.as_deref() == Some(role)
                && agent.status_at(now).takes_work()
                && self.standing(channel, &agent.agent_id).reaches(Level::Read)
        };
        self.holders.iter().filter(holds).map(|agent| agent.agent_id.clone()).collect()
    }

    async fn load_channels(&mut self, conn: &mut PgConnection, commands: &[Command]) -> Outcome<()> {
        let mut ids: Vec<uuid::Uuid> = commands.iter().map(|command| command.channel_id.uuid()).collect();
        ids.sort_unstable();
        ids.dedup();
        let rows = sqlx::query!(
            r#"-- cases::channels
             SELECT c.id, c.intent_id, c.task_id, c.name, c.created_by, c.members, c.member_policy, c.given_options,
                    c.audit, c.ttl_seconds, c.max_messages, c.status, c.created_at, c.closed_at, c.message_count,
                    c.last_message_at, i.created_by AS intent_created_by, k.last_seq, k.sequence, k.head_hash, k.last_at,
                    (EXISTS (SELECT 1 FROM acls a WHERE a.intent_id = c.intent_id) OR EXISTS (
                        SELECT 1 FROM acl_entries e WHERE e.intent_id = c.intent_id)) AS "listed!"
             FROM channels c
             JOIN intents i ON i.id = c.intent_id
             JOIN intent_clock k ON k.intent_id = c.intent_id
             WHERE c.id = ANY($1) AND c.deleted_at IS NULL"#,
            &ids
        )
        .fetch_all(conn)
        .await?;
        for row in rows {
            let head = row.head_hash.map(TryInto::try_into).transpose();
            let head = head.map_err(|_| AppError::Inconsistent("a stored hash has not 32 bytes".to_owned()))?;
            let intent_id = IntentId::from(row.intent_id);
            let tail = Tail { seq: row.last_seq, sequence: row.sequence, head, at: row.last_at };
            self.tails.insert(intent_id, tail);
            self.intents.insert(intent_id, (row.intent_created_by, row.listed));
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
            self.channels.insert(channel.id, channel);
        }
        Ok(())
    }

    async fn load_holders(&mut self, conn: &mut PgConnection, commands: &[Command]) -> Outcome<()> {
        let mut roles: Vec<&str> =
            commands.iter().filter_map(|command| command.draft.to.as_deref()?.strip_prefix("role:")).collect();
        if roles.is_empty() {
            return Ok(());
        }
        roles.sort_unstable();
        roles.dedup();
        self.holders = agents::holding(conn, &roles).await?;
        Ok(())
    }

    async fn load_standings(&mut self, conn: &mut PgConnection, commands: &[Command], now: Timestamp) -> Outcome<()> {
        let mut asked: Vec<(IntentId, &str)> = Vec::new();
        for command in commands {
            if self.intents.get(&command.intent_id).is_some_and(|(_, listed)| *listed) {
                asked.push((command.intent_id, &command.draft.sender));
                asked.extend(self.holders.iter().map(|agent| (command.intent_id, agent.agent_id.as_str())));
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        asked.sort_unstable();
        asked.dedup();
        let seats = access::seats(conn, &asked, now).await?;
        self.listed = seats.into_iter().map(|(who, seat)| (who, seat.standing)).collect();
        Ok(())
    }

    async fn load_originals(&mut self, conn: &mut PgConnection, commands: &[Command], now: Timestamp) -> Outcome<()> {
        let answered: Vec<(ChannelId, MessageId)> =
            commands.iter().filter_map(|command| Some((command.channel_id, command.draft.correlation_id?))).collect();
        if answered.is_empty() {
            return Ok(());
        }
        let found = messages::load_all(conn, &answered, now).await?;
        self.originals = found.into_iter().map(|message| ((message.channel_id, message.id), message)).collect();
        Ok(())
    }
}
