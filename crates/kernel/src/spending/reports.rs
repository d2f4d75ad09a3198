//! Reports of costs. Table `spend`.

use entente_domain::amounts::Amount;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::spending::Usage;
use entente_domain::subjects::{Subject, SubjectKind};
use uuid::Uuid;

use super::budgets::{require_reading, require_time_zone};
use crate::charges::amount;
use crate::{Caller, Ctx, Outcome};

/// Maximum number of lines of a report.
pub const LINES: usize = 10_000;

/// Properties of costs by which a report adds them up, one line for each combination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "any of them may be combined")]
pub struct Division {
    /// By agent.
    pub agent: bool,
    /// By principal.
    pub principal: bool,
    /// By intent.
    pub intent: bool,
    /// By model.
    pub model: bool,
    /// By day.
    pub day: bool,
}

/// A request for a report.
#[derive(Debug, Clone)]
pub struct ReportAsk {
    /// Costs from this time on.
    pub from: Timestamp,
    /// Costs before this time.
    pub until: Timestamp,
    /// Time zone of the days.
    pub time_zone: String,
    /// Costs of this subject alone.
    pub scope: Option<Subject>,
    /// Properties by which the costs are added up.
    pub by: Division,
}

/// A line of a report.
#[derive(Debug, Clone)]
pub struct Line {
    /// The day, as a date in the report's time zone.
    pub day: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The principal.
    pub principal: Option<String>,
    /// The intent; also absent for costs without one.
    pub intent: Option<Uuid>,
    /// The model; also absent for costs without one.
    pub model: Option<String>,
    /// The unit.
    pub unit: String,
    /// The sum.
    pub amount: Amount,
    /// Number of costs.
    pub count: i64,
}

/// Reports costs: admins see everybody's, others those of their own principal. The largest sums come first in each unit
/// and day; at most 10,000 lines.
///
/// # Errors
/// The time zone is unknown; a database error; a stored value is invalid.
pub async fn report(ctx: &Ctx, caller: &Caller, ask: &ReportAsk) -> Outcome<Vec<Line>> {
    require_reading(caller)?;
    require_time_zone(ctx, &ask.time_zone).await?;
    let own = (!caller.has(Scope::Admin)).then(|| caller.principal().to_owned());
    let scope = ask.scope.clone().unwrap_or_else(Subject::system);
    let id = |kind: SubjectKind| {
        (scope.kind == kind).then(|| scope.name.split_once('_').map(|_| scope.name.clone())).flatten()
    };
    let intent = id(SubjectKind::Intent).and_then(|id| id.parse::<entente_domain::ids::IntentId>().ok());
    let key = id(SubjectKind::Key).and_then(|id| id.parse::<entente_domain::ids::KeyId>().ok());
    let name = |kind: SubjectKind| (scope.kind == kind).then(|| scope.name.clone());
    let mut tx = ctx.snapshot().await?;
    let rows = sqlx::query!(
        r#"-- spend::report
         SELECT CASE WHEN $4 THEN to_char(at AT TIME ZONE $3, 'YYYY-MM-DD') END AS day,
                CASE WHEN $5 THEN agent END AS agent, CASE WHEN $6 THEN principal_id END AS principal,
                CASE WHEN $7 THEN intent_id END AS intent, CASE WHEN $8 THEN model END AS model,
                unit, trim_scale(sum(amount))::text AS "amount!", count(*) AS "count!"
         FROM spend
         WHERE at >= $1 AND at < $2 AND ($9::text IS NULL OR principal_id = $9)
           AND ($10::text IS NULL OR principal_id = $10)
           AND ($11::text IS NULL OR agent = $11 OR principal_id = $11)
           AND ($12::uuid IS NULL OR intent_id = $12) AND ($13::uuid IS NULL OR key_id = $13)
           AND ($14::text IS NULL OR principal_id IN (SELECT m.principal_id FROM team_members m WHERE m.team = $14))
         GROUP BY 1, 2, 3, 4, 5, unit
         ORDER BY 1, unit, sum(amount) DESC, 2, 3, 4, 5 LIMIT $15"#,
        ask.from,
        ask.until,
        ask.time_zone,
        ask.by.day,
        ask.by.agent,
        ask.by.principal,
        ask.by.intent,
        ask.by.model,
        own,
        name(SubjectKind::Principal),
        name(SubjectKind::Agent),
        intent.map(entente_domain::ids::IntentId::uuid),
        key.map(entente_domain::ids::KeyId::uuid),
        name(SubjectKind::Team),
        i64::try_from(LINES).unwrap_or(i64::MAX)
    )
    .fetch_all(&mut *tx)
    .await?;
    tx.commit().await?;
    rows.into_iter()
        .map(|row| {
            Ok(Line {
                day: row.day,
                agent: row.agent,
                principal: row.principal,
                intent: row.intent,
                model: row.model,
                unit: row.unit,
                amount: amount(&row.amount)?,
                count: row.count,
            })
        })
        .collect()
}

/// Forecasts the spending of a budget by the end of its window, if it goes on as since the window's beginning; `None`
/// without an end or within its first hundredth.
#[must_use]
pub fn forecast(usage: &Usage, now: Timestamp) -> Option<Amount> {
    let length = (usage.ends_at? - usage.starts_at).num_milliseconds();
    let elapsed = (now - usage.starts_at).num_milliseconds();
    (elapsed >= length / 100).then(|| usage.spent.extrapolated(elapsed, length)).flatten()
}
