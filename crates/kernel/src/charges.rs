//! Charges: costs and reserved amounts, taken from every budget that concerns them. Tables `budget_windows`,
//! `budget_holds` and `spend`; `charges/reached.rs` has the thresholds that they reach.
//!
//! One statement does it all, and locks the windows of all budgets in one order, so that transactions that share some of
//! them never wait for each other in a circle. It is the last that a transaction locks.

pub mod reached;

use entente_domain::amounts::Amount;
use entente_domain::clock::{Timestamp, rfc3339};
use entente_domain::ids::{CostId, IntentId, JobId, ReservationId};
use entente_domain::refusal::Refusal;
use entente_domain::spending::{SpendingBudget, Threshold, Usage, Window};
use entente_domain::subjects::{Act, Subject, SubjectKind};
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::{Ctx, Outcome, unknown};

/// An amount to charge or to reserve.
#[derive(Debug, Clone, Default)]
pub struct Charge {
    /// The act that spends the amount.
    pub act: Act,
    /// Its unit.
    pub unit: String,
    /// The cost.
    pub spent: Amount,
    /// The amount to reserve.
    pub held: Amount,
    /// Reservation of that amount.
    pub reservation: Option<ReservationId>,
    /// Reservation that the cost was reserved by: up to its amount it is charged to the window that it was taken from.
    pub settles: Option<ReservationId>,
    /// Job that it belongs to.
    pub job: Option<JobId>,
    /// Provider of the resource.
    pub provider: Option<String>,
    /// Model that was used.
    pub model: Option<String>,
}

/// Selects budgets with their present use, without locking them: the query's name, the source of `b`, the text after its
/// joins, and the arguments, of which the first is the time.
macro_rules! select_usage {
    ($name:literal, $from:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            $crate::charges::Row,
            "-- " + $name + r#"
             SELECT b.id, b.name, b.scope, b.subject, b.unit, b.period, b.time_zone,
                    trim_scale(b.amount)::text AS "amount!", b.thresholds, b.created_by, b.created_at, b.closed_at,
                    s.starts_at AS "starts_at!", budget_window_end(b.period, b.time_zone, s.starts_at) AS ends_at,
                    trim_scale(coalesce(w.raised, 0))::text AS "raised!",
                    trim_scale(coalesce(w.spent, 0))::text AS "spent!",
                    trim_scale(coalesce(w.reserved, 0))::text AS "reserved!", '0' AS "charged!", '0' AS "held!"
             FROM "# + $from + "
             CROSS JOIN LATERAL (SELECT budget_window_start(b.period, b.time_zone, $1) AS starts_at) AS s
             LEFT JOIN budget_windows w ON w.budget_id = b.id AND w.starts_at = s.starts_at
             " + $rest
            $(, $argument)*
        )
    };
}
pub(crate) use select_usage;

/// A budget that paid a charge or got something back.
#[derive(Debug, Clone)]
pub struct Paid {
    /// Its use after that.
    pub usage: Usage,
    /// Costs charged by the statement.
    pub spent: Amount,
    /// Amounts reserved by the statement.
    pub held: Amount,
}

impl Paid {
    /// Thresholds that the charge has reached.
    fn crossed(&self, refused: bool) -> impl Iterator<Item = &Threshold> {
        let before = Usage { spent: self.usage.spent - self.spent, ..self.usage.clone() };
        self.usage.reached(refused).filter(move |one| refused || !before.has_spent(one.percent))
    }
}

/// Charges costs, reserves amounts and releases reservations; records the costs. Returns the budgets concerned, each
/// once.
///
/// Nothing is judged: costs may exceed a limit, because the money is spent. [`require_room`] judges reservations.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn apply(
    ctx: &Ctx,
    conn: &mut PgConnection,
    charges: &[Charge],
    freed: &[ReservationId],
    now: Timestamp,
) -> Outcome<Vec<Paid>> {
    if charges.is_empty() && freed.is_empty() {
        return Ok(Vec::new());
    }
    let paid = write(ctx, conn, charges, freed, now).await?;
    let crossed: Vec<(&Usage, u32)> = paid
        .iter()
        .flat_map(|one| one.crossed(false).map(|threshold| (&one.usage, threshold.percent)))
        .collect();
    reached::insert(conn, &crossed, now).await?;
    Ok(paid)
}

/// Requires that all reservations fit into their budgets. Otherwise the thresholds up to 100 per cent of the full
/// budget count as reached; the caller then releases the reservations and commits. The inner error is
/// [`entente_domain::refusal::Code::BudgetExhausted`].
///
/// # Errors
/// A database error.
pub async fn require_room(
    conn: &mut PgConnection,
    paid: &[Paid],
    now: Timestamp,
) -> Outcome<Result<(), Refusal>> {
    for one in paid.iter().filter(|one| one.held != Amount::ZERO) {
        if let Err(refusal) = one.usage.require_room(one.held) {
            let crossed: Vec<(&Usage, u32)> =
                one.crossed(true).map(|threshold| (&one.usage, threshold.percent)).collect();
            reached::insert(conn, &crossed, now).await?;
            return Ok(Err(refusal));
        }
    }
    Ok(Ok(()))
}

/// A charge as the statement reads it.
#[derive(Serialize)]
struct ChargeRow<'a> {
    n: usize,
    id: String,
    unit: &'a str,
    spent: String,
    held: String,
    reservation_id: Option<String>,
    settles: Option<String>,
    principal_id: &'a str,
    agent: &'a str,
    intent_id: Option<String>,
    key_id: Option<String>,
    job_id: Option<String>,
    provider: Option<&'a str>,
    model: Option<&'a str>,
}

/// A subject of a charge.
#[derive(Serialize)]
struct SubjectRow {
    n: usize,
    kind: &'static str,
    name: String,
}

fn charge_rows<'a>(ctx: &Ctx, charges: &'a [Charge], now: Timestamp) -> Vec<ChargeRow<'a>> {
    let row = |(n, one): (usize, &'a Charge)| ChargeRow {
        n,
        id: CostId::mint(now, &*ctx.chance).uuid().to_string(),
        unit: &one.unit,
        spent: one.spent.to_string(),
        held: one.held.to_string(),
        reservation_id: one.reservation.map(|id| id.uuid().to_string()),
        settles: one.settles.map(|id| id.uuid().to_string()),
        principal_id: &one.act.principal,
        agent: one.act.agent(),
        intent_id: one.act.intent.map(|id| id.uuid().to_string()),
        key_id: one.act.key.map(|id| id.uuid().to_string()),
        job_id: one.job.map(|id| id.uuid().to_string()),
        provider: one.provider.as_deref(),
        model: one.model.as_deref(),
    };
    charges.iter().enumerate().map(row).collect()
}

fn subject_rows(charges: &[Charge]) -> Vec<SubjectRow> {
    let rows = |(n, one): (usize, &Charge)| {
        let row = move |subject: Subject| SubjectRow { n, kind: subject.kind.as_str(), name: subject.name };
        one.act.subjects().into_iter().map(row).collect::<Vec<_>>()
    };
    charges.iter().enumerate().flat_map(rows).collect()
}

/// Writes charges. The spent sum stays within the digits of an amount: an absurd cost exhausts a budget for good, but
/// keeps nobody from charging it.
async fn write(
    ctx: &Ctx,
    conn: &mut PgConnection,
    charges: &[Charge],
    freed: &[ReservationId],
    now: Timestamp,
) -> Outcome<Vec<Paid>> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- charges::apply
         WITH freed AS (
             DELETE FROM budget_holds WHERE reservation_id = ANY($1)
             RETURNING reservation_id, budget_id, starts_at, amount),
         asked AS (
             SELECT * FROM jsonb_to_recordset($2::text::jsonb)
                 AS a (n integer, id uuid, unit text, spent numeric, held numeric, reservation_id uuid, settles uuid,
                       principal_id text, agent text, intent_id uuid, key_id uuid, job_id uuid, provider text, model text)),
         named AS (SELECT * FROM jsonb_to_recordset($3::text::jsonb) AS s (n integer, kind text, name text)),
         logged AS (
             INSERT INTO spend (id, at, principal_id, agent, intent_id, key_id, job_id, provider, model, unit, amount)
             SELECT id, $4, principal_id, agent, intent_id, key_id, job_id, provider, model, unit, spent
             FROM asked WHERE spent > 0),
         payers AS (
             SELECT a.reservation_id, a.held, b.id AS budget_id,
                    budget_window_start(b.period, b.time_zone, $4) AS starts_at,
                    f.starts_at AS held_since, least(a.spent, coalesce(f.amount, 0)) AS reserved,
                    a.spent - least(a.spent, coalesce(f.amount, 0)) AS spent
             FROM (SELECT n, kind, name FROM named
                   UNION ALL
                   SELECT s.n, 'team', m.team FROM named s JOIN team_members m ON m.principal_id = s.name
                   WHERE s.kind = 'principal') s
             JOIN budgets b ON b.scope = s.kind AND b.subject = s.name AND b.closed_at IS NULL
             JOIN asked a ON a.n = s.n AND a.unit = b.unit
             LEFT JOIN freed f ON f.reservation_id = a.settles AND f.budget_id = b.id),
         kept AS (
             INSERT INTO budget_holds (reservation_id, budget_id, starts_at, amount)
             SELECT reservation_id, budget_id, starts_at, sum(held) FROM payers
             WHERE reservation_id IS NOT NULL AND held > 0 GROUP BY reservation_id, budget_id, starts_at),
         moves AS (
             SELECT budget_id, starts_at, least(sum(spent), 999999999999999999) AS spent, sum(held) AS held, sum(freed) AS freed
             FROM (SELECT budget_id, starts_at, spent, held, 0 AS freed FROM payers
                   UNION ALL SELECT budget_id, held_since, reserved, 0, 0 FROM payers WHERE held_since IS NOT NULL
                   UNION ALL SELECT budget_id, starts_at, 0, 0, amount FROM freed) AS m
             GROUP BY budget_id, starts_at),
         moved AS (
             INSERT INTO budget_windows AS w (budget_id, starts_at, raised, spent, reserved)
             SELECT budget_id, starts_at, 0, spent, held - freed FROM moves ORDER BY budget_id, starts_at
             ON CONFLICT (budget_id, starts_at)
             DO UPDATE SET spent = least(w.spent + excluded.spent, 999999999999999999), reserved = w.reserved + excluded.reserved
             RETURNING budget_id, starts_at, raised, spent, reserved)
         SELECT b.id, b.name, b.scope, b.subject, b.unit, b.period, b.time_zone,
                trim_scale(b.amount)::text AS "amount!", b.thresholds, b.created_by, b.created_at, b.closed_at,
                w.starts_at AS "starts_at!", budget_window_end(b.period, b.time_zone, w.starts_at) AS ends_at,
                trim_scale(w.raised)::text AS "raised!", trim_scale(w.spent)::text AS "spent!",
                trim_scale(w.reserved)::text AS "reserved!", trim_scale(m.spent)::text AS "charged!",
                trim_scale(m.held)::text AS "held!"
         FROM moved w JOIN moves m USING (budget_id, starts_at) JOIN budgets b ON b.id = w.budget_id
         ORDER BY b.id, w.starts_at"#,
        &freed.iter().map(|id| id.uuid()).collect::<Vec<_>>(),
        serde_json::to_string(&charge_rows(ctx, charges, now))?,
        serde_json::to_string(&subject_rows(charges))?,
        now
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Row::paid).collect()
}

/// Raises the limit of a window.
///
/// # Errors
/// A database error.
pub async fn raise(conn: &mut PgConnection, usage: &Usage, by: Amount) -> Outcome<()> {
    sqlx::query!(
        "-- budget_windows::raise
         INSERT INTO budget_windows AS w (budget_id, starts_at, raised, spent, reserved)
         VALUES ($1, $2, $3::text::numeric, 0, 0)
         ON CONFLICT (budget_id, starts_at) DO UPDATE SET raised = w.raised + excluded.raised",
        usage.budget.id.uuid(),
        usage.starts_at,
        by.to_string()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes up to `limit` costs from before a time, and windows that ended before it; returns how many. A window that
/// still holds something, or never ends, stays.
///
/// # Errors
/// A database error.
pub async fn forget(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<u64> {
    let costs = sqlx::query!(
        "-- spend::forget
         DELETE FROM spend WHERE id IN (SELECT id FROM spend WHERE at < $1 ORDER BY at LIMIT $2)",
        before,
        limit
    )
    .execute(&mut *conn)
    .await?;
    let windows = sqlx::query!(
        "-- budget_windows::forget
         WITH old AS (
             SELECT w.budget_id, w.starts_at FROM budget_windows w JOIN budgets b ON b.id = w.budget_id
             WHERE w.starts_at < $1 AND w.reserved = 0
               AND budget_window_end(b.period, b.time_zone, w.starts_at) < $1
             ORDER BY w.starts_at LIMIT $2)
         DELETE FROM budget_windows w USING old o WHERE w.budget_id = o.budget_id AND w.starts_at = o.starts_at",
        before,
        limit
    )
    .execute(conn)
    .await?;
    Ok(costs.rows_affected() + windows.rows_affected())
}

/// Returns the present use of all budgets that would pay for an act, without locking them.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn of_act(conn: &mut PgConnection, act: &Act, now: Timestamp) -> Outcome<Vec<Usage>> {
    let subjects = act.subjects();
    let rows = select_usage!(
        "spending::of_act",
        "(SELECT s.kind, s.name FROM UNNEST($2::text[], $3::text[]) AS s (kind, name)
              UNION ALL SELECT 'team', m.team FROM team_members m WHERE m.principal_id = $4) AS c
             JOIN budgets b ON b.scope = c.kind AND b.subject = c.name AND b.closed_at IS NULL",
        "ORDER BY b.id",
        now,
        &subjects.iter().map(|one| one.kind.as_str()).collect::<Vec<_>>() as &[&str],
        &subjects.iter().map(|one| one.name.clone()).collect::<Vec<_>>(),
        act.principal
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Row::usage).collect()
}

/// A cost as it was charged.
#[derive(Debug, Clone, Serialize)]
pub struct Charged {
    /// Its id.
    pub id: CostId,
    /// When it was charged, RFC 3339.
    pub at: String,
    /// The principal that spent it.
    pub principal_id: String,
    /// The agent that spent it.
    pub agent: String,
    /// The job that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The provider of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The unit.
    pub unit: String,
    /// The amount.
    pub amount: Amount,
}

/// Loads the next costs that were charged for an intent, of one principal if one is named, in the order of their ids.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn of_intent(
    conn: &mut PgConnection,
    intent: IntentId,
    principal: Option<&str>,
    after: CostId,
    limit: i64,
) -> Outcome<Vec<Charged>> {
    let rows = sqlx::query!(
        r#"-- spend::of_intent
         SELECT id, at, principal_id, agent, job_id, provider, model, unit, trim_scale(amount)::text AS "amount!"
         FROM spend WHERE intent_id = $1 AND id > $2 AND ($3::text IS NULL OR principal_id = $3) ORDER BY id LIMIT $4"#,
        intent.uuid(),
        after.uuid(),
        principal,
        limit
    )
    .fetch_all(conn)
    .await?;
    let charged = rows.into_iter().map(|row| {
        Ok(Charged {
            id: row.id.into(),
            at: rfc3339(row.at),
            principal_id: row.principal_id,
            agent: row.agent,
            job_id: row.job_id.map(JobId::from),
            provider: row.provider,
            model: row.model,
            unit: row.unit,
            amount: amount(&row.amount)?,
        })
    });
    charged.collect()
}

/// Requires that the budgets of an act still allow an operation, and that nothing is spent that it needs.
///
/// # Errors
/// [`entente_domain::refusal::Code::BudgetExhausted`], [`entente_domain::refusal::Code::PermissionDenied`].
pub fn require_allowed(usages: &[Usage], capability: &str, target: &str) -> Result<(), Refusal> {
    for usage in usages {
        usage.require_left()?;
        usage.require_allowed(capability, target)?;
    }
    Ok(())
}

/// Requires that the budgets of an act still allow a tool call that was, or is, made: it may have reserved the rest, so
/// only the spent amount counts.
///
/// # Errors
/// As [`require_allowed`].
pub fn require_call_allowed(usages: &[Usage], capability: &str, target: &str) -> Result<(), Refusal> {
    usages.iter().try_for_each(|usage| {
        usage.require_unspent()?;
        usage.require_allowed(capability, target)
    })
}

/// As [`require_allowed`], for those budgets of an act that a reservation took nothing from: they may be in other
/// units.
///
/// # Errors
/// As [`require_allowed`].
pub fn require_others_allowed(
    usages: &[Usage],
    paid: &[Paid],
    capability: &str,
    target: &str,
) -> Result<(), Refusal> {
    unpaid(usages, paid).try_for_each(|usage| {
        usage.require_left()?;
        usage.require_allowed(capability, target)
    })
}

/// Returns those budgets that a reservation took nothing from.
pub(crate) fn unpaid<'a>(usages: &'a [Usage], paid: &'a [Paid]) -> impl Iterator<Item = &'a Usage> {
    let has_paid = |usage: &Usage| {
        paid.iter().any(|one| one.usage.budget.id == usage.budget.id && one.held != Amount::ZERO)
    };
    usages.iter().filter(move |usage| !has_paid(usage))
}

/// Parses a stored amount.
///
/// # Errors
/// The stored value is not a valid amount.
pub fn amount(stored: &str) -> Outcome<Amount> {
    Amount::try_from(stored.to_owned()).map_err(|_none| unknown("amount", stored))
}

/// A budget with the use of one window.
pub(crate) struct Row {
    pub id: Uuid,
    pub name: String,
    pub scope: String,
    pub subject: String,
    pub unit: String,
    pub period: String,
    pub time_zone: String,
    pub amount: String,
    pub thresholds: String,
    pub created_by: String,
    pub created_at: Timestamp,
    pub closed_at: Option<Timestamp>,
    pub starts_at: Timestamp,
    pub ends_at: Option<Timestamp>,
    pub raised: String,
    pub spent: String,
    pub reserved: String,
    pub charged: String,
    pub held: String,
}

impl Row {
    fn paid(self) -> Outcome<Paid> {
        let (spent, held) = (amount(&self.charged)?, amount(&self.held)?);
        Ok(Paid { usage: self.usage()?, spent, held })
    }

    pub(crate) fn usage(self) -> Outcome<Usage> {
        let kind =
            SubjectKind::parse(&self.scope).ok_or_else(|| unknown("scope of a budget", &self.scope))?;
        let window = Window::parse(&self.period).ok_or_else(|| unknown("window", &self.period))?;
        Ok(Usage {
            budget: SpendingBudget {
                id: self.id.into(),
                name: self.name,
                scope: Subject::of(kind, self.subject),
                unit: self.unit,
                window,
                time_zone: self.time_zone,
                limit: amount(&self.amount)?,
                thresholds: serde_json::from_str(&self.thresholds)?,
                created_by: self.created_by,
                created_at: self.created_at,
                closed_at: self.closed_at,
            },
            starts_at: self.starts_at,
            ends_at: self.ends_at,
            raised: amount(&self.raised)?,
            spent: amount(&self.spent)?,
            reserved: amount(&self.reserved)?,
        })
    }
}
