//! Budgets of jobs (ARCP §9.6): exact decimal counters and reservations. Tables `job_budgets` and
//! `job_reservations`.
//!
//! These are the rows. `JobChange` in `locked/spending.rs` decides about reservations and charges, with the rules of
//! `entente_domain::arcp::budgets`; budgets that several payers share are decided in `entente_domain::spending`, the most that an
//! intent may cost in `entente_domain::openintent::governance`.

use std::collections::BTreeMap;

use entente_domain::amounts::Amount;
use entente_domain::arcp::budgets::Budget;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, ReservationId};
use entente_kernel::{Outcome, unknown};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::columns::{column, number};

/// An amount reserved by a job.
#[derive(Debug, Clone)]
pub(super) struct Reservation {
    /// Its id.
    pub id: ReservationId,
    /// The job that set it aside.
    pub job_id: JobId,
    /// Attempt of the job that made it.
    pub attempt: u32,
    /// Amounts by currency.
    pub amounts: Budget,
    /// Call that it is for.
    pub call_id: Option<String>,
    /// Model that the call uses.
    pub model: Option<String>,
}

fn amount(stored: &str) -> Outcome<Amount> {
    Amount::try_from(stored.to_owned()).map_err(|_none| unknown("amount", stored))
}

fn gather(rows: Vec<(Uuid, String, String)>) -> Outcome<BTreeMap<JobId, Budget>> {
    let mut budgets: BTreeMap<JobId, Budget> = BTreeMap::new();
    for (job, currency, remaining) in rows {
        budgets.entry(job.into()).or_default().0.insert(currency, amount(&remaining)?);
    }
    Ok(budgets)
}

/// Loads the remaining budgets of these jobs; jobs without a budget are left out.
pub(super) async fn load(conn: &mut PgConnection, jobs: &[JobId]) -> Outcome<BTreeMap<JobId, Budget>> {
    if jobs.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        r#"-- job_budgets::load
         SELECT job_id, currency, trim_scale(remaining)::text AS "remaining!" FROM job_budgets WHERE job_id = ANY($1)"#,
        &ids
    )
    .fetch_all(conn)
    .await?;
    gather(rows.into_iter().map(|row| (row.job_id, row.currency, row.remaining)).collect())
}

/// Like [`load`], and locks them until the transaction ends.
pub(super) async fn lock(conn: &mut PgConnection, jobs: &[JobId]) -> Outcome<BTreeMap<JobId, Budget>> {
    if jobs.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        r#"-- job_budgets::lock
         SELECT job_id, currency, trim_scale(remaining)::text AS "remaining!" FROM job_budgets WHERE job_id = ANY($1)
         ORDER BY job_id, currency FOR UPDATE"#,
        &ids
    )
    .fetch_all(conn)
    .await?;
    gather(rows.into_iter().map(|row| (row.job_id, row.currency, row.remaining)).collect())
}

fn columns(budgets: &[(JobId, &Budget)]) -> (Vec<Uuid>, Vec<String>, Vec<String>) {
    let (mut ids, mut currencies, mut amounts) = (Vec::new(), Vec::new(), Vec::new());
    for (job, budget) in budgets {
        for (currency, amount) in &budget.0 {
            ids.push(job.uuid());
            currencies.push(currency.clone());
            amounts.push(amount.to_string());
        }
    }
    (ids, currencies, amounts)
}

/// Inserts the counters of new jobs.
pub(super) async fn insert(conn: &mut PgConnection, budgets: &[(JobId, &Budget)]) -> Outcome<()> {
    let (ids, currencies, amounts) = columns(budgets);
    if ids.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- job_budgets::insert
         INSERT INTO job_budgets (job_id, currency, remaining)
         SELECT b.job_id, b.currency, b.amount::numeric
         FROM UNNEST($1::uuid[], $2::text[], $3::text[]) AS b (job_id, currency, amount)",
        &ids,
        &currencies,
        &amounts
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes the remaining budgets of these jobs.
pub(super) async fn update(conn: &mut PgConnection, budgets: &[(JobId, &Budget)]) -> Outcome<()> {
    let (ids, currencies, amounts) = columns(budgets);
    if ids.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- job_budgets::update
         UPDATE job_budgets b SET remaining = n.amount::numeric
         FROM UNNEST($1::uuid[], $2::text[], $3::text[]) AS n (job_id, currency, amount)
         WHERE b.job_id = n.job_id AND b.currency = n.currency",
        &ids,
        &currencies,
        &amounts
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Inserts reservations.
pub(super) async fn reserve(conn: &mut PgConnection, made: &[Reservation], now: Timestamp) -> Outcome<()> {
    if made.is_empty() {
        return Ok(());
    }
    let amounts =
        made.iter().map(|one| serde_json::to_string(&one.amounts)).collect::<Result<Vec<String>, _>>()?;
    sqlx::query!(
        "-- job_reservations::insert
         INSERT INTO job_reservations (id, job_id, attempt, amounts, call_id, created_at, model)
         SELECT r.id, r.job_id, r.attempt, r.amounts, r.call_id, $5, r.model
         FROM UNNEST($1::uuid[], $2::uuid[], $3::integer[], $4::text[], $6::text[], $7::text[])
             AS r (id, job_id, attempt, amounts, call_id, model)",
        &made.iter().map(|one| one.id.uuid()).collect::<Vec<_>>(),
        &made.iter().map(|one| one.job_id.uuid()).collect::<Vec<_>>(),
        &made.iter().map(|one| column(one.attempt)).collect::<Vec<_>>(),
        &amounts,
        now,
        &made.iter().map(|one| one.call_id.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &made.iter().map(|one| one.model.as_deref()).collect::<Vec<_>>() as &[Option<&str>]
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Loads and locks the reservations of these jobs.
pub(super) async fn reserved(conn: &mut PgConnection, jobs: &[JobId]) -> Outcome<Vec<Reservation>> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        "-- job_reservations::of_jobs
         SELECT id, job_id, attempt, amounts, call_id, model FROM job_reservations WHERE job_id = ANY($1) ORDER BY id FOR UPDATE",
        &ids
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Reservation {
                id: row.id.into(),
                job_id: row.job_id.into(),
                attempt: number(row.attempt)?,
                amounts: serde_json::from_str(&row.amounts)?,
                call_id: row.call_id,
                model: row.model,
            })
        })
        .collect()
}

/// Deletes reservations that were settled or put back.
pub(super) async fn forget(conn: &mut PgConnection, gone: &[ReservationId]) -> Outcome<()> {
    if gone.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = gone.iter().map(|id| id.uuid()).collect();
    sqlx::query!("-- job_reservations::forget\n DELETE FROM job_reservations WHERE id = ANY($1)", &ids)
        .execute(conn)
        .await?;
    Ok(())
}

/// Deletes the counters and reservations of deleted jobs.
pub(super) async fn drop_all(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<()> {
    sqlx::query!(
        "-- job_budgets::drop
         WITH put_back AS (DELETE FROM job_reservations WHERE job_id = ANY($1))
         DELETE FROM job_budgets WHERE job_id = ANY($1)",
        ids
    )
    .execute(conn)
    .await?;
    Ok(())
}
