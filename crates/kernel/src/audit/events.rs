//! Reads the log: lists of events; and appends clients' events. Writing is in `log/writer.rs`, verification in
//! `chains.rs`.

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::log::chains::Break;
use entente_domain::log::events::{Draft, Event, check_posted, check_trace_id};
use entente_domain::log::kinds::names;
use entente_domain::log::proofs::judge_event;
use serde_json::Value;
use sqlx::PgConnection;

use crate::access::governance;
use crate::access::governance::Attempt;
use crate::access::membership;
use crate::audit::floors;
use crate::identity::identities;
use crate::log::order::Parts;
use crate::log::writer::digest;
use crate::pages::{Measure, Page};
use crate::{AppError, Caller, Ctx, IntentTx, Outcome};

/// Filters for listing an intent's events.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Only events of this type; an audited message has two names (OI-10.7.1).
    pub event_type: Option<String>,
    /// Only events later than this.
    pub since: Option<Timestamp>,
    /// Only events of this trace (RFC-0020).
    pub trace_id: Option<String>,
    /// Maximum number of events.
    pub limit: u32,
    /// Number of the newest events to skip.
    pub offset: u32,
}

/// Lists an intent's events, newest first.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    filter: &EventFilter,
) -> Outcome<Page<Event>> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    membership::require(&mut connection, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    page(&mut connection, caller, intent_id, filter).await
}

/// Appends a client's event to an intent's log, in a transaction of its own, which also records a refusal by the
/// intent's policy. The message writer appends most events, many in one commit.
///
/// # Errors
/// The intent does not exist or is not writable; the event is invalid.
pub async fn append(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    mut draft: Draft,
    once: Option<&Idempotency>,
) -> Outcome<Event> {
    caller.require(Scope::IntentsWrite)?;
    check_posted(&draft)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    let membership =
        membership::require(work.conn(), &draft.actor, intent_id, Level::Write, ctx.now()).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let attempt = Attempt { intent_id, membership: &membership, agent: &draft.actor, operation: "log_event" };
    let mut work = governance::admit(caller, work, attempt).await?;
    if draft.proof.is_some() {
        let known = identities::load(work.conn(), &draft.actor).await?;
        draft.proof_verified =
            judge_event(intent_id, &draft, known.as_ref(), work.now(), ctx.settings.strict)?;
    }
    work.record(draft);
    let Some(event) = work.log().recorded.last().cloned() else {
        return Err(AppError::Inconsistent("an event was not recorded".to_owned()));
    };
    work.finish(event).await
}

/// Returns the whole log of an intent, oldest first, without an access check, for the server's own checks.
///
/// # Errors
/// A database error.
pub async fn whole_log(ctx: &Ctx, intent_id: IntentId) -> Outcome<Vec<Event>> {
    let mut connection = ctx.pool.acquire().await?;
    all(&mut connection, intent_id).await
}

/// Loads whole events: takes the query's name and the text after its `FROM events e`, or with `of` the source
/// of `e`.
macro_rules! select {
    ($name:literal, of $from:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT e.intent_id, e.seq, e.sequence, e.id, e.event_type, e.actor, e.payload, e.created_at,
                    e.previous_event_hash, e.event_hash, e.posted, e.trace_id, e.parent_event_id, e.proof,
                    e.proof_verified
             FROM " + $from
            $(, $argument)*
        )
    };
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT e.intent_id, e.seq, e.sequence, e.id, e.event_type, e.actor, e.payload, e.created_at,
                    e.previous_event_hash, e.event_hash, e.posted, e.trace_id, e.parent_event_id, e.proof,
                    e.proof_verified
             FROM events e " + $rest
            $(, $argument)*
        )
    };
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
    proof_verified: bool,
}

impl Row {
    fn weight(&self) -> usize {
        self.payload.len() + self.proof.as_ref().map_or(0, String::len)
    }
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
            proof_verified: row.proof_verified,
        })
    }
}

/// Loads a page of an intent's log, newest first. The last page says how many events retention has deleted.
pub(crate) async fn page(
    conn: &mut PgConnection,
    caller: &Caller,
    intent_id: IntentId,
    filter: &EventFilter,
) -> Outcome<Page<Event>> {
    filter.trace_id.as_deref().map_or(Ok(()), check_trace_id)?;
    let types: Vec<&str> = filter.event_type.iter().flat_map(|name| names(name)).collect();
    let mut measure = Measure::of(caller);
    loop {
        let rows = select!(
        "events::page",
        of "(SELECT p.*, sum(octet_length(p.payload) + coalesce(octet_length(p.proof), 0)) OVER (ORDER BY p.seq DESC)
               - octet_length(p.payload) - coalesce(octet_length(p.proof), 0) AS before
         FROM (SELECT * FROM events
         WHERE intent_id = $1
           AND (cardinality($2::text[]) = 0 OR event_type = ANY($2))
           AND ($3::timestamptz IS NULL OR created_at > $3)
           AND ($4::text IS NULL OR lower(trace_id) = lower($4))
         ORDER BY seq DESC LIMIT $5 OFFSET $6) p) e WHERE e.before < $7 ORDER BY e.seq DESC",
        intent_id.uuid(),
        &types as &[&str],
        filter.since,
        filter.trace_id,
        i64::from(filter.limit),
        i64::from(filter.offset),
        measure.bytes()
    )
    .fetch_all(&mut *conn)
    .await?;
        if !measure.again(rows.iter().map(Row::weight).sum()) {
            let items: Vec<Event> = rows.into_iter().map(Event::try_from).collect::<Outcome<_>>()?;
            let mut page = measure.page(items);
            if !page.cut && page.items.len() < usize::try_from(filter.limit).unwrap_or(usize::MAX) {
                page.deleted = floors::numbers(conn, intent_id).await?.map(|(_, sequence)| sequence);
            }
            return Ok(page);
        }
    }
}

/// Loads the events of a trace that the caller may see, in the order of their writing, oldest first.
pub(crate) async fn of_trace(
    conn: &mut PgConnection,
    caller: &Caller,
    trace_id: &str,
    now: Timestamp,
    limit: u32,
    offset: u32,
) -> Outcome<Page<Event>> {
    let mut measure = Measure::of(caller);
    loop {
        let rows = select!(
            "events::of_trace",
            of "(SELECT p.*, sum(octet_length(p.payload) + coalesce(octet_length(p.proof), 0))
                   OVER (ORDER BY p.global, p.intent_id, p.seq)
               - octet_length(p.payload) - coalesce(octet_length(p.proof), 0) AS before
         FROM (SELECT e.*, (SELECT o.global FROM log_order o WHERE o.intent_id = e.intent_id AND o.to_seq >= e.seq
                            ORDER BY o.to_seq LIMIT 1) AS global FROM events e
         LEFT JOIN intents i ON i.id = e.intent_id
         LEFT JOIN acls a ON a.intent_id = e.intent_id
         WHERE lower(e.trace_id) = lower($1)
           AND CASE WHEN i.id IS NULL THEN $2 ELSE
               a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $3 OR EXISTS (
                   SELECT 1 FROM acl_entries g WHERE g.intent_id = e.intent_id AND g.principal_id = $3
                   AND (g.expires_at IS NULL OR g.expires_at > $4)) END
         ORDER BY global, e.intent_id, e.seq LIMIT $5 OFFSET $6) p) e
         WHERE e.before < $7 ORDER BY e.global, e.intent_id, e.seq",
            trace_id,
            caller.has(Scope::Admin),
            caller.agent,
            now,
            i64::from(limit),
            i64::from(offset),
            measure.bytes()
        )
        .fetch_all(&mut *conn)
        .await?;
        if !measure.again(rows.iter().map(Row::weight).sum()) {
            return Ok(measure.page(rows.into_iter().map(Event::try_from).collect::<Outcome<_>>()?));
        }
    }
}

/// Loads the whole log of an intent, oldest first.
pub(crate) async fn all(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Vec<Event>> {
    let stored = stored(conn, intent_id).await?.into_iter();
    stored.map(|event| event.map_err(|fault| AppError::Inconsistent(fault.reason))).collect()
}

/// As [`all`]; an unreadable event is replaced by its fault.
pub(crate) async fn stored(
    conn: &mut PgConnection,
    intent_id: IntentId,
) -> Outcome<Vec<Result<Event, Break>>> {
    let rows =
        select!("events::all", "WHERE intent_id = $1 ORDER BY seq", intent_id.uuid()).fetch_all(conn).await?;
    let read = |row: Row| {
        let (sequence, event_id) = (row.sequence, row.id.into());
        Event::try_from(row).map_err(|e| Break {
            sequence,
            event_id,
            checkpoint_id: None,
            reason: e.to_string(),
        })
    };
    Ok(rows.into_iter().map(read).collect())
}

/// Loads the events of a log after a position, oldest first: up to `limit`, and little more than `bytes` bytes.
pub(super) async fn after(
    conn: &mut PgConnection,
    log: IntentId,
    after: i64,
    limit: i64,
    bytes: i64,
) -> Outcome<Vec<Event>> {
    let rows = select!(
        "events::after",
        of "(SELECT p.*, sum(octet_length(p.payload) + coalesce(octet_length(p.proof), 0)) OVER (ORDER BY p.seq)
               - octet_length(p.payload) - coalesce(octet_length(p.proof), 0) AS before
         FROM (SELECT * FROM events WHERE intent_id = $1 AND seq > $2 ORDER BY seq LIMIT $3) p) e
         WHERE e.before < $4 ORDER BY e.seq",
        log.uuid(),
        after,
        limit,
        bytes
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Event::try_from).collect()
}

/// Returns the actors of a log whose proofs the server has verified.
pub(super) async fn signers(conn: &mut PgConnection, log: IntentId) -> Outcome<Vec<String>> {
    let found = sqlx::query_scalar!(
        "-- events::signers
         SELECT DISTINCT actor FROM events WHERE intent_id = $1 AND proof_verified ORDER BY actor",
        log.uuid()
    )
    .fetch_all(conn)
    .await?;
    Ok(found)
}

/// Loads the events of a log after a position that were recorded before a moment, up to two numbers: that in the log and
/// that in the hash chain; oldest first, up to `limit`.
pub(super) async fn oldest(
    conn: &mut PgConnection,
    log: IntentId,
    after: i64,
    until: (i64, i64),
    before: Timestamp,
    limit: i64,
) -> Outcome<Vec<Event>> {
    let rows = select!(
        "events::oldest",
        "WHERE intent_id = $1 AND seq > $2 AND seq <= $3 AND sequence <= $4 AND created_at < $5 ORDER BY seq LIMIT $6",
        log.uuid(),
        after,
        until.0,
        until.1,
        before,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Event::try_from).collect()
}

/// Counts the events that [`oldest`] loads from the beginning of the log.
pub(super) async fn count_oldest(
    conn: &mut PgConnection,
    log: IntentId,
    until: (i64, i64),
    before: Timestamp,
) -> Outcome<i64> {
    let count = sqlx::query_scalar!(
        r#"-- events::count_oldest
         SELECT count(*) AS "count!" FROM events
         WHERE intent_id = $1 AND seq <= $2 AND sequence <= $3 AND created_at < $4"#,
        log.uuid(),
        until.0,
        until.1,
        before
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Deletes the events of a log up to a position; their hashes are stored in the same transaction (`floors.rs`).
pub(super) async fn forget(conn: &mut PgConnection, log: IntentId, until: i64) -> Outcome<()> {
    sqlx::query!(
        "-- events::forget
         DELETE FROM events WHERE intent_id = $1 AND seq <= $2",
        log.uuid(),
        until
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Loads the events that changed an intent before a position in its log, oldest first.
pub(crate) async fn changes_before(
    conn: &mut PgConnection,
    intent_id: IntentId,
    seq: i64,
) -> Outcome<Vec<Event>> {
    let rows = select!(
        "events::changes_before",
        "WHERE intent_id = $1 AND event_type IN ('intent_created', 'state_patched', 'status_changed', 'dependency_added',
                'dependency_removed', 'governance.policy_set', 'governance.policy_removed') AND seq < $2 AND NOT posted
         ORDER BY seq",
        intent_id.uuid(),
        seq
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Event::try_from).collect()
}

/// Loads the events of an intent's log after a position, up to another.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn of_line(
    conn: &mut PgConnection,
    intent_id: IntentId,
    after: i64,
    end: i64,
    limit: i64,
) -> Outcome<Vec<Event>> {
    let rows = select!(
        "events::of_line",
        "WHERE intent_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4",
        intent_id.uuid(),
        after,
        end,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Event::try_from).collect()
}

/// Loads the events of these parts of logs, in their order, up to `limit`.
pub(crate) async fn of_parts(conn: &mut PgConnection, parts: &Parts, limit: i64) -> Outcome<Vec<Event>> {
    let rows = select!(
        "events::of_parts",
        of "UNNEST($1::bigint[], $2::uuid[], $3::bigint[], $4::bigint[]) AS p (global, intent_id, from_seq, to_seq)
         CROSS JOIN LATERAL (SELECT s.* FROM events s
                             WHERE s.intent_id = p.intent_id AND s.seq BETWEEN p.from_seq AND p.to_seq OFFSET 0) e
         ORDER BY p.global, e.seq LIMIT $5",
        &parts.globals,
        &parts.intents,
        &parts.from,
        &parts.to,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Event::try_from).collect()
}

/// Loads the events at these positions.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn at(conn: &mut PgConnection, places: &[(IntentId, i64)]) -> Outcome<Vec<Event>> {
    let rows = select!(
        "events::at",
        "JOIN UNNEST($1::uuid[], $2::bigint[]) AS k (intent_id, seq)
         ON e.intent_id = k.intent_id AND e.seq = k.seq",
        &places.iter().map(|(intent, _)| intent.uuid()).collect::<Vec<_>>(),
        &places.iter().map(|(_, seq)| *seq).collect::<Vec<_>>()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Event::try_from).collect()
}
