//! Forms of admins that make a budget, and the page of one budget's changes: its name, its limit and its thresholds, the limit of
//! the present window alone, and its end.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::web;
use askama::Template;
use entente_domain::amounts::Amount;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::BudgetId;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::spending::{BudgetAsk, BudgetChange, Usage, Window};
use entente_domain::subjects::Subject;
use entente_kernel::Outcome;
use entente_kernel::spending::budgets;
use serde::Deserialize;

use super::thresholds::{self, CONSEQUENCES, Row};
use super::{Part, Said, budget_row, key, load};
use crate::ApiState;
use crate::web::guard::{Form, PageError, PageResult, Visitor, concluded};
use crate::web::shell::{Place, Shell};
use crate::web::{page, see};

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/budgets", web::post().to(create))
        .route("/budgets/{id}/change", web::get().to(show))
        .route("/budgets/{id}/change", web::post().to(change))
        .route("/budgets/{id}/raise", web::post().to(raise))
        .route("/budgets/{id}/close", web::post().to(close));
}

/// A budget to make, as the form has it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct NewBudget {
    pub name: String,
    pub scope: String,
    pub unit: String,
    pub window: String,
    pub time_zone: String,
    pub limit: String,
    key: String,
    #[serde(flatten)]
    more: BTreeMap<String, String>,
}

impl NewBudget {
    /// Rows of thresholds to show.
    pub fn rows(&self) -> Vec<Row> {
        thresholds::padded(thresholds::rows(&self.more))
    }

    fn ask(&self) -> Result<BudgetAsk, Refusal> {
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let window = Window::parse(&self.window).ok_or_else(|| {
            let message = "A budget is in total, or per hour, day, week or month. Nothing was made.";
            Refusal::new(Code::InvalidParameter, message)
        })?;
        Ok(BudgetAsk {
            name: given(&self.name),
            scope: Subject::read("scope", self.scope.trim())?,
            unit: self.unit.trim().to_owned(),
            window,
            time_zone: given(&self.time_zone),
            limit: amount("limit", &self.limit)?,
            thresholds: thresholds::read(&thresholds::rows(&self.more))?,
        })
    }
}

/// Reads an amount of a form.
fn amount(what: &str, text: &str) -> Result<Amount, Refusal> {
    let read = Amount::written(text.trim().trim_matches('"')).ok().filter(|amount| !amount.is_negative());
    read.ok_or_else(|| {
        let message = format!(
            "The {what} must be a number from 0 on, such as 12.50, with at most 18 digits before and 12 after the point."
        );
        Refusal::field(Code::InvalidRequest, what, "amount", message)
    })
}

/// Returns the claim of a form that its operation is done once, however often its button is pressed.
fn once(key: &str, operation: &str, said: &str) -> Result<Idempotency, Refusal> {
    Idempotency::new(key, &format!("page {operation}"), said.as_bytes())
}

async fn create(api: web::Data<ApiState>, form: Form<NewBudget>) -> PageResult {
    let (visitor, said) = (form.visitor, form.fields);
    let made = async {
        let ask = said.ask()?;
        let once = once(&said.key, "create budget", &format!("{ask:?}"))?;
        budgets::create(&api.ctx, &visitor.caller, ask, Some(&once)).await
    };
    match concluded(made.await)? {
        Ok(budget) => Ok(see(&format!("/budgets/{}", budget.id)).finish()),
        Err(refused) => {
            let said = Said { fault: Some(refused.message), made: said, ..Said::default() };
            Ok(page(refused.status, &load(&api, &visitor, &Part::default(), said).await?))
        }
    }
}

#[derive(Template)]
#[template(path = "budget.html")]
struct ChangePage {
    shell: Shell,
    /// Why the last action was refused.
    fault: Option<String>,
    budget: super::BudgetRow,
    /// The budget as it was when the page was rendered: a form does not change the fields that it leaves as they were.
    name_was: String,
    limit_was: String,
    thresholds_was: String,
    name: String,
    limit: String,
    rows: Vec<Row>,
    consequences: [(&'static str, &'static str); 5],
    amount: String,
    key: String,
}

/// A change, as the form has it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ChangeForm {
    name: String,
    name_was: String,
    limit: String,
    limit_was: String,
    thresholds_was: String,
    #[serde(flatten)]
    more: BTreeMap<String, String>,
}

impl ChangeForm {
    fn change(&self) -> Result<BudgetChange, Refusal> {
        let differs = |text: &str, before: &str| text.trim() != before.trim();
        let rows = thresholds::rows(&self.more);
        let is_other = thresholds::text(&rows) != self.thresholds_was;
        Ok(BudgetChange {
            name: differs(&self.name, &self.name_was).then(|| self.name.trim().to_owned()),
            limit: differs(&self.limit, &self.limit_was).then(|| amount("limit", &self.limit)).transpose()?,
            thresholds: is_other.then(|| thresholds::read(&rows)).transpose()?,
        })
    }
}

/// The refusal of a form of the page, and its input.
#[derive(Default)]
struct Refused {
    fault: Option<String>,
    change: Option<ChangeForm>,
    amount: String,
}

fn budget_id(text: &str) -> Result<BudgetId, PageError> {
    text.parse().map_err(|_no_id| Refusal::not_found("budget").into())
}

/// Loads the page of changes, which is for admins and open budgets.
async fn load_change(
    api: &ApiState,
    visitor: &Visitor,
    id: BudgetId,
    refused: Refused,
) -> Result<ChangePage, PageError> {
    visitor.caller.require(Scope::Admin)?;
    let usage: Usage = budgets::get(&api.ctx, &visitor.caller, id).await?;
    usage.budget.require_open()?;
    let budget = &usage.budget;
    let (name, limit) = (budget.name.clone(), budget.limit.to_string());
    let rows = thresholds::rows_of(&budget.thresholds);
    let said = refused.change;
    Ok(ChangePage {
        shell: Shell::of(visitor, format!("Change {name}"), Place::Budgets),
        fault: refused.fault,
        thresholds_was: thresholds::text(&rows),
        rows: thresholds::padded(said.as_ref().map_or(rows, |said| thresholds::rows(&said.more))),
        name: said.as_ref().map_or_else(|| name.clone(), |said| said.name.clone()),
        limit: said.as_ref().map_or_else(|| limit.clone(), |said| said.limit.clone()),
        name_was: name,
        limit_was: limit,
        consequences: CONSEQUENCES,
        amount: refused.amount,
        key: key(api),
        budget: budget_row(usage, api.ctx.now()),
    })
}

async fn show(api: web::Data<ApiState>, visitor: Visitor, path: web::Path<String>) -> PageResult {
    let shown = load_change(&api, &visitor, budget_id(&path)?, Refused::default()).await?;
    Ok(page(StatusCode::OK, &shown))
}

/// Redirects to the budget's page; after a refusal, renders the page of changes with the reason and the input.
async fn conclude(
    api: &ApiState,
    visitor: &Visitor,
    id: BudgetId,
    done: Outcome<Usage>,
    said: Refused,
) -> PageResult {
    match concluded(done)? {
        Ok(_usage) => Ok(see(&format!("/budgets/{id}")).finish()),
        Err(refused) => {
            let said = Refused { fault: Some(refused.message), ..said };
            Ok(page(refused.status, &load_change(api, visitor, id, said).await?))
        }
    }
}

async fn change(api: web::Data<ApiState>, path: web::Path<String>, form: Form<ChangeForm>) -> PageResult {
    let id = budget_id(&path)?;
    let changed =
        async { budgets::change(&api.ctx, &form.visitor.caller, id, form.fields.change()?, None).await };
    let done = changed.await;
    let said = Refused { change: Some(form.fields), ..Refused::default() };
    conclude(&api, &form.visitor, id, done, said).await
}

#[derive(Deserialize)]
struct RaiseForm {
    amount: String,
    key: String,
}

async fn raise(api: web::Data<ApiState>, path: web::Path<String>, form: Form<RaiseForm>) -> PageResult {
    let id = budget_id(&path)?;
    let RaiseForm { amount: text, key } = form.fields;
    let raised = async {
        let by = amount("amount", &text)?;
        let once = once(&key, "raise budget", &format!("{id} {by}"))?;
        budgets::raise(&api.ctx, &form.visitor.caller, id, by, Some(&once)).await
    };
    let done = raised.await;
    conclude(&api, &form.visitor, id, done, Refused { amount: text, ..Refused::default() }).await
}

#[derive(Deserialize)]
struct CloseForm {}

async fn close(api: web::Data<ApiState>, path: web::Path<String>, form: Form<CloseForm>) -> PageResult {
    let id = budget_id(&path)?;
    let CloseForm {} = form.fields;
    let done = budgets::close(&api.ctx, &form.visitor.caller, id, None).await;
    conclude(&api, &form.visitor, id, done, Refused::default()).await
}
