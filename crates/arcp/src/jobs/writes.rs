//! Writes rows of jobs: `jobs` (the request) and `job_clock` (the current state). Operations on single jobs
//! come through `locked.rs`; the other functions change many at once.

use std::collections::BTreeMap;

use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::jobs::limits::Gate;
use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, JobId, KeyId};
use entente_kernel::Outcome;
use entente_kernel::Pool;
use sqlx::PgConnection;
use uuid::Uuid;

use super::records::Extra;
use super::{budgets, records};
use crate::columns::column;

/// A new job with its input.
pub(super) struct Fresh {
    /// The job.
    pub job: Job,
    /// Input as submitted.
    pub input: Option<String>,
    /// Whether the job still waits for its credentials.
    pub preparing: bool,
    /// Its records beside its own row.
    pub extra: Extra,
}

/// Inserts new jobs and returns their number; skips jobs with a key that another transaction has just used. A job without a key
/// is never skipped, so it is not looked for among the inserted ones.
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
    let (concurrency, gates) = keys(&jobs)?;
    let status = fresh.iter().map(|fresh| if fresh.preparing { "preparing" } else { "pending" });
    let done = sqlx::query!(
        "-- jobs::insert
         WITH asked AS (
             SELECT * FROM UNNEST($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::boolean[], $6::text[], $7::text[],
                 $8::timestamptz[], $9::timestamptz[], $10::text[], $11::bytea[], $12::uuid[], $13::text[], $14::integer[],
                 $15::text[], $16::text[], $17::uuid[], $18::boolean[], $19::text[], $20::integer[], $21::timestamptz[],
                 $22::text[], $23::timestamptz[], $24::smallint[], $25::uuid[], $26::text[], $27::text[], $28::text[])
             AS a (id, agent, principal, session_id, counted, input, lease, expires_at, deadline, idempotency_key, fingerprint,
                   parent_id, delegate_id, generation, payers, trace_id, intent_id, needs_model, on_lost, max_attempts,
                   created_at, status, due_at, precedence, key_id, owner, concurrency, gate)),
         made AS (
             INSERT INTO jobs (id, agent, principal, session_id, counted, input, lease, expires_at, deadline, idempotency_key,
                 fingerprint, parent_id, delegate_id, generation, payers, trace_id, intent_id, needs_model, on_lost,
                 max_attempts, created_at, key_id, owner, concurrency)
             SELECT id, agent, principal, session_id, counted, input, lease, expires_at, deadline, idempotency_key, fingerprint,
                    parent_id, delegate_id, generation, string_to_array(payers, ',')::uuid[], trace_id, intent_id, needs_model,
                    on_lost, max_attempts, created_at, key_id, owner, concurrency FROM asked
             ON CONFLICT (principal, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING RETURNING id)
         INSERT INTO job_clock (job_id, agent, intent_id, status, last_seq, origin_seq, attempt, due_at, abandoned,
             principal, precedence, gate)
         SELECT id, agent, intent_id, status, 0, 0, 0, due_at, '{}', principal, precedence, gate FROM asked
         WHERE idempotency_key IS NULL OR id IN (SELECT id FROM made)",
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
        &status.collect::<Vec<_>>() as &[&str],
        &times(Job::due_at) as &[Option<Timestamp>],
        &jobs.iter().map(|job| job.priority.precedence()).collect::<Vec<_>>(),
        &some_uuids(|job| job.key_id.map(KeyId::uuid)) as &[Option<Uuid>],
        &jobs.iter().map(|job| job.owner.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &concurrency as &[Option<String>],
        &gates as &[Option<String>]
    )
    .execute(&mut *conn)
    .await?;
    plan_all(conn, &jobs).await?;
    Ok(done.rows_affected())
}

/// Stores the terms on which new jobs start; most have none, and cost nothing here.
async fn plan_all(conn: &mut PgConnection, jobs: &[&Job]) -> Outcome<()> {
    for job in jobs {
        if job.retry.is_some() || job.queue_timeout.is_some() || job.not_before.is_some() {
            plan(conn, job).await?;
            put_off(conn, job).await?;
        }
    }
    Ok(())
}

/// Stores the terms on which a new job starts.
async fn plan(conn: &mut PgConnection, job: &Job) -> Outcome<()> {
    sqlx::query!(
        "-- jobs::plan
         UPDATE jobs SET retry = $2, queue_timeout = $3, start_at = $4 WHERE id = $1",
        job.id.uuid(),
        job.retry.as_ref().map(serde_json::to_string).transpose()?,
        job.queue_timeout.map(column),
        job.not_before
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores when a waiting job may be claimed, and until when it may wait.
pub(super) async fn put_off(conn: &mut PgConnection, job: &Job) -> Outcome<()> {
    sqlx::query!(
        "-- job_clock::put_off
         UPDATE job_clock SET agent = $2, not_before = $3, queue_due_at = $4, failures = $5 WHERE job_id = $1",
        job.id.uuid(),
        if job.not_before.is_some() { "" } else { &job.agent },
        job.not_before,
        job.queue_due_at,
        column(job.failures)
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Releases up to `limit` jobs that may be claimed from now on; returns the agent of each. Of those that are due at one
/// time, the urgent ones are released first: a worker may claim before the next step.
pub(super) async fn release(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<Vec<String>> {
    let agents = sqlx::query_scalar!(
        "-- job_clock::release
         WITH due AS (
             SELECT job_id FROM job_clock WHERE not_before <= $1
             ORDER BY not_before, precedence, job_id LIMIT $2 FOR UPDATE SKIP LOCKED)
         UPDATE job_clock c SET agent = j.agent, not_before = NULL FROM due d JOIN jobs j ON j.id = d.job_id
         WHERE c.job_id = d.job_id RETURNING j.agent",
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(agents)
}

/// A text for each of some jobs, if it has one.
type Texts = Vec<Option<String>>;

/// Concurrency keys of jobs, with their limits as JSON, and the gates that they name.
fn keys(jobs: &[&Job]) -> Outcome<(Texts, Texts)> {
    let (mut texts, mut gates) = (Vec::new(), Vec::new());
    for job in jobs {
        let concurrency = job.concurrency.as_ref();
        texts.push(concurrency.map(serde_json::to_string).transpose()?);
        gates.push(concurrency.map(|one| Gate::Key(job.principal.clone(), one.key.clone()).to_string()));
    }
    Ok((texts, gates))
}

/// Ids as one text, for an array within an array.
fn list(ids: &[JobId]) -> String {
    ids.iter().map(|id| id.uuid().to_string()).collect::<Vec<_>>().join(",")
}

/// Writes the current state of these jobs.
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
    // Ids of results contain no line break.
    let abandoned: Vec<String> = jobs.iter().map(|job| job.abandoned.join("\n")).collect();
    sqlx::query!(
        "-- jobs::update
         UPDATE job_clock c SET status = n.status, last_seq = n.last_seq, origin_seq = n.origin_seq, attempt = n.attempt,
             worker_id = n.worker_id, claim_token = n.claim_token, claim_expires_at = n.claim_expires_at,
             cancel_reason = n.cancel_reason, cancel_due_at = n.cancel_due_at, due_at = n.due_at, streamed = n.streamed,
             abandoned = string_to_array(n.abandoned, E'\\n'), ended_at = n.ended_at, claimed_at = n.claimed_at,
             ended_by = n.ended_by, reserves = n.reserves
         FROM UNNEST($1::uuid[], $2::text[], $3::bigint[], $4::bigint[], $5::integer[], $6::uuid[], $7::bytea[],
             $8::timestamptz[], $9::text[], $10::timestamptz[], $11::timestamptz[], $12::text[], $13::text[],
             $14::timestamptz[], $15::timestamptz[], $16::bytea[], $17::boolean[])
         AS n (job_id, status, last_seq, origin_seq, attempt, worker_id, claim_token, claim_expires_at, cancel_reason,
               cancel_due_at, due_at, streamed, abandoned, ended_at, claimed_at, ended_by, reserves)
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
        &times(Job::due_at) as &[Option<Timestamp>],
        &streamed as &[Option<String>],
        &abandoned,
        &times(|job| job.ended_at) as &[Option<Timestamp>],
        &claims().map(|claim| claim.map(|c| c.since)).collect::<Vec<_>>() as &[Option<Timestamp>],
        &jobs.iter().map(|job| job.ended_by.as_ref().map(<[u8; 32]>::as_slice)).collect::<Vec<_>>()
            as &[Option<&[u8]>],
        &jobs.iter().map(|job| job.reserves).collect::<Vec<_>>()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Whether any failed job awaits its follow-up ([`failed`]).
pub(super) async fn any_failed(pool: &Pool, now: Timestamp) -> Outcome<bool> {
    let any = sqlx::query_scalar!(
        r#"-- job_clock::any_failed
         SELECT EXISTS (SELECT 1 FROM job_clock WHERE due_at <= $1 AND ended_at IS NOT NULL) AS "any!""#,
        now
    )
    .fetch_one(pool)
    .await?;
    Ok(any)
}

/// Takes up to `limit` failed jobs for follow-up; each job is returned once.
pub(super) async fn failed(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<Vec<JobId>> {
    let ids = sqlx::query_scalar!(
        "-- job_clock::failed
         UPDATE job_clock c SET due_at = NULL FROM (
             SELECT job_id FROM job_clock WHERE due_at <= $1 AND ended_at IS NOT NULL
             ORDER BY job_id LIMIT $2 FOR UPDATE SKIP LOCKED) f
         WHERE c.job_id = f.job_id RETURNING c.job_id",
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(JobId::from).collect())
}

/// Marks the open children of these jobs for cancellation by the next sweep and returns their number.
///
/// Runs apart from the parents' end: that transaction may hold locks that a child's worker waits for.
pub(super) async fn stop_children(
    conn: &mut PgConnection,
    parents: &[JobId],
    now: Timestamp,
) -> Outcome<u64> {
    let parents: Vec<Uuid> = parents.iter().map(|id| id.uuid()).collect();
    let done = sqlx::query!(
        "-- job_clock::stop_children
         WITH open AS (
             SELECT c.job_id FROM jobs j JOIN job_clock c ON c.job_id = j.id
             WHERE j.parent_id = ANY($1) AND c.ended_at IS NULL ORDER BY c.job_id FOR UPDATE OF c)
         UPDATE job_clock c SET cancel_reason = coalesce(c.cancel_reason, 'The job that delegated it has ended.'),
             cancel_due_at = $2, due_at = $2
         FROM open o WHERE o.job_id = c.job_id",
        &parents,
        now
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Claims jobs found by a query: the statement's name, that query, and its parameters `$1` and from `$7`.
///
/// The query yields `job_id`, `place` (the position of its token), `plain` (whether to claim it at once; the others are
/// returned for a claim under locks), `limited` (whether its agent or its principal has limits), `slotted` (whether its claim
/// is counted) and `several` (whether jobs of several priorities or principals wait).
macro_rules! claim {
    ($conn:expr, $name:literal, $found:literal, $of:expr, $with:expr $(, $more:expr)*) => {{
        let with: &$crate::jobs::claims::queue::With<'_> = $with;
        let digests = with.tokens.digests();
        let rows = sqlx::query_as!(
            Row,
            "-- " + $name
                + r#"
         WITH found AS ("#
                + $found
                + r#"),
         claimed AS (
             UPDATE job_clock c SET status = 'running', attempt = c.attempt + 1, worker_id = $3,
                 claim_token = ($4::bytea[])[f.place], claim_expires_at = $5, claimed_at = $6,
                 due_at = least(c.due_at, $5), slotted = f.slotted
             FROM found f WHERE c.job_id = f.job_id AND f.plain
             RETURNING c.job_id, c.attempt, c.signals_sent > c.signals_acked AS signals, c.signals_acked, f.place, f.several)
         SELECT j.id AS "job_id!", j.agent AS "agent!", j.input, j.lease AS "lease!", j.expires_at, j.payers AS "payers!",
                j.trace_id AS "trace_id!", j.parent_id, j.delegate_id, j.intent_id, j.principal AS "principal!", j.deadline,
                c.attempt AS "attempt?", c.place AS "place!", c.several AS "several!", false AS "limited!",
                NULL AS concurrency, c.signals AS "signals!", c.signals_acked AS "signals_acked!",
                (SELECT k.body FROM job_checkpoints k WHERE k.job_id = c.job_id) AS checkpoint
         FROM claimed c JOIN jobs j ON j.id = c.job_id
         UNION ALL
         SELECT j.id, j.agent, NULL, j.lease, NULL, j.payers, j.trace_id, NULL, NULL, j.intent_id, j.principal, NULL, NULL,
                f.place, f.several, f.limited, j.concurrency, false, 0, NULL
         FROM found f JOIN jobs j ON j.id = f.job_id WHERE NOT f.plain
         ORDER BY "place!""#,
            $of,
            with.tokens.count(),
            with.worker.uuid(),
            &digests.iter().map(<[u8; 32]>::as_slice).collect::<Vec<_>>() as &[&[u8]],
            with.until,
            with.from
            $(, $more)*
        )
        .fetch_all($conn)
        .await?;
        rows
    }};
}
pub(super) use claim;

/// Keeps pending jobs of these gates out of the queue, up to `limit`: as many run as may.
pub(super) async fn park(conn: &mut PgConnection, gates: &[String], limit: i64) -> Outcome<()> {
    sqlx::query!(
        "-- job_clock::park
         UPDATE job_clock SET parked = true WHERE job_id IN (
             SELECT c.job_id FROM job_clock c
             WHERE c.gate = ANY($1) AND c.gate IS NOT NULL AND c.status = 'pending' AND NOT c.parked
             ORDER BY c.gate, c.precedence, c.job_id LIMIT $2 FOR UPDATE SKIP LOCKED)",
        gates,
        limit
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Lets these jobs back into the queue; returns their number.
pub(super) async fn unpark(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- job_clock::unpark
         UPDATE job_clock SET parked = false WHERE job_id IN (
             SELECT c.job_id FROM job_clock c WHERE c.job_id = ANY($1) AND c.status = 'pending' AND c.parked
             ORDER BY c.job_id FOR UPDATE SKIP LOCKED)",
        ids
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// A job whose claim was extended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extended {
    /// Time by which it has to stop, if it was cancelled.
    pub cancel_due_at: Option<Timestamp>,
    /// Number of its last signal, and of the last acknowledged one.
    pub signals_sent: i64,
    pub signals_acked: i64,
}

/// Extends the claims with these jobs and digests of tokens; returns the jobs still held.
///
/// Leaves `due_at`, when the sweep checks again, as it was, so that a heartbeat updates no index.
pub(super) async fn extend(
    conn: &mut PgConnection,
    held: &[(JobId, Digest)],
    until: Timestamp,
    now: Timestamp,
) -> Outcome<BTreeMap<JobId, Extended>> {
    let (ids, tokens): (Vec<Uuid>, Vec<&[u8]>) =
        held.iter().map(|(id, token)| (id.uuid(), token.as_slice())).unzip();
    let rows = sqlx::query!(
        r#"-- job_clock::extend
         WITH held AS (
             SELECT c.job_id FROM UNNEST($1::uuid[], $2::bytea[]) AS h (job_id, token) JOIN job_clock c ON c.job_id = h.job_id
             WHERE c.claim_token = h.token AND c.status = 'running' AND c.claim_expires_at > $4
             ORDER BY c.job_id FOR UPDATE OF c)
         UPDATE job_clock c SET claim_expires_at = greatest(c.claim_expires_at, $3) FROM held h WHERE c.job_id = h.job_id
         RETURNING c.job_id, c.cancel_due_at, c.signals_sent, c.signals_acked"#,
        &ids,
        &tokens as &[&[u8]],
        until,
        now
    )
    .fetch_all(conn)
    .await?;
    let extended = rows.into_iter().map(|row| {
        let (signals_sent, signals_acked) = (row.signals_sent, row.signals_acked);
        (row.job_id.into(), Extended { cancel_due_at: row.cancel_due_at, signals_sent, signals_acked })
    });
    Ok(extended.collect())
}

/// Makes a job with new credentials available to workers; returns whether it still waited for them.
pub(super) async fn ready(conn: &mut PgConnection, id: JobId) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- job_clock::ready
         UPDATE job_clock SET status = 'pending' WHERE job_id = $1 AND status = 'preparing'",
        id.uuid()
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Deletes those of these jobs that still wait for their credentials: they were never accepted.
pub(super) async fn drop_preparing(conn: &mut PgConnection, ids: &[JobId]) -> Outcome<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let dropped = sqlx::query_scalar!(
        "-- job_clock::drop_preparing
         DELETE FROM job_clock WHERE job_id = ANY($1) AND status = 'preparing' RETURNING job_id",
        &ids
    )
    .fetch_all(&mut *conn)
    .await?;
    sqlx::query!(
        "-- jobs::drop
         DELETE FROM jobs WHERE id = ANY($1)",
        &dropped
    )
    .execute(&mut *conn)
    .await?;
    records::drop_all(conn, &dropped).await?;
    budgets::drop_all(conn, &dropped).await
}

/// Removes up to `limit` idempotency keys of jobs accepted before a time.
pub(super) async fn forget_keys(pool: &Pool, before: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- jobs::forget_keys
         UPDATE jobs SET idempotency_key = NULL WHERE id IN (
             SELECT id FROM jobs WHERE idempotency_key IS NOT NULL AND created_at < $1
             ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        before,
        limit
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected())
}

/// Locks those of these jobs that have ended and that nobody else has locked.
pub(super) async fn lock_ended(conn: &mut PgConnection, jobs: &[JobId]) -> Outcome<Vec<Uuid>> {
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.uuid()).collect();
    let ended = sqlx::query_scalar!(
        "-- job_clock::lock_ended
         SELECT job_id FROM job_clock WHERE job_id = ANY($1) AND ended_at IS NOT NULL
         ORDER BY job_id FOR UPDATE SKIP LOCKED",
        &ids
    )
    .fetch_all(conn)
    .await?;
    Ok(ended)
}

/// Deletes the rows of jobs.
pub(super) async fn delete(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<()> {
    sqlx::query!(
        "-- job_clock::delete
         WITH gone AS (DELETE FROM job_clock WHERE job_id = ANY($1)) DELETE FROM jobs WHERE id = ANY($1)",
        ids
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Takes up to `limit` pending jobs of stopped subjects out of the queue; returns how many.
pub(super) async fn hold_back_stopped(conn: &mut PgConnection, limit: i64) -> Outcome<u64> {
    let held = sqlx::query!(
        "-- job_clock::hold_back_stopped
         WITH stopped AS (
             SELECT c.job_id FROM job_clock c JOIN jobs j ON j.id = c.job_id
             WHERE c.status = 'pending' AND NOT c.parked AND EXISTS (
                 SELECT 1 FROM stops s WHERE s.lifted_at IS NULL
                   AND stop_concerns(s.scope, s.subject, s.subject_id, j.owner, j.principal, j.agent, j.intent_id, j.key_id))
             ORDER BY c.job_id LIMIT $1 FOR UPDATE OF c SKIP LOCKED),
         noted AS (
             INSERT INTO stopped_jobs (job_id) SELECT job_id FROM stopped ON CONFLICT (job_id) DO NOTHING)
         UPDATE job_clock c SET parked = true FROM stopped s WHERE s.job_id = c.job_id",
        limit
    )
    .execute(conn)
    .await?;
    Ok(held.rows_affected())
}

/// Puts up to `limit` jobs whose stop was lifted back into the queue; returns the agent of each.
pub(super) async fn give_back_unstopped(conn: &mut PgConnection, limit: i64) -> Outcome<Vec<String>> {
    let agents = sqlx::query_scalar!(
        "-- job_clock::give_back_unstopped
         WITH free AS (
             SELECT h.job_id FROM stopped_jobs h LEFT JOIN jobs j ON j.id = h.job_id
             WHERE j.id IS NULL OR NOT EXISTS (
                 SELECT 1 FROM stops s WHERE s.lifted_at IS NULL
                   AND stop_concerns(s.scope, s.subject, s.subject_id, j.owner, j.principal, j.agent, j.intent_id, j.key_id))
             ORDER BY h.job_id LIMIT $1 FOR UPDATE OF h SKIP LOCKED),
         gone AS (DELETE FROM stopped_jobs h USING free f WHERE h.job_id = f.job_id)
         UPDATE job_clock c SET parked = false FROM free f
         WHERE f.job_id = c.job_id AND c.status = 'pending' RETURNING c.agent",
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(agents)
}

/// Counts another signal of a job, whose row is locked; returns its number.
pub(super) async fn next_signal(conn: &mut PgConnection, id: JobId) -> Outcome<i64> {
    let seq = sqlx::query_scalar!(
        "-- job_clock::next_signal
         UPDATE job_clock SET signals_sent = signals_sent + 1 WHERE job_id = $1 RETURNING signals_sent",
        id.uuid()
    )
    .fetch_one(conn)
    .await?;
    Ok(seq)
}

/// Notes the last acknowledged signal of a job, whose row is locked.
pub(super) async fn signals_acknowledged(conn: &mut PgConnection, id: JobId, upto: i64) -> Outcome<()> {
    sqlx::query!(
        "-- job_clock::signals_acknowledged
         UPDATE job_clock SET signals_acked = $2 WHERE job_id = $1",
        id.uuid(),
        upto
    )
    .execute(conn)
    .await?;
    Ok(())
}
