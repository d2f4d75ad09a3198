//! Rows of triggers. Table `triggers`.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{KeyId, TriggerId};
use entente_domain::limits::TRIGGER_FAILURES;
use entente_domain::openintent::triggers::filter::recorded;
use entente_domain::openintent::triggers::{Deduplication, DisabledReason, Trigger, TriggerKind};
use entente_domain::webhooks::signing::Secret;
use entente_kernel::{AppError, Outcome, unknown};
use sqlx::PgConnection;

use super::TriggerFilter;
use crate::Ctx;

/// A trigger with the fields that only its firing needs.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// The trigger.
    pub trigger: Trigger,
    /// Key with the rights that it uses to create intents.
    pub key_id: KeyId,
    /// Secret that verifies its webhooks.
    pub secret: Option<Secret>,
}

struct Row {
    id: uuid::Uuid,
    principal_id: String,
    agent_id: String,
    key_id: uuid::Uuid,
    name: String,
    kind: String,
    enabled: bool,
    disabled_reason: Option<String>,
    condition: Option<String>,
    template: Option<String>,
    job: Option<String>,
    deduplication: String,
    namespace: Option<String>,
    cooldown_seconds: Option<i32>,
    max_fires: Option<i64>,
    max_depth: i32,
    fire_count: i64,
    failures: i32,
    version: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
    last_fired_at: Option<Timestamp>,
    next_due: Option<Timestamp>,
    secret: Option<String>,
}

impl TryFrom<Row> for Stored {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let number = |n: i32| u32::try_from(n).unwrap_or(0);
        let reason =
            |word: &str| DisabledReason::parse(word).ok_or_else(|| unknown("reason of a trigger", word));
        let secret = |text: &str| {
            Secret::parse(text)
                .ok_or_else(|| AppError::Inconsistent("a stored secret of a trigger is none".to_owned()))
        };
        let trigger = Trigger {
            id: row.id.into(),
            principal_id: row.principal_id,
            agent_id: row.agent_id,
            name: row.name,
            kind: TriggerKind::parse(&row.kind).ok_or_else(|| unknown("trigger type", &row.kind))?,
            enabled: row.enabled,
            disabled_reason: row.disabled_reason.as_deref().map(reason).transpose()?,
            condition: row.condition.as_deref().map(serde_json::from_str).transpose()?,
            template: row.template.as_deref().map(serde_json::from_str).transpose()?,
            job: row.job.as_deref().map(serde_json::from_str).transpose()?,
            deduplication: Deduplication::parse(&row.deduplication)
                .ok_or_else(|| unknown("deduplication", &row.deduplication))?,
            namespace: row.namespace,
            cooldown_seconds: row.cooldown_seconds.map(number),
            max_fires: row.max_fires,
            max_depth: number(row.max_depth),
            fire_count: row.fire_count,
            failures: number(row.failures),
            version: row.version,
            created_at: row.created_at,
            updated_at: row.updated_at,
            last_fired_at: row.last_fired_at,
            next_due: row.next_due,
        };
        let secret = row.secret.as_deref().map(secret).transpose()?;
        Ok(Self { trigger, key_id: row.key_id.into(), secret })
    }
}

/// Selects whole triggers: the query's name, and the clauses after `FROM triggers t`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT t.id, t.principal_id, t.agent_id, t.key_id, t.name, t.kind, t.enabled, t.disabled_reason, t.condition,
                    t.template, t.deduplication, t.namespace, t.cooldown_seconds, t.max_fires, t.max_depth, t.fire_count,
                    t.failures, t.version, t.created_at, t.updated_at, t.last_fired_at, t.next_due, t.secret, t.job
             FROM triggers t " + $rest
            $(, $argument)*
        )
    };
}

/// Converts a trigger of a list; one that cannot be read is left out, and is disabled when it is to fire.
fn readable(row: Row) -> Option<Stored> {
    let id = row.id;
    let stored = Stored::try_from(row);
    stored.inspect_err(|e| tracing::error!(trigger.id = %id, error = %e, "a trigger could not be read")).ok()
}

/// Loads a trigger that was not deleted.
pub(super) async fn find(conn: &mut PgConnection, id: TriggerId) -> Outcome<Option<Stored>> {
    let row = select!("triggers::find", "WHERE t.id = $1 AND t.removed_at IS NULL", id.uuid())
        .fetch_optional(conn)
        .await?;
    row.map(Stored::try_from).transpose()
}

/// Loads a trigger, also one that was deleted and is not forgotten yet.
pub(super) async fn find_any(conn: &mut PgConnection, id: TriggerId) -> Outcome<Option<Stored>> {
    let row = select!("triggers::find_any", "WHERE t.id = $1", id.uuid()).fetch_optional(conn).await?;
    row.map(Stored::try_from).transpose()
}

/// Lists triggers, oldest first: those of a principal for agents that match these patterns of `LIKE`, or all
/// triggers.
pub(super) async fn list(
    conn: &mut PgConnection,
    principal_id: Option<&str>,
    names: Option<&[String]>,
    filter: &TriggerFilter,
) -> Outcome<Vec<Stored>> {
    let rows = select!(
        "triggers::list",
        "WHERE t.removed_at IS NULL AND ($1::text IS NULL OR t.principal_id = $1)
           AND ($2::text IS NULL OR t.namespace = $2) AND ($3::text IS NULL OR t.kind = $3)
           AND ($4::boolean IS NULL OR t.enabled = $4) AND ($5::uuid IS NULL OR t.id > $5)
           AND ($7::text[] IS NULL OR t.agent_id LIKE ANY ($7))
         ORDER BY t.id LIMIT $6",
        principal_id,
        filter.namespace,
        filter.kind.map(TriggerKind::as_str),
        filter.enabled,
        filter.after.map(TriggerId::uuid),
        i64::from(filter.limit),
        names
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().filter_map(readable).collect())
}

/// Returns the event of the system log after which the first event trigger counts events; `None` if there are no event
/// triggers.
pub(super) async fn first_heard(conn: &mut PgConnection) -> Outcome<Option<i64>> {
    let first = sqlx::query_scalar!(
        "-- triggers::first_heard
         SELECT min(hears_from) FROM triggers WHERE listens AND enabled AND removed_at IS NULL"
    )
    .fetch_one(conn)
    .await?;
    Ok(first)
}

pub(super) async fn count(conn: &mut PgConnection, principal_id: &str) -> Outcome<i64> {
    let count = sqlx::query_scalar!(
        r#"-- triggers::count
         SELECT count(*) AS "count!" FROM triggers WHERE principal_id = $1 AND removed_at IS NULL"#,
        principal_id
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Returns triggers that are due, the longest overdue first.
pub(super) async fn due(ctx: &Ctx, limit: i64) -> Outcome<Vec<TriggerId>> {
    let ids = sqlx::query_scalar!(
        "-- triggers::due
         SELECT id FROM triggers WHERE next_due <= $1 AND enabled AND removed_at IS NULL ORDER BY next_due LIMIT $2",
        ctx.now(),
        limit
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(ids.into_iter().map(TriggerId::from).collect())
}

fn text<T: serde::Serialize>(value: Option<&T>) -> Outcome<Option<String>> {
    Ok(value.map(serde_json::to_string).transpose()?)
}

fn signed(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// Returns the event type that a trigger matches, unless it is a pattern.
fn event_type(trigger: &Trigger) -> Option<&str> {
    trigger.listens_to().map(recorded).filter(|kind| !kind.contains('*'))
}

pub(super) async fn insert(conn: &mut PgConnection, stored: &Stored) -> Outcome<()> {
    let one = &stored.trigger;
    sqlx::query!(
        "-- triggers::insert
         INSERT INTO triggers (id, principal_id, agent_id, key_id, name, kind, enabled, condition, template, deduplication,
                               namespace, cooldown_seconds, max_fires, max_depth, fire_count, failures, version, created_at,
                               updated_at, next_due, event_type, listens, secret, makes, job)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
                 $25)",
        one.id.uuid(),
        one.principal_id,
        one.agent_id,
        stored.key_id.uuid(),
        one.name,
        one.kind.as_str(),
        one.enabled,
        text(one.condition.as_ref())?,
        text(one.template.as_ref())?,
        one.deduplication.as_str(),
        one.namespace,
        one.cooldown_seconds.map(signed),
        one.max_fires,
        signed(one.max_depth),
        one.fire_count,
        signed(one.failures),
        one.version,
        one.created_at,
        one.updated_at,
        one.next_due,
        event_type(one),
        one.listens_to().is_some(),
        stored.secret.as_ref().map(Secret::reveal),
        one.makes(),
        text(one.job.as_ref())?
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes a trigger in its current state; with `begins` it matches only events from now on.
pub(super) async fn save(conn: &mut PgConnection, stored: &Stored, begins: bool) -> Outcome<()> {
    let one = &stored.trigger;
    sqlx::query!(
        "-- triggers::save
         UPDATE triggers SET key_id = $2, name = $3, enabled = $4, disabled_reason = $5, condition = $6, template = $7,
                deduplication = $8, namespace = $9, cooldown_seconds = $10, max_fires = $11, max_depth = $12,
                fire_count = $13, failures = $14, version = $15, updated_at = $16, last_fired_at = $17, next_due = $18,
                event_type = $19, listens = $20, secret = $21, makes = $22,
                hears_from = CASE WHEN $23 THEN next_of_system() ELSE hears_from END, job = $24
         WHERE id = $1",
        one.id.uuid(),
        stored.key_id.uuid(),
        one.name,
        one.enabled,
        one.disabled_reason.map(DisabledReason::as_str),
        text(one.condition.as_ref())?,
        text(one.template.as_ref())?,
        one.deduplication.as_str(),
        one.namespace,
        one.cooldown_seconds.map(signed),
        one.max_fires,
        signed(one.max_depth),
        one.fire_count,
        signed(one.failures),
        one.version,
        one.updated_at,
        one.last_fired_at,
        one.next_due,
        event_type(one),
        one.listens_to().is_some(),
        stored.secret.as_ref().map(Secret::reveal),
        one.makes(),
        begins,
        text(one.job.as_ref())?
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) async fn remove(conn: &mut PgConnection, id: TriggerId, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- triggers::remove
         UPDATE triggers SET removed_at = $2, next_due = NULL, secret = NULL WHERE id = $1",
        id.uuid(),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Disables a trigger that cannot be read; returns its agent if the trigger was still due or matched events.
pub(super) async fn break_off(
    conn: &mut PgConnection,
    id: TriggerId,
    now: Timestamp,
) -> Outcome<Option<String>> {
    let agent = sqlx::query_scalar!(
        "-- triggers::break_off
         UPDATE triggers SET enabled = false, disabled_reason = 'failing', next_due = NULL, version = version + 1,
                updated_at = $2
         WHERE id = $1 AND enabled AND removed_at IS NULL AND (next_due <= $2 OR listens) RETURNING agent_id",
        id.uuid(),
        now
    )
    .fetch_optional(conn)
    .await?;
    Ok(agent)
}

/// Counts a failure of a trigger with a firing that could not run, and disables it after too many; returns its agent,
/// and whether it was disabled now.
pub(super) async fn count_failure(
    conn: &mut PgConnection,
    id: TriggerId,
    now: Timestamp,
) -> Outcome<Option<(String, bool)>> {
    let row = sqlx::query!(
        r#"-- triggers::count_failure
         UPDATE triggers SET failures = failures + 1,
                disabled_reason = CASE WHEN enabled AND failures + 1 >= $3 THEN 'failing' ELSE disabled_reason END,
                next_due = CASE WHEN failures + 1 >= $3 THEN NULL ELSE next_due END,
                version = CASE WHEN enabled AND failures + 1 >= $3 THEN version + 1 ELSE version END,
                updated_at = CASE WHEN enabled AND failures + 1 >= $3 THEN $2 ELSE updated_at END,
                enabled = enabled AND failures + 1 < $3
         WHERE id = $1 AND removed_at IS NULL
         RETURNING agent_id, NOT enabled AND disabled_reason = 'failing' AND updated_at = $2 AS "disabled!""#,
        id.uuid(),
        now,
        signed(TRIGGER_FAILURES)
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| (row.agent_id, row.disabled)))
}

/// Forgets the failures of a trigger whose job was submitted.
pub(super) async fn recovered(conn: &mut PgConnection, id: TriggerId) -> Outcome<()> {
    sqlx::query!(
        "-- triggers::recovered\n UPDATE triggers SET failures = 0 WHERE id = $1 AND failures > 0",
        id.uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes triggers that were removed before a time; their intents and firings have retention periods of their own.
pub(super) async fn forget(ctx: &Ctx, before: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- triggers::forget
         DELETE FROM triggers WHERE id IN (
             SELECT id FROM triggers WHERE removed_at < $1 ORDER BY removed_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        before,
        limit
    )
    .execute(&ctx.pool)
    .await?;
    Ok(done.rows_affected())
}
