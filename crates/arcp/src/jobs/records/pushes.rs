//! Receivers of push notifications. Table `task_pushes`.

use entente_domain::a2a::pushes::{Authentication, PushConfig};
use entente_domain::a2a::tasks::TaskState;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, KeyId, NodeId};
use entente_kernel::{Caller, Outcome, Pool, unknown};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::columns::number;

/// Place in a job's events.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Number of the last event that the receiver knows.
    pub seq: i64,
    /// The state that the receiver knows.
    pub told: TaskState,
}

/// A lease on a receiver.
#[derive(Debug, Clone)]
pub struct PushLease {
    /// The job.
    pub job: JobId,
    /// The receiver's id.
    pub id: String,
    node: NodeId,
    fence: i64,
}

/// A receiver as it is stored.
#[derive(Debug)]
pub(in crate::jobs) struct Receiver {
    /// What the client said.
    pub config: PushConfig,
    /// The key it was made with.
    pub key_id: KeyId,
    /// Principal of that key.
    pub principal_id: String,
    /// Agent as which the key acted.
    pub agent_id: String,
    /// Context of the task.
    pub context: String,
    /// What it was sent.
    pub place: Place,
    /// Failures in a row.
    pub failures: u32,
    /// Since when.
    pub failing_since: Option<Timestamp>,
}

/// What is recorded after attempts.
#[derive(Debug)]
pub(in crate::jobs) struct Noted {
    /// How far the receiver was sent to.
    pub place: Place,
    /// When the next update may be sent; none if the end was.
    pub due: Option<Timestamp>,
    /// Failures in a row.
    pub failures: u32,
    /// Since when.
    pub failing_since: Option<Timestamp>,
    /// The last one.
    pub error: Option<String>,
}

struct Row {
    id: String,
    key_id: Uuid,
    principal_id: String,
    agent_id: String,
    context: String,
    url: String,
    token: Option<String>,
    scheme: Option<String>,
    credentials: Option<String>,
    position: i64,
    told: String,
    failures: i32,
    failing_since: Option<Timestamp>,
}

impl Row {
    fn receiver(self, job: JobId) -> Outcome<Receiver> {
        let told = TaskState::parse(&self.told).ok_or_else(|| unknown("state of a task", &self.told))?;
        let credentials = self.credentials;
        let authentication = self.scheme.map(|scheme| Authentication { scheme, credentials });
        let config = PushConfig {
            id: self.id,
            task_id: job.to_string(),
            url: self.url,
            token: self.token,
            authentication,
        };
        Ok(Receiver {
            config,
            key_id: self.key_id.into(),
            principal_id: self.principal_id,
            agent_id: self.agent_id,
            context: self.context,
            place: Place { seq: self.position, told },
            failures: number(self.failures)?,
            failing_since: self.failing_since,
        })
    }
}

/// Locks the receivers of a job against others that add some.
pub(in crate::jobs) async fn lock(conn: &mut PgConnection, job: JobId) -> Outcome<()> {
    sqlx::query!(
        "-- task_pushes::lock
         SELECT pg_advisory_xact_lock(hashtextextended('task_pushes:' || $1::text, 0))",
        job.to_string()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns the receivers of a job, oldest first.
pub(in crate::jobs) async fn load(conn: &mut PgConnection, job: JobId) -> Outcome<Vec<Receiver>> {
    let rows = sqlx::query_as!(
        Row,
        "-- task_pushes::load
         SELECT id, key_id, principal_id, agent_id, context, url, token, scheme, credentials, position, told, failures,
                failing_since
         FROM task_pushes WHERE job_id = $1 ORDER BY created_at, id",
        job.uuid()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(|row| row.receiver(job)).collect()
}

/// Inserts a receiver, or changes where it is and how it knows the sender.
pub(in crate::jobs) async fn put(
    conn: &mut PgConnection,
    caller: &Caller,
    job: JobId,
    receiver: (&PushConfig, &str, Place),
    now: Timestamp,
) -> Outcome<()> {
    let (config, context, place) = receiver;
    let authentication = config.authentication.as_ref();
    sqlx::query!(
        "-- task_pushes::put
         INSERT INTO task_pushes AS t (job_id, id, key_id, principal_id, agent_id, context, url, token, scheme, credentials,
                                       created_at, position, told, due_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
         ON CONFLICT (job_id, id) DO UPDATE SET
             key_id = excluded.key_id, agent_id = excluded.agent_id, url = excluded.url, token = excluded.token,
             scheme = excluded.scheme, credentials = excluded.credentials, failures = 0, failing_since = NULL,
             due_at = CASE WHEN t.due_at IS NULL THEN NULL ELSE excluded.due_at END",
        job.uuid(),
        config.id,
        caller.grant.key.id.uuid(),
        caller.grant.key.principal_id,
        caller.agent,
        context,
        config.url,
        config.token,
        authentication.map(|authentication| authentication.scheme.as_str()),
        authentication.and_then(|authentication| authentication.credentials.as_deref()),
        now,
        place.seq,
        place.told.as_str(),
        // Nothing follows the end.
        (!place.told.is_terminal()).then_some(now)
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes a receiver.
pub(in crate::jobs) async fn delete(conn: &mut PgConnection, job: JobId, id: &str) -> Outcome<()> {
    sqlx::query!(
        "-- task_pushes::delete
         DELETE FROM task_pushes WHERE job_id = $1 AND id = $2",
        job.uuid(),
        id
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Claims leases on receivers whose job has events that they were not sent.
pub(in crate::jobs) async fn claim(
    pool: &Pool,
    node: NodeId,
    now: Timestamp,
    until: Timestamp,
    limit: i64,
) -> Outcome<Vec<PushLease>> {
    let rows = sqlx::query!(
        "-- task_pushes::claim
         UPDATE task_pushes SET claimed_by = $1, claimed_until = $3, fence = fence + 1
         WHERE (job_id, id) IN (
             SELECT p.job_id, p.id FROM task_pushes p JOIN job_clock c ON c.job_id = p.job_id
             WHERE p.due_at <= $2 AND c.last_seq > p.position AND (p.claimed_until IS NULL OR p.claimed_until <= $2)
             ORDER BY p.due_at LIMIT $4 FOR UPDATE OF p SKIP LOCKED)
         RETURNING job_id, id, fence",
        node.uuid(),
        now,
        until,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| PushLease { job: row.job_id.into(), id: row.id, node, fence: row.fence })
        .collect())
}

/// Returns the receiver of a lease; `None` if another server holds it now, or it is gone.
pub(in crate::jobs) async fn held(conn: &mut PgConnection, lease: &PushLease) -> Outcome<Option<Receiver>> {
    let row = sqlx::query_as!(
        Row,
        "-- task_pushes::held
         SELECT id, key_id, principal_id, agent_id, context, url, token, scheme, credentials, position, told, failures,
                failing_since
         FROM task_pushes WHERE job_id = $1 AND id = $2 AND fence = $3 AND claimed_by = $4",
        lease.job.uuid(),
        lease.id,
        lease.fence,
        lease.node.uuid()
    )
    .fetch_optional(conn)
    .await?;
    row.map(|row| row.receiver(lease.job)).transpose()
}

/// Deletes the receiver of a lease; returns whether the lease was in force.
pub(in crate::jobs) async fn delete_held(pool: &Pool, lease: &PushLease) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- task_pushes::delete_held
         DELETE FROM task_pushes WHERE job_id = $1 AND id = $2 AND fence = $3 AND claimed_by = $4",
        lease.job.uuid(),
        lease.id,
        lease.fence,
        lease.node.uuid()
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Records what became of attempts, and prolongs the lease; returns whether it was in force.
pub(in crate::jobs) async fn note(
    pool: &Pool,
    lease: &PushLease,
    noted: &Noted,
    until: Timestamp,
) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- task_pushes::note
         UPDATE task_pushes SET position = $5, told = $6, due_at = $7, failures = $8, failing_since = $9,
                last_error = coalesce($10, last_error), claimed_until = $11
         WHERE job_id = $1 AND id = $2 AND fence = $3 AND claimed_by = $4",
        lease.job.uuid(),
        lease.id,
        lease.fence,
        lease.node.uuid(),
        noted.place.seq,
        noted.place.told.as_str(),
        noted.due,
        i32::try_from(noted.failures).unwrap_or(i32::MAX),
        noted.failing_since,
        noted.error,
        until
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Releases a lease.
pub(in crate::jobs) async fn release(pool: &Pool, lease: &PushLease) -> Outcome<()> {
    sqlx::query!(
        "-- task_pushes::release
         UPDATE task_pushes SET claimed_by = NULL, claimed_until = NULL
         WHERE job_id = $1 AND id = $2 AND fence = $3 AND claimed_by = $4",
        lease.job.uuid(),
        lease.id,
        lease.fence,
        lease.node.uuid()
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Deletes the receivers of deleted jobs.
pub(in crate::jobs) async fn drop(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<()> {
    sqlx::query!(
        "-- task_pushes::drop
         DELETE FROM task_pushes WHERE job_id = ANY ($1)",
        ids
    )
    .execute(conn)
    .await?;
    Ok(())
}
