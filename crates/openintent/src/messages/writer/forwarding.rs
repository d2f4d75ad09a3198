//! Affinity: messages on an intent are best written by one server, because two that write to one log slow each other
//! down. A message for an intent that another server owns is handed to that server's group commit, and written here if it
//! does not answer in time. Who owns an intent is only a hint. `MessageWriter::send_all` (`writer/mod.rs`) decides; `Affinity::forward`
//! (`src/background/peers/affinity.rs`) sends.
//!
//! A message that was handed over may be written by both. So it has a token, which becomes the random part of its id
//! wherever it is written, and every writer looks for the token before it writes such a message. The guarded statement
//! (`crates/kernel/src/log/guarded_write.rs`) takes effect only if the log still ends where the writer knew it to end
//! before it looked; so of two writers one finds the message of the other, or does not write.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::{Chance, ChannelId, IntentId, MessageId};
use entente_domain::openintent::messages::{Draft, Message, MessageType};
use entente_domain::payload::Payload;
use entente_domain::traces::Trace;
use entente_kernel::messages;
use entente_kernel::{AppError, Outcome};
use entente_runtime::cache::Cache;
use entente_runtime::metrics::Metrics;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use super::Command;
use crate::Ctx;

/// Bits of a token: those of the random part of a message's id.
const TOKEN_BITS: u32 = 48;

/// Identity of a message that several servers may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The random part of its id.
    pub token: u64,
    /// A number of its channel below which it is not.
    pub after: i64,
}

impl Handover {
    /// Creates the identity of a message that is not written yet, on a channel with `after` messages.
    #[must_use]
    pub fn new(after: i64, chance: &dyn Chance) -> Self {
        let bits = chance.bits() & ((1 << TOKEN_BITS) - 1);
        Self { token: u64::try_from(bits).unwrap_or_default(), after }
    }

    fn bytes(self) -> Vec<u8> {
        self.token.to_be_bytes()[2..].to_vec()
    }
}

/// The random part of an id is the token.
impl Chance for Handover {
    fn bits(&self) -> u128 {
        u128::from(self.token)
    }
}

/// Hands messages over to the servers that own their intents.
pub trait Forwarder: Send + Sync {
    /// Returns whether another server owns an intent, and can be reached as far as is known.
    fn is_elsewhere(&self, intent: IntentId) -> bool;

    /// Hands messages over to the owner; returns those that it has written, in their order. Whether one that is not
    /// returned is written is unknown.
    fn forward<'a>(
        &'a self,
        intent: IntentId,
        commands: &'a [Command],
    ) -> BoxFuture<'a, Vec<Option<Arc<Message>>>>;
}

/// A command as it is handed over.
#[derive(Debug, Serialize, Deserialize)]
pub struct HandedCommand {
    channel_id: ChannelId,
    intent_id: IntentId,
    sender: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    message_type: MessageType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correlation_id: Option<MessageId>,
    payload: Payload,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    principal: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    once: Option<Idempotency>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    handover: Handover,
}

impl HandedCommand {
    /// Returns a command in the form in which it is handed over; `None` if it is not.
    #[must_use]
    pub fn of(command: &Command) -> Option<Self> {
        let draft = &command.draft;
        Some(Self {
            channel_id: command.channel_id,
            intent_id: command.intent_id,
            sender: draft.sender.clone(),
            to: draft.to.clone(),
            message_type: draft.message_type,
            correlation_id: draft.correlation_id,
            payload: draft.payload.clone(),
            metadata: draft.metadata.clone(),
            expires_at: draft.expires_at,
            principal: command.principal.clone(),
            once: command.once.clone(),
            trace: command.trace.map(|trace| trace.to_string()),
            handover: command.handover?,
        })
    }

    /// Returns the intent.
    #[must_use]
    pub fn intent_id(&self) -> IntentId {
        self.intent_id
    }

    /// Returns the command.
    #[must_use]
    pub fn command(self) -> Command {
        Command {
            channel_id: self.channel_id,
            intent_id: self.intent_id,
            draft: Draft {
                sender: self.sender,
                to: self.to,
                message_type: self.message_type,
                correlation_id: self.correlation_id,
                payload: self.payload,
                metadata: self.metadata,
                expires_at: self.expires_at,
            },
            principal: self.principal,
            once: self.once,
            objection: None,
            trace: self.trace.as_deref().and_then(Trace::parse),
            handover: Some(self.handover),
        }
    }
}

/// Channels whose ends are remembered.
const CHANNELS: usize = 10_000;

/// Age of a remembered end up to which it is used: an older one is still true, but every number since would be looked
/// through.
const AGE: Duration = Duration::from_secs(1);

/// Time for which an intent counts as contended after another server's write was met.
const CONTENDED: Duration = Duration::from_secs(10);

/// The intents that another server has written to between two writes of this one. Only these are handed over: while one
/// server writes alone, handing over would cost more than it saves.
#[derive(Debug)]
pub(super) struct Contention(Cache<IntentId, Instant>);

impl Contention {
    /// Creates an empty cache.
    pub fn new(metrics: &Metrics) -> Self {
        Self(Cache::new("contended_intents", CHANNELS, metrics))
    }

    /// Takes in that another server's write was met.
    pub fn met(&self, intent: IntentId) {
        self.0.put(intent, Instant::now());
    }

    /// Returns whether another server wrote to an intent a moment ago.
    pub fn is_on(&self, intent: IntentId) -> bool {
        self.0.get(&intent).is_some_and(|at| at.elapsed() < CONTENDED)
    }
}

/// Cache of the ends of channels that this server hands messages over for.
#[derive(Debug)]
pub(super) struct ChannelEnds(Cache<ChannelId, (i64, Instant)>);

impl ChannelEnds {
    /// Creates an empty cache.
    pub fn new(metrics: &Metrics) -> Self {
        Self(Cache::new("channel_ends", CHANNELS, metrics))
    }

    /// Takes in a message that was written.
    pub fn saw(&self, message: &Message) {
        self.0.put(message.channel_id, (i64::from(message.number), Instant::now()));
    }

    /// Gives each command an identity, by which it is found wherever it is written.
    ///
    /// # Errors
    /// The database query fails; a channel does not exist.
    pub async fn identify(&self, ctx: &Ctx, commands: &mut [Command]) -> Outcome<()> {
        let mut known: HashMap<ChannelId, i64> = HashMap::new();
        for command in &*commands {
            let channel = command.channel_id;
            let end = self.0.get(&channel).filter(|(_, at)| at.elapsed() < AGE);
            known.extend(end.map(|(number, _)| (channel, number)));
        }
        let unknown: Vec<uuid::Uuid> = commands
            .iter()
            .filter(|command| !known.contains_key(&command.channel_id))
            .map(|command| command.channel_id.uuid())
            .collect();
        if !unknown.is_empty() {
            let rows = sqlx::query!(
                r#"-- forwarding::ends
                 SELECT id AS "id!", message_count AS "count!" FROM channel_states WHERE id = ANY($1)"#,
                &unknown
            )
            .fetch_all(&ctx.pool)
            .await?;
            for row in rows {
                let channel = ChannelId::from(row.id);
                self.0.put(channel, (row.count, Instant::now()));
                known.insert(channel, row.count);
            }
        }
        for command in commands {
            let after = known.get(&command.channel_id).copied();
            let after = after.ok_or_else(|| AppError::Inconsistent("no such channel".to_owned()))?;
            command.handover = Some(Handover::new(after, &*ctx.chance));
        }
        Ok(())
    }
}

/// Returns the messages among handed-over commands that are written already, by their tokens.
pub(super) async fn written(
    conn: &mut PgConnection,
    commands: &[&Command],
    now: Timestamp,
) -> Outcome<HashMap<u64, Message>> {
    let handed: Vec<(ChannelId, Handover)> =
        commands.iter().filter_map(|command| Some((command.channel_id, command.handover?))).collect();
    if handed.is_empty() {
        return Ok(HashMap::new());
    }
    let channels: Vec<uuid::Uuid> = handed.iter().map(|(channel, _)| channel.uuid()).collect();
    let after: Vec<i64> = handed.iter().map(|(_, handover)| handover.after).collect();
    let tokens: Vec<Vec<u8>> = handed.iter().map(|(_, handover)| handover.bytes()).collect();
    // The last six bytes of an id are its random part. The lowest number of a channel serves all of its commands.
    let rows = sqlx::query!(
        r#"-- forwarding::written
         WITH handed AS (
             SELECT h.channel_id, min(h.after) AS after, array_agg(h.token) AS tokens
             FROM UNNEST($1::uuid[], $2::bigint[], $3::bytea[]) AS h (channel_id, after, token)
             GROUP BY h.channel_id)
         SELECT m.channel_id, m.id FROM handed h
         JOIN messages m ON m.channel_id = h.channel_id AND m.number > h.after
         WHERE substring(uuid_send(m.id) FROM 11) = ANY(h.tokens)"#,
        &channels,
        &after,
        &tokens
    )
    .fetch_all(&mut *conn)
    .await?;
    if rows.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<(ChannelId, MessageId)> =
        rows.into_iter().map(|row| (row.channel_id.into(), row.id.into())).collect();
    let found = messages::load_all(conn, &ids, now).await?;
    Ok(found.into_iter().map(|message| (token(message.id), message)).collect())
}

fn token(id: MessageId) -> u64 {
    let bits = id.uuid().as_u128() & ((1 << TOKEN_BITS) - 1);
    u64::try_from(bits).unwrap_or_default()
}
