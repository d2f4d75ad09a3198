//! Charges: costs and reserved amounts, taken from every budget that concerns them. Tables `budget_windows`,
//! `budget_holds` and `spend`.
//!
//! One statement does it all, and locks the windows of all budgets in one order, so that transactions that share some of
//! them never wait for each other in a circle. It is the last that a transaction locks.

use std::collections::BTreeMap;

use entente_domain::amounts::Amount;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{CostId, IntentId, JobId, KeyId, ReservationId};
use entente_domain::refusal::Refusal;
use entente_domain::spending::{SpendingBudget, Threshold, Usage, Window};
use entente_domain::subjects::{Act, Subject, SubjectKind};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::costs::amount;
use crate::{AppError, Ctx, Outcome, unknown};

/// An amount to charge or to reserve.
#[derive(Debug, Clone, Default)]
pub struct Charge {
    /// Who spends it, and for what.
    pub act: Act,
    /// Its unit.
    pub unit: String,
    /// The cost.
    pub spent: Amount,
    /// The amount to reserve.
    pub held: Amount,
    /// Reservation of that amount.
    pub reservation: Option<ReservationId>,
    /// Job that it belongs to.
    pub job: Option<JobId>,
    /// Provider of the resource.
    pub provider: Option<String>,
    /// Model that was used.
    pub model: Option<String>,
}

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
    let crossed: Vec<(&Usage, u32)> =
        paid.iter().flat_map(|one| one.crossed(false).map(|threshold| (&one.usage, threshold.percent))).collect();
    reach(conn, &crossed, now).await?;
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
            let reached: Vec<(&Usage, u32)> =
                one.crossed(true).map(|threshold| (&one.usage, threshold.percent)).collect();
            reach(conn, &reached, now).await?;
            return Ok(Err(refusal));
        }
    }
    Ok(Ok(()))
}

/// Arrays of the statement, one element for each charge.
#[derive(Default)]
struct Columns {
    n: Vec<i32>,
    kinds: Vec<&'static str>,
    names: Vec<String>,
    acts: Vec<i32>,
    ids: Vec<Uuid>,
}

impl Columns {
    fn of(ctx: &Ctx, charges: &[Charge], now: Timestamp) -> Outcome<Self> {
        let mut columns = Self::default();
        for (index, charge) in charges.iter().enumerate() {
            let n = i32::try_from(index).map_err(|_many| AppError::Inconsistent("too many charges".to_owned()))?;
            columns.n.push(n);
            columns.ids.push(CostId::mint(now, &*ctx.chance).uuid());
            for subject in charge.act.subjects() {
                columns.acts.push(n);
                columns.kinds.push(subject.kind.as_str());
                columns.names.push(subject.name);
            }
        }
        Ok(columns)
    }
}

async fn write(
    ctx: &Ctx,
    conn: &mut PgConnection,
    charges: &[Charge],
    freed: &[ReservationId],
    now: Timestamp,
) -> Outcome<Vec<Paid>> {
    let Columns { n, kinds, names, acts, ids } = Columns::of(ctx, charges, now)?;
    let rows = sqlx::query_as!(
        Row,
        r#"-- spending::apply
         WITH freed AS (
             DELETE FROM budget_holds WHERE reservation_id = ANY($1) RETURNING budget_id, starts_at, amount),
         asked AS (
             SELECT n, unit, spent::numeric AS spent, held::numeric AS held, reservation_id
             FROM UNNEST($2::integer[], $3::text[], $4::text[], $5::text[], $6::uuid[])
                  AS a (n, unit, spent, held, reservation_id)),
         logged AS (
             INSERT INTO spend (id, at, principal_id, agent, intent_id, key_id, job_id, provider, model, unit, amount)
             SELECT l.id, $10, l.principal_id, l.agent, l.intent_id, l.key_id, l.job_id, l.provider, l.model, a.unit,
                    a.spent
             FROM UNNEST($2::integer[], $11::uuid[], $12::text[], $13::text[], $14::uuid[], $15::uuid[], $16::uuid[],
                         $17::text[], $18::text[])
                  AS l (n, id, principal_id, agent, intent_id, key_id, job_id, provider, model)
             JOIN asked a ON a.n = l.n AND a.spent > 0),
         subjects AS (
             SELECT s.n, s.kind, s.name FROM UNNEST($7::integer[], $8::text[], $9::text[]) AS s (n, kind, name)
             UNION ALL
             SELECT s.n, 'team', m.team FROM UNNEST($7::integer[], $8::text[], $9::text[]) AS s (n, kind, name)
             JOIN team_members m ON m.principal_id = s.name WHERE s.kind = 'principal'),
         payers AS (
             SELECT a.n, a.reservation_id, a.spent, a.held, b.id AS budget_id,
                    budget_window_start(b.period, b.time_zone, $10) AS starts_at
             FROM subjects s
             JOIN budgets b ON b.scope = s.kind AND b.subject = s.name AND b.closed_at IS NULL
             JOIN asked a ON a.n = s.n AND a.unit = b.unit),
         kept AS (
             INSERT INTO budget_holds (reservation_id, budget_id, starts_at, amount)
             SELECT reservation_id, budget_id, starts_at, sum(held) FROM payers
             WHERE reservation_id IS NOT NULL AND held > 0 GROUP BY reservation_id, budget_id, starts_at),
         moves AS (
             SELECT budget_id, starts_at, sum(spent) AS spent, sum(held) AS held, sum(freed) AS freed
             FROM (SELECT budget_id, starts_at, spent, held, 0 AS freed FROM payers
                   UNION ALL SELECT budget_id, starts_at, 0, 0, amount FROM freed) AS m
             GROUP BY budget_id, starts_at),
         moved AS (
             INSERT INTO budget_windows AS w (budget_id, starts_at, raised, spent, reserved)
             SELECT budget_id, starts_at, 0, spent, held - freed FROM moves ORDER BY budget_id, starts_at
             ON CONFLICT (budget_id, starts_at)
             DO UPDATE SET spent = w.spent + excluded.spent, reserved = w.reserved + excluded.reserved
             RETURNING budget_id, starts_at, raised, spent, reserved)
         SELECT b.id, b.name, b.scope, b.subject, b.unit, b.period, b.time_zone,
                trim_scale(b.amount)::text AS "amount!", b.thresholds, b.created_by, b.created_at, b.closed_at,
                w.starts_at AS "starts_at!", budget_window_end(b.period, b.time_zone, w.starts_at) AS ends_at,
                trim_scale(w.raised)::text AS "raised!", trim_scale(w.spent)::text AS "spent!",
                trim_scale(w.reserved)::text AS "reserved!", trim_scale(m.spent)::text AS "charged!",
                trim_scale(m.held)::text AS "held!"
         FROM moved w
         JOIN moves m ON m.budget_id = w.budget_id AND m.starts_at = w.starts_at
         JOIN budgets b ON b.id = w.budget_id
         ORDER BY b.id, w.starts_at"#,
        &freed.iter().map(|id| id.uuid()).collect::<Vec<_>>(),
        &n,
        &charges.iter().map(|one| one.unit.clone()).collect::<Vec<_>>(),
        &charges.iter().map(|one| one.spent.to_string()).collect::<Vec<_>>(),
        &charges.iter().map(|one| one.held.to_string()).collect::<Vec<_>>(),
        &charges.iter().map(|one| one.reservation.map(ReservationId::uuid)).collect::<Vec<_>>() as &[Option<Uuid>],
        &acts,
        &kinds as &[&str],
        &names,
        now,
        &ids,
        &charges.iter().map(|one| one.act.principal.clone()).collect::<Vec<_>>(),
        &charges.iter().map(|one| one.act.agent().to_owned()).collect::<Vec<_>>(),
        &charges.iter().map(|one| one.act.intent.map(IntentId::uuid)).collect::<Vec<_>>() as &[Option<Uuid>],
        &charges.iter().map(|one| one.act.key.map(KeyId::uuid)).collect::<Vec<_>>() as &[Option<Uuid>],
        &charges.iter().map(|one| one.job.map(JobId::uuid)).collect::<Vec<_>>() as &[Option<Uuid>],
        &charges.iter().map(|one| one.provider.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &charges.iter().map(|one| one.model.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            let (spent, held) = (amount(&row.charged)?, amount(&row.held)?);
            Ok(Paid { usage: row.usage()?, spent, held })
        })
        .collect()
}

/// Records thresholds as reached, each once in a window and for a limit.
pub(super) async fn reach(conn: &mut PgConnection, reached: &[(&Usage, u32)], now: Timestamp) -> Outcome<()> {
    if reached.is_empty() {
        return Ok(());
    }
    let percent = |percent: u32| i32::try_from(percent).unwrap_or(i32::MAX);
    sqlx::query!(
        "-- budget_reached::insert
         INSERT INTO budget_reached (budget_id, starts_at, percent, amount, spent, reached_at)
         SELECT r.budget_id, r.starts_at, r.percent, r.amount::numeric, r.spent::numeric, $6
         FROM UNNEST($1::uuid[], $2::timestamptz[], $3::integer[], $4::text[], $5::text[])
              AS r (budget_id, starts_at, percent, amount, spent)
         ON CONFLICT (budget_id, starts_at, percent, amount) DO NOTHING",
        &reached.iter().map(|(usage, _)| usage.budget.id.uuid()).collect::<Vec<_>>(),
        &reached.iter().map(|(usage, _)| usage.starts_at).collect::<Vec<_>>(),
        &reached.iter().map(|(_, share)| percent(*share)).collect::<Vec<_>>(),
        &reached.iter().map(|(usage, _)| usage.limit().to_string()).collect::<Vec<_>>(),
        &reached.iter().map(|(usage, _)| usage.spent.to_string()).collect::<Vec<_>>(),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns the present use of all budgets that would pay for an act, without locking them.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn of_act(conn: &mut PgConnection, act: &Act, now: Timestamp) -> Outcome<Vec<Usage>> {
    let subjects = act.subjects();
    let rows = sqlx::query_as!(
        Row,
        r#"-- spending::of_act
         SELECT b.id, b.name, b.scope, b.subject, b.unit, b.period, b.time_zone,
                trim_scale(b.amount)::text AS "amount!", b.thresholds, b.created_by, b.created_at, b.closed_at,
                s.starts_at AS "starts_at!", budget_window_end(b.period, b.time_zone, s.starts_at) AS ends_at,
                trim_scale(coalesce(w.raised, 0))::text AS "raised!", trim_scale(coalesce(w.spent, 0))::text AS "spent!",
                trim_scale(coalesce(w.reserved, 0))::text AS "reserved!", '0' AS "charged!", '0' AS "held!"
         FROM (SELECT s.kind, s.name FROM UNNEST($1::text[], $2::text[]) AS s (kind, name)
               UNION ALL SELECT 'team', m.team FROM team_members m WHERE m.principal_id = $3) AS c
         JOIN budgets b ON b.scope = c.kind AND b.subject = c.name AND b.closed_at IS NULL
         CROSS JOIN LATERAL (SELECT budget_window_start(b.period, b.time_zone, $4) AS starts_at) AS s
         LEFT JOIN budget_windows w ON w.budget_id = b.id AND w.starts_at = s.starts_at
         ORDER BY b.id"#,
        &subjects.iter().map(|one| one.kind.as_str()).collect::<Vec<_>>() as &[&str],
        &subjects.iter().map(|one| one.name.clone()).collect::<Vec<_>>(),
        act.principal,
        now
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Row::usage).collect()
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

/// Sums amounts by unit.
#[must_use]
pub fn by_unit(amounts: impl IntoIterator<Item = (String, Amount)>) -> BTreeMap<String, Amount> {
    let mut sums: BTreeMap<String, Amount> = BTreeMap::new();
    for (unit, amount) in amounts {
        let sum = sums.entry(unit).or_insert(Amount::ZERO);
        *sum = *sum + amount;
    }
    sums
}

/// A budget with the use of one window.
pub(super) struct Row {
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
    pub(super) fn usage(self) -> Outcome<Usage> {
        let kind = SubjectKind::parse(&self.scope).ok_or_else(|| unknown("scope of a budget", &self.scope))?;
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
