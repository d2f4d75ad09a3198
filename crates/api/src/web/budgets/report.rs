//! The report of spending: sums in each unit, divided by the visitor's choice, as `GET /spend` of the API has them.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::web;
use askama::Template;
use chrono::TimeDelta;
use entente_domain::amounts::Amount;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::refusal::Refusal;
use entente_domain::subjects::Subject;
use entente_kernel::spending::reports;
use entente_kernel::spending::reports::{Division, Line, ReportAsk};
use serde::Deserialize;

use crate::ApiState;
use crate::web::guard::{PageResult, Visitor, concluded};
use crate::web::page;
use crate::web::records::{agent_path, from_time, person_path, until_time};
use crate::web::shell::{Place, Shell};
use crate::web::words::count;

/// Days of a report that names no begin.
const DAYS: i64 = 30;
/// Lines that are shown.
const SHOWN: usize = 500;

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config.route("/spend", web::get().to(show));
}

/// Parameters of the report, as the form has them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Asked {
    /// Set by the form: without it, the report is by agent and model.
    asked: String,
    from: String,
    until: String,
    scope: String,
    agent: String,
    principal: String,
    intent: String,
    model: String,
    day: String,
}

impl Asked {
    fn division(&self) -> Division {
        if self.asked.is_empty() {
            return Division { agent: true, model: true, ..Division::default() };
        }
        let is = |field: &str| !field.is_empty();
        Division {
            agent: is(&self.agent),
            principal: is(&self.principal),
            intent: is(&self.intent),
            model: is(&self.model),
            day: is(&self.day),
        }
    }

    fn ask(&self, now: Timestamp) -> Result<ReportAsk, Refusal> {
        // The present second counts too.
        let until = until_time(&self.until)?.unwrap_or(now + TimeDelta::seconds(1));
        let scope = Some(self.scope.trim()).filter(|text| !text.is_empty());
        Ok(ReportAsk {
            from: from_time(&self.from)?
                .unwrap_or_else(|| until.checked_sub_signed(TimeDelta::days(DAYS)).unwrap_or(until)),
            until,
            time_zone: "UTC".to_owned(),
            scope: scope.map(|text| Subject::read("scope", text)).transpose()?,
            by: self.division(),
        })
    }
}

#[derive(Template)]
#[template(path = "spend.html")]
struct SpendPage {
    shell: Shell,
    everything: bool,
    asked: Asked,
    by: Division,
    /// Why nothing was reported.
    fault: Option<String>,
    /// The sums of all lines, by unit.
    sums: Vec<String>,
    lines: Vec<LineRow>,
    /// Number of lines that are not shown.
    others: usize,
    /// Whether the report has all lines.
    is_complete: bool,
}

/// A line of the table.
struct LineRow {
    day: String,
    agent: Option<(String, String)>,
    principal: Option<(String, String)>,
    intent: Option<IntentId>,
    model: String,
    amount: String,
    unit: String,
    count: i64,
}

fn row(line: Line) -> LineRow {
    LineRow {
        day: line.day.unwrap_or_default(),
        agent: line.agent.map(|name| (agent_path(&name), name)),
        principal: line.principal.map(|name| (person_path(&name), name)),
        intent: line.intent.map(IntentId::from),
        model: line.model.unwrap_or_else(|| "none".to_owned()),
        amount: line.amount.to_string(),
        unit: line.unit,
        count: line.count,
    }
}

/// Returns the sums of lines in each unit: amounts in two units have no sum.
fn sums(lines: &[Line]) -> Vec<String> {
    let mut sums: BTreeMap<&str, (Amount, i64)> = BTreeMap::new();
    for line in lines {
        let (amount, costs) = sums.entry(&line.unit).or_default();
        *amount = *amount + line.amount;
        *costs += line.count;
    }
    let words = |(unit, (amount, costs)): (&str, (Amount, i64))| {
        format!("{amount} {unit} in {}", count(usize::try_from(costs).unwrap_or(0), "cost"))
    };
    sums.into_iter().map(words).collect()
}

async fn show(api: web::Data<ApiState>, visitor: Visitor, asked: web::Query<Asked>) -> PageResult {
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let asked = asked.into_inner();
    let found = async { reports::report(ctx, caller, &asked.ask(ctx.now())?).await };
    let found = concluded(found.await)?;
    let (status, fault, lines) = match found {
        Ok(lines) => (StatusCode::OK, None, lines),
        Err(refused) => (refused.status, Some(refused.message), Vec::new()),
    };
    let shown = SpendPage {
        shell: Shell::of(&visitor, "What was spent", Place::Budgets),
        everything: caller.has(Scope::Admin),
        by: asked.division(),
        asked,
        fault,
        sums: sums(&lines),
        others: lines.len().saturating_sub(SHOWN),
        is_complete: lines.len() < reports::LINES,
        lines: lines.into_iter().take(SHOWN).map(row).collect(),
    };
    Ok(page(status, &shown))
}
