//! Logs of intents, opened for appending. Tables `intent_clock` and `events`.
//!
//! An operation opens a [`IntentLog`] under the intent's lock, records events on it, and saves it before the
//! commit. `audit/events.rs` reads the events.

use entente_domain::canonical::{self, Digest};
use entente_domain::clock::Timestamp;
use entente_domain::ids::{EventId, IntentId};
use entente_domain::log::events::{Draft, Event, Tail, seal};
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::messages::Message;
use entente_domain::traces::Trace;
use sqlx::PgConnection;

use crate::log::guarded_write::{Advance, Writing};
use crate::{AppError, Ctx, Outcome};

/// An intent's log while its lock is held: the moving tail and the events recorded so far.
#[derive(Debug)]
pub struct IntentLog {
    /// The intent.
    pub intent_id: IntentId,
    /// The log's end, after everything recorded so far.
    pub tail: Tail,
    /// The events recorded so far, which [`Self::save`] writes.
    pub recorded: Vec<Event>,
    /// Trace of the caller, for events that name none (RFC-0020).
    pub trace: Option<Trace>,
    /// Last number before this operation.
    opened_at: i64,
}

impl IntentLog {
    /// Opens the log of an intent; the transaction holds the intent's lock.
    ///
    /// # Errors
    /// A database error; a stored hash is invalid.
    pub async fn open(
        conn: &mut PgConnection,
        intent_id: IntentId,
        trace: Option<Trace>,
        now: Timestamp,
    ) -> Outcome<Self> {
        let tails = tails(conn, &[intent_id]).await?;
        let tail = tails.into_iter().next().map_or_else(|| Tail::empty(now), |(_, tail)| tail);
        let opened_at = tail.seq;
        Ok(Self {
            intent_id,
            tail: Tail { at: tail.at.max(now), ..tail },
            recorded: Vec::new(),
            trace,
            opened_at,
        })
    }

    /// Opens the empty log of an intent that is being created.
    #[must_use]
    pub fn fresh(intent_id: IntentId, trace: Option<Trace>, now: Timestamp) -> Self {
        Self { intent_id, tail: Tail::empty(now), recorded: Vec::new(), trace, opened_at: 0 }
    }

    /// Time of everything recorded now; it never goes back along the log.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.tail.at
    }

    /// Whether anything was recorded or numbered since the log was opened.
    #[must_use]
    pub fn has_advanced(&self) -> bool {
        self.tail.seq > self.opened_at
    }

    /// Returns the recorded events, and the number before them; `None` if something else was numbered as well.
    #[must_use]
    pub fn events_alone(&self) -> Option<(i64, &[Event])> {
        let count = i64::try_from(self.recorded.len()).ok()?;
        (count == self.tail.seq - self.opened_at).then_some((self.opened_at, self.recorded.as_slice()))
    }

    /// Number of the entry that is recorded next.
    #[must_use]
    pub fn next_seq(&self) -> i64 {
        self.tail.seq + 1
    }

    /// Takes the next number for an entry that is not an event.
    pub fn advance(&mut self) -> (i64, Timestamp) {
        self.tail.advance(self.tail.at)
    }

    /// Seals an event and appends it.
    pub fn record(&mut self, ctx: &Ctx, mut draft: Draft) {
        draft.trace_id = draft.trace_id.or_else(|| self.trace.map(|trace| trace.id()));
        let at = self.tail.at;
        let id = EventId::mint(at, &*ctx.chance);
        let event = seal(draft, &mut self.tail, self.intent_id, id, at);
        self.recorded.push(event);
    }

    /// Writes the recorded events and the new tail.
    ///
    /// # Errors
    /// A database error.
    pub async fn save(&self, conn: &mut PgConnection) -> Outcome<()> {
        insert(conn, &self.recorded).await?;
        save_tail(conn, self.intent_id, &self.tail).await
    }

    /// Like [`Self::save`], together with messages numbered in this log and their channels.
    ///
    /// # Errors
    /// A database error; the log has moved although its intent is locked.
    pub async fn save_with(
        &self,
        conn: &mut PgConnection,
        messages: &[&Message],
        channels: &[&Channel],
    ) -> Outcome<()> {
        insert(conn, &self.recorded).await?;
        let advance =
            Advance { intent_id: self.intent_id, expected: self.opened_at, tail: self.tail.clone() };
        let writing = Writing {
            advances: vec![advance],
            messages: messages.to_vec(),
            channels: channels.to_vec(),
            ..Writing::default()
        };
        if writing.write(conn, self.now()).await?.contains(&self.intent_id) {
            return Ok(());
        }
        // The lock of the intent was held since the log was opened.
        Err(AppError::Inconsistent(format!("the log of {} moved under its lock", self.intent_id)))
    }
}

/// Parses a stored hash.
///
/// # Errors
/// The stored hash does not have 32 bytes.
pub fn digest(bytes: Vec<u8>) -> Outcome<Digest> {
    bytes
        .try_into()
        .map_err(|_other_length| AppError::Inconsistent("a stored hash has not 32 bytes".to_owned()))
}

/// Tails of the logs of these intents; empty logs are left out.
///
/// # Errors
/// A database error; a stored hash is invalid.
pub async fn tails(conn: &mut PgConnection, intents: &[IntentId]) -> Outcome<Vec<(IntentId, Tail)>> {
    let ids: Vec<uuid::Uuid> = intents.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        "-- writer::tails
         SELECT intent_id, last_seq, sequence, head_hash, last_at FROM intent_clock WHERE intent_id = ANY($1)",
        &ids
    )
    .fetch_all(conn)
    .await?;
    let tail = |seq, sequence, head: Option<Vec<u8>>, at| -> Outcome<Tail> {
        Ok(Tail { seq, sequence, head: head.map(digest).transpose()?, at })
    };
    rows.into_iter()
        .map(|row| Ok((row.intent_id.into(), tail(row.last_seq, row.sequence, row.head_hash, row.last_at)?)))
        .collect()
}

/// Writes the tail of a log.
async fn save_tail(conn: &mut PgConnection, intent_id: IntentId, tail: &Tail) -> Outcome<()> {
    sqlx::query!(
        "-- writer::save_tail
         INSERT INTO intent_clock (intent_id, last_seq, sequence, head_hash, last_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (intent_id) DO UPDATE SET last_seq = excluded.last_seq, sequence = excluded.sequence,
             head_hash = excluded.head_hash, last_at = excluded.last_at",
        intent_id.uuid(),
        tail.seq,
        tail.sequence,
        tail.head.as_ref().map(<[u8; 32]>::as_slice),
        tail.at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Inserts events; the only code that does, besides sends, which log audited messages in their own statement.
async fn insert(conn: &mut PgConnection, events: &[Event]) -> Outcome<()> {
    if events.is_empty() {
        return Ok(());
    }
    let payloads =
        events.iter().map(|event| canonical::text(&event.payload)).collect::<Result<Vec<String>, _>>()?;
    let proofs = events
        .iter()
        .map(|event| event.proof.as_ref().map(canonical::text).transpose())
        .collect::<Result<Vec<Option<String>>, _>>()?;
    let column = |of: fn(&Event) -> uuid::Uuid| events.iter().map(of).collect::<Vec<_>>();
    let texts = |of: fn(&Event) -> &str| events.iter().map(of).collect::<Vec<_>>();
    let optional = |of: fn(&Event) -> Option<&str>| events.iter().map(of).collect::<Vec<_>>();
    let previous: Vec<Option<&[u8]>> =
        events.iter().map(|event| event.previous_event_hash.as_ref().map(<[u8; 32]>::as_slice)).collect();
    let hashes: Vec<&[u8]> = events.iter().map(|event| event.event_hash.as_slice()).collect();
    sqlx::query!(
        "-- writer::insert
         INSERT INTO events (intent_id, seq, sequence, id, event_type, actor, payload, created_at, previous_event_hash,
                             event_hash, posted, trace_id, parent_event_id, proof, proof_verified)
         SELECT * FROM UNNEST($1::uuid[], $2::bigint[], $3::bigint[], $4::uuid[], $5::text[], $6::text[], $7::text[],
             $8::timestamptz[], $9::bytea[], $10::bytea[], $11::boolean[], $12::text[], $13::text[], $14::text[], $15::boolean[])",
        &column(|event| event.intent_id.uuid()),
        &events.iter().map(|event| event.seq).collect::<Vec<_>>(),
        &events.iter().map(|event| event.sequence).collect::<Vec<_>>(),
        &column(|event| event.id.uuid()),
        &texts(|event| &event.event_type) as &[&str],
        &texts(|event| &event.actor) as &[&str],
        &payloads,
        &events.iter().map(|event| event.created_at).collect::<Vec<_>>(),
        &previous as &[Option<&[u8]>],
        &hashes as &[&[u8]],
        &events.iter().map(|event| event.posted).collect::<Vec<_>>(),
        &optional(|event| event.trace_id.as_deref()) as &[Option<&str>],
        &optional(|event| event.parent_event_id.as_deref()) as &[Option<&str>],
        &proofs as &[Option<String>],
        &events.iter().map(|event| event.proof_verified).collect::<Vec<_>>()
    )
    .execute(conn)
    .await?;
    Ok(())
}
