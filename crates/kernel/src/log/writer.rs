//! Logs of intents, opened for appending. Tables `intent_clock` and `events`.
//!
//! An operation opens a [`IntentLog`] under the intent's lock, records events on it, and saves it before the
//! commit. `audit/events.rs` reads the events.

use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{EventId, IntentId};
use entente_domain::log::events::{Draft, Event, Tail, seal};
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::messages::Message;
use entente_domain::traces::Trace;
use sqlx::PgConnection;

use crate::facts::StoredTail;
use crate::log::guarded_write;
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
    pub(super) opened_at: i64,
    /// Whether the log has no stored end yet.
    pub(super) is_new: bool,
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
        Ok(Self::after(intent_id, tails.into_iter().next().map(|(_, tail)| tail), trace, now))
    }

    /// Opens the log of an intent whose end was read under the intent's lock.
    pub(crate) fn of(
        intent_id: IntentId,
        tail: Option<&StoredTail>,
        trace: Option<Trace>,
        now: Timestamp,
    ) -> Outcome<Self> {
        let tail = match tail {
            Some(tail) => Some(Tail {
                seq: tail.seq,
                sequence: tail.sequence,
                head: tail.head.clone().map(digest).transpose()?,
                at: tail.at,
            }),
            None => None,
        };
        Ok(Self::after(intent_id, tail, trace, now))
    }

    fn after(intent_id: IntentId, stored: Option<Tail>, trace: Option<Trace>, now: Timestamp) -> Self {
        let is_new = stored.is_none();
        let mut tail = stored.unwrap_or_else(|| Tail::empty(now));
        tail.at = tail.at.max(now);
        Self { intent_id, opened_at: tail.seq, tail, recorded: Vec::new(), trace, is_new }
    }

    /// Returns the log's end, to which [`Self::reset`] returns.
    pub(crate) fn mark(&self) -> (Tail, usize) {
        (self.tail.clone(), self.recorded.len())
    }

    /// Forgets everything recorded since a mark.
    pub(crate) fn reset(&mut self, mark: (Tail, usize)) {
        let (tail, recorded) = mark;
        self.tail = tail;
        self.recorded.truncate(recorded);
    }

    /// Opens the empty log of an intent that is being created.
    #[must_use]
    pub fn fresh(intent_id: IntentId, trace: Option<Trace>, now: Timestamp) -> Self {
        Self::after(intent_id, None, trace, now)
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
    /// A database error; the log has moved although its intent is locked.
    pub async fn save(&self, conn: &mut PgConnection) -> Outcome<()> {
        guarded_write::save(conn, &[self], &[], self.now()).await
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
        let advance =
            Advance { intent_id: self.intent_id, expected: self.opened_at, tail: self.tail.clone() };
        let writing = Writing {
            advances: vec![advance],
            messages: messages.to_vec(),
            channels: channels.to_vec(),
            events: self.recorded.iter().collect(),
            ..Writing::default()
        };
        if writing.write(conn, self.now()).await?.contains(&self.intent_id) {
            return Ok(());
        }
        Err(self.moved())
    }

    /// Error of a write that found another end than the one at which the log was opened. The lock of the intent was held
    /// since then.
    pub(super) fn moved(&self) -> AppError {
        AppError::Inconsistent(format!("the log of {} moved under its lock", self.intent_id))
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
         SELECT c.intent_id, c.last_seq, c.sequence, c.head_hash, c.last_at FROM UNNEST($1::uuid[]) AS k (intent_id)
         CROSS JOIN LATERAL (SELECT * FROM intent_clock c WHERE c.intent_id = k.intent_id ORDER BY c.block DESC LIMIT 1) c",
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
