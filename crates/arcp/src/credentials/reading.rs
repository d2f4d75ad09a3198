//! Queries on credentials and their jobs; `rows.rs` writes them.

use std::collections::BTreeMap;

use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::jobs::wire::Credential;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{CredentialId, JobId};
use entente_kernel::{AppError, Outcome, not_found};
use sqlx::PgConnection;

use super::{Prepared, Target};
use crate::Ctx;

/// Whether one of these values was ever given to a job.
pub(super) async fn used(conn: &mut PgConnection, hashes: &[Vec<u8>]) -> Outcome<bool> {
    let used = sqlx::query_scalar!(
        r#"-- credentials::used
         SELECT EXISTS (SELECT 1 FROM credentials WHERE value_hash = ANY ($1)) AS "used!""#,
        hashes
    )
    .fetch_one(conn)
    .await?;
    Ok(used)
}

/// Returns the least that these jobs have left, per currency.
pub(super) async fn left(conn: &mut PgConnection, payers: &[JobId]) -> Outcome<Budget> {
    let ids: Vec<uuid::Uuid> = payers.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        r#"-- credentials::left
         SELECT currency, min(remaining)::text AS "least!" FROM job_budgets WHERE job_id = ANY ($1) GROUP BY currency"#,
        &ids
    )
    .fetch_all(conn)
    .await?;
    let read = |text: String| {
        text.clone().try_into().map_err(|e| AppError::Inconsistent(format!("stored amount {text}: {e}")))
    };
    let amounts: Outcome<BTreeMap<_, _>> =
        rows.into_iter().map(|row| Ok((row.currency, read(row.least)?))).collect();
    Ok(Budget(amounts?))
}

/// Returns when a job with an idempotency key was accepted: a repeated submit may ask for its first response.
pub(super) async fn keyed_at(conn: &mut PgConnection, job: JobId) -> Outcome<Option<Timestamp>> {
    let at = sqlx::query_scalar!(
        "-- credentials::keyed_at
         SELECT created_at FROM jobs WHERE id = $1 AND idempotency_key IS NOT NULL",
        job.uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(at)
}

struct Row {
    job_id: uuid::Uuid,
    id: uuid::Uuid,
    value: Option<String>,
    endpoint: Option<String>,
    profile: Option<String>,
    constraints: Option<String>,
}

impl Row {
    fn read(self) -> Outcome<(JobId, Credential)> {
        let missing = || AppError::Inconsistent("a credential that works has no value".to_owned());
        let credential = Credential {
            id: CredentialId::from(self.id).to_string(),
            scheme: "bearer".to_owned(),
            value: self.value.ok_or_else(missing)?,
            endpoint: self.endpoint.ok_or_else(missing)?,
            profile: self.profile,
            constraints: self.constraints.as_deref().map(serde_json::from_str).transpose()?,
        };
        Ok((self.job_id.into(), credential))
    }
}

/// Loads the live values of these jobs.
pub(super) async fn live(conn: &mut PgConnection, jobs: &[JobId]) -> Outcome<Vec<(JobId, Credential)>> {
    let ids: Vec<uuid::Uuid> = jobs.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query_as!(
        Row,
        "-- credentials::live
         SELECT job_id, id, value, endpoint, profile, constraints FROM credentials
         WHERE job_id = ANY ($1) AND state = 'live' ORDER BY id, generation",
        &ids
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Row::read).collect()
}

/// Loads the first values of a job that are still stored.
pub(super) async fn first(conn: &mut PgConnection, job: JobId) -> Outcome<Vec<Credential>> {
    let rows = sqlx::query_as!(
        Row,
        "-- credentials::first
         SELECT job_id, id, value, endpoint, profile, constraints FROM credentials
         WHERE job_id = $1 AND generation = 1 AND value IS NOT NULL AND endpoint IS NOT NULL ORDER BY id",
        job.uuid()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(|row| row.read().map(|(_, credential)| credential)).collect()
}

/// Returns the value of a live credential.
pub(super) async fn value(conn: &mut PgConnection, job: JobId, id: CredentialId) -> Outcome<Option<String>> {
    let value = sqlx::query_scalar!(
        "-- credentials::value
         SELECT value FROM credentials WHERE id = $1 AND job_id = $2 AND state = 'live' ORDER BY generation DESC LIMIT 1",
        id.uuid(),
        job.uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(value.flatten())
}

/// Loads the requests recorded for a job whose values are not stored yet.
pub(super) async fn waiting(conn: &mut PgConnection, job: JobId) -> Outcome<Vec<Prepared>> {
    let rows = sqlx::query!(
        "-- credentials::waiting
         SELECT id, generation, provisioner FROM credentials WHERE job_id = $1 AND state = 'minting' ORDER BY id",
        job.uuid()
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Prepared {
            id: row.id.into(),
            generation: u32::try_from(row.generation).unwrap_or(1),
            provisioner: row.provisioner,
        })
        .collect())
}

/// Returns up to `limit` jobs whose first values were requested so long ago that the requesting server must
/// be dead.
pub(crate) async fn late(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<Vec<JobId>> {
    let ids = sqlx::query_scalar!(
        "-- credentials::late
         SELECT job_id FROM credentials WHERE state = 'minting' AND due_at <= $1 AND generation = 1
         ORDER BY due_at LIMIT $2",
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    let mut ids: Vec<JobId> = ids.into_iter().map(JobId::from).collect();
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// A credential's live value, its provisioner, and the number of generations so far.
pub(crate) struct Current {
    pub(super) target: Target,
    pub(super) provisioner: String,
    pub(super) generations: u32,
}

/// Loads a job's live credential.
pub(super) async fn current(
    ctx: &Ctx,
    conn: &mut PgConnection,
    job: JobId,
    id: CredentialId,
) -> Outcome<Current> {
    let row = sqlx::query!(
        r#"-- credentials::current
         SELECT c.generation, c.provisioner, c.given, c.upstream_id, c.value,
                (SELECT max(generation) FROM credentials WHERE id = $1) AS "generations!"
         FROM credentials c WHERE c.id = $1 AND c.job_id = $2 AND c.state = 'live'"#,
        id.uuid(),
        job.uuid()
    )
    .fetch_optional(conn)
    .await?
    .ok_or_else(|| not_found("credential"))?;
    let number = |n: i32| u32::try_from(n).unwrap_or(1);
    let target = Target {
        credential_id: id,
        generation: number(row.generation),
        job_id: job,
        given: row.given,
        upstream_id: row.upstream_id,
        value: row.value,
        now: ctx.now(),
    };
    Ok(Current { target, provisioner: row.provisioner, generations: number(row.generations) })
}
