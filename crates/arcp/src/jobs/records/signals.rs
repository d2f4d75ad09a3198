//! Signals to jobs. Table `job_signals`; the numbers of the last one and of the last acknowledged one are in `job_clock`.

use std::collections::BTreeMap;

use entente_domain::arcp::jobs::signals::{AT_ONCE, BYTES_AT_ONCE};
use entente_domain::clock::Timestamp;
use entente_domain::ids::JobId;
use entente_kernel::Outcome;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::columns::column;

/// A signal to a job.
#[derive(Debug, Clone)]
pub struct Signal {
    /// Its number in the job, from 1.
    pub seq: i64,
    /// Its name.
    pub name: String,
    /// Its payload, JSON.
    pub payload: Option<String>,
    /// Principal that sent it.
    pub sender: String,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// When a worker acknowledged it.
    pub acked_at: Option<Timestamp>,
    /// The attempt in which it was acknowledged.
    pub acked_in: Option<i32>,
}

/// Numbers of a job's signals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// Number of the last signal.
    pub sent: i64,
    /// Number of the last acknowledged signal.
    pub acked: i64,
}

/// Reads the numbers of a job's signals.
pub(in crate::jobs) async fn marks(conn: &mut PgConnection, id: JobId) -> Outcome<Marks> {
    let row = sqlx::query_as!(
        Marks,
        "-- job_signals::marks
         SELECT signals_sent AS sent, signals_acked AS acked FROM job_clock WHERE job_id = $1",
        id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.unwrap_or_default())
}

/// Returns the number of the signal that a sender has sent to a job under a key.
pub(in crate::jobs) async fn by_key(
    conn: &mut PgConnection,
    id: JobId,
    sender: &str,
    key: &str,
) -> Outcome<Option<Signal>> {
    let signal = sqlx::query_as!(
        Signal,
        "-- job_signals::by_key
         SELECT seq, name, payload, sender, sent_at, acked_at, acked_in FROM job_signals
         WHERE job_id = $1 AND sender = $2 AND key = $3",
        id.uuid(),
        sender,
        key
    )
    .fetch_optional(conn)
    .await?;
    Ok(signal)
}

/// Inserts the next signal of a job, whose row is locked.
pub(in crate::jobs) async fn insert(
    conn: &mut PgConnection,
    id: JobId,
    signal: &Signal,
    key: Option<&str>,
) -> Outcome<()> {
    sqlx::query!(
        "-- job_signals::insert
         INSERT INTO job_signals (job_id, seq, name, payload, sender, key, sent_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        id.uuid(),
        signal.seq,
        signal.name,
        signal.payload,
        signal.sender,
        key,
        signal.sent_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Acknowledges the signals of a job up to a number, in an attempt; the job's row is locked.
pub(in crate::jobs) async fn acknowledge(
    conn: &mut PgConnection,
    id: JobId,
    upto: i64,
    attempt: u32,
    now: Timestamp,
) -> Outcome<()> {
    sqlx::query!(
        "-- job_signals::acknowledge
         UPDATE job_signals SET acked_at = $3, acked_in = $4 WHERE job_id = $1 AND seq <= $2 AND acked_at IS NULL",
        id.uuid(),
        upto,
        now,
        column(attempt)
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Loads signals of a job after a number, in order: as many as fit into one answer.
pub(in crate::jobs) async fn after(
    conn: &mut PgConnection,
    id: JobId,
    after: i64,
    limit: i64,
) -> Outcome<Vec<Signal>> {
    let signals = sqlx::query_as!(
        Signal,
        "-- job_signals::after
         SELECT seq, name, payload, sender, sent_at, acked_at, acked_in FROM job_signals
         WHERE job_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
        id.uuid(),
        after,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(fitting(signals))
}

/// Loads signals of a job before a number, the last one first: as many as fit into one answer.
pub(in crate::jobs) async fn before(
    conn: &mut PgConnection,
    id: JobId,
    before: i64,
    limit: i64,
) -> Outcome<Vec<Signal>> {
    let signals = sqlx::query_as!(
        Signal,
        "-- job_signals::before
         SELECT seq, name, payload, sender, sent_at, acked_at, acked_in FROM job_signals
         WHERE job_id = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3",
        id.uuid(),
        before,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(fitting(signals))
}

/// Returns the payload of the last signal of this name to each of these jobs, and when it was sent; those without one are left
/// out.
pub(in crate::jobs) async fn last_named(
    conn: &mut PgConnection,
    jobs: &[Uuid],
    name: &str,
) -> Outcome<BTreeMap<JobId, (String, Timestamp)>> {
    let rows = sqlx::query!(
        r#"-- job_signals::last_named
         SELECT k.id AS "job_id!", l.payload, l.sent_at
         FROM UNNEST($1::uuid[]) AS k (id)
         CROSS JOIN LATERAL (SELECT s.payload, s.sent_at FROM job_signals s WHERE s.job_id = k.id AND s.name = $2
                             ORDER BY s.seq DESC LIMIT 1) l"#,
        jobs,
        name
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().filter_map(|row| Some((row.job_id.into(), (row.payload?, row.sent_at)))).collect())
}

/// Returns the first of these signals, as many as fit into one answer, and at least one.
fn fitting(mut signals: Vec<Signal>) -> Vec<Signal> {
    let mut bytes = 0;
    let mut count = 0;
    for signal in &signals {
        bytes += signal.name.len() + signal.payload.as_ref().map_or(0, String::len);
        if count > 0 && bytes > BYTES_AT_ONCE {
            break;
        }
        count += 1;
    }
    signals.truncate(count);
    signals
}

/// Loads the signals that no worker has acknowledged of these jobs, which have some, each after a number.
pub(in crate::jobs) async fn waiting(
    conn: &mut PgConnection,
    jobs: &[(JobId, i64)],
) -> Outcome<BTreeMap<JobId, Vec<Signal>>> {
    let mut found = BTreeMap::new();
    // Few jobs have signals at a time.
    for (id, place) in jobs {
        let signals = after(conn, *id, *place, AT_ONCE).await?;
        if !signals.is_empty() {
            found.insert(*id, signals);
        }
    }
    Ok(found)
}

/// Deletes the signals of deleted jobs.
pub(super) async fn drop(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<()> {
    sqlx::query!("-- job_signals::drop\n DELETE FROM job_signals WHERE job_id = ANY($1)", ids)
        .execute(conn)
        .await?;
    Ok(())
}
