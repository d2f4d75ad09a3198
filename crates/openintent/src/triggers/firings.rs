//! Rows of firings. Table `trigger_firings`.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{FiringId, IntentId, JobId, TriggerId};
use entente_domain::openintent::triggers::Cause;
use entente_kernel::{AppError, Outcome, unknown};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::Ctx;

/// Status of a firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = TriggerFiringStatus)]
pub enum FiringStatus {
    /// An event matched, and the firing is about to run.
    Heard,
    /// It waits until an open intent of the same type is over.
    Waiting,
    /// It created an intent, or a job.
    Fired,
    /// It was not to create an intent.
    Skipped,
    /// It failed to create an intent.
    Failed,
}

impl FiringStatus {
    const ALL: [Self; 5] = [Self::Heard, Self::Waiting, Self::Fired, Self::Skipped, Self::Failed];

    /// Returns the status's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Heard => "heard",
            Self::Waiting => "waiting",
            Self::Fired => "fired",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }

    fn parse(word: &str) -> Outcome<Self> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == word);
        found.ok_or_else(|| unknown("status of a firing", word))
    }

    /// Returns whether the firing is still to run.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Heard | Self::Waiting)
    }
}

/// One firing of a trigger.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Firing {
    /// Its id.
    pub id: FiringId,
    /// The trigger.
    pub trigger_id: TriggerId,
    /// The kind of its cause.
    pub cause: Cause,
    /// Key of the cause: a trigger never fires twice for the same one.
    pub cause_key: String,
    /// Its status.
    pub status: FiringStatus,
    /// Code of the reason for creating no intent.
    pub reason: Option<String>,
    /// The same reason, for people.
    pub detail: Option<String>,
    /// The intent that it created.
    pub intent_id: Option<IntentId>,
    /// The job that it submitted.
    #[serde(default)]
    pub job_id: Option<JobId>,
    /// Request for a job, as JSON, while it is to be submitted.
    #[serde(skip)]
    pub job: Option<String>,
    /// Scheduled time.
    pub due_at: Option<Timestamp>,
    /// The event: its intent and its number in the intent's log.
    pub source: Option<(IntentId, i64)>,
    /// Agent that fired it by hand.
    pub fired_by: Option<String>,
    /// Values for the template, as JSON, while the firing is still to run.
    #[serde(skip)]
    pub brought: Option<String>,
    /// Time at which it became due.
    pub created_at: Timestamp,
    /// Time at which it was over.
    pub done_at: Option<Timestamp>,
}

impl Firing {
    /// Creates a firing that is about to run.
    pub(super) fn new(
        id: FiringId,
        trigger: TriggerId,
        cause: Cause,
        cause_key: String,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            trigger_id: trigger,
            cause,
            cause_key,
            status: FiringStatus::Heard,
            reason: None,
            detail: None,
            intent_id: None,
            job_id: None,
            job: None,
            due_at: None,
            source: None,
            fired_by: None,
            brought: None,
            created_at: now,
            done_at: None,
        }
    }
}

struct Row {
    id: uuid::Uuid,
    trigger_id: uuid::Uuid,
    cause: String,
    cause_key: String,
    status: String,
    reason: Option<String>,
    detail: Option<String>,
    intent_id: Option<uuid::Uuid>,
    job_id: Option<uuid::Uuid>,
    job: Option<String>,
    due_at: Option<Timestamp>,
    source_intent: Option<uuid::Uuid>,
    source_seq: Option<i64>,
    fired_by: Option<String>,
    brought: Option<String>,
    created_at: Timestamp,
    done_at: Option<Timestamp>,
}

impl TryFrom<Row> for Firing {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            trigger_id: row.trigger_id.into(),
            cause: Cause::parse(&row.cause).ok_or_else(|| unknown("cause", &row.cause))?,
            cause_key: row.cause_key,
            status: FiringStatus::parse(&row.status)?,
            reason: row.reason,
            detail: row.detail,
            intent_id: row.intent_id.map(IntentId::from),
            job_id: row.job_id.map(JobId::from),
            job: row.job,
            due_at: row.due_at,
            source: row.source_intent.map(IntentId::from).zip(row.source_seq),
            fired_by: row.fired_by,
            brought: row.brought,
            created_at: row.created_at,
            done_at: row.done_at,
        })
    }
}

/// Selects whole firings: the query's name, and the clauses after `FROM trigger_firings f`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT f.id, f.trigger_id, f.cause, f.cause_key, f.status, f.reason, f.detail, f.intent_id, f.job_id, f.job, f.due_at,
                    f.source_intent, f.source_seq, f.fired_by, f.brought, f.created_at, f.done_at
             FROM trigger_firings f " + $rest
            $(, $argument)*
        )
    };
}

pub(super) async fn find(conn: &mut PgConnection, id: FiringId) -> Outcome<Option<Firing>> {
    let row = select!("trigger_firings::find", "WHERE f.id = $1", id.uuid()).fetch_optional(conn).await?;
    row.map(Firing::try_from).transpose()
}

/// Loads the firing of a trigger for this very cause, if there was one.
pub(super) async fn for_cause(
    conn: &mut PgConnection,
    trigger: TriggerId,
    cause: Cause,
    key: &str,
) -> Outcome<Option<Firing>> {
    let row = select!(
        "trigger_firings::for_cause",
        "WHERE f.trigger_id = $1 AND f.cause = $2 AND f.cause_key = $3",
        trigger.uuid(),
        cause.as_str(),
        key
    )
    .fetch_optional(conn)
    .await?;
    row.map(Firing::try_from).transpose()
}

pub(super) async fn list(
    conn: &mut PgConnection,
    trigger: TriggerId,
    before: Option<FiringId>,
    limit: u32,
) -> Outcome<Vec<Firing>> {
    let rows = select!(
        "trigger_firings::list",
        "WHERE f.trigger_id = $1
           AND ($2::uuid IS NULL OR f.number < (SELECT b.number FROM trigger_firings b WHERE b.id = $2))
         ORDER BY f.number DESC LIMIT $3",
        trigger.uuid(),
        before.map(FiringId::uuid),
        i64::from(limit)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Firing::try_from).collect()
}

/// Returns firings that can run: the oldest of each principal first, in turn, so that no principal's backlog delays
/// the others.
///
/// Those that wait for an open intent are left out.
pub(super) async fn ready(ctx: &Ctx, limit: i64) -> Outcome<Vec<FiringId>> {
    let ids = sqlx::query_scalar!(
        "-- trigger_firings::ready
         SELECT id FROM (
         SELECT f.id, f.number, row_number() OVER (PARTITION BY t.principal_id ORDER BY f.number) AS turn
         FROM trigger_firings f JOIN triggers t ON t.id = f.trigger_id
         WHERE f.status IN ('heard', 'waiting') AND (f.status = 'heard' OR t.deduplication <> 'queue' OR NOT EXISTS (
             SELECT 1 FROM trigger_intents i
             WHERE i.open AND i.principal_id = t.principal_id AND i.type = t.makes
               AND (t.namespace IS NULL OR i.namespace = t.namespace)))) ready
         ORDER BY turn, number LIMIT $1",
        limit
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(ids.into_iter().map(FiringId::from).collect())
}

/// Returns whether another firing of a trigger waits.
pub(super) async fn waits(conn: &mut PgConnection, trigger: TriggerId, but: FiringId) -> Outcome<bool> {
    let waits = sqlx::query_scalar!(
        r#"-- trigger_firings::waits
         SELECT EXISTS (SELECT 1 FROM trigger_firings
                        WHERE trigger_id = $1 AND status = 'waiting' AND id <> $2) AS "waits!""#,
        trigger.uuid(),
        but.uuid()
    )
    .fetch_one(conn)
    .await?;
    Ok(waits)
}

/// Inserts firings, and skips those with a cause that has fired already; returns the number of new ones.
pub(super) async fn insert(conn: &mut PgConnection, firings: &[Firing]) -> Outcome<u64> {
    if firings.is_empty() {
        return Ok(0);
    }
    let texts = |of: fn(&Firing) -> &str| firings.iter().map(of).collect::<Vec<_>>();
    let optional = |of: fn(&Firing) -> Option<&str>| firings.iter().map(of).collect::<Vec<_>>();
    let done = sqlx::query!(
        "-- trigger_firings::insert
         INSERT INTO trigger_firings (id, trigger_id, cause, cause_key, status, reason, detail, intent_id, due_at,
                                      source_intent, source_seq, fired_by, brought, created_at, done_at, job)
         SELECT * FROM UNNEST($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
             $8::uuid[], $9::timestamptz[], $10::uuid[], $11::bigint[], $12::text[], $13::text[], $14::timestamptz[],
             $15::timestamptz[], $16::text[])
         ON CONFLICT ON CONSTRAINT trigger_firings_once DO NOTHING",
        &firings.iter().map(|one| one.id.uuid()).collect::<Vec<_>>(),
        &firings.iter().map(|one| one.trigger_id.uuid()).collect::<Vec<_>>(),
        &texts(|one| one.cause.as_str()) as &[&str],
        &texts(|one| &one.cause_key) as &[&str],
        &texts(|one| one.status.as_str()) as &[&str],
        &optional(|one| one.reason.as_deref()) as &[Option<&str>],
        &optional(|one| one.detail.as_deref()) as &[Option<&str>],
        &firings.iter().map(|one| one.intent_id.map(IntentId::uuid)).collect::<Vec<_>>() as &[Option<uuid::Uuid>],
        &firings.iter().map(|one| one.due_at).collect::<Vec<_>>() as &[Option<Timestamp>],
        &firings.iter().map(|one| one.source.map(|(id, _)| id.uuid())).collect::<Vec<_>>() as &[Option<uuid::Uuid>],
        &firings.iter().map(|one| one.source.map(|(_, seq)| seq)).collect::<Vec<_>>() as &[Option<i64>],
        &optional(|one| one.fired_by.as_deref()) as &[Option<&str>],
        &optional(|one| one.brought.as_deref()) as &[Option<&str>],
        &firings.iter().map(|one| one.created_at).collect::<Vec<_>>(),
        &firings.iter().map(|one| one.done_at).collect::<Vec<_>>() as &[Option<Timestamp>],
        &optional(|one| one.job.as_deref()) as &[Option<&str>]
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Writes the result of a stored firing.
pub(super) async fn save(conn: &mut PgConnection, firing: &Firing) -> Outcome<()> {
    sqlx::query!(
        "-- trigger_firings::save
         UPDATE trigger_firings SET status = $2, reason = $3, detail = $4, intent_id = $5, brought = $6, done_at = $7, job = $8
         WHERE id = $1",
        firing.id.uuid(),
        firing.status.as_str(),
        firing.reason,
        firing.detail,
        firing.intent_id.map(IntentId::uuid),
        firing.brought,
        firing.done_at,
        firing.job
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Jobs of a trigger that are searched for one that runs, the latest: with `skip` only the last one can.
const LATEST: i64 = 100;

/// Returns whether a job of the trigger's latest firings has not ended, or is to be submitted.
pub(super) async fn job_is_open(conn: &mut PgConnection, trigger: TriggerId) -> Outcome<bool> {
    let open = sqlx::query_scalar!(
        r#"-- trigger_firings::job_is_open
         SELECT EXISTS (SELECT 1 FROM (
             SELECT job, job_id FROM trigger_firings WHERE trigger_id = $1 AND (job IS NOT NULL OR job_id IS NOT NULL)
             ORDER BY number DESC LIMIT $2) f
             WHERE f.job IS NOT NULL
                OR EXISTS (SELECT 1 FROM job_clock c WHERE c.job_id = f.job_id AND c.ended_at IS NULL)) AS "open!""#,
        trigger.uuid(),
        LATEST
    )
    .fetch_one(conn)
    .await?;
    Ok(open)
}

/// A firing whose job is to be submitted.
pub(super) struct WithJob {
    pub id: FiringId,
    pub trigger_id: TriggerId,
    pub request: String,
    pub created_at: Timestamp,
}

/// Returns firings whose jobs are to be submitted: first those that were not tried yet, the oldest first. None of them comes
/// again before `next`, so that those that cannot be submitted keep nothing back.
pub(super) async fn jobs(
    conn: &mut PgConnection,
    now: Timestamp,
    next: Timestamp,
    limit: i64,
) -> Outcome<Vec<WithJob>> {
    let rows = sqlx::query!(
        r#"-- trigger_firings::jobs
         WITH due AS (
             SELECT id FROM trigger_firings WHERE job IS NOT NULL AND (job_next_at IS NULL OR job_next_at <= $1)
             ORDER BY job_next_at NULLS FIRST, number LIMIT $3 FOR UPDATE SKIP LOCKED),
         put_off AS (
             UPDATE trigger_firings f SET job_next_at = $2 FROM due d WHERE f.id = d.id
             RETURNING f.id, f.trigger_id, f.job, f.created_at, f.number)
         SELECT id AS "id!", trigger_id AS "trigger_id!", job AS "job!", created_at AS "created_at!"
         FROM put_off ORDER BY number"#,
        now,
        next,
        limit
    )
    .fetch_all(conn)
    .await?;
    let found = rows.into_iter().map(|row| WithJob {
        id: row.id.into(),
        trigger_id: row.trigger_id.into(),
        request: row.job,
        created_at: row.created_at,
    });
    Ok(found.collect())
}

/// Records the job of a firing; returns its trigger if the job was still to be submitted.
pub(super) async fn job_submitted(
    conn: &mut PgConnection,
    id: FiringId,
    job: JobId,
) -> Outcome<Option<TriggerId>> {
    let trigger = sqlx::query_scalar!(
        "-- trigger_firings::job_submitted
         UPDATE trigger_firings SET job_id = $2, job = NULL, job_next_at = NULL WHERE id = $1 AND job IS NOT NULL
         RETURNING trigger_id",
        id.uuid(),
        job.uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(trigger.map(TriggerId::from))
}

/// Marks a firing as failed because its job was refused; returns its trigger if the job was still to be submitted.
pub(super) async fn job_refused(
    conn: &mut PgConnection,
    id: FiringId,
    why: &str,
    now: Timestamp,
) -> Outcome<Option<(TriggerId, Cause)>> {
    let row = sqlx::query!(
        "-- trigger_firings::job_refused
         UPDATE trigger_firings SET status = 'failed', reason = 'refused', detail = $2, job = NULL, job_next_at = NULL,
             done_at = $3
         WHERE id = $1 AND job IS NOT NULL RETURNING trigger_id, cause",
        id.uuid(),
        why,
        now
    )
    .fetch_optional(conn)
    .await?;
    let cause = |text: &str| Cause::parse(text).ok_or_else(|| unknown("cause", text));
    row.map(|row| Ok((row.trigger_id.into(), cause(&row.cause)?))).transpose()
}

/// Marks a firing as failed because it cannot run; returns its trigger if the firing was still to run.
pub(super) async fn break_off(
    conn: &mut PgConnection,
    id: FiringId,
    now: Timestamp,
) -> Outcome<Option<TriggerId>> {
    let trigger = sqlx::query_scalar!(
        "-- trigger_firings::break_off
         UPDATE trigger_firings SET status = 'failed', reason = 'internal', brought = NULL, done_at = $2
         WHERE id = $1 AND status IN ('heard', 'waiting') RETURNING trigger_id",
        id.uuid(),
        now
    )
    .fetch_optional(conn)
    .await?;
    Ok(trigger.map(TriggerId::from))
}

/// Skips all firings of a trigger that are still to run.
pub(super) async fn call_off(
    conn: &mut PgConnection,
    trigger: TriggerId,
    reason: &str,
    now: Timestamp,
) -> Outcome<()> {
    sqlx::query!(
        "-- trigger_firings::call_off
         UPDATE trigger_firings SET status = 'skipped', reason = $2, brought = NULL, done_at = $3
         WHERE trigger_id = $1 AND status IN ('heard', 'waiting')",
        trigger.uuid(),
        reason,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes finished firings that became due before a time.
pub(super) async fn forget(ctx: &Ctx, before: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- trigger_firings::forget
         DELETE FROM trigger_firings WHERE id IN (
             SELECT id FROM trigger_firings WHERE created_at < $1 AND status NOT IN ('heard', 'waiting')
             ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        before,
        limit
    )
    .execute(&ctx.pool)
    .await?;
    Ok(done.rows_affected())
}
