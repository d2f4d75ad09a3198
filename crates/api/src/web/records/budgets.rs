//! The page of a budget: its present window, its thresholds, and the costs of its subject by day and agent.

use actix_web::http::StatusCode;
use actix_web::web;
use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::BudgetId;
use entente_domain::refusal::Refusal;
use entente_domain::spending::{Threshold, Usage, Window};
use entente_kernel::spending::reports::{Division, Line, ReportAsk};
use entente_kernel::spending::{budgets, reports};

use super::{Item, Link, Record, Section};
use crate::ApiState;
use crate::web::budgets::consequence;
use crate::web::guard::{PageResult, Visitor};
use crate::web::page;
use crate::web::shell::{Place, Shell};
use crate::web::words::{When, count};

/// Days reported, and lines of the report that are shown.
const DAYS: i64 = 31;
const LINES: usize = 200;

pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/budgets/{id}", web::get().to(show));
}

async fn show(api: web::Data<ApiState>, visitor: Visitor, path: web::Path<String>) -> PageResult {
    let id = path.parse::<BudgetId>().map_err(|_no_id| Refusal::not_found("budget"))?;
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let now = ctx.now();
    let usage = budgets::get(ctx, caller, id).await?;
    let budget = &usage.budget;
    let ask = ReportAsk {
        from: now - TimeDelta::days(DAYS),
        until: now,
        time_zone: budget.time_zone.clone(),
        scope: Some(budget.scope.clone()),
        by: Division { agent: true, day: true, ..Division::default() },
    };
    let mut lines: Vec<Line> = reports::report(ctx, caller, &ask).await?;
    lines.retain(|line| line.unit == budget.unit);
    lines.sort_by(|a, b| (&b.day, b.amount).cmp(&(&a.day, a.amount)));
    let reached = budgets::reached(ctx, &usage).await?;
    let mut facts = facts(&usage, now);
    if caller.has(Scope::Admin) && budget.closed_at.is_none() {
        facts.push(("Changes", vec![Link::to("Change or close it", format!("/budgets/{id}/change"))]));
    }
    let status = if budget.closed_at.is_some() { Some("closed") } else { None };
    let status = status.or_else(|| usage.left().is_spent().then_some("spent"));
    let record = Record {
        shell: Shell::of(&visitor, budget.name.clone(), Place::Budgets),
        up: Link::to("Budgets", "/budgets"),
        title: budget.name.clone(),
        status: status.map(str::to_owned),
        about: String::new(),
        fault: None,
        text: None,
        facts,
        actions: Vec::new(),
        sections: vec![
            Section::new(
                "thresholds",
                "Thresholds in the present window",
                "Nothing follows when shares of the limit are spent.",
                threshold_items(&usage, &reached, now),
            ),
            Section::new(
                "line",
                "Spent by day and agent",
                "Nothing that you may see.",
                lines.iter().take(LINES).map(item).collect(),
            ),
        ],
    };
    Ok(page(StatusCode::OK, &record))
}

fn facts(usage: &Usage, now: Timestamp) -> Vec<(&'static str, Vec<Link>)> {
    let budget = &usage.budget;
    let unit = &budget.unit;
    let plain = |text: String| vec![Link::plain(text)];
    let window = match budget.window {
        Window::Total => "in total".to_owned(),
        window => format!("per {window} in {}", budget.time_zone),
    };
    let mut facts = vec![
        ("Budget", plain(budget.id.to_string())),
        ("Whose", vec![scope_link(usage)]),
        ("Window", plain(window)),
        ("Limit", plain(format!("{} {unit}", usage.limit()))),
        ("Spent", plain(format!("{} {unit}, {} reserved", usage.spent, usage.reserved))),
        ("Left", plain(format!("{} {unit}", usage.left()))),
    ];
    facts.extend(
        reports::forecast(usage, now).map(|sum| {
            ("Forecast", plain(format!("{sum} {unit} at the end of the window, if it goes on so")))
        }),
    );
    facts.extend(usage.ends_at.map(|at| ("Window ends", plain(When::new(at, now).near))));
    facts.push(("Created by", vec![Link::agent(&budget.created_by)]));
    facts.extend(budget.closed_at.map(|at| ("Closed", plain(When::new(at, now).near))));
    facts
}

/// Returns the items of the thresholds, with those that were reached in the present window and when.
fn threshold_items(usage: &Usage, reached: &[(u32, Timestamp)], now: Timestamp) -> Vec<Item> {
    let item = |one: &Threshold| {
        let since = reached.iter().find(|(percent, _)| *percent == one.percent).map(|(_, at)| *at);
        let is_reached = since.is_some() || usage.has_spent(one.percent);
        Item {
            head: Some(Link::plain(format!("{} %", one.percent))),
            pill: Some(if is_reached { "reached" } else { "not reached" }.to_owned()),
            about: consequence(one),
            at: since.map(|at| When::new(at, now)),
            ..Item::default()
        }
    };
    usage.budget.thresholds.iter().map(item).collect()
}

fn scope_link(usage: &Usage) -> Link {
    use entente_domain::subjects::SubjectKind;
    let scope = &usage.budget.scope;
    let text = scope.to_string();
    match (scope.kind, scope.intent()) {
        (SubjectKind::Intent, Some(id)) => Link::to(text, format!("/intents/{id}")),
        (SubjectKind::Agent, _) => Link::to(text, super::agent_path(&scope.name)),
        (SubjectKind::Principal, _) => Link::to(text, super::query("/person", &[("id", &scope.name)])),
        _ => Link::plain(text),
    }
}

fn item(line: &Line) -> Item {
    let day = line.day.clone().unwrap_or_default();
    let costs = count(usize::try_from(line.count).unwrap_or(0), "cost");
    Item {
        head: line.agent.as_deref().map(Link::agent),
        about: format!("{day} · {} {} in {costs}", line.amount, line.unit),
        ..Item::default()
    }
}
