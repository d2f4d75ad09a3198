//! Reads rows of jobs: `jobs` (the request) and `job_clock` (the current state); `writes.rs` writes them.

use std::collections::{BTreeMap, HashSet};

use entente_domain::arcp::capabilities::Authority;
use entente_domain::arcp::jobs::order::Priority;
use entente_domain::arcp::jobs::{Cancel, Claim, Job, JobStatus};
use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, JobId, KeyId};
use entente_kernel::log::writer::digest;
use entente_kernel::{AppError, Outcome, unknown};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::columns::{number, on_lost};

/// Selects whole jobs without their inputs: the query's name, and the text after its `FROM`.
///
/// Each query has to leave out jobs in status `preparing`, which are not accepted yet.
macro_rules! select {
    ($name:literal, $rest:literal $(+ $more:literal)* $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT j.id, j.agent, j.principal, j.session_id, j.counted, j.lease, j.expires_at, j.deadline, j.idempotency_key,
                    j.fingerprint, j.parent_id, j.delegate_id, j.generation, j.payers, j.trace_id, j.intent_id, j.needs_model,
                    j.on_lost, j.max_attempts, j.retry, j.queue_timeout, j.created_at, j.key_id, j.owner, c.reserves,
                    c.precedence, c.slotted, j.concurrency, c.status, c.last_seq,
                    c.origin_seq, c.attempt, c.worker_id,
                    c.claim_token, c.claim_expires_at, c.claimed_at, c.cancel_reason, c.cancel_due_at, c.streamed, c.abandoned,
                    c.ended_at, c.ended_by, c.failures, c.not_before, c.queue_due_at
             FROM jobs j JOIN job_clock c ON c.job_id = j.id " + $rest $(+ $more)*
            $(, $argument)*
        )
    };
}
pub(super) use select;

/// A stored job.
#[expect(clippy::struct_excessive_bools, reason = "the columns of the tables")]
pub(super) struct Row {
    pub id: Uuid,
    pub agent: String,
    pub principal: String,
    pub session_id: Uuid,
    pub counted: bool,
    pub lease: String,
    pub expires_at: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
    pub idempotency_key: Option<String>,
    pub fingerprint: Vec<u8>,
    pub parent_id: Option<Uuid>,
    pub delegate_id: Option<String>,
    pub generation: i32,
    pub payers: Vec<Uuid>,
    pub trace_id: String,
    pub intent_id: Option<Uuid>,
    pub needs_model: bool,
    pub on_lost: String,
    pub max_attempts: i32,
    pub retry: Option<String>,
    pub queue_timeout: Option<i32>,
    pub created_at: Timestamp,
    pub key_id: Option<Uuid>,
    pub owner: Option<String>,
    pub reserves: bool,
    pub precedence: i16,
    pub slotted: bool,
    pub concurrency: Option<String>,
    pub status: String,
    pub last_seq: i64,
    pub origin_seq: i64,
    pub attempt: i32,
    pub worker_id: Option<Uuid>,
    pub claim_token: Option<Vec<u8>>,
    pub claim_expires_at: Option<Timestamp>,
    pub claimed_at: Option<Timestamp>,
    pub cancel_reason: Option<String>,
    pub cancel_due_at: Option<Timestamp>,
    pub streamed: Option<String>,
    pub abandoned: Vec<String>,
    pub ended_at: Option<Timestamp>,
    pub ended_by: Option<Vec<u8>>,
    pub failures: i32,
    pub not_before: Option<Timestamp>,
    pub queue_due_at: Option<Timestamp>,
}

impl TryFrom<Row> for Job {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let lease: Authority = serde_json::from_str(&row.lease)?;
        let claim = match (row.worker_id, row.claim_token, row.claimed_at, row.claim_expires_at) {
            (Some(worker), Some(token), Some(since), Some(expires_at)) => {
                Some(Claim { worker_id: worker.into(), token: digest(token)?, since, expires_at })
            }
            _ => None,
        };
        let cancel = match (row.cancel_reason, row.cancel_due_at) {
            (Some(reason), Some(due_at)) => Some(Cancel { reason, due_at }),
            _ => None,
        };
        Ok(Self {
            id: row.id.into(),
            agent: row.agent,
            principal: row.principal,
            session_id: row.session_id.into(),
            counted: row.counted,
            lease,
            expires_at: row.expires_at,
            deadline: row.deadline,
            idempotency_key: row.idempotency_key,
            fingerprint: digest(row.fingerprint)?,
            parent_id: row.parent_id.map(JobId::from),
            delegate_id: row.delegate_id,
            generation: usize::try_from(row.generation).unwrap_or_default(),
            payers: row.payers.into_iter().map(JobId::from).collect(),
            trace_id: row.trace_id,
            intent_id: row.intent_id.map(IntentId::from),
            needs_model: row.needs_model,
            on_lost: on_lost(&row.on_lost)?,
            max_attempts: number(row.max_attempts)?,
            retry: row.retry.as_deref().map(serde_json::from_str).transpose()?,
            queue_timeout: row.queue_timeout.map(number).transpose()?,
            created_at: row.created_at,
            key_id: row.key_id.map(KeyId::from),
            owner: row.owner,
            reserves: row.reserves,
            priority: Priority::of_precedence(row.precedence),
            concurrency: row.concurrency.as_deref().map(serde_json::from_str).transpose()?,
            slotted: row.slotted,
            status: JobStatus::parse(&row.status).ok_or_else(|| unknown("job status", &row.status))?,
            last_seq: row.last_seq,
            origin_seq: row.origin_seq,
            attempt: number(row.attempt)?,
            failures: number(row.failures)?,
            retried: Vec::new(),
            not_before: row.not_before,
            queue_due_at: row.queue_due_at,
            claim,
            cancel,
            streamed: row.streamed.as_deref().map(serde_json::from_str).transpose()?,
            abandoned: row.abandoned,
            ended_at: row.ended_at,
            ended_by: row.ended_by.map(digest).transpose()?,
        })
    }
}

/// Loads these jobs; missing ones are left out.
pub(super) async fn load(conn: &mut PgConnection, ids: &[JobId]) -> Outcome<Vec<Job>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let rows = select!("jobs::load", "WHERE j.id = ANY($1) AND c.status <> 'preparing'", &ids)
        .fetch_all(conn)
        .await?;
    rows.into_iter().map(Job::try_from).collect()
}

/// Returns the input of a job, as it was submitted.
pub(super) async fn input(conn: &mut PgConnection, id: JobId) -> Outcome<Option<String>> {
    let found = sqlx::query_scalar!("-- jobs::input\n SELECT input FROM jobs WHERE id = $1", id.uuid())
        .fetch_optional(conn)
        .await?;
    Ok(found.flatten())
}

/// Loads and locks these jobs in the order of their ids.
pub(super) async fn lock(conn: &mut PgConnection, ids: &[JobId]) -> Outcome<BTreeMap<JobId, Job>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let rows = select!(
        "jobs::lock",
        "WHERE j.id = ANY($1) AND c.status <> 'preparing' ORDER BY c.job_id FOR UPDATE OF c",
        &ids
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(|row| Job::try_from(row).map(|job| (job.id, job))).collect()
}

/// Locks a job and its ancestors in the order of their ids; returns whether any of them has ended.
pub(super) async fn line_ended(conn: &mut PgConnection, id: JobId) -> Outcome<bool> {
    let ends = sqlx::query_scalar!(
        "-- jobs::line_ended
         WITH RECURSIVE line (id) AS (
             SELECT $1::uuid
             UNION SELECT j.parent_id FROM line l JOIN jobs j ON j.id = l.id WHERE j.parent_id IS NOT NULL)
         SELECT c.ended_at FROM job_clock c WHERE c.job_id IN (SELECT id FROM line) ORDER BY c.job_id FOR UPDATE OF c",
        id.uuid()
    )
    .fetch_all(conn)
    .await?;
    Ok(ends.iter().any(Option::is_some))
}

/// Returns those of these jobs that another transaction has locked.
pub(super) async fn locked(conn: &mut PgConnection, ids: &[JobId]) -> Outcome<HashSet<JobId>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let locked = sqlx::query_scalar!(
        r#"-- jobs::locked
         WITH free AS (SELECT job_id FROM job_clock WHERE job_id = ANY($1) FOR UPDATE SKIP LOCKED)
         SELECT job_id AS "job_id!" FROM job_clock WHERE job_id = ANY($1) AND job_id NOT IN (SELECT job_id FROM free)"#,
        &ids
    )
    .fetch_all(conn)
    .await?;
    Ok(locked.into_iter().map(JobId::from).collect())
}

/// Intents of these jobs.
pub(super) async fn intents(conn: &mut PgConnection, ids: &[JobId]) -> Outcome<Vec<IntentId>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let found = sqlx::query_scalar!(
        r#"-- jobs::intents
         SELECT DISTINCT intent_id AS "intent_id!" FROM jobs WHERE id = ANY($1) AND intent_id IS NOT NULL"#,
        &ids
    )
    .fetch_all(conn)
    .await?;
    Ok(found.into_iter().map(IntentId::from).collect())
}

/// Jobs that principals submitted under these idempotency keys.
pub(super) async fn by_keys(
    conn: &mut PgConnection,
    principals: &[&str],
    keys: &[&str],
) -> Outcome<Vec<Job>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let rows = select!(
        "jobs::by_keys",
        "JOIN UNNEST($1::text[], $2::text[]) AS k (principal, key) ON j.principal = k.principal AND j.idempotency_key = k.key
         WHERE c.status <> 'preparing'",
        principals as &[&str],
        keys as &[&str]
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Job::try_from).collect()
}

/// Child of a job with this `delegate_id`.
pub(super) async fn child_named(
    conn: &mut PgConnection,
    parent: JobId,
    delegate_id: &str,
) -> Outcome<Option<Job>> {
    let row = select!(
        "jobs::child_named",
        "WHERE j.parent_id = $1 AND j.delegate_id = $2 ORDER BY j.id LIMIT 1",
        parent.uuid(),
        delegate_id
    )
    .fetch_optional(conn)
    .await?;
    row.map(Job::try_from).transpose()
}

/// Whether the child with this `delegate_id` waits for its credentials.
pub(super) async fn child_preparing(
    conn: &mut PgConnection,
    parent: JobId,
    delegate_id: &str,
) -> Outcome<bool> {
    let waits = sqlx::query_scalar!(
        r#"-- jobs::child_preparing
         SELECT EXISTS (SELECT 1 FROM jobs j JOIN job_clock c ON c.job_id = j.id
             WHERE j.parent_id = $1 AND j.delegate_id = $2 AND c.status = 'preparing') AS "waits!""#,
        parent.uuid(),
        delegate_id
    )
    .fetch_one(conn)
    .await?;
    Ok(waits)
}
