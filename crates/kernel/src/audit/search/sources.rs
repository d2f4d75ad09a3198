//! Reads the texts of messages, events and jobs. This file only reads, and it judges no content: a follower must get past
//! whatever is stored.

use entente_domain::clock::Timestamp;
use entente_domain::ids::IntentId;
use entente_domain::log::search::{SourceKind, Words, strings};
use sqlx::PgConnection;
use uuid::Uuid;

use super::documents::Document;
use crate::log::order::Parts;
use crate::{Outcome, unknown};

/// Characters that are read of one text: more than a document has, because JSON has more than words.
const TEXT: i32 = 96 * 1024;

/// Whether a text may have been longer than the part that was read.
fn ends_early(text: &str) -> bool {
    text.len() >= usize::try_from(TEXT).unwrap_or(usize::MAX)
}

/// An entry of a log: a message or an event.
#[derive(Debug)]
pub(super) struct Entry {
    pub kind: SourceKind,
    pub intent_id: IntentId,
    pub seq: i64,
    pub id: Uuid,
    pub channel_id: Option<Uuid>,
    pub at: Timestamp,
    /// Type of the message or the event.
    pub type_: String,
    /// Its sender, or its actor.
    pub agent: String,
    /// JSON, which may end early.
    pub payload: String,
}

impl Entry {
    /// Returns the entry's document.
    pub fn document(&self) -> Document {
        let mut words = Words::default();
        words.add(&self.type_);
        words.add(&self.agent);
        strings(&self.payload).iter().for_each(|text| words.add(text));
        words.is_cut |= ends_early(&self.payload);
        Document {
            source_id: self.intent_id.uuid(),
            seq: self.seq,
            kind: self.kind,
            intent_id: (self.intent_id != IntentId::SYSTEM).then(|| self.intent_id.uuid()),
            at: self.at,
            words,
            own_words: Words::default(),
        }
    }
}

/// Reads the messages and events of parts of logs: intents, and first and last entries, as parallel columns.
pub(super) async fn entries(
    conn: &mut PgConnection,
    intents: &[Uuid],
    from: &[i64],
    to: &[i64],
) -> Outcome<Vec<Entry>> {
    let rows = sqlx::query!(
        r#"-- search_sources::entries
         SELECT 'message' AS "kind!", m.intent_id AS "intent_id!", m.seq AS "seq!", m.id AS "id!", m.channel_id,
                m.created_at AS "at!", m.message_type AS "type_!", m.sender AS "agent!", left(m.payload, $4) AS "payload!"
         FROM UNNEST($1::uuid[], $2::bigint[], $3::bigint[]) AS p (intent_id, from_seq, to_seq)
         CROSS JOIN LATERAL (SELECT s.* FROM messages s
                             WHERE s.intent_id = p.intent_id AND s.seq BETWEEN p.from_seq AND p.to_seq OFFSET 0) m
         UNION ALL
         SELECT 'event', e.intent_id, e.seq, e.id, NULL, e.created_at, e.event_type, e.actor, left(e.payload, $4)
         FROM UNNEST($1::uuid[], $2::bigint[], $3::bigint[]) AS p (intent_id, from_seq, to_seq)
         CROSS JOIN LATERAL (SELECT s.* FROM events s
                             WHERE s.intent_id = p.intent_id AND s.seq BETWEEN p.from_seq AND p.to_seq OFFSET 0) e"#,
        intents,
        from,
        to,
        TEXT
    )
    .fetch_all(conn)
    .await?;
    let read = rows.into_iter().map(|row| {
        Ok(Entry {
            kind: SourceKind::parse(&row.kind).ok_or_else(|| unknown("kind", &row.kind))?,
            intent_id: row.intent_id.into(),
            seq: row.seq,
            id: row.id,
            channel_id: row.channel_id,
            at: row.at,
            type_: row.type_,
            agent: row.agent,
            payload: row.payload,
        })
    });
    read.collect()
}

/// As [`entries`], for the parts of a page of the order over all logs.
pub(super) async fn of_parts(conn: &mut PgConnection, parts: &Parts) -> Outcome<Vec<Entry>> {
    entries(conn, &parts.intents, &parts.from, &parts.to).await
}

/// A job with its texts.
#[derive(Debug)]
pub(super) struct JobTexts {
    pub id: Uuid,
    pub agent: String,
    pub principal: String,
    pub status: String,
    pub intent_id: Option<Uuid>,
    pub created_at: Timestamp,
    /// Keys and values.
    pub labels: Vec<String>,
    /// JSON, which may end early: the payload of its error.
    pub error: Option<String>,
    /// JSON, which may end early. Only the job's worker gets it, and only its own principal knows it (`GET /jobs/{id}` has
    /// none), so only its own principal finds it.
    pub input: Option<String>,
}

impl JobTexts {
    /// Returns the texts that every reader of the job may see.
    pub fn shown(&self) -> Vec<String> {
        let error = self.error.as_deref().map(strings).unwrap_or_default();
        std::iter::once(self.agent.clone()).chain(self.labels.iter().cloned()).chain(error).collect()
    }

    /// Returns the texts that only its own principal knows.
    pub fn own(&self) -> Vec<String> {
        self.input.as_deref().map(strings).unwrap_or_default()
    }

    /// Returns the job's document.
    pub fn document(&self) -> Document {
        let (mut words, mut own_words) = (Words::default(), Words::default());
        self.shown().iter().for_each(|text| words.add(text));
        self.own().iter().for_each(|text| own_words.add(text));
        own_words.is_cut |= self.input.as_deref().is_some_and(ends_early);
        Document {
            source_id: self.id,
            seq: 0,
            kind: SourceKind::Job,
            intent_id: self.intent_id,
            at: self.created_at,
            words,
            own_words,
        }
    }
}

/// Reads these jobs.
pub(super) async fn jobs(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<Vec<JobTexts>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query_as!(
        JobTexts,
        r#"-- search_sources::jobs
         SELECT j.id, j.agent, j.principal, c.status, j.intent_id, j.created_at,
                ARRAY(SELECT l.key || ' ' || l.value FROM job_labels l WHERE l.job_id = j.id ORDER BY l.key) AS "labels!",
                (SELECT left(e.body, $2) FROM job_events e
                 WHERE e.job_id = j.id AND e.type = 'job.error' AND e.type <> 'job.event') AS error,
                left(j.input, $2) AS input
         FROM jobs j JOIN job_clock c ON c.job_id = j.id WHERE j.id = ANY($1)"#,
        ids,
        TEXT
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Returns jobs after an id, lowest first.
pub(super) async fn jobs_after(conn: &mut PgConnection, id: Uuid, limit: i64) -> Outcome<Vec<Uuid>> {
    let ids = sqlx::query_scalar!(
        "-- search_sources::jobs_after
         SELECT id FROM jobs WHERE id > $1 ORDER BY id LIMIT $2",
        id,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(ids)
}

/// A page of the jobs between two ids.
pub(super) struct Settled {
    /// Jobs without a document.
    pub missing: Vec<Uuid>,
    /// The last examined id; `None` if there is no job.
    pub reached: Option<Uuid>,
    /// Whether there are more jobs before the end.
    pub is_full: bool,
}

/// Finds jobs between two ids that have no document, among the first `limit` ones.
pub(super) async fn missing_jobs(
    conn: &mut PgConnection,
    after: Uuid,
    below: Uuid,
    limit: i64,
) -> Outcome<Settled> {
    let rows = sqlx::query!(
        r#"-- search_sources::missing_jobs
         SELECT p.id AS "id!",
                NOT EXISTS (SELECT 1 FROM search_documents d WHERE d.source_id = p.id AND d.seq = 0) AS "is_missing!"
         FROM (SELECT id FROM jobs WHERE id > $1 AND id < $2 ORDER BY id LIMIT $3) p ORDER BY p.id"#,
        after,
        below,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(Settled {
        reached: rows.last().map(|row| row.id),
        is_full: i64::try_from(rows.len()).is_ok_and(|count| count == limit),
        missing: rows.into_iter().filter(|row| row.is_missing).map(|row| row.id).collect(),
    })
}

/// Jobs that failed, among the events of all jobs.
pub(super) struct Failed {
    /// The jobs.
    pub jobs: Vec<Uuid>,
    /// The last examined number, and the event in its job.
    pub reached: (i64, i64),
    /// Whether there are more events.
    pub is_full: bool,
}

/// Finds the jobs that failed after a position in the order of all events of jobs, among the first `limit` numbers.
pub(super) async fn failed_jobs(conn: &mut PgConnection, after: (i64, i64), limit: i64) -> Outcome<Failed> {
    let rows = sqlx::query!(
        r#"-- search_sources::failed_jobs
         SELECT o.global, o.job_id, o.to_seq,
                EXISTS (SELECT 1 FROM job_events e
                        WHERE e.job_id = o.job_id AND e.type = 'job.error' AND e.type <> 'job.event') AS "has_failed!"
         FROM job_order o WHERE o.global >= $1 AND (o.global > $1 OR o.to_seq > $2) ORDER BY o.global LIMIT $3"#,
        after.0,
        after.1,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(Failed {
        reached: rows.last().map_or(after, |row| (row.global, row.to_seq)),
        is_full: i64::try_from(rows.len()).is_ok_and(|count| count == limit),
        jobs: rows.into_iter().filter(|row| row.has_failed).map(|row| row.job_id).collect(),
    })
}
