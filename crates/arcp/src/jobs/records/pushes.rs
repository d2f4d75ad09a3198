//! Receivers of push notifications. Table `task_pushes`.

use entente_domain::a2a::pushes::{Authentication, PushConfig};
use entente_domain::a2a::tasks::TaskState;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, KeyId, NodeId};
use entente_kernel::{Caller, Outcome, Pool, unknown};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::columns::number;

/// Place in the updates that a job's events are.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Number of the last event that the receiver knows as a whole.
    pub seq: i64,
    /// The state that it was told by then.
    pub told: TaskState,
    /// Updates of the next event that are behind it.
    pub sent: usize,
}

impl Place {
    /// Returns the place after an event.
    #[must_use]
    pub fn after(seq: i64, told: TaskState) -> Self {
        Self { seq, told, sent: 0 }
    }

    /// Returns whether it is farther than another one.
    #[must_use]
    pub fn is_beyond(self, other: Self) -> bool {
        (self.seq, self.sent) > (other.seq, other.sent)
    }
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

/// A receiver that a client names.
#[derive(Debug)]
pub(in crate::jobs) struct NewReceiver<'a> {
    /// Configuration from the client.
    pub config: &'a PushConfig,
    /// Context of the task.
    pub context: &'a str,
    /// Place up to which the client knows the task already.
    pub place: Place,
    /// Fence of the receiver if its id is new.
    pub fence: i64,
}

/// A receiver as it is stored.
#[derive(Debug)]
pub(in crate::jobs) struct Receiver {
    /// Configuration from the client.
    pub config: PushConfig,
    /// The key it was made with.
    pub key_id: KeyId,
    /// Principal of that key.
    pub principal_id: String,
    /// Agent as which the key acted.
    pub agent_id: String,
    /// Context of the task.
    pub context: String,
    /// Place up to which the updates were sent.
    pub place: Place,
    /// Failures in a row.
    pub failures: u32,
    /// Since when.
    pub failing_since: Option<Timestamp>,
}

/// State to record after attempts.
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
    sent: i32,
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
            place: Place {
                seq: self.position,
                told,
                sent: usize::try_from(number(self.sent)?).unwrap_or(usize::MAX),
            },
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
        r#"-- task_pushes::load
         SELECT id, key_id, principal_id, agent_id, context, url, token, scheme, credentials, position, told,
                CASE WHEN sent_of = position THEN sent ELSE 0 END AS "sent!", failures, failing_since
         FROM task_pushes WHERE job_id = $1 ORDER BY created_at, id"#,
        job.uuid()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(|row| row.receiver(job)).collect()
}

/// Returns whether a principal has `most` receivers at tasks that are not over.
pub(in crate::jobs) async fn has_as_many(
    conn: &mut PgConnection,
    principal: &str,
    most: i64,
) -> Outcome<bool> {
    let has = sqlx::query_scalar!(
        r#"-- task_pushes::has_as_many
         SELECT count(*) >= $2 AS "has!" FROM (
             SELECT 1 FROM task_pushes WHERE principal_id = $1 AND due_at IS NOT NULL LIMIT $2) p"#,
        principal,
        most
    )
    .fetch_one(conn)
    .await?;
    Ok(has)
}

/// Inserts a receiver, or changes where it is and how it knows the sender. Whoever sends to the former address loses its lease;
/// a new receiver has the given fence, so that the lease on a deleted one with its id stays lost.
pub(in crate::jobs) async fn put(
    conn: &mut PgConnection,
    caller: &Caller,
    job: JobId,
    receiver: NewReceiver<'_>,
    now: Timestamp,
) -> Outcome<()> {
    let NewReceiver { config, context, place, fence } = receiver;
    let authentication = config.authentication.as_ref();
    sqlx::query!(
        "-- task_pushes::put
         INSERT INTO task_pushes AS t (job_id, id, key_id, principal_id, agent_id, context, url, token, scheme, credentials,
                                       created_at, position, told, due_at, fence)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
         ON CONFLICT (job_id, id) DO UPDATE SET
             key_id = excluded.key_id, agent_id = excluded.agent_id, url = excluded.url, token = excluded.token,
             scheme = excluded.scheme, credentials = excluded.credentials, failures = 0, failing_since = NULL,
             fence = t.fence + 1, claimed_by = NULL, claimed_until = NULL, behind = true,
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
        (!place.told.is_terminal()).then_some(now),
        fence
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

/// Claims leases on up to `limit` receivers whose job has events that they were not sent. The receivers of each principal get their
/// turn, and those of one hold up to `share` leases of a server.
pub(in crate::jobs) async fn claim(
    pool: &Pool,
    node: NodeId,
    now: Timestamp,
    until: Timestamp,
    limit: i64,
    share: i64,
) -> Outcome<Vec<PushLease>> {
    let rows = sqlx::query!(
        "-- task_pushes::claim
         WITH held AS (
             SELECT principal_id, count(*) AS leases FROM task_pushes WHERE claimed_by = $1 AND claimed_until > $2 GROUP BY principal_id
         ), due AS (
             SELECT job_id, id, principal_id, row_number() OVER (PARTITION BY principal_id ORDER BY due_at, job_id, id) AS turn
             FROM task_pushes WHERE due_at <= $2 AND behind AND (claimed_until IS NULL OR claimed_until <= $2)
         )
         UPDATE task_pushes SET claimed_by = $1, claimed_until = $3, fence = fence + 1
         WHERE (job_id, id) IN (
             SELECT p.job_id, p.id
             FROM due d JOIN task_pushes p ON p.job_id = d.job_id AND p.id = d.id LEFT JOIN held h ON h.principal_id = d.principal_id
             WHERE d.turn + coalesce(h.leases, 0) <= $5
               AND p.due_at <= $2 AND p.behind AND (p.claimed_until IS NULL OR p.claimed_until <= $2)
             ORDER BY d.turn + coalesce(h.leases, 0), p.due_at LIMIT $4 FOR UPDATE OF p SKIP LOCKED)
         RETURNING job_id, id, fence",
        node.uuid(),
        now,
        until,
        limit,
        share
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
        r#"-- task_pushes::held
         SELECT id, key_id, principal_id, agent_id, context, url, token, scheme, credentials, position, told,
                CASE WHEN sent_of = position THEN sent ELSE 0 END AS "sent!", failures, failing_since
         FROM task_pushes WHERE job_id = $1 AND id = $2 AND fence = $3 AND claimed_by = $4"#,
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

/// Records the outcome of attempts, and prolongs the lease; returns whether it was in force.
pub(in crate::jobs) async fn note(
    pool: &Pool,
    lease: &PushLease,
    noted: &Noted,
    until: Timestamp,
) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- task_pushes::note
         UPDATE task_pushes SET position = $5, told = $6, due_at = $7, failures = $8, failing_since = $9,
                last_error = coalesce($10, last_error), claimed_until = $11, sent = $12, sent_of = $5
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
        until,
        i32::try_from(noted.place.sent).unwrap_or(i32::MAX)
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Releases a lease, and notes whether there are more events. Who writes events has the lock on the job's row until they are there,
/// so none is overlooked.
pub(in crate::jobs) async fn release(pool: &Pool, lease: &PushLease) -> Outcome<()> {
    sqlx::query!(
        "-- task_pushes::release
         UPDATE task_pushes p SET claimed_by = NULL, claimed_until = NULL, behind = c.last_seq > p.position
         FROM (SELECT last_seq FROM job_clock WHERE job_id = $1 FOR NO KEY UPDATE) c
         WHERE p.job_id = $1 AND p.id = $2 AND p.fence = $3 AND p.claimed_by = $4",
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
