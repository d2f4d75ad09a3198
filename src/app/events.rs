//! The log, and where each line ends. Tables `intent_clock` and `events`.
//!
//! A deed opens a [`Line`] under the intent's lock, records on it, and saves it before it commits. Whether a stored log is
//! whole is `chains.rs`.

use entente_core::access::Level;
use entente_core::canonical::{self, Digest};
use entente_core::channels::Channel;
use entente_core::clock::Timestamp;
use entente_core::events::{Break, Draft, Event, Tail, check_posted, seal};
use entente_core::idempotency::Idempotency;
use entente_core::ids::{EventId, IntentId};
use entente_core::keys::Scope;
use entente_core::messages::Message;
use serde_json::Value;
use sqlx::PgConnection;

use super::sends::{Advance, Writing};
use super::{AppError, Caller, Ctx, Outcome, access, idempotency};
use crate::feed::Place;

/// An intent's line while its lock is held: the tail as it moves, and what was recorded on it.
#[derive(Debug)]
pub(crate) struct Line {
    pub intent_id: IntentId,
    pub tail: Tail,
    pub recorded: Vec<Event>,
    /// The last number before anything was done on the line.
    opened_at: i64,
}

impl Line {
    /// Opens the line of an intent whose lock the transaction holds.
    pub async fn open(conn: &mut PgConnection, intent_id: IntentId, now: Timestamp) -> Outcome<Self> {
        let tails = tails(conn, &[intent_id]).await?;
        let tail = tails.into_iter().next().map_or_else(|| Tail::empty(now), |(_, tail)| tail);
        let opened_at = tail.seq;
        Ok(Self { intent_id, tail: Tail { at: tail.at.max(now), ..tail }, recorded: Vec::new(), opened_at })
    }

    /// The line of an intent that is being created.
    pub fn fresh(intent_id: IntentId, now: Timestamp) -> Self {
        Self { intent_id, tail: Tail::empty(now), recorded: Vec::new(), opened_at: 0 }
    }

    /// The time of whatever is done on this line now: it never goes back along the line.
    pub fn now(&self) -> Timestamp {
        self.tail.at
    }

    /// Takes the next number for something that is no event.
    pub fn advance(&mut self) -> (i64, Timestamp) {
        self.tail.advance(self.tail.at)
    }

    /// Records an event.
    pub fn record(&mut self, ctx: &Ctx, draft: Draft) {
        let at = self.tail.at;
        let id = EventId::mint(at, &*ctx.chance);
        let event = seal(draft, &mut self.tail, self.intent_id, id, at);
        self.recorded.push(event);
    }

    /// Writes what was recorded, and where the line now ends.
    pub async fn save(&self, conn: &mut PgConnection) -> Outcome<()> {
        insert(conn, &self.recorded).await?;
        save_tail(conn, self.intent_id, &self.tail).await
    }

    /// As [`Self::save`], with messages that took their place in the line, and the channels that they are on.
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
        // The lock of the intent was held since the line was opened.
        Err(AppError::Inconsistent(format!("the line of {} moved under its lock", self.intent_id)))
    }
}

/// Which events of an intent to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only of this type.
    pub event_type: Option<String>,
    /// Only later than this.
    pub since: Option<Timestamp>,
    /// Only of this trace (RFC-0020).
    pub trace_id: Option<String>,
    /// How many at the most.
    pub limit: u32,
    /// How many of the newest to pass over.
    pub offset: u32,
}

/// An intent's events, the newest first.
///
/// # Errors
/// The intent is not there or not readable.
pub async fn list(ctx: &Ctx, caller: &Caller, intent_id: IntentId, filter: &Filter) -> Outcome<Vec<Event>> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    access::require(&mut connection, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    page(&mut connection, intent_id, filter).await
}

/// Appends a client's event to an intent's log.
///
/// # Errors
/// The intent is not there or not writable; the event is not lawful.
pub async fn append(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    draft: Draft,
    once: Option<&Idempotency>,
) -> Outcome<Event> {
    caller.require(Scope::IntentsWrite)?;
    check_posted(&draft)?;
    let mut tx = ctx.begin_once(&[intent_id], caller, once).await?;
    access::require(&mut tx, &draft.actor, intent_id, Level::Write, ctx.now()).await?;
    if let Some(done) = idempotency::find(&mut tx, caller, once).await? {
        return Ok(done);
    }
    let mut line = Line::open(&mut tx, intent_id, ctx.now()).await?;
    line.record(ctx, draft);
    line.save(&mut tx).await?;
    let Some(event) = line.recorded.pop() else {
        return Err(AppError::Inconsistent("an event was not recorded".to_owned()));
    };
    idempotency::keep(&mut tx, caller, once, &event, event.created_at).await?;
    tx.commit().await?;
    ctx.feed.news(intent_id);
    Ok(event)
}

/// The whole log of an intent, oldest first, without asking who asks: for the server's own checks.
///
/// # Errors
/// The database.
pub async fn whole_log(ctx: &Ctx, intent_id: IntentId) -> Outcome<Vec<Event>> {
    let mut connection = ctx.pool.acquire().await?;
    all(&mut connection, intent_id).await
}

struct Row {
    intent_id: uuid::Uuid,
    seq: i64,
    sequence: i64,
    id: uuid::Uuid,
    event_type: String,
    actor: String,
    payload: String,
    created_at: Timestamp,
    previous_event_hash: Option<Vec<u8>>,
    event_hash: Vec<u8>,
    posted: bool,
    trace_id: Option<String>,
    parent_event_id: Option<String>,
    proof: Option<String>,
    xid: i64,
}

impl Row {
    fn placed(self) -> Outcome<(Place, Event)> {
        let place = Place { xid: self.xid, intent_id: self.intent_id.into(), seq: self.seq };
        Ok((place, Event::try_from(self)?))
    }
}

fn digest(bytes: Vec<u8>) -> Outcome<Digest> {
    bytes
        .try_into()
        .map_err(|_other_length| AppError::Inconsistent("a stored hash has not 32 bytes".to_owned()))
}

impl TryFrom<Row> for Event {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            event_type: row.event_type,
            actor: row.actor,
            payload: serde_json::from_str(&row.payload)?,
            created_at: row.created_at,
            sequence: row.sequence,
            seq: row.seq,
            previous_event_hash: row.previous_event_hash.map(digest).transpose()?,
            event_hash: digest(row.event_hash)?,
            posted: row.posted,
            trace_id: row.trace_id,
            parent_event_id: row.parent_event_id,
            proof: row.proof.as_deref().map(serde_json::from_str::<Value>).transpose()?,
        })
    }
}

/// A page of an intent's log, the newest first.
pub(crate) async fn page(
    conn: &mut PgConnection,
    intent_id: IntentId,
    filter: &Filter,
) -> Outcome<Vec<Event>> {
    let rows = sqlx::query_as!(
        Row,
        "-- events::page
         SELECT intent_id, seq, sequence, id, event_type, actor, payload, created_at, previous_event_hash, event_hash,
                posted, trace_id, parent_event_id, proof, xid
         FROM events
         WHERE intent_id = $1
           AND ($2::text IS NULL OR event_type = $2)
           AND ($3::timestamptz IS NULL OR created_at > $3)
           AND ($4::text IS NULL OR trace_id = $4)
         ORDER BY seq DESC LIMIT $5 OFFSET $6",
        intent_id.uuid(),
        filter.event_type,
        filter.since,
        filter.trace_id,
        i64::from(filter.limit),
        i64::from(filter.offset)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Event::try_from).collect()
}

/// The whole log of an intent, oldest first.
pub(crate) async fn all(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Vec<Event>> {
    let stored = stored(conn, intent_id).await?.into_iter();
    stored.map(|event| event.map_err(|fault| AppError::Inconsistent(fault.reason))).collect()
}

/// As [`all`]; in the place of what cannot be read any more is why.
pub(crate) async fn stored(
    conn: &mut PgConnection,
    intent_id: IntentId,
) -> Outcome<Vec<Result<Event, Break>>> {
    let rows = sqlx::query_as!(
        Row,
        "-- events::all
         SELECT intent_id, seq, sequence, id, event_type, actor, payload, created_at, previous_event_hash, event_hash,
                posted, trace_id, parent_event_id, proof, xid
         FROM events WHERE intent_id = $1 ORDER BY seq",
        intent_id.uuid()
    )
    .fetch_all(conn)
    .await?;
    let read = |row: Row| {
        let (sequence, event_id) = (row.sequence, row.id.into());
        Event::try_from(row).map_err(|e| Break { sequence, event_id, reason: e.to_string() })
    };
    Ok(rows.into_iter().map(read).collect())
}

/// The events that changed an intent before a place in its line, oldest first.
pub(crate) async fn changes_before(
    conn: &mut PgConnection,
    intent_id: IntentId,
    seq: i64,
) -> Outcome<Vec<Event>> {
    let rows = sqlx::query_as!(
        Row,
        "-- events::changes_before
         SELECT intent_id, seq, sequence, id, event_type, actor, payload, created_at, previous_event_hash, event_hash,
                posted, trace_id, parent_event_id, proof, xid
         FROM events
         WHERE intent_id = $1 AND event_type IN ('intent_created', 'state_patched', 'status_changed') AND seq < $2
           AND NOT posted
         ORDER BY seq",
        intent_id.uuid(),
        seq
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Event::try_from).collect()
}

/// The events of an intent's line after a place, up to another.
pub(crate) async fn of_line(
    conn: &mut PgConnection,
    intent_id: IntentId,
    after: i64,
    end: i64,
    limit: i64,
) -> Outcome<Vec<(Place, Event)>> {
    let rows = sqlx::query_as!(
        Row,
        "-- events::of_line
         SELECT intent_id, seq, sequence, id, event_type, actor, payload, created_at, previous_event_hash, event_hash,
                posted, trace_id, parent_event_id, proof, xid
         FROM events WHERE intent_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4",
        intent_id.uuid(),
        after,
        end,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Row::placed).collect()
}

/// The events of all lines after a place, written by transactions older than `horizon`.
pub(crate) async fn of_house(
    conn: &mut PgConnection,
    place: Place,
    horizon: i64,
    limit: i64,
) -> Outcome<Vec<(Place, Event)>> {
    let rows = sqlx::query_as!(
        Row,
        "-- events::of_house
         SELECT intent_id, seq, sequence, id, event_type, actor, payload, created_at, previous_event_hash, event_hash,
                posted, trace_id, parent_event_id, proof, xid
         FROM events
         WHERE xid >= $1 AND xid < $4 AND (xid, intent_id, seq) > ($1, $2, $3)
         ORDER BY xid, intent_id, seq LIMIT $5",
        place.xid,
        place.intent_id.uuid(),
        place.seq,
        horizon,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Row::placed).collect()
}

/// Where the lines of these intents end; those that have none are left out.
pub(crate) async fn tails(conn: &mut PgConnection, intents: &[IntentId]) -> Outcome<Vec<(IntentId, Tail)>> {
    let ids: Vec<uuid::Uuid> = intents.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        "-- events::tails
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

/// Writes where a line now ends.
async fn save_tail(conn: &mut PgConnection, intent_id: IntentId, tail: &Tail) -> Outcome<()> {
    sqlx::query!(
        "-- events::save_tail
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

/// Writes events. Besides sends, which log audited messages in their own statement, the only place that does.
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
        "-- events::insert
         INSERT INTO events (intent_id, seq, sequence, id, event_type, actor, payload, created_at, previous_event_hash,
                             event_hash, posted, trace_id, parent_event_id, proof)
         SELECT * FROM UNNEST($1::uuid[], $2::bigint[], $3::bigint[], $4::uuid[], $5::text[], $6::text[], $7::text[],
             $8::timestamptz[], $9::bytea[], $10::bytea[], $11::boolean[], $12::text[], $13::text[], $14::text[])",
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
        &proofs as &[Option<String>]
    )
    .execute(conn)
    .await?;
    Ok(())
}
