//! The rows of jobs: `jobs`, what was asked, and `job_clock`, where it stands.

use std::collections::BTreeMap;

use entente_core::capabilities::Authority;
use entente_core::clock::Timestamp;
use entente_core::ids::{IntentId, JobId};
use entente_core::jobs::{Cancel, Claim, Job, JobStatus, OnLost};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::app::lines::digest;
use crate::app::{AppError, Outcome, unknown};

/// Reads whole jobs, without their inputs: the query's name, and what follows its `FROM`. One that waits for its credentials
/// is not there yet.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT j.id, j.agent, j.principal, j.session_id, j.counted, j.lease, j.expires_at, j.deadline, j.idempotency_key,
                    j.fingerprint, j.parent_id, j.delegate_id, j.generation, j.payers, j.trace_id, j.intent_id, j.needs_model,
                    j.on_lost, j.max_attempts, j.created_at, c.status, c.last_seq, c.origin_seq, c.attempt, c.worker_id,
                    c.claim_token, c.claim_expires_at, c.cancel_reason, c.cancel_due_at, c.streamed, c.abandoned, c.ended_at
             FROM jobs j JOIN job_clock c ON c.job_id = j.id " + $rest
            $(, $argument)*
        )
    };
}
pub(super) use select;

/// A job as it is stored.
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
    pub created_at: Timestamp,
    pub status: String,
    pub last_seq: i64,
    pub origin_seq: i64,
    pub attempt: i32,
    pub worker_id: Option<Uuid>,
    pub claim_token: Option<Vec<u8>>,
    pub claim_expires_at: Option<Timestamp>,
    pub cancel_reason: Option<String>,
    pub cancel_due_at: Option<Timestamp>,
    pub streamed: Option<String>,
    pub abandoned: Vec<String>,
    pub ended_at: Option<Timestamp>,
}

pub(crate) fn on_lost(word: &str) -> Outcome<OnLost> {
    let known = [OnLost::Requeue, OnLost::Fail].into_iter().find(|known| known.as_str() == word);
    known.ok_or_else(|| unknown("policy of lost workers", word))
}

pub(crate) fn number(stored: i32) -> Outcome<u32> {
    u32::try_from(stored).map_err(|_negative| unknown("number of a job", &stored.to_string()))
}

pub(crate) fn column(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl TryFrom<Row> for Job {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let lease: Authority = serde_json::from_str(&row.lease)?;
        let claim = match (row.worker_id, row.claim_token, row.claim_expires_at) {
            (Some(worker), Some(token), Some(expires_at)) => {
                Some(Claim { worker_id: worker.into(), token: digest(token)?, expires_at })
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
            created_at: row.created_at,
            status: JobStatus::parse(&row.status).ok_or_else(|| unknown("job status", &row.status))?,
            last_seq: row.last_seq,
            origin_seq: row.origin_seq,
            attempt: number(row.attempt)?,
            claim,
            cancel,
            streamed: row.streamed.as_deref().map(serde_json::from_str).transpose()?,
            abandoned: row.abandoned,
            ended_at: row.ended_at,
        })
    }
}

/// These jobs; those that are not there are left out.
pub(super) async fn load(conn: &mut PgConnection, ids: &[JobId]) -> Outcome<Vec<Job>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let rows = select!("jobs::load", "WHERE j.id = ANY($1) AND c.status <> 'preparing'", &ids)
        .fetch_all(conn)
        .await?;
    rows.into_iter().map(Job::try_from).collect()
}

/// These jobs, locked in the order of their ids.
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

/// The intents that these jobs work for.
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

/// The jobs that principals submitted under these keys.
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

/// A job that is new, with its input.
pub(super) struct Fresh {
    /// The job.
    pub job: Job,
    /// What it is to work on, as it came.
    pub input: Option<String>,
    /// Whether it still waits for its credentials.
    pub preparing: bool,
}

/// Writes new jobs; answers with how many there were not yet. One that somebody else has just made under the same key is
/// left out.
pub(super) async fn insert(conn: &mut PgConnection, fresh: &[Fresh]) -> Outcome<u64> {
    if fresh.is_empty() {
        return Ok(0);
    }
    let jobs: Vec<&Job> = fresh.iter().map(|fresh| &fresh.job).collect();
    let uuids = |of: fn(&Job) -> Uuid| jobs.iter().map(|job| of(job)).collect::<Vec<_>>();
    let some_uuids = |of: fn(&Job) -> Option<Uuid>| jobs.iter().map(|job| of(job)).collect::<Vec<_>>();
    let texts = |of: fn(&Job) -> &str| jobs.iter().map(|job| of(job)).collect::<Vec<&str>>();
    let times = |of: fn(&Job) -> Option<Timestamp>| jobs.iter().map(|job| of(job)).collect::<Vec<_>>();
    let leases =
        jobs.iter().map(|job| serde_json::to_string(&job.lease)).collect::<Result<Vec<String>, _>>()?;
    let payers: Vec<String> = jobs.iter().map(|job| list(&job.payers)).collect();
    let status: Vec<&str> =
        fresh.iter().map(|fresh| if fresh.preparing { "preparing" } else { "pending" }).collect();
    let done = sqlx::query!(
        "-- jobs::insert
         WITH asked AS (
             SELECT * FROM UNNEST($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::boolean[], $6::text[], $7::text[],
                 $8::timestamptz[], $9::timestamptz[], $10::text[], $11::bytea[], $12::uuid[], $13::text[], $14::integer[],
                 $15::text[], $16::text[], $17::uuid[], $18::boolean[], $19::text[], $20::integer[], $21::timestamptz[],
                 $22::text[], $23::timestamptz[])
             AS a (id, agent, principal, session_id, counted, input, lease, expires_at, deadline, idempotency_key, fingerprint,
                   parent_id, delegate_id, generation, payers, trace_id, intent_id, needs_model, on_lost, max_attempts,
                   created_at, status, due_at)),
         made AS (
             INSERT INTO jobs (id, agent, principal, session_id, counted, input, lease, expires_at, deadline, idempotency_key,
                 fingerprint, parent_id, delegate_id, generation, payers, trace_id, intent_id, needs_model, on_lost,
                 max_attempts, created_at)
             SELECT id, agent, principal, session_id, counted, input, lease, expires_at, deadline, idempotency_key, fingerprint,
                    parent_id, delegate_id, generation, string_to_array(payers, ',')::uuid[], trace_id, intent_id, needs_model,
                    on_lost, max_attempts, created_at FROM asked
             ON CONFLICT (principal, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING RETURNING id)
         INSERT INTO job_clock (job_id, agent, intent_id, status, last_seq, origin_seq, attempt, due_at, abandoned)
         SELECT a.id, a.agent, a.intent_id, a.status, 0, 0, 0, a.due_at, '{}' FROM asked a JOIN made m ON m.id = a.id",
        &uuids(|job| job.id.uuid()),
        &texts(|job| &job.agent) as &[&str],
        &texts(|job| &job.principal) as &[&str],
        &uuids(|job| job.session_id.uuid()),
        &jobs.iter().map(|job| job.counted).collect::<Vec<_>>(),
        &fresh.iter().map(|fresh| fresh.input.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &leases,
        &times(|job| job.expires_at) as &[Option<Timestamp>],
        &times(|job| job.deadline) as &[Option<Timestamp>],
        &jobs.iter().map(|job| job.idempotency_key.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &jobs.iter().map(|job| job.fingerprint.as_slice()).collect::<Vec<_>>() as &[&[u8]],
        &some_uuids(|job| job.parent_id.map(JobId::uuid)) as &[Option<Uuid>],
        &jobs.iter().map(|job| job.delegate_id.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &jobs.iter().map(|job| i32::try_from(job.generation).unwrap_or(i32::MAX)).collect::<Vec<_>>(),
        &payers,
        &texts(|job| &job.trace_id) as &[&str],
        &some_uuids(|job| job.intent_id.map(IntentId::uuid)) as &[Option<Uuid>],
        &jobs.iter().map(|job| job.needs_model).collect::<Vec<_>>(),
        &texts(|job| job.on_lost.as_str()) as &[&str],
        &jobs.iter().map(|job| column(job.max_attempts)).collect::<Vec<_>>(),
        &jobs.iter().map(|job| job.created_at).collect::<Vec<_>>(),
        &status as &[&str],
        &times(Job::due_at) as &[Option<Timestamp>]
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Ids as one text, for an array within an array.
fn list(ids: &[JobId]) -> String {
    ids.iter().map(|id| id.uuid().to_string()).collect::<Vec<_>>().join(",")
}

/// Writes where these jobs stand.
pub(super) async fn update(conn: &mut PgConnection, jobs: &[&Job]) -> Outcome<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    let times = |of: fn(&Job) -> Option<Timestamp>| jobs.iter().map(|job| of(job)).collect::<Vec<_>>();
    let claims = || jobs.iter().map(|job| job.claim.as_ref());
    let streamed = jobs
        .iter()
        .map(|job| job.streamed.as_ref().map(serde_json::to_string).transpose())
        .collect::<Result<Vec<Option<String>>, _>>()?;
    // A line break is in no result's name.
    let abandoned: Vec<String> = jobs.iter().map(|job| job.abandoned.join("\n")).collect();
    sqlx::query!(
        "-- jobs::update
         UPDATE job_clock c SET status = n.status, last_seq = n.last_seq, origin_seq = n.origin_seq, attempt = n.attempt,
             worker_id = n.worker_id, claim_token = n.claim_token, claim_expires_at = n.claim_expires_at,
             cancel_reason = n.cancel_reason, cancel_due_at = n.cancel_due_at, due_at = n.due_at, streamed = n.streamed,
             abandoned = string_to_array(n.abandoned, E'\\n'), ended_at = n.ended_at
         FROM UNNEST($1::uuid[], $2::text[], $3::bigint[], $4::bigint[], $5::integer[], $6::uuid[], $7::bytea[],
             $8::timestamptz[], $9::text[], $10::timestamptz[], $11::timestamptz[], $12::text[], $13::text[],
             $14::timestamptz[])
         AS n (job_id, status, last_seq, origin_seq, attempt, worker_id, claim_token, claim_expires_at, cancel_reason,
               cancel_due_at, due_at, streamed, abandoned, ended_at)
         WHERE c.job_id = n.job_id",
        &jobs.iter().map(|job| job.id.uuid()).collect::<Vec<_>>(),
        &jobs.iter().map(|job| job.status.as_str()).collect::<Vec<_>>() as &[&str],
        &jobs.iter().map(|job| job.last_seq).collect::<Vec<_>>(),
        &jobs.iter().map(|job| job.origin_seq).collect::<Vec<_>>(),
        &jobs.iter().map(|job| column(job.attempt)).collect::<Vec<_>>(),
        &claims().map(|claim| claim.map(|c| c.worker_id.uuid())).collect::<Vec<_>>() as &[Option<Uuid>],
        &claims().map(|claim| claim.map(|c| c.token.as_slice())).collect::<Vec<_>>() as &[Option<&[u8]>],
        &claims().map(|claim| claim.map(|c| c.expires_at)).collect::<Vec<_>>() as &[Option<Timestamp>],
        &jobs.iter().map(|job| job.cancel.as_ref().map(|c| c.reason.as_str())).collect::<Vec<_>>()
            as &[Option<&str>],
        &times(|job| job.cancel.as_ref().map(|cancel| cancel.due_at)) as &[Option<Timestamp>],
        &times(|job| if job.status.is_terminal() { None } else { job.due_at() }) as &[Option<Timestamp>],
        &streamed as &[Option<String>],
        &abandoned,
        &times(|job| job.ended_at) as &[Option<Timestamp>]
    )
    .execute(conn)
    .await?;
    Ok(())
}
