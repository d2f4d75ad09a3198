//! Cost of each job, without its children's. Table `job_costs`.

use std::collections::BTreeMap;

use entente_domain::amounts::Amount;
use entente_domain::arcp::budgets::Budget;
use entente_domain::ids::JobId;
use entente_kernel::{Outcome, unknown};
use sqlx::PgConnection;
use uuid::Uuid;

/// Adds costs to those of jobs, whose rows are locked.
pub(in crate::jobs) async fn add(conn: &mut PgConnection, costs: &BTreeMap<JobId, Budget>) -> Outcome<()> {
    let each = costs
        .iter()
        .flat_map(|(job, costs)| costs.0.iter().map(move |(currency, amount)| (job, currency, amount)));
    let each: Vec<(&JobId, &String, &Amount)> =
        each.filter(|(_, _, amount)| **amount != Amount::ZERO).collect();
    if each.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- job_costs::add
         INSERT INTO job_costs (job_id, currency, amount)
         SELECT c.job_id, c.currency, c.amount::numeric
         FROM UNNEST($1::uuid[], $2::text[], $3::text[]) AS c (job_id, currency, amount)
         ON CONFLICT (job_id, currency) DO UPDATE SET amount = job_costs.amount + excluded.amount",
        &each.iter().map(|(job, _, _)| job.uuid()).collect::<Vec<_>>(),
        &each.iter().map(|(_, currency, _)| currency.as_str()).collect::<Vec<_>>() as &[&str],
        &each.iter().map(|(_, _, amount)| amount.to_string()).collect::<Vec<_>>()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Loads the costs of these jobs; jobs without any are left out.
pub(in crate::jobs) async fn load(
    conn: &mut PgConnection,
    jobs: &[JobId],
) -> Outcome<BTreeMap<JobId, Budget>> {
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        r#"-- job_costs::load
         SELECT job_id, currency, trim_scale(amount)::text AS "amount!" FROM job_costs WHERE job_id = ANY($1)"#,
        &ids
    )
    .fetch_all(conn)
    .await?;
    let mut costs: BTreeMap<JobId, Budget> = BTreeMap::new();
    for row in rows {
        let amount = Amount::try_from(row.amount.clone()).map_err(|_none| unknown("amount", &row.amount))?;
        costs.entry(row.job_id.into()).or_default().0.insert(row.currency, amount);
    }
    Ok(costs)
}

/// Deletes the costs of deleted jobs.
pub(super) async fn drop(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<()> {
    sqlx::query!("-- job_costs::drop\n DELETE FROM job_costs WHERE job_id = ANY($1)", ids)
        .execute(conn)
        .await?;
    Ok(())
}
