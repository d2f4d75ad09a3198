//! The one statement that writes messages and events together with the ends of the logs, the marks of channels over
//! their limit, waiting and answered requests, and idempotency keys.
//!
//! It is one statement because a round trip costs more than all of its work, and because a single statement is a
//! transaction of its own. It is guarded: the rows of an intent are written only if its log still ends where the
//! writer believed, and if nobody holds the intent's lock. Every change of an intent advances its log, so a batch
//! that was decided by the cache is written only if the cache is true.
//!
//! The guard names the intent and the block of 16 entries that the end lies in. Found by the intent alone, the row has each
//! earlier version before it that somebody's snapshot keeps: during an hour of `pg_dump`, every write of that hour
//! (docs/adr/0003-batches-without-a-timer.md). `ANY` of one intent makes PostgreSQL search for each end by itself: it
//! could join by `=`, and plans that on a table that is still empty, as a scan of the whole index.

use std::collections::HashSet;

use entente_domain::canonical;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{ChannelId, IntentId, MessageId};
use entente_domain::log::events::{Event, Tail};
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::messages::{Message, MessageType};
use entente_domain::payload::Payload;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::column;
use crate::idempotency::StoredResponse;
use crate::log::writer::IntentLog;
use crate::{Outcome, lock_key};

/// End of an intent's log before and after a write.
#[derive(Debug, Clone)]
pub struct Advance {
    /// The intent.
    pub intent_id: IntentId,
    /// The last number that the writer knows; the write requires it.
    pub expected: i64,
    /// The end after the write.
    pub tail: Tail,
}

/// Rows to write.
#[derive(Default)]
pub struct Writing<'a> {
    /// The ends of the logs.
    pub advances: Vec<Advance>,
    /// The messages.
    pub messages: Vec<&'a Message>,
    /// Of each message, the principal whose key sent it, unless the sender is that principal; of those beyond the end of the
    /// list, the sender says whose it is.
    pub owners: Vec<Option<&'a str>>,
    /// Their channels, in the state after the messages.
    pub channels: Vec<&'a Channel>,
    /// Events of the same logs.
    pub events: Vec<&'a Event>,
    /// The answered requests: channel, request, and the intent.
    pub answered: Vec<(ChannelId, MessageId, IntentId)>,
    /// Idempotency keys with stored responses, and their intents.
    pub kept: Vec<(&'a StoredResponse, IntentId)>,
}

/// Interval of messages over a channel's limit that mark it for eviction: at most this many invisible ones stay
/// stored.
const MARK_EVERY: u32 = 256;

/// Joins a list of names into one text: `UNNEST` takes no list of lists, and no name has a control character.
fn joined(message: &Message) -> Option<String> {
    message.recipients.as_ref().map(|list| list.join("\u{1f}"))
}

/// Returns the only recipient of a message, if there is exactly one.
fn single(message: &Message) -> Option<&str> {
    match message.recipients.as_deref() {
        Some([agent]) => Some(agent),
        _ => None,
    }
}

/// Returns whether a message waits for something: a request for its response, any message for its expiry.
fn waits(message: &Message) -> bool {
    message.message_type == MessageType::Request || message.expires_at.is_some()
}

/// The members of events that are stored as canonical JSON.
struct EventTexts {
    payloads: Vec<String>,
    proofs: Vec<Option<String>>,
}

impl EventTexts {
    fn of(events: &[&Event]) -> Outcome<Self> {
        let proof = |event: &&Event| event.proof.as_ref().map(canonical::text).transpose();
        Ok(Self {
            payloads: events.iter().map(|event| canonical::text(&event.payload)).collect::<Result<_, _>>()?,
            proofs: events.iter().map(proof).collect::<Result<_, _>>()?,
        })
    }
}

/// Builds the statement, extended by `$more`.
///
/// PostgreSQL's cost of a statement depends mostly on its parts, so the usual one has only those that every message
/// needs.
macro_rules! statement {
    ($writing:ident, $more:tt, $($argument:expr),* $(,)?) => {
        sqlx::query_scalar!(
            r"-- message_writer::write
             WITH clock AS (
                 UPDATE intent_clock c
                 SET last_seq = u.last_seq, sequence = u.sequence, head_hash = u.head_hash, last_at = u.last_at
                 FROM UNNEST($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::timestamptz[],
                             $7::bigint[])
                      AS u (intent_id, expected, last_seq, sequence, head_hash, last_at, lock_key)
                 WHERE c.intent_id = ANY (ARRAY[u.intent_id]) AND c.block = u.expected / 16 AND c.last_seq = u.expected
                       AND pg_try_advisory_xact_lock(u.lock_key)
                 RETURNING c.intent_id),
             sent AS (
                 INSERT INTO messages (channel_id, number, id, intent_id, seq, sender, recipient, recipients,
                                       message_type, correlation_id, payload, metadata, created_at, expires_at,
                                       principal_id)
                 SELECT m.channel_id, m.number, m.id, m.intent_id, m.seq, m.sender, m.recipient,
                        string_to_array(m.recipients, E'\x1f'), m.message_type, m.correlation_id, m.payload,
                        m.metadata, m.created_at, m.expires_at, m.principal_id
                 FROM UNNEST($8::uuid[], $9::bigint[], $10::uuid[], $11::uuid[], $12::bigint[], $13::text[],
                             $14::text[], $15::text[], $16::text[], $17::uuid[], $18::text[], $19::text[],
                             $20::timestamptz[], $21::timestamptz[], $22::text[])
                      AS m (channel_id, number, id, intent_id, seq, sender, recipient, recipients, message_type,
                            correlation_id, payload, metadata, created_at, expires_at, principal_id)
                 JOIN clock USING (intent_id))"
            + $more
            + " SELECT intent_id FROM clock",
            column!($writing.advances, a => a.intent_id.uuid()),
            column!($writing.advances, a => a.expected),
            column!($writing.advances, a => a.tail.seq),
            column!($writing.advances, a => a.tail.sequence),
            column!($writing.advances, a => a.tail.head.as_ref().map(<[u8; 32]>::as_slice)) as &[Option<&[u8]>],
            column!($writing.advances, a => a.tail.at),
            column!($writing.advances, a => lock_key(a.intent_id)),
            column!($writing.messages, m => m.channel_id.uuid()),
            column!($writing.messages, m => i64::from(m.number)),
            column!($writing.messages, m => m.id.uuid()),
            column!($writing.messages, m => m.intent_id.uuid()),
            column!($writing.messages, m => m.seq),
            column!($writing.messages, m => m.sender.as_str()) as &[&str],
            column!($writing.messages, m => m.to.as_deref()) as &[Option<&str>],
            column!($writing.messages, m => joined(m)) as &[Option<String>],
            column!($writing.messages, m => m.message_type.as_str()) as &[&str],
            column!($writing.messages, m => m.correlation_id.map(MessageId::uuid)) as &[Option<Uuid>],
            column!($writing.messages, m => m.payload.as_str()) as &[&str],
            column!($writing.messages, m => m.metadata.as_ref().map(Payload::as_str)) as &[Option<&str>],
            column!($writing.messages, m => m.created_at),
            column!($writing.messages, m => m.expires_at) as &[Option<Timestamp>],
            &$writing.owners() as &[Option<&str>],
            $($argument),*
        )
    };
}

impl Writing<'_> {
    /// Writes the rows of the intents whose logs still end as expected; returns those intents.
    ///
    /// # Errors
    /// A database error.
    pub async fn write(&self, conn: &mut PgConnection, now: Timestamp) -> Outcome<HashSet<IntentId>> {
        let overfull: Vec<Uuid> = self.overfull();
        let plain =
            self.events.is_empty() && self.answered.is_empty() && self.kept.is_empty() && overfull.is_empty();
        let passed = if self.messages.is_empty() && self.answered.is_empty() {
            self.write_events(conn, now).await?
        } else if plain && !self.messages.iter().any(|m| waits(m)) {
            statement!(self, "",).fetch_all(conn).await?
        } else {
            self.write_more(conn, &overfull, now).await?
        };
        Ok(passed.into_iter().map(IntentId::from).collect())
    }

    /// Returns the column of the principals of messages.
    fn owners(&self) -> Vec<Option<&str>> {
        let unsaid = std::iter::repeat(None);
        self.owners.iter().copied().chain(unsaid).take(self.messages.len()).collect()
    }

    /// Returns the channels to mark as over their limit.
    ///
    /// Only some of the messages over it mark their channel; the sweep then evicts all of them.
    fn overfull(&self) -> Vec<Uuid> {
        let marks = |m: &&&Message, c: &Channel| {
            m.channel_id == c.id
                && (m.number.is_multiple_of(MARK_EVERY)
                    || m.number == c.options.max_messages.saturating_add(1))
        };
        let over = self.channels.iter().filter(|c| c.floor() > 0);
        over.filter(|c| self.messages.iter().any(|m| marks(&m, c))).map(|c| c.id.uuid()).collect()
    }

    /// Like [`Self::write`], without the parts for messages: with fewer of them the statement costs less.
    async fn write_events(&self, conn: &mut PgConnection, now: Timestamp) -> Outcome<Vec<Uuid>> {
        let texts = EventTexts::of(&self.events)?;
        let passed = sqlx::query_scalar!(
            r"-- message_writer::write_events
             WITH clock AS (
                 UPDATE intent_clock c
                 SET last_seq = u.last_seq, sequence = u.sequence, head_hash = u.head_hash, last_at = u.last_at
                 FROM UNNEST($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::timestamptz[],
                             $7::bigint[])
                      AS u (intent_id, expected, last_seq, sequence, head_hash, last_at, lock_key)
                 WHERE c.intent_id = ANY (ARRAY[u.intent_id]) AND c.block = u.expected / 16 AND c.last_seq = u.expected
                       AND pg_try_advisory_xact_lock(u.lock_key)
                 RETURNING c.intent_id),
             logged AS (
                 INSERT INTO events (intent_id, seq, sequence, id, event_type, actor, payload, created_at,
                                     previous_event_hash, event_hash, posted, trace_id, parent_event_id, proof,
                                     proof_verified)
                 SELECT e.intent_id, e.seq, e.sequence, e.id, e.event_type, e.actor, e.payload, e.created_at,
                        e.previous_event_hash, e.event_hash, e.posted, e.trace_id, e.parent_event_id, e.proof,
                        e.proof_verified
                 FROM UNNEST($8::uuid[], $9::bigint[], $10::bigint[], $11::uuid[], $12::text[], $13::text[],
                             $14::text[], $15::timestamptz[], $16::bytea[], $17::bytea[], $18::boolean[], $19::text[],
                             $20::text[], $21::text[], $22::boolean[])
                      AS e (intent_id, seq, sequence, id, event_type, actor, payload, created_at,
                            previous_event_hash, event_hash, posted, trace_id, parent_event_id, proof, proof_verified)
                 JOIN clock USING (intent_id)),
             kept AS (
                 INSERT INTO idempotency (principal_id, key, fingerprint, outcome, created_at)
                 SELECT k.principal_id, k.key, k.fingerprint, k.outcome, $28
                 FROM UNNEST($23::text[], $24::text[], $25::bytea[], $26::text[], $27::uuid[])
                      AS k (principal_id, key, fingerprint, outcome, intent_id)
                 JOIN clock USING (intent_id))
             SELECT intent_id FROM clock",
            column!(self.advances, a => a.intent_id.uuid()),
            column!(self.advances, a => a.expected),
            column!(self.advances, a => a.tail.seq),
            column!(self.advances, a => a.tail.sequence),
            column!(self.advances, a => a.tail.head.as_ref().map(<[u8; 32]>::as_slice)) as &[Option<&[u8]>],
            column!(self.advances, a => a.tail.at),
            column!(self.advances, a => lock_key(a.intent_id)),
            column!(self.events, e => e.intent_id.uuid()),
            column!(self.events, e => e.seq),
            column!(self.events, e => e.sequence),
            column!(self.events, e => e.id.uuid()),
            column!(self.events, e => e.event_type.as_str()) as &[&str],
            column!(self.events, e => e.actor.as_str()) as &[&str],
            &texts.payloads,
            column!(self.events, e => e.created_at),
            column!(self.events, e => e.previous_event_hash.as_ref().map(<[u8; 32]>::as_slice)) as &[Option<&[u8]>],
            column!(self.events, e => e.event_hash.as_slice()) as &[&[u8]],
            column!(self.events, e => e.posted),
            column!(self.events, e => e.trace_id.as_deref()) as &[Option<&str>],
            column!(self.events, e => e.parent_event_id.as_deref()) as &[Option<&str>],
            &texts.proofs as &[Option<String>],
            column!(self.events, e => e.proof_verified),
            column!(self.kept, k => k.0.principal_id.as_str()) as &[&str],
            column!(self.kept, k => k.0.key.as_str()) as &[&str],
            column!(self.kept, k => k.0.fingerprint.as_slice()) as &[&[u8]],
            column!(self.kept, k => k.0.outcome.as_str()) as &[&str],
            column!(self.kept, k => k.1.uuid()),
            now,
        )
        .fetch_all(conn)
        .await?;
        Ok(passed)
    }

    /// Like [`Self::write`], with waiting and answered requests, events, and idempotency keys.
    async fn write_more(
        &self,
        conn: &mut PgConnection,
        overfull: &[Uuid],
        now: Timestamp,
    ) -> Outcome<Vec<Uuid>> {
        let texts = EventTexts::of(&self.events)?;
        let passed = statement!(
            self,
            r", waiting AS (
                 INSERT INTO pending (channel_id, number, message_id, intent_id, is_request, sender, agent_id, expires_at)
                 SELECT m.channel_id, m.number, m.id, m.intent_id, m.message_type = 'request', m.sender, m.agent_id,
                        m.expires_at
                 FROM UNNEST($8::uuid[], $9::bigint[], $10::uuid[], $11::uuid[], $16::text[], $13::text[], $23::text[],
                             $21::timestamptz[], $24::boolean[])
                      AS m (channel_id, number, id, intent_id, message_type, sender, agent_id, expires_at, waits)
                 JOIN clock USING (intent_id)
                 WHERE m.waits),
             answered AS (
                 DELETE FROM pending p
                 USING UNNEST($25::uuid[], $26::bigint[], $27::uuid[]) AS a (channel_id, number, intent_id)
                 JOIN clock USING (intent_id)
                 WHERE p.channel_id = a.channel_id AND p.number = a.number),
             logged AS (
                 INSERT INTO events (intent_id, seq, sequence, id, event_type, actor, payload, created_at,
                                     previous_event_hash, event_hash, posted, trace_id, parent_event_id, proof,
                                     proof_verified)
                 SELECT e.intent_id, e.seq, e.sequence, e.id, e.event_type, e.actor, e.payload, e.created_at,
                        e.previous_event_hash, e.event_hash, e.posted, e.trace_id, e.parent_event_id, e.proof,
                        e.proof_verified
                 FROM UNNEST($28::uuid[], $29::bigint[], $30::bigint[], $31::uuid[], $32::text[], $33::text[],
                             $34::text[], $35::timestamptz[], $36::bytea[], $37::bytea[], $38::boolean[], $39::text[],
                             $40::text[], $41::text[], $42::boolean[])
                      AS e (intent_id, seq, sequence, id, event_type, actor, payload, created_at,
                            previous_event_hash, event_hash, posted, trace_id, parent_event_id, proof, proof_verified)
                 JOIN clock USING (intent_id)),
             kept AS (
                 INSERT INTO idempotency (principal_id, key, fingerprint, outcome, created_at)
                 SELECT k.principal_id, k.key, k.fingerprint, k.outcome, $48
                 FROM UNNEST($43::text[], $44::text[], $45::bytea[], $46::text[], $47::uuid[])
                      AS k (principal_id, key, fingerprint, outcome, intent_id)
                 JOIN clock USING (intent_id)),
             marked AS (
                 UPDATE channels SET over_limit = true
                 WHERE id = ANY($49) AND NOT over_limit AND intent_id IN (SELECT intent_id FROM clock))",
            column!(self.messages, m => single(m)) as &[Option<&str>],
            column!(self.messages, m => waits(m)),
            column!(self.answered, a => a.0.uuid()),
            column!(self.answered, a => i64::from(a.1.number())),
            column!(self.answered, a => a.2.uuid()),
            column!(self.events, e => e.intent_id.uuid()),
            column!(self.events, e => e.seq),
            column!(self.events, e => e.sequence),
            column!(self.events, e => e.id.uuid()),
            column!(self.events, e => e.event_type.as_str()) as &[&str],
            column!(self.events, e => e.actor.as_str()) as &[&str],
            &texts.payloads,
            column!(self.events, e => e.created_at),
            column!(self.events, e => e.previous_event_hash.as_ref().map(<[u8; 32]>::as_slice)) as &[Option<&[u8]>],
            column!(self.events, e => e.event_hash.as_slice()) as &[&[u8]],
            column!(self.events, e => e.posted),
            column!(self.events, e => e.trace_id.as_deref()) as &[Option<&str>],
            column!(self.events, e => e.parent_event_id.as_deref()) as &[Option<&str>],
            &texts.proofs as &[Option<String>],
            column!(self.events, e => e.proof_verified),
            column!(self.kept, k => k.0.principal_id.as_str()) as &[&str],
            column!(self.kept, k => k.0.key.as_str()) as &[&str],
            column!(self.kept, k => k.0.fingerprint.as_slice()) as &[&[u8]],
            column!(self.kept, k => k.0.outcome.as_str()) as &[&str],
            column!(self.kept, k => k.1.uuid()),
            now,
            overfull,
        )
        .fetch_all(conn)
        .await?;
        Ok(passed)
    }
}

/// Builds the statement of [`save`], extended by `$more`. Most logs that are saved exist already, and an insertion would
/// cost them one more trigger.
macro_rules! save_statement {
    ($logs:ident, $kept:ident, $now:ident, $events:ident, $texts:ident, $more:tt, $($argument:expr),* $(,)?) => {
        sqlx::query_scalar!(
            r#"-- log::save
             WITH logged AS (
                 INSERT INTO events (intent_id, seq, sequence, id, event_type, actor, payload, created_at,
                                     previous_event_hash, event_hash, posted, trace_id, parent_event_id, proof,
                                     proof_verified)
                 SELECT * FROM UNNEST($1::uuid[], $2::bigint[], $3::bigint[], $4::uuid[], $5::text[], $6::text[],
                                      $7::text[], $8::timestamptz[], $9::bytea[], $10::bytea[], $11::boolean[],
                                      $12::text[], $13::text[], $14::text[], $15::boolean[])),
             kept AS (
                 INSERT INTO idempotency (principal_id, key, fingerprint, outcome, created_at)
                 SELECT k.principal_id, k.key, k.fingerprint, k.outcome, $20
                 FROM UNNEST($16::text[], $17::text[], $18::bytea[], $19::text[])
                      AS k (principal_id, key, fingerprint, outcome)),
             ended AS (
                 UPDATE intent_clock c
                 SET last_seq = u.last_seq, sequence = u.sequence, head_hash = u.head_hash, last_at = u.last_at
                 FROM UNNEST($21::uuid[], $22::bigint[], $23::bigint[], $24::bigint[], $25::bytea[], $26::timestamptz[])
                      AS u (intent_id, opened_at, last_seq, sequence, head_hash, last_at)
                 WHERE c.intent_id = ANY (ARRAY[u.intent_id]) AND c.block = u.opened_at / 16
                       AND c.last_seq = u.opened_at
                 RETURNING c.intent_id)"#
            + $more
            + r#" SELECT intent_id AS "intent_id!" FROM ended"#,
            column!($events, e => e.intent_id.uuid()),
            column!($events, e => e.seq),
            column!($events, e => e.sequence),
            column!($events, e => e.id.uuid()),
            column!($events, e => e.event_type.as_str()) as &[&str],
            column!($events, e => e.actor.as_str()) as &[&str],
            &$texts.payloads,
            column!($events, e => e.created_at),
            column!($events, e => e.previous_event_hash.as_ref().map(<[u8; 32]>::as_slice)) as &[Option<&[u8]>],
            column!($events, e => e.event_hash.as_slice()) as &[&[u8]],
            column!($events, e => e.posted),
            column!($events, e => e.trace_id.as_deref()) as &[Option<&str>],
            column!($events, e => e.parent_event_id.as_deref()) as &[Option<&str>],
            &$texts.proofs as &[Option<String>],
            column!($events, e => e.proof_verified),
            column!($kept, k => k.principal_id.as_str()) as &[&str],
            column!($kept, k => k.key.as_str()) as &[&str],
            column!($kept, k => k.fingerprint.as_slice()) as &[&[u8]],
            column!($kept, k => k.outcome.as_str()) as &[&str],
            $now,
            column!($logs, l => l.intent_id.uuid()),
            column!($logs, l => l.opened_at),
            column!($logs, l => l.tail.seq),
            column!($logs, l => l.tail.sequence),
            column!($logs, l => l.tail.head.as_ref().map(<[u8; 32]>::as_slice)) as &[Option<&[u8]>],
            column!($logs, l => l.tail.at),
            $($argument),*
        )
    };
}

/// Writes the events recorded in the logs of locked intents, and stores responses, in one statement.
///
/// A new log is written only if the intent has no end yet: the index `intent_clock_by_block` would take a second one, in
/// another block.
///
/// # Errors
/// A database error; a log has moved although its intent is locked.
pub async fn save(
    conn: &mut PgConnection,
    logs: &[&IntentLog],
    kept: &[StoredResponse],
    now: Timestamp,
) -> Outcome<()> {
    let events: Vec<&Event> = logs.iter().flat_map(|log| &log.recorded).collect();
    let texts = EventTexts::of(&events)?;
    let saved = if logs.iter().any(|log| log.is_new) {
        save_statement!(
            logs,
            kept,
            now,
            events,
            texts,
            r#", begun AS (
                 INSERT INTO intent_clock (intent_id, last_seq, sequence, head_hash, last_at)
                 SELECT u.intent_id, u.last_seq, u.sequence, u.head_hash, u.last_at
                 FROM UNNEST($21::uuid[], $23::bigint[], $24::bigint[], $25::bytea[], $26::timestamptz[], $27::boolean[])
                      AS u (intent_id, last_seq, sequence, head_hash, last_at, is_new)
                 WHERE u.is_new AND NOT EXISTS (SELECT 1 FROM intent_clock c WHERE c.intent_id = u.intent_id)
                 RETURNING intent_id)
             SELECT intent_id AS "intent_id!" FROM begun UNION ALL"#,
            column!(logs, l => l.is_new),
        )
        .fetch_all(conn)
        .await?
    } else {
        save_statement!(logs, kept, now, events, texts, "",).fetch_all(conn).await?
    };
    // Each log has one end, so two logs of one intent, which no caller has, are one row too few, unless both are new.
    let is_saved = |log: &&&IntentLog| saved.contains(&log.intent_id.uuid());
    match logs.iter().find(|log| !is_saved(log) || saved.len() < logs.len()) {
        Some(log) => Err(log.moved()),
        None => Ok(()),
    }
}
