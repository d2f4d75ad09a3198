//! Events of jobs (ARCP §8). Table `job_events`.

use std::collections::HashSet;

use entente_domain::arcp::jobs::wire::EventPayload;
use entente_domain::clock::{Timestamp, rfc3339};
use entente_domain::ids::{JobId, SessionId};
use entente_kernel::Outcome;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use uuid::Uuid;

/// Type of every event except a job's end.
pub(crate) const EVENT: &str = "job.event";

/// A stored event or end of a job.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The job.
    pub job_id: JobId,
    /// Number within the job, from 1.
    pub job_seq: i64,
    /// Number within the submitting session.
    pub origin_seq: i64,
    /// That session, if it counts events and is sent this one.
    pub session_id: Option<SessionId>,
    /// `job.event`, `job.result` or `job.error`.
    pub type_: String,
    /// Kind of a `job.event`.
    pub kind: Option<String>,
    /// Time of the event.
    pub ts: Timestamp,
    /// Body of a `job.event`, else the payload: JSON as received.
    pub body: String,
    /// The worker's idempotency key for it.
    pub event_key: Option<String>,
}

impl Stored {
    /// Whether it is the job's end.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.type_ != EVENT
    }

    /// Returns the envelope's payload in the strict form.
    ///
    /// # Errors
    /// The stored text is not JSON.
    pub fn payload(&self) -> Outcome<Box<RawValue>> {
        let Some(kind) = &self.kind else { return Ok(RawValue::from_string(self.body.clone())?) };
        let body = RawValue::from_string(self.body.clone())?;
        let payload = EventPayload { kind: kind.clone(), ts: rfc3339(self.ts), body };
        Ok(serde_json::value::to_raw_value(&payload)?)
    }
}

struct StoredRow {
    job_id: Uuid,
    job_seq: i64,
    origin_seq: i64,
    session_id: Option<Uuid>,
    type_: String,
    kind: Option<String>,
    ts: Timestamp,
    body: String,
    event_key: Option<String>,
}

impl From<StoredRow> for Stored {
    fn from(row: StoredRow) -> Self {
        Self {
            job_id: row.job_id.into(),
            job_seq: row.job_seq,
            origin_seq: row.origin_seq,
            session_id: row.session_id.map(SessionId::from),
            type_: row.type_,
            kind: row.kind,
            ts: row.ts,
            body: row.body,
            event_key: row.event_key,
        }
    }
}

/// Byte limit of one read: chunks of results are large and need not be in memory all at once.
pub const BYTES: i64 = 4 * 1024 * 1024;

/// Selects whole events: the query's name, and the text after its `FROM`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            StoredRow,
            "-- " + $name + r#"
             SELECT e.job_id, e.job_seq, e.origin_seq, e.session_id, e.type AS "type_", e.kind, e.ts, e.body, e.event_key
             FROM job_events e "# + $rest
            $(, $argument)*
        )
    };
}

/// Inserts events.
pub(super) async fn insert(conn: &mut PgConnection, events: &[Stored]) -> Outcome<()> {
    if events.is_empty() {
        return Ok(());
    }
    let texts = |of: fn(&Stored) -> &str| events.iter().map(of).collect::<Vec<&str>>();
    let optional = |of: fn(&Stored) -> Option<&str>| events.iter().map(of).collect::<Vec<_>>();
    let sessions: Vec<Option<Uuid>> =
        events.iter().map(|event| event.session_id.map(SessionId::uuid)).collect();
    sqlx::query!(
        "-- job_events::insert
         INSERT INTO job_events (job_id, job_seq, origin_seq, session_id, type, kind, ts, body, event_key)
         SELECT * FROM UNNEST($1::uuid[], $2::bigint[], $3::bigint[], $4::uuid[], $5::text[], $6::text[], $7::timestamptz[],
             $8::text[], $9::text[])",
        &events.iter().map(|event| event.job_id.uuid()).collect::<Vec<_>>(),
        &events.iter().map(|event| event.job_seq).collect::<Vec<_>>(),
        &events.iter().map(|event| event.origin_seq).collect::<Vec<_>>(),
        &sessions as &[Option<Uuid>],
        &texts(|event| &event.type_) as &[&str],
        &optional(|event| event.kind.as_deref()) as &[Option<&str>],
        &events.iter().map(|event| event.ts).collect::<Vec<_>>(),
        &texts(|event| &event.body) as &[&str],
        &optional(|event| event.event_key.as_deref()) as &[Option<&str>]
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns those of these event keys that the jobs already have.
pub(super) async fn known(
    conn: &mut PgConnection,
    named: &[(JobId, String)],
) -> Outcome<HashSet<(JobId, String)>> {
    if named.is_empty() {
        return Ok(HashSet::new());
    }
    let (jobs, keys): (Vec<Uuid>, Vec<&str>) =
        named.iter().map(|(job, key)| (job.uuid(), key.as_str())).unzip();
    let rows = sqlx::query!(
        r#"-- job_events::known
         SELECT e.job_id, e.event_key AS "event_key!" FROM UNNEST($1::uuid[], $2::text[]) AS k (job_id, event_key)
         JOIN job_events e ON e.job_id = k.job_id AND e.event_key = k.event_key"#,
        &jobs,
        &keys as &[&str]
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.job_id.into(), row.event_key)).collect())
}

/// Events of a job after a number, oldest first: up to `limit`, and little more than `bytes` bytes.
///
/// # Errors
/// A database error.
pub async fn after(
    conn: &mut PgConnection,
    job: JobId,
    seq: i64,
    limit: i64,
    bytes: i64,
) -> Outcome<Vec<Stored>> {
    let rows = select!(
        "job_events::after",
        "JOIN (SELECT job_seq, sum(octet_length(body)) OVER (ORDER BY job_seq) - octet_length(body) AS before
               FROM (SELECT job_seq, body FROM job_events WHERE job_id = $1 AND job_seq > $2 ORDER BY job_seq LIMIT $3) p) n
         ON n.job_seq = e.job_seq
         WHERE e.job_id = $1 AND n.before < $4 ORDER BY e.job_seq",
        job.uuid(),
        seq,
        limit,
        bytes
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(Stored::from).collect())
}

/// The pieces of a job's streamed results after one event and up to another, oldest first: at most `limit`, which together stay
/// below `bytes` before the last one.
pub(super) async fn chunks(
    conn: &mut PgConnection,
    job: JobId,
    after: i64,
    upto: i64,
    limit: i64,
    bytes: i64,
) -> Outcome<Vec<Stored>> {
    let rows = select!(
        "job_events::chunks",
        "JOIN (SELECT job_seq, sum(octet_length(body)) OVER (ORDER BY job_seq) - octet_length(body) AS before
               FROM (SELECT job_seq, body FROM job_events
                     WHERE job_id = $1 AND job_seq > $2 AND job_seq <= $3 AND kind = 'result_chunk' ORDER BY job_seq LIMIT $4) p) n
         ON n.job_seq = e.job_seq
         WHERE e.job_id = $1 AND n.before < $5 ORDER BY e.job_seq",
        job.uuid(),
        after,
        upto,
        limit,
        bytes
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(Stored::from).collect())
}

/// The events of a kind up to one of them: the last `limit`, oldest first.
pub(super) async fn of_kind(
    conn: &mut PgConnection,
    job: JobId,
    kind: &str,
    upto: i64,
    limit: i64,
) -> Outcome<Vec<Stored>> {
    let rows = select!(
        "job_events::of_kind",
        "WHERE e.job_id = $1 AND e.job_seq <= $2 AND e.kind = $4 ORDER BY e.job_seq DESC LIMIT $3",
        job.uuid(),
        upto,
        limit,
        kind
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().rev().map(Stored::from).collect())
}

/// Returns the last `status` event of each of these jobs.
pub(super) async fn said_last(conn: &mut PgConnection, jobs: &[Uuid]) -> Outcome<Vec<Stored>> {
    let rows = select!(
        "job_events::said_last",
        "JOIN (SELECT k.id, (SELECT s.job_seq FROM job_events s WHERE s.job_id = k.id AND s.kind = 'status'
                             ORDER BY s.job_seq DESC LIMIT 1) AS seq FROM UNNEST($1::uuid[]) AS k (id)) l
         ON l.id = e.job_id AND l.seq = e.job_seq",
        jobs
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(Stored::from).collect())
}

/// Deletes up to `limit` events of these jobs, each job's oldest first; returns their number.
pub(super) async fn forget(conn: &mut PgConnection, jobs: &[Uuid], limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- job_events::forget
         DELETE FROM job_events WHERE (job_id, job_seq) IN (
             SELECT job_id, job_seq FROM job_events WHERE job_id = ANY($1) ORDER BY job_id, job_seq LIMIT $2)",
        jobs,
        limit
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Returns those of these jobs that have no events.
pub(super) async fn without_events(conn: &mut PgConnection, jobs: &[Uuid]) -> Outcome<Vec<Uuid>> {
    let ids = sqlx::query_scalar!(
        r#"-- job_events::without_events
         SELECT k.id AS "id!" FROM UNNEST($1::uuid[]) AS k (id)
         WHERE NOT EXISTS (SELECT 1 FROM job_events e WHERE e.job_id = k.id)"#,
        jobs
    )
    .fetch_all(conn)
    .await?;
    Ok(ids)
}

/// Deletes the numbers of these jobs' events in the order of all jobs.
pub(super) async fn forget_numbers(conn: &mut PgConnection, jobs: &[Uuid]) -> Outcome<()> {
    sqlx::query!(
        "-- job_order::forget
         DELETE FROM job_order WHERE job_id = ANY($1)",
        jobs
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The end events of those jobs that have ended.
pub(crate) async fn ends(conn: &mut PgConnection, jobs: &[JobId]) -> Outcome<Vec<Stored>> {
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.uuid()).collect();
    let rows = select!("job_events::ends", "WHERE e.job_id = ANY($1) AND e.type <> 'job.event'", &ids)
        .fetch_all(conn)
        .await?;
    Ok(rows.into_iter().map(Stored::from).collect())
}

/// A position among the events of all jobs, in their order (`kernel::log::order`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobEventPosition {
    /// The number in the order, from 1; each is a part of one job's events.
    pub global: i64,
    /// The event's number in its job.
    pub job_seq: i64,
}

/// A position as a client sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEventToken {
    /// A position.
    Place(JobEventPosition),
    /// A position of the form before: the writing transaction, the job, and the event's number in it.
    Former {
        /// The writing transaction.
        xid: i64,
        /// The job.
        job_id: JobId,
        /// The event's number in it.
        job_seq: i64,
    },
}

/// Position of an event among those of all jobs, with its ownership.
pub(super) struct Placed {
    pub place: JobEventPosition,
    pub job_id: Uuid,
    pub mine: bool,
    pub bytes: i32,
}

/// Positions of events after a given one, and the position up to which nothing else exists; `mine` marks the principal's
/// jobs.
pub(super) async fn places(
    conn: &mut PgConnection,
    after: JobEventPosition,
    principal: &str,
    limit: i64,
) -> Outcome<(Vec<Placed>, JobEventPosition)> {
    let rows = sqlx::query!(
        r#"-- job_events::places
         SELECT o.global AS "global!", o.to_seq AS "to_seq!", o.job_id AS "job_id!", e.job_seq AS "job_seq?",
                j.principal = $3 AS "mine?", octet_length(e.body) AS "bytes?"
         FROM (SELECT global, job_id, from_seq, to_seq FROM job_order
               WHERE global >= $1 AND (global > $1 OR to_seq > $2) ORDER BY global LIMIT $4) o
         LEFT JOIN LATERAL (SELECT s.job_id, s.job_seq, s.body FROM job_events s
                            WHERE s.job_id = o.job_id AND s.job_seq BETWEEN o.from_seq AND o.to_seq
                              AND (o.global > $1 OR s.job_seq > $2) OFFSET 0) e ON true
         LEFT JOIN jobs j ON j.id = e.job_id ORDER BY o.global, e.job_seq LIMIT $4"#,
        after.global,
        after.job_seq,
        principal,
        limit
    )
    .fetch_all(conn)
    .await?;
    let full = i64::try_from(rows.len()).is_ok_and(|count| count == limit);
    // After a full read the last part may have further events; otherwise all parts were read to their ends.
    let reached = rows.last().map_or(after, |row| JobEventPosition {
        global: row.global,
        job_seq: row.job_seq.filter(|_| full).unwrap_or(row.to_seq),
    });
    let placed = rows.into_iter().filter_map(|row| {
        let place = JobEventPosition { global: row.global, job_seq: row.job_seq? };
        Some(Placed { place, job_id: row.job_id, mine: row.mine?, bytes: row.bytes? })
    });
    Ok((placed.collect(), reached))
}

/// Translates a position of the form before.
pub(super) async fn translate(
    conn: &mut PgConnection,
    xid: i64,
    job_id: JobId,
    job_seq: i64,
) -> Outcome<JobEventPosition> {
    let row = sqlx::query!(
        r#"-- job_events::translate
         SELECT global AS "global!", seq AS "seq!" FROM job_place($1, $2, $3)"#,
        xid,
        job_id.uuid(),
        job_seq
    )
    .fetch_one(conn)
    .await?;
    Ok(JobEventPosition { global: row.global, job_seq: row.seq })
}

/// Events at these positions.
pub(super) async fn at(conn: &mut PgConnection, places: &[(Uuid, i64)]) -> Outcome<Vec<Stored>> {
    let (jobs, seqs): (Vec<Uuid>, Vec<i64>) = places.iter().copied().unzip();
    let rows = select!(
        "job_events::at",
        "JOIN UNNEST($1::uuid[], $2::bigint[]) AS p (job_id, job_seq) ON p.job_id = e.job_id AND p.job_seq = e.job_seq",
        &jobs,
        &seqs
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(Stored::from).collect())
}
