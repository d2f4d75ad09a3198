//! Thresholds of budgets that were reached, until their consequences are recorded. Table `budget_reached`. The bridges
//! ask people and make stops (`bridges/src/budgets.rs`).

use entente_domain::amounts::Amount;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{BudgetId, MomentId};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::costs::amount;
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
    /// What was spent then.
    pub spent: Amount,
    /// When it was reached.
    pub reached_at: Timestamp,
    /// The question to a person.
    pub moment_id: Option<MomentId>,
}

struct Row {
    budget_id: Uuid,
    starts_at: Timestamp,
    percent: i32,
    amount: String,
    spent: String,
    reached_at: Timestamp,
    moment_id: Option<Uuid>,
}

impl TryFrom<Row> for Reached {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            budget_id: row.budget_id.into(),
            starts_at: row.starts_at,
            percent: u32::try_from(row.percent).map_err(|_e| unknown("threshold", &row.percent.to_string()))?,
            limit: amount(&row.amount)?,
            spent: amount(&row.spent)?,
            reached_at: row.reached_at,
            moment_id: row.moment_id.map(MomentId::from),
        })
    }
}

/// Returns up to `limit` thresholds whose consequences are not recorded, oldest first.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn open(conn: &mut PgConnection, limit: i64) -> Outcome<Vec<Reached>> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- budget_reached::open
         SELECT budget_id, starts_at, percent, trim_scale(amount)::text AS "amount!", trim_scale(spent)::text AS "spent!",
                reached_at, moment_id
         FROM budget_reached WHERE handled_at IS NULL ORDER BY reached_at LIMIT $1"#,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Reached::try_from).collect()
}

/// Notes that the consequences of a threshold are recorded; returns whether they were not before.
///
/// # Errors
/// A database error.
pub async fn handle(
    conn: &mut PgConnection,
    one: &Reached,
    moment: Option<MomentId>,
    now: Timestamp,
) -> Outcome<bool> {
    let handled = sqlx::query!(
        "-- budget_reached::handle
         UPDATE budget_reached SET handled_at = $5, moment_id = $6
         WHERE budget_id = $1 AND starts_at = $2 AND percent = $3 AND amount = $4::text::numeric AND handled_at IS NULL",
        one.budget_id.uuid(),
        one.starts_at,
        i32::try_from(one.percent).unwrap_or(i32::MAX),
        one.limit.to_string(),
        now,
        moment.map(MomentId::uuid)
    )
    .execute(conn)
    .await?;
    Ok(handled.rows_affected() > 0)
}

/// Returns the threshold that a person was asked about.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn of_moment(conn: &mut PgConnection, moment: MomentId) -> Outcome<Option<Reached>> {
    let row = sqlx::query_as!(
        Row,
        r#"-- budget_reached::of_moment
         SELECT budget_id, starts_at, percent, trim_scale(amount)::text AS "amount!", trim_scale(spent)::text AS "spent!",
                reached_at, moment_id
         FROM budget_reached WHERE moment_id = $1"#,
        moment.uuid()
    )
    .fetch_optional(conn)
    .await?;
    row.map(Reached::try_from).transpose()
}
