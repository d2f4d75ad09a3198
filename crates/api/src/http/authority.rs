//! Routes through which workers ask before they act (contract 11.2, ARCP §9): authorize, set aside and settle, delegate.

use std::collections::BTreeMap;

use actix_web::{post, web};
use entente_domain::amounts::Amount;
use entente_domain::budgets::Budget;
use entente_domain::ids::ReservationId;
use entente_domain::jobs::ask::{Constraints, Submit};
use entente_domain::jobs::wire::{Accepted, numbers};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::jobs::{self, OperationAsk};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::body::Body;
use super::caller::Asker;
use super::claims::TokenBody;
use super::error::Reply;
use super::jobs::job_id;
use super::{Doors, created, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(authorize).service(delegate).service(settle).service(let_go);
}

/// An operation that is about to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobOperation, example = json!({ "claim_token": "ct_…", "capability": "tool.call", "target": "search.web", "call_id": "c1", "reserve": { "USD": "0.40" } }))]
struct AuthorizeBody {
    /// The claim's token.
    claim_token: String,
    /// A namespace of ARCP §9.2.
    capability: String,
    /// On what: a path, a URL, a name; for `cost.budget` the currency.
    target: String,
    /// Which call it is: a refusal is then a `tool_result` event too.
    call_id: Option<String>,
    /// What to set aside for it, by currency: all of it, or the operation is refused.
    #[schema(value_type = Option<Object>)]
    reserve: Option<BTreeMap<String, Box<RawValue>>>,
}

/// The operation is allowed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobOperationAllowed)]
struct AllowedBody {
    /// `allow`.
    decision: &'static str,
    /// What the job has left.
    #[schema(value_type = Object)]
    budget: Map<String, Value>,
    /// Under which name the amounts were set aside: to be settled, or let go.
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation_id: Option<ReservationId>,
}

fn amounts(member: &str, said: BTreeMap<String, Box<RawValue>>) -> Result<Budget, Refusal> {
    let read = said.into_iter().map(|(currency, value)| match Amount::written(value.get()) {
        Ok(amount) if !amount.is_negative() => Ok((currency, amount)),
        Ok(_) => {
            let message = format!("`{member}` of {currency} is below zero.");
            Err(Refusal::field(Code::InvalidRequest, member, "range", message))
        }
        Err(e) => {
            let message = format!("`{member}` of {currency} is no amount: it {e}.");
            Err(Refusal::field(Code::InvalidRequest, member, "amount", message))
        }
    });
    Ok(Budget(read.collect::<Result<_, _>>()?))
}

/// Authorize an operation
///
/// Before it is made (ARCP §9.3). In this order: is the job still to go on, has its lease ended, does it cover the target, is
/// a counter spent. `reserve` sets an amount aside, or fails.
#[utoipa::path(operation_id = "authorize_operation", tag = "workers", request_body = AuthorizeBody,
    params(("job_id" = String, Path, description = "The job")),
    responses((status = 200, description = "It is allowed", body = AllowedBody),
              (status = 403, description = "`PERMISSION_DENIED`, `LEASE_EXPIRED`, `BUDGET_EXHAUSTED`", body = super::error::ProblemBody)))]
#[post("/jobs/{job_id}/authorize")]
async fn authorize(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<AuthorizeBody>,
) -> Reply {
    let said = body.value;
    let reserve = said.reserve.map(|said| amounts("reserve", said)).transpose()?;
    let ask = OperationAsk {
        capability: said.capability,
        target: said.target,
        call_id: said.call_id,
        reserve: reserve.filter(|reserve| !reserve.is_unlimited()),
    };
    let allowed = jobs::authorize(&doors.ctx, &asker.caller, job_id(&path)?, &said.claim_token, ask).await?;
    let budget = numbers(&allowed.budget);
    ok(&AllowedBody { decision: "allow", budget, reservation_id: allowed.reservation_id })
}

/// A part that another agent is to do.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobDelegation, example = json!({ "claim_token": "ct_…", "delegate_id": "d1", "agent": "echo", "input": {} }))]
struct DelegateBody {
    /// The claim's token.
    claim_token: String,
    /// The delegation's name: under it the child is made once.
    delegate_id: Option<String>,
    /// Which agent: a name, or `name@version`.
    agent: String,
    /// What it is to work on.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    input: Option<Box<RawValue>>,
    /// What the child may touch and spend: no more than its parent.
    lease_request: Option<BTreeMap<String, Vec<String>>>,
    /// Until when: no longer than its parent.
    lease_constraints: Option<Constraints>,
    /// Seconds after which the child is timed out.
    max_runtime_sec: Option<i64>,
}

impl DelegateBody {
    fn split(self) -> (String, Submit) {
        let submit = Submit {
            agent: self.agent,
            input: self.input,
            lease_request: self.lease_request,
            lease_constraints: self.lease_constraints,
            idempotency_key: None,
            max_runtime_sec: self.max_runtime_sec,
            parent_job_id: None,
            delegate_id: self.delegate_id,
            intent_id: None,
        };
        (self.claim_token, submit)
    }
}

/// Delegate a part of a job
///
/// A child in the same session, with a part of the job's authority (ARCP §9.4, §10). Under the same `delegate_id` it is made
/// once.
#[utoipa::path(operation_id = "delegate_job", tag = "workers", request_body = DelegateBody,
    params(("job_id" = String, Path, description = "The job")),
    responses((status = 201, description = "The child", body = Accepted),
              (status = 422, description = "`LEASE_SUBSET_VIOLATION`", body = super::error::ProblemBody)))]
#[post("/jobs/{job_id}/delegate")]
async fn delegate(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<DelegateBody>,
) -> Reply {
    let (claim_token, submit) = body.value.split();
    let child = jobs::delegate(&doors.ctx, &asker.caller, job_id(&path)?, &claim_token, submit).await?;
    created(&child)
}

/// What an operation has really cost.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobSettlement, example = json!({ "claim_token": "ct_…", "cost": { "USD": "0.31" } }))]
struct SettleBody {
    /// The claim's token.
    claim_token: String,
    /// By currency; taken off instead of what was set aside.
    #[serde(default)]
    #[schema(value_type = Object)]
    cost: BTreeMap<String, Box<RawValue>>,
}

/// What a job has left.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobBudget)]
struct BudgetBody {
    /// By currency.
    #[schema(value_type = Object)]
    budget: Map<String, Value>,
}

/// Settle what was set aside
#[utoipa::path(operation_id = "settle_reservation", tag = "workers", request_body = SettleBody,
    params(("job_id" = String, Path, description = "The job"), ("reservation_id" = String, Path, description = "What was set aside")),
    responses((status = 200, description = "What is left", body = BudgetBody)))]
#[post("/jobs/{job_id}/reservations/{reservation_id}/settle")]
async fn settle(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: Body<SettleBody>,
) -> Reply {
    let SettleBody { claim_token, cost } = body.value;
    let cost = amounts("cost", cost)?;
    let left =
        jobs::settle(&doors.ctx, &asker.caller, job_id(&path.0)?, &claim_token, &path.1, &cost).await?;
    ok(&BudgetBody { budget: numbers(&left) })
}

/// Let go of what was set aside
#[utoipa::path(operation_id = "release_reservation", tag = "workers", request_body = TokenBody,
    params(("job_id" = String, Path, description = "The job"), ("reservation_id" = String, Path, description = "What was set aside")),
    responses((status = 200, description = "What is left", body = BudgetBody)))]
#[post("/jobs/{job_id}/reservations/{reservation_id}/release")]
async fn let_go(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: Body<TokenBody>,
) -> Reply {
    let token = &body.value.claim_token;
    let none = Budget::default();
    let left = jobs::settle(&doors.ctx, &asker.caller, job_id(&path.0)?, token, &path.1, &none).await?;
    ok(&BudgetBody { budget: numbers(&left) })
}
