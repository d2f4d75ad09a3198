//! The page of budgets and stops: the use of each open budget, the form of a new one, and the switch that stops a
//! scope. Only admins see all budgets, change them and may stop; others see the budgets that pay for their own work.

mod changes;
mod report;
mod thresholds;

use actix_web::http::StatusCode;
use actix_web::web;
use askama::Template;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{BudgetId, StopId};
use entente_domain::refusal::Refusal;
use entente_domain::spending::{Usage, Window};
use entente_domain::stops::Stop;
use entente_domain::subjects::Subject;
use entente_kernel::spending::{budgets, reports};
use entente_kernel::{Outcome, stops};
use serde::Deserialize;

use super::guard::{Form, PageResult, Visitor, concluded};
use super::shell::{Place, Shell};
use super::words::{When, escaped};
use super::{page, see};
use crate::ApiState;

use self::changes::NewBudget;
pub use self::thresholds::words as consequence;
use self::thresholds::{CONSEQUENCES, Row};

/// Budgets and stops of a page.
const SHOWN: u32 = 200;
/// Windows that a budget may have, in words.
const WINDOWS: [(&str, &str); 5] = [
    ("total", "in total"),
    ("hour", "per hour"),
    ("day", "per day"),
    ("week", "per week"),
    ("month", "per month"),
];

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    changes::routes(config);
    report::routes(config);
    config
        .route("/budgets", web::get().to(show))
        .route("/stops", web::post().to(stop))
        .route("/stops/{id}/lift", web::post().to(lift));
}

#[derive(Template)]
#[template(path = "budgets.html")]
struct BudgetsPage {
    shell: Shell,
    /// Whether the visitor may stop and lift.
    is_admin: bool,
    /// Why the last action was refused.
    fault: Option<String>,
    stops: Vec<StopRow>,
    /// The last stop of the page, if there are older ones.
    older: Option<StopId>,
    /// The stop below which the page's stops begin.
    before: String,
    /// Input of the form that stops a scope, if it was refused.
    stop: StopForm,
    budgets: Vec<BudgetRow>,
    /// The last budget of the page, if there are more.
    more: Option<BudgetId>,
    /// Whether the page begins behind the first budgets.
    goes_on: bool,
    /// Input of the form of a new budget, if it was refused.
    made: NewBudget,
    rows: Vec<Row>,
    windows: [(&'static str, &'static str); 5],
    consequences: [(&'static str, &'static str); 5],
    /// Key of the form: pressed twice, it makes one budget.
    key: String,
}

/// The part of the lists that a page shows.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Part {
    /// Budget behind which the budgets begin.
    after: String,
    /// Stop below which the stops begin.
    before: String,
}

/// Input of a refused form, kept so that no typed text is lost.
#[derive(Default)]
struct Said {
    fault: Option<String>,
    stop: StopForm,
    made: NewBudget,
}

struct StopRow {
    id: StopId,
    scope: String,
    reason: String,
    by: String,
    at: When,
}

struct BudgetRow {
    id: BudgetId,
    name: String,
    scope: String,
    /// `in total`, or `per` and the window.
    window: String,
    unit: String,
    limit: String,
    spent: String,
    reserved: String,
    left: String,
    is_spent: bool,
    forecast: Option<String>,
}

fn stop_row(stop: Stop, now: Timestamp) -> StopRow {
    StopRow {
        id: stop.id,
        scope: stop.scope.to_string(),
        reason: stop.reason,
        by: stop.created_by,
        at: When::new(stop.created_at, now),
    }
}

fn budget_row(usage: Usage, now: Timestamp) -> BudgetRow {
    BudgetRow {
        id: usage.budget.id,
        scope: usage.budget.scope.to_string(),
        window: match usage.budget.window {
            Window::Total => "in total".to_owned(),
            window => format!("per {window}"),
        },
        limit: usage.limit().to_string(),
        spent: usage.spent.to_string(),
        reserved: usage.reserved.to_string(),
        left: usage.left().to_string(),
        is_spent: usage.left().is_spent(),
        forecast: reports::forecast(&usage, now).map(|amount| amount.to_string()),
        name: usage.budget.name,
        unit: usage.budget.unit,
    }
}

/// Returns a new key for a form that does something once.
fn key(api: &ApiState) -> String {
    format!("page-{:032x}", api.ctx.chance.bits())
}

/// Cuts a list to the length of a page; returns whether it was longer.
fn cut<T>(list: &mut Vec<T>) -> bool {
    let is_long = list.len() > SHOWN as usize;
    list.truncate(SHOWN as usize);
    is_long
}

async fn load(api: &ApiState, visitor: &Visitor, part: &Part, said: Said) -> Outcome<BudgetsPage> {
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let now = ctx.now();
    let after = Some(part.after.as_str()).filter(|text| !text.is_empty()).map(str::parse::<BudgetId>);
    let after = after.transpose().map_err(|_no_id| Refusal::not_found("budget"))?;
    let before = Some(part.before.as_str()).filter(|text| !text.is_empty()).map(str::parse::<StopId>);
    let before = before.transpose().map_err(|_no_id| Refusal::not_found("stop"))?;
    let mut found = budgets::list_open(ctx, caller, after, SHOWN + 1).await?;
    let mut in_force = stops::list(ctx, caller, false, before, SHOWN + 1).await?;
    let (has_more, has_older) = (cut(&mut found), cut(&mut in_force));
    Ok(BudgetsPage {
        shell: Shell::of(visitor, "Budgets", Place::Budgets).at("/budgets"),
        is_admin: caller.has(Scope::Admin),
        fault: said.fault,
        older: in_force.last().filter(|_| has_older).map(|stop| stop.id),
        before: part.before.clone(),
        stops: in_force.into_iter().map(|stop| stop_row(stop, now)).collect(),
        stop: said.stop,
        more: found.last().filter(|_| has_more).map(|usage| usage.budget.id),
        goes_on: after.is_some(),
        budgets: found.into_iter().map(|usage| budget_row(usage, now)).collect(),
        rows: said.made.rows(),
        made: said.made,
        windows: WINDOWS,
        consequences: CONSEQUENCES,
        key: key(api),
    })
}

async fn show(api: web::Data<ApiState>, visitor: Visitor, part: web::Query<Part>) -> PageResult {
    let path = match (part.after.as_str(), part.before.as_str()) {
        ("", "") => "/budgets".to_owned(),
        (after, "") => format!("/budgets?after={}", escaped(after)),
        (after, before) => format!("/budgets?after={}&before={}", escaped(after), escaped(before)),
    };
    let mut shown = load(&api, &visitor, &part, Said::default()).await?;
    shown.shell = shown.shell.at(path);
    Ok(page(StatusCode::OK, &shown))
}

#[derive(Clone, Default, Deserialize)]
struct StopForm {
    scope: String,
    reason: String,
}

async fn stop(api: web::Data<ApiState>, form: Form<StopForm>) -> PageResult {
    let said = form.fields;
    let made = async {
        let scope = Subject::read("scope", said.scope.trim())?;
        stops::make(&api.ctx, &form.visitor.caller, scope, said.reason.trim().to_owned(), None).await
    };
    match concluded(made.await)? {
        Ok(_stop) => Ok(see("/budgets").finish()),
        Err(refused) => {
            let said = Said { fault: Some(refused.message), stop: said, ..Said::default() };
            Ok(page(refused.status, &load(&api, &form.visitor, &Part::default(), said).await?))
        }
    }
}

#[derive(Deserialize)]
struct LiftForm {
    /// Stop below which the page's stops begin.
    #[serde(default)]
    before: String,
}

async fn lift(api: web::Data<ApiState>, path: web::Path<String>, form: Form<LiftForm>) -> PageResult {
    let id = path.parse::<StopId>().map_err(|_e| Refusal::not_found("stop"))?;
    let part = Part { before: form.fields.before, ..Part::default() };
    match concluded(stops::lift(&api.ctx, &form.visitor.caller, id).await)? {
        Ok(_stop) if part.before.is_empty() => Ok(see("/budgets").finish()),
        Ok(_stop) => Ok(see(&format!("/budgets?before={}", escaped(&part.before))).finish()),
        Err(refused) => {
            let said = Said { fault: Some(refused.message), ..Said::default() };
            Ok(page(refused.status, &load(&api, &form.visitor, &part, said).await?))
        }
    }
}
