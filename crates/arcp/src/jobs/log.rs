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

struct Row {
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

impl From<Row> for Stored {
    fn from(row: Row) -> Self {
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
            Row,
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

/// The end events of those jobs that have ended.
pub(crate) async fn ends(conn: &mut PgConnection, jobs: &[JobId]) -> Outcome<Vec<Stored>> {
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.uuid()).collect();
    let rows = select!("job_events::ends", "WHERE e.job_id = ANY($1) AND e.type <> 'job.event'", &ids)
        .fetch_all(conn)
        .await?;
    Ok(rows.into_iter().map(Stored::from).collect())
}

/// A position among the events of all jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobEventPosition {
    /// The writing transaction.
    pub xid: i64,
    /// The job.
    pub job_id: JobId,
    /// The event's number in it.
    pub job_seq: i64,
}

/// Position of an event among those of all jobs, with its ownership.
pub(super) struct Placed {
    pub xid: i64,
    pub job_id: Uuid,
    pub job_seq: i64,
    pub mine: bool,
    pub bytes: i32,
}

/// Positions of events after a given one, below the oldest running transaction; `mine` marks the principal's
/// jobs.
pub(super) async fn places(
    conn: &mut PgConnection,
    after: JobEventPosition,
    principal: &str,
    limit: i64,
) -> Outcome<Vec<Placed>> {
    let rows = sqlx::query_as!(
        Placed,
        r#"-- job_events::places
         SELECT e.xid, e.job_id, e.job_seq, j.principal = $4 AS "mine!", octet_length(e.body) AS "bytes!"
         FROM (SELECT xid, job_id, job_seq, body FROM job_events
               WHERE (xid, job_id, job_seq) > ($1, $2, $3)
                 AND xid < (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint)
               ORDER BY xid, job_id, job_seq LIMIT $5) e
         JOIN jobs j ON j.id = e.job_id ORDER BY e.xid, e.job_id, e.job_seq"#,
        after.xid,
        after.job_id.uuid(),
        after.job_seq,
        principal,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
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
