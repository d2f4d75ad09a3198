//! Thresholds of budgets that were reached, until their consequences are recorded. Table `budget_reached`. The bridges
//! ask people and make stops (`bridges/src/budgets.rs`).

use entente_domain::amounts::Amount;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{BudgetId, MomentId};
use entente_domain::spending::Usage;
use sqlx::PgConnection;
use uuid::Uuid;

use super::amount;
use crate::{AppError, Outcome, unknown};

/// A threshold that was reached.
#[derive(Debug, Clone)]
pub struct Reached {
    /// The budget.
    pub budget_id: BudgetId,
    /// Begin of the window.
    pub starts_at: Timestamp,
    /// The threshold.
    pub percent: u32,
    /// The limit of which that share was spent.
    pub limit: Amount,
    /// The amount spent then.
    pub spent: Amount,
    /// When it was reached.
    pub reached_at: Timestamp,
    /// When its event was recorded.
    pub told_at: Option<Timestamp>,
    /// The question to a person.
    pub moment_id: Option<MomentId>,
}

struct ReachedRow {
    budget_id: Uuid,
    starts_at: Timestamp,
    percent: i32,
    amount: String,
    spent: String,
    reached_at: Timestamp,
    told_at: Option<Timestamp>,
    moment_id: Option<Uuid>,
}

impl TryFrom<ReachedRow> for Reached {
    type Error = AppError;

    fn try_from(row: ReachedRow) -> Outcome<Self> {
        Ok(Self {
            budget_id: row.budget_id.into(),
            starts_at: row.starts_at,
            percent: u32::try_from(row.percent)
                .map_err(|_e| unknown("threshold", &row.percent.to_string()))?,
            limit: amount(&row.amount)?,
            spent: amount(&row.spent)?,
            reached_at: row.reached_at,
            told_at: row.told_at,
            moment_id: row.moment_id.map(MomentId::from),
        })
    }
}

/// Records thresholds as reached, each once in a window and for a limit.
pub(crate) async fn insert(
    conn: &mut PgConnection,
    reached: &[(&Usage, u32)],
    now: Timestamp,
) -> Outcome<()> {
    if reached.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- budget_reached::insert
         INSERT INTO budget_reached (budget_id, starts_at, percent, amount, spent, reached_at)
         SELECT r.budget_id, r.starts_at, r.percent, r.amount::numeric, r.spent::numeric, $6
         FROM UNNEST($1::uuid[], $2::timestamptz[], $3::integer[], $4::text[], $5::text[])
              AS r (budget_id, starts_at, percent, amount, spent)
         ON CONFLICT (budget_id, starts_at, percent, amount) DO NOTHING",
        &reached.iter().map(|(usage, _)| usage.budget.id.uuid()).collect::<Vec<_>>(),
        &reached.iter().map(|(usage, _)| usage.starts_at).collect::<Vec<_>>(),
        &reached.iter().map(|(_, share)| column(*share)).collect::<Vec<_>>(),
        &reached.iter().map(|(usage, _)| usage.limit().to_string()).collect::<Vec<_>>(),
        &reached.iter().map(|(usage, _)| usage.spent.to_string()).collect::<Vec<_>>(),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns up to `limit` thresholds whose consequences are not recorded, oldest first.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn open(conn: &mut PgConnection, limit: i64) -> Outcome<Vec<Reached>> {
    let rows = sqlx::query_as!(
        ReachedRow,
        r#"-- budget_reached::open
         SELECT budget_id, starts_at, percent, trim_scale(amount)::text AS "amount!", trim_scale(spent)::text AS "spent!",
                reached_at, told_at, moment_id
         FROM budget_reached r
         WHERE handled_at IS NULL AND (moment_id IS NULL OR EXISTS (
             SELECT 1 FROM moments m
             WHERE m.id = r.moment_id AND coalesce(m.ended_at::text, m.resolution_kind) IS NOT NULL))
         ORDER BY reached_at LIMIT $1"#,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Reached::try_from).collect()
}

/// Notes that the event of a threshold is recorded, and with `last` that nothing more follows; returns whether it was
/// not before.
///
/// # Errors
/// A database error.
pub async fn tell(conn: &mut PgConnection, one: &Reached, last: bool, now: Timestamp) -> Outcome<bool> {
    let told = sqlx::query!(
        "-- budget_reached::tell
         UPDATE budget_reached SET told_at = $5, handled_at = CASE WHEN $6 THEN $5::timestamptz END
         WHERE budget_id = $1 AND starts_at = $2 AND percent = $3 AND amount = $4::text::numeric AND told_at IS NULL",
        one.budget_id.uuid(),
        one.starts_at,
        column(one.percent),
        one.limit.to_string(),
        now,
        last
    )
    .execute(conn)
    .await?;
    Ok(told.rows_affected() > 0)
}

/// Locks a threshold; returns whether nobody was asked about it yet.
///
/// # Errors
/// A database error.
pub async fn unasked(conn: &mut PgConnection, one: &Reached) -> Outcome<bool> {
    let row = sqlx::query_scalar!(
        r#"-- budget_reached::unasked
         SELECT 1 AS "one!" FROM budget_reached
         WHERE budget_id = $1 AND starts_at = $2 AND percent = $3 AND amount = $4::text::numeric
           AND moment_id IS NULL AND handled_at IS NULL FOR UPDATE"#,
        one.budget_id.uuid(),
        one.starts_at,
        column(one.percent),
        one.limit.to_string()
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.is_some())
}

/// Notes the question to a person.
///
/// # Errors
/// A database error.
pub async fn asked(conn: &mut PgConnection, one: &Reached, moment: MomentId) -> Outcome<()> {
    sqlx::query!(
        "-- budget_reached::asked
         UPDATE budget_reached SET moment_id = $5
         WHERE budget_id = $1 AND starts_at = $2 AND percent = $3 AND amount = $4::text::numeric",
        one.budget_id.uuid(),
        one.starts_at,
        column(one.percent),
        one.limit.to_string(),
        moment.uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Notes that nothing more follows from a threshold; returns whether that was not noted before.
///
/// # Errors
/// A database error.
pub async fn handle(conn: &mut PgConnection, one: &Reached, now: Timestamp) -> Outcome<bool> {
    let handled = sqlx::query!(
        "-- budget_reached::handle
         UPDATE budget_reached SET handled_at = $5
         WHERE budget_id = $1 AND starts_at = $2 AND percent = $3 AND amount = $4::text::numeric AND handled_at IS NULL",
        one.budget_id.uuid(),
        one.starts_at,
        column(one.percent),
        one.limit.to_string(),
        now
    )
    .execute(conn)
    .await?;
    Ok(handled.rows_affected() > 0)
}

fn column(percent: u32) -> i32 {
    i32::try_from(percent).unwrap_or(i32::MAX)
}

/// Deletes up to `limit` thresholds that were reached before a time and have no more consequences; returns how many.
///
/// # Errors
/// A database error.
pub async fn forget(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<u64> {
    let gone = sqlx::query!(
        "-- budget_reached::forget
         WITH old AS (
             SELECT budget_id, starts_at, percent, amount FROM budget_reached WHERE handled_at < $1 LIMIT $2)
         DELETE FROM budget_reached r USING old o
         WHERE r.budget_id = o.budget_id AND r.starts_at = o.starts_at AND r.percent = o.percent AND r.amount = o.amount",
        before,
        limit
    )
    .execute(conn)
    .await?;
    Ok(gone.rows_affected())
}
