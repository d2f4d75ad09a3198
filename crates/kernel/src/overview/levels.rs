//! Levels of the whole system for metrics: numbers without names, because `/metrics` requires no key.

use entente_domain::clock::Timestamp;
use entente_runtime::metrics::Levels;

use crate::{Ctx, Outcome};

/// Rows of each kind that are counted, at most: a scrape of a backlog must stay cheap.
const MOST: i64 = 10_000;

/// Reads the levels.
///
/// # Errors
/// The database query fails.
pub async fn levels(ctx: &Ctx) -> Outcome<Levels> {
    let row = sqlx::query!(
        r#"-- overview::levels
         WITH jobs_open AS (
             SELECT c.status, greatest(j.created_at, c.not_before) AS since FROM (
                 SELECT job_id, status, not_before FROM job_clock WHERE ended_at IS NULL ORDER BY job_id LIMIT $2) c
             JOIN jobs j ON j.id = c.job_id),
         questions AS (
             SELECT created_at FROM moments WHERE state IN ('open', 'deliberating') LIMIT $2),
         use AS (
             SELECT CASE WHEN coalesce(w.spent, 0) + coalesce(w.reserved, 0) >= b.amount + coalesce(w.raised, 0) THEN 2
                         WHEN (coalesce(w.spent, 0) + coalesce(w.reserved, 0)) * 5 >= (b.amount + coalesce(w.raised, 0)) * 4
                         THEN 1 ELSE 0 END AS level
             FROM (SELECT * FROM budgets WHERE closed_at IS NULL LIMIT $2) b
             LEFT JOIN budget_windows w ON w.budget_id = b.id
                   AND w.starts_at = budget_window_start(b.period, b.time_zone, $1))
         SELECT (SELECT count(*) FROM jobs_open WHERE status = 'pending') AS "pending!",
                (SELECT count(*) FROM jobs_open WHERE status = 'running') AS "running!",
                (SELECT min(since) FROM jobs_open WHERE status = 'pending' AND since <= $1) AS pending_since,
                (SELECT count(*) FROM questions) AS "decisions!",
                (SELECT min(created_at) FROM questions) AS decisions_since,
                (SELECT count(*) FROM use WHERE level = 0) AS "budgets_below!",
                (SELECT count(*) FROM use WHERE level = 1) AS "budgets_low!",
                (SELECT count(*) FROM use WHERE level = 2) AS "budgets_full!""#,
        ctx.now(),
        MOST
    )
    .fetch_one(&ctx.pool)
    .await?;
    let age =
        |since: Option<Timestamp>| since.map_or(0.0, |since| (ctx.now() - since).as_seconds_f64().max(0.0));
    Ok(Levels {
        jobs: [("pending", row.pending), ("running", row.running)],
        oldest_job: age(row.pending_since),
        decisions: row.decisions,
        oldest_decision: age(row.decisions_since),
        budgets: [("below_80", row.budgets_below), ("from_80", row.budgets_low), ("full", row.budgets_full)],
    })
}
