//! The page of budgets and stops: what is spent of each budget, and the switch that stops a scope. Only admins see all
//! budgets and may stop; others see what pays for their own work.

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
use super::words::When;
use super::{page, see};
use crate::ApiState;

/// Budgets and stops of a page.
const SHOWN: u32 = 200;

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
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
    budgets: Vec<BudgetRow>,
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

async fn load(api: &ApiState, visitor: &Visitor, fault: Option<String>) -> Outcome<BudgetsPage> {
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let now = ctx.now();
    let found = budgets::list(ctx, caller, None, None, SHOWN).await?;
    let in_force = stops::list(ctx, caller, false, None, SHOWN).await?;
    Ok(BudgetsPage {
        shell: Shell::of(visitor, "Budgets", Place::Budgets),
        is_admin: caller.has(Scope::Admin),
        fault,
        stops: in_force.into_iter().map(|stop| stop_row(stop, now)).collect(),
        budgets: found
            .into_iter()
            .filter(|usage| usage.budget.closed_at.is_none())
            .map(|usage| budget_row(usage, now))
            .collect(),
    })
}

async fn show(api: web::Data<ApiState>, visitor: Visitor) -> PageResult {
    Ok(page(StatusCode::OK, &load(&api, &visitor, None).await?))
}

/// Redirects to the page; after a refusal, renders it with the reason.
async fn conclude(api: &ApiState, visitor: &Visitor, done: Outcome<()>) -> PageResult {
    match concluded(done)? {
        Ok(()) => Ok(see("/budgets").finish()),
        Err(refused) => Ok(page(refused.status, &load(api, visitor, Some(refused.message)).await?)),
    }
}

#[derive(Deserialize)]
struct StopForm {
    scope: String,
    reason: String,
}

async fn stop(api: web::Data<ApiState>, form: Form<StopForm>) -> PageResult {
    let StopForm { scope, reason } = form.fields;
    let made = async {
        let scope = Subject::read("scope", scope.trim())?;
        stops::make(&api.ctx, &form.visitor.caller, scope, reason.trim().to_owned(), None).await
    };
    let done = made.await.map(|_stop| ());
    conclude(&api, &form.visitor, done).await
}

#[derive(Deserialize)]
struct LiftForm {}

async fn lift(api: web::Data<ApiState>, path: web::Path<String>, form: Form<LiftForm>) -> PageResult {
    let LiftForm {} = form.fields;
    let id = path.parse::<StopId>().map_err(|_e| Refusal::not_found("stop"))?;
    let done = stops::lift(&api.ctx, &form.visitor.caller, id).await.map(|_stop| ());
    conclude(&api, &form.visitor, done).await
}
