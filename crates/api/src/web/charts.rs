//! The page of charts: messages by agent, spending by agent, model, intent or principal, finished and failed jobs, and the time that answers took, each by day, and where
//! the budgets will be at the end of their windows.

use std::collections::BTreeSet;

use actix_web::http::StatusCode;
use actix_web::web;
use askama::Template;
use chrono::TimeDelta;
use entente_bridges::Ctx;
use entente_domain::amounts::Amount;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::spending::Usage;
use entente_kernel::spending::reports::{Division, Line, ReportAsk};
use entente_kernel::spending::{budgets, reports};
use entente_kernel::{Caller, Outcome, loops, overview};
use serde::Deserialize;

use super::bars::{Chart, Sums, draw};
use super::guard::{PageResult, Visitor};
use super::page;
use super::shell::{Place, Shell};
use super::words::percent;
use crate::ApiState;

/// Ranges that one may choose, in days; the first is shown by default.
const RANGES: [u32; 3] = [14, 30, 90];
/// Members that spending may be divided by; the first is shown by default.
const DIVISIONS: [&str; 4] = ["agent", "model", "intent", "principal"];
/// Budgets shown with a forecast.
const BUDGETS: u32 = 200;
/// Units of spending with a chart of their own.
const UNITS: usize = 6;

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/charts", web::get().to(show));
}

#[derive(Template)]
#[template(path = "charts.html")]
struct ChartsPage {
    shell: Shell,
    everything: bool,
    choices: [u32; 3],
    days: u32,
    divisions: [&'static str; 4],
    by: &'static str,
    /// Whether the charts of spending have all costs.
    is_complete: bool,
    /// Number of units without a chart.
    units_left: usize,
    charts: Vec<Chart>,
    forecasts: Vec<Forecast>,
    /// Whether there are more open budgets.
    more_budgets: bool,
}

/// A budget at the end of its window.
struct Forecast {
    path: String,
    name: String,
    text: String,
    percent: u32,
    over: bool,
}

#[derive(Deserialize)]
struct Asked {
    days: Option<String>,
    by: Option<String>,
}

async fn show(api: web::Data<ApiState>, visitor: Visitor, asked: web::Query<Asked>) -> PageResult {
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let wanted = asked.days.as_deref().and_then(|text| text.parse().ok());
    let range = RANGES.into_iter().find(|days| Some(*days) == wanted).unwrap_or(RANGES[0]);
    let now = ctx.now();
    let days: Vec<String> =
        (0..range).rev().map(|back| day(now - TimeDelta::days(i64::from(back)))).collect();
    let first = (now - TimeDelta::days(i64::from(range - 1))).date_naive();
    let from = first.and_hms_opt(0, 0, 0).map_or(now, |start| start.and_utc());
    let by = DIVISIONS.into_iter().find(|by| asked.by.as_deref() == Some(by)).unwrap_or(DIVISIONS[0]);
    let Spending { mut charts, is_complete, units_left } = spending(ctx, caller, from, &days, by).await?;
    charts.push(messages(ctx, caller, from, &days).await?);
    charts.push(work(ctx, caller, from, &days).await?);
    charts.push(answers(ctx, caller, from, &days).await?);
    let open = budgets::list_open(ctx, caller, None, BUDGETS + 1).await?;
    let more_budgets = open.len() > BUDGETS as usize;
    let shown = ChartsPage {
        shell: Shell::of(&visitor, "Charts", Place::Dashboard)
            .at(format!("/charts?days={range}&by={by}"))
            .live("/dashboard/stream"),
        everything: caller.has(Scope::Admin),
        choices: RANGES,
        days: range,
        divisions: DIVISIONS,
        by,
        is_complete,
        units_left,
        charts,
        forecasts: open.iter().take(BUDGETS as usize).filter_map(|usage| forecast(usage, now)).collect(),
        more_budgets,
    };
    Ok(page(StatusCode::OK, &shown))
}

fn day(at: Timestamp) -> String {
    at.format("%Y-%m-%d").to_string()
}

fn number(amount: Amount) -> f64 {
    amount.to_string().parse().unwrap_or(0.0)
}

/// Charts of spending.
struct Spending {
    charts: Vec<Chart>,
    is_complete: bool,
    units_left: usize,
}

/// Draws spending, divided by this, one chart for each unit: amounts in two units have no sum.
async fn spending(
    ctx: &Ctx,
    caller: &Caller,
    from: Timestamp,
    days: &[String],
    by: &'static str,
) -> Outcome<Spending> {
    let division = Division {
        agent: by == "agent",
        principal: by == "principal",
        intent: by == "intent",
        model: by == "model",
        day: true,
    };
    let ask = ReportAsk {
        from,
        until: ctx.now() + TimeDelta::seconds(1),
        time_zone: "UTC".to_owned(),
        scope: None,
        by: division,
    };
    let lines = reports::report(ctx, caller, &ask).await?;
    let is_complete = lines.len() < reports::LINES;
    let units: BTreeSet<&str> = lines.iter().map(|line| line.unit.as_str()).collect();
    let empty = "Nothing was spent.";
    if units.is_empty() {
        let chart = draw("spent-0".to_owned(), format!("Spent by {by}"), empty, Sums::default(), days);
        return Ok(Spending { charts: vec![chart], is_complete, units_left: 0 });
    }
    let chart = |(unit, index): (&str, u32)| {
        let mut sums = Sums::default();
        for line in lines.iter().filter(|line| line.unit == unit) {
            sums.add(&series(line), line.day.as_deref().unwrap_or_default(), number(line.amount));
        }
        draw(format!("spent-{index}"), format!("Spent by {by}, {unit}"), empty, sums, days)
    };
    let units_left = units.len().saturating_sub(UNITS);
    let charts = units.into_iter().take(UNITS).zip(0_u32..).map(chart).collect();
    Ok(Spending { charts, is_complete, units_left })
}

/// Returns the name of the series that a line belongs to: the one member that its report is divided by, beside the day.
fn series(line: &Line) -> String {
    let intent = line.intent.map(|id| IntentId::from(id).to_string());
    let name =
        line.agent.clone().or_else(|| line.principal.clone()).or_else(|| line.model.clone()).or(intent);
    name.unwrap_or_else(|| "none".to_owned())
}

/// Draws how many messages each agent sent.
async fn messages(ctx: &Ctx, caller: &Caller, from: Timestamp, days: &[String]) -> Outcome<Chart> {
    let mut sums = Sums::default();
    for one in loops::sent_messages(ctx, caller, from).await? {
        sums.add(&one.sender, &one.day, f64::from(u32::try_from(one.count).unwrap_or(u32::MAX)));
    }
    // The follower that looks for loops counts them.
    let empty = "No messages were counted. A server counts them while it looks for loops (ENTENTE_LOOPS).";
    Ok(draw("messages".to_owned(), "Messages by sender".to_owned(), empty, sums, days))
}

async fn work(ctx: &Ctx, caller: &Caller, from: Timestamp, days: &[String]) -> Outcome<Chart> {
    let mut sums = Sums::default();
    for one in overview::ended_jobs(ctx, caller, from).await? {
        let count = f64::from(u32::try_from(one.count).unwrap_or(u32::MAX));
        sums.add(&one.status.replace('_', " "), &one.day, count);
    }
    Ok(draw("work".to_owned(), "Jobs that ended, and how".to_owned(), "No jobs have ended.", sums, days))
}

async fn answers(ctx: &Ctx, caller: &Caller, from: Timestamp, days: &[String]) -> Outcome<Chart> {
    let mut sums = Sums::default();
    for one in overview::answered_questions(ctx, caller, from).await? {
        sums.add("median, minutes", &one.day, one.median / 60.0);
        sums.add("up to the longest, minutes", &one.day, (one.longest - one.median) / 60.0);
    }
    let heading = "Time from a question to its answer".to_owned();
    Ok(draw("answers".to_owned(), heading, "No question was answered.", sums, days))
}

fn forecast(usage: &Usage, now: Timestamp) -> Option<Forecast> {
    let sum = reports::forecast(usage, now)?;
    let (will, limit) = (number(sum), number(usage.limit()));
    let budget = &usage.budget;
    Some(Forecast {
        path: format!("/budgets/{}", budget.id),
        name: budget.name.clone(),
        text: format!("{sum} of {} {}, {} spent", usage.limit(), budget.unit, usage.spent),
        percent: percent(will, limit),
        over: will > limit,
    })
}
