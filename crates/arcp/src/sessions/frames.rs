//! The frames of a session: events of its own jobs, numbered when they are written, and frames numbered for it later
//! (ARCP-W-9.1). Together they are one sequence without gaps, the same in every read. Table
//! `session_frames`.

use entente_domain::arcp::credentials as domain;
use entente_domain::arcp::credentials::rotation_of;
use entente_domain::arcp::jobs::wire::Accepted;
use entente_domain::arcp::sessions::features::{Feature, Features};
use entente_domain::arcp::sessions::{Delivery, What, inlined, small_stream};
use entente_domain::clock::{Timestamp, rfc3339};
use entente_domain::ids::{JobId, SessionId};
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{Outcome, unknown};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use sqlx::PgConnection;
use uuid::Uuid;

use super::Entered;
use crate::Ctx;
use crate::session_rows::counters;
use crate::{credentials, jobs};

/// Events read at once.
const EVENTS: i64 = 500;
/// Bytes of bodies read at once: the maximum memory for a slow client.
const BYTES: i64 = 2_000_000;
/// The same number, for the comparison in Rust.
const CUT: usize = 2_000_000;

/// The next page of a session's frames.
#[derive(Debug)]
pub struct Batch {
    /// The events.
    pub events: Vec<Delivery>,
    /// Whether the requesting connection is still the session's current one.
    pub current: bool,
    /// Whether there may be more.
    pub more: bool,
}

/// A frame for one session only.
#[derive(Deserialize, Serialize)]
struct Own {
    kind: String,
    ts: String,
    body: Box<RawValue>,
}

struct Row {
    event_seq: i64,
    job_id: Uuid,
    word: Option<String>,
    kind: Option<String>,
    ts: Option<Timestamp>,
    body: Option<String>,
    trace_id: String,
    session_id: Uuid,
    counted: bool,
}

/// Reads the numbered frames of a session after one of its numbers.
///
/// # Errors
/// Returns database errors.
pub async fn after(ctx: &Ctx, entered: &Entered, seq: i64) -> Outcome<Batch> {
    let mut conn = ctx.pool.acquire().await?;
    let connection = sqlx::query_scalar!(
        "-- session_frames::holder
         SELECT connection FROM sessions WHERE id = $1",
        entered.id.uuid()
    )
    .fetch_optional(&mut *conn)
    .await?;
    let current = connection == Some(entered.connection);
    if !current {
        return Ok(Batch { events: Vec::new(), current, more: false });
    }
    let rows = read(&mut conn, entered.id, seq).await?;
    let bytes: usize = rows.iter().filter_map(|row| row.body.as_ref()).map(String::len).sum();
    // Otherwise the page contained everything.
    let more = i64::try_from(rows.len()).is_ok_and(|count| count >= EVENTS) || bytes >= CUT;
    let mut events = Vec::with_capacity(rows.len());
    for row in rows {
        events.push(deliver(&mut conn, entered, row).await?);
    }
    Ok(Batch { events, current, more })
}

async fn read(conn: &mut PgConnection, session: SessionId, seq: i64) -> Outcome<Vec<Row>> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- session_frames::after
         SELECT m.event_seq AS "event_seq!", m.job_id AS "job_id!", m.word, m.kind, m.ts, m.body, j.trace_id, j.session_id,
                j.counted
         FROM (
             SELECT n.*, sum(octet_length(n.body)) OVER (ORDER BY n.event_seq) - octet_length(n.body) AS before
             FROM (
                 (SELECT e.origin_seq AS event_seq, e.job_id, e.type AS word, e.kind, e.ts, e.body
                  FROM job_events e WHERE e.session_id = $1 AND e.origin_seq > $2 ORDER BY e.origin_seq LIMIT $3)
                 UNION ALL
                 (SELECT f.event_seq, f.job_id, e.type, e.kind, e.ts, coalesce(e.body, f.payload)
                  FROM session_frames f LEFT JOIN job_events e ON e.job_id = f.job_id AND e.job_seq = f.job_seq
                  WHERE f.session_id = $1 AND f.event_seq > $2 ORDER BY f.event_seq LIMIT $3)
             ) n ORDER BY n.event_seq LIMIT $3
         ) m JOIN jobs j ON j.id = m.job_id
         WHERE m.before < $4 ORDER BY m.event_seq"#,
        session.uuid(),
        seq,
        EVENTS,
        BYTES
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

async fn deliver(conn: &mut PgConnection, entered: &Entered, row: Row) -> Outcome<Delivery> {
    let job_id: JobId = row.job_id.into();
    let body = row.body.unwrap_or_else(|| "{}".to_owned());
    let (Some(word), Some(ts)) = (row.word, row.ts) else {
        let own: Own = serde_json::from_str(&body)?;
        let ts = entente_domain::clock::parse(&own.ts).ok_or_else(|| unknown("time of a frame", &own.ts))?;
        let body = own.body.get().to_owned();
        let what = What::Event(own.kind);
        let (event_seq, trace_id) = (row.event_seq, row.trace_id);
        return Ok(Delivery { event_seq, job_id, trace_id, what, ts, body, child: None });
    };
    let what = What::parse(&word, row.kind).ok_or_else(|| unknown("type of an event", &word))?;
    let own = row.counted && row.session_id == entered.id.uuid();
    let body = match &what {
        What::Result => inline(conn, entered.features, job_id, body).await?,
        What::Event(kind) if kind == "status" && own => reveal(conn, entered.features, job_id, body).await?,
        What::Event(_) | What::Error => body,
    };
    let child = match &what {
        What::Event(kind) if kind == "delegate" && own => child(conn, entered.id, job_id, &body).await?,
        What::Event(_) | What::Result | What::Error => None,
    };
    let (event_seq, trace_id) = (row.event_seq, row.trace_id);
    Ok(Delivery { event_seq, job_id, trace_id, what, ts, body, child })
}

#[derive(Deserialize)]
struct Delegated {
    child_job_id: JobId,
}

/// Loads the child that a job has delegated to; `None` for a delegation outside of this server.
async fn child(
    conn: &mut PgConnection,
    session: SessionId,
    parent: JobId,
    body: &str,
) -> Outcome<Option<Box<Accepted>>> {
    let Ok(Delegated { child_job_id }) = serde_json::from_str(body) else { return Ok(None) };
    Ok(jobs::delegated(conn, session, parent, child_job_id).await?.map(Box::new))
}

/// Adapts a result for a session without chunks: a small streamed one is sent inline (ARCP-W-9.4).
async fn inline(conn: &mut PgConnection, features: Features, job: JobId, body: String) -> Outcome<String> {
    if features.has(Feature::ResultChunk) {
        return Ok(body);
    }
    let Some(result_id) = small_stream(&body) else { return Ok(body) };
    let chunks = sqlx::query_scalar!(
        "-- session_frames::chunks
         SELECT body FROM job_events WHERE job_id = $1 AND kind = 'result_chunk' ORDER BY job_seq",
        job.uuid()
    )
    .fetch_all(conn)
    .await?;
    let mut bytes = Vec::new();
    for text in chunks {
        if let Some(part) = jobs::chunk_bytes(job, &text, &result_id)? {
            bytes.extend(part);
        }
    }
    Ok(inlined(&body, bytes).unwrap_or(body))
}

/// Adds the value to a rotated credential for the submitter's session, because the event is stored without it.
///
/// All others, and all later readers, get the event without the value (§14).
async fn reveal(conn: &mut PgConnection, features: Features, job: JobId, body: String) -> Outcome<String> {
    let told = features.has(Feature::ProvisionedCredentials).then(|| rotation_of("status", &body)).flatten();
    let Some(id) = told else { return Ok(body) };
    let value = credentials::reveal(conn, job, id).await?;
    Ok(value.and_then(|value| domain::reveal("status", &body, &value)).unwrap_or(body))
}

/// Warns a session that it lags behind on a job (§6.5), with a numbered frame of its own.
///
/// # Errors
/// Returns database errors.
pub async fn press(ctx: &Ctx, entered: &Entered, job: JobId, lag: i64) -> Outcome<()> {
    let mut tx = ctx.pool.begin().await?;
    let Some(counter) = counters::lock(&mut tx, &[entered.id]).await?.remove(&entered.id) else {
        return Ok(());
    };
    let message = format!("{lag} events were sent and not acknowledged. Acknowledge them, or read faster.");
    let body = to_raw_value(&json!({ "phase": "back_pressure", "message": message }))?;
    let own = Own { kind: "status".to_owned(), ts: rfc3339(ctx.now()), body };
    let seq = counter.last_seq + 1;
    insert(&mut tx, entered.id, &[(seq, job, None)], Some(&serde_json::to_string(&own)?)).await?;
    counters::save(&mut tx, &[(entered.id, seq)]).await?;
    tx.commit().await?;
    ctx.feed.wake(WakeKey::Session(entered.id));
    Ok(())
}

/// Inserts numbered frames: each with its job, and the number of the job's event, if it is one.
pub(super) async fn insert(
    conn: &mut PgConnection,
    session: SessionId,
    frames: &[(i64, JobId, Option<i64>)],
    payload: Option<&str>,
) -> Outcome<()> {
    if frames.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- session_frames::insert
         INSERT INTO session_frames (session_id, event_seq, job_id, job_seq, payload)
         SELECT $1, n.event_seq, n.job_id, n.job_seq, $5
         FROM UNNEST($2::bigint[], $3::uuid[], $4::bigint[]) AS n (event_seq, job_id, job_seq)",
        session.uuid(),
        &frames.iter().map(|frame| frame.0).collect::<Vec<_>>(),
        &frames.iter().map(|frame| frame.1.uuid()).collect::<Vec<_>>(),
        &frames.iter().map(|frame| frame.2).collect::<Vec<_>>() as &[Option<i64>],
        payload
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes the frames that a client has acknowledged.
pub(super) async fn free(conn: &mut PgConnection, session: SessionId, acked: i64) -> Outcome<()> {
    sqlx::query!(
        "-- session_frames::free
         DELETE FROM session_frames WHERE session_id = $1 AND event_seq <= $2",
        session.uuid(),
        acked
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes the frames of sessions that were deleted.
pub(super) async fn delete(conn: &mut PgConnection, sessions: &[Uuid]) -> Outcome<()> {
    sqlx::query!(
        "-- session_frames::delete
         DELETE FROM session_frames WHERE session_id = ANY($1)",
        sessions
    )
    .execute(conn)
    .await?;
    Ok(())
}
