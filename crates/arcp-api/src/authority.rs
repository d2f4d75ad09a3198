//! Endpoints for a worker's authority over a job (ARCP-W-11.2, ARCP §9): authorizing operations, reserving and
//! settling budget, and delegating.

use std::collections::BTreeMap;

use actix_web::{post, web};
use entente_arcp::jobs;
use entente_arcp::jobs::OperationAsk;
use entente_domain::amounts::Amount;
use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::jobs::ask::{Constraints, Submit};
use entente_domain::arcp::jobs::limits::Concurrency;
use entente_domain::arcp::jobs::wire::{Accepted, numbers};
use entente_domain::ids::ReservationId;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::Body;
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::routes::Routes;
use entente_http::{created, ok};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;
use crate::claims::TokenBody;
use crate::jobs::job_id;

pub fn routes(config: &mut Routes<'_>) {
    config.service(authorize).service(delegate).service(settle).service(let_go);
}

/// An operation that a worker is about to perform.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobOperation, example = json!({ "claim_token": "ct_…", "capability": "tool.call", "target": "search.web", "call_id": "c1", "reserve": { "USD": "0.40" } }))]
struct AuthorizeBody {
    /// The claim's token.
    claim_token: String,
    /// A capability namespace of ARCP §9.2.
    capability: String,
    /// The target: a path, a URL or a name; for `cost.budget`, the currency.
    target: String,
    /// The id of the tool call. With it, a refusal is also recorded as a `tool_result` event.
    call_id: Option<String>,
    /// Amounts to reserve for the operation, by currency. If they cannot all be reserved, the operation is refused.
    #[schema(value_type = Option<Object>)]
    reserve: Option<BTreeMap<String, Box<RawValue>>>,
}

/// The decision to allow an operation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobOperationAllowed)]
struct AllowedBody {
    /// Always `allow`.
    decision: &'static str,
    /// The job's remaining budget.
    #[schema(value_type = Object)]
    budget: Map<String, Value>,
    /// The reservation's id, for settling or releasing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation_id: Option<ReservationId>,
}

pub(crate) fn amounts(member: &str, said: BTreeMap<String, Box<RawValue>>) -> Result<Budget, Refusal> {
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
/// Call this before performing the operation (ARCP §9.3). The checks, in order: the job has not been cancelled, its
/// lease has not expired, the lease covers the target, and no budget counter is exhausted. With `reserve`, the
/// amounts are reserved or the call is refused.
#[utoipa::path(operation_id = "authorize_operation", tag = "workers", request_body = AuthorizeBody,
    responses((status = 200, description = "The operation is allowed", body = AllowedBody),
              (status = 403, description = "`PERMISSION_DENIED`, `LEASE_EXPIRED`, `BUDGET_EXHAUSTED`", body = entente_http::error::ProblemBody)))]
#[post("/jobs/{job_id}/authorize")]
async fn authorize(
    api: web::Data<ApiState>,
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
    let allowed = jobs::authorize(&api.ctx, &asker.caller, job_id(&path)?, &said.claim_token, ask).await?;
    let budget = numbers(&allowed.budget);
    ok(&AllowedBody { decision: "allow", budget, reservation_id: allowed.reservation_id })
}

/// A part of a job to delegate to another agent.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobDelegation, example = json!({ "claim_token": "ct_…", "delegate_id": "d1", "agent": "echo", "input": {} }))]
struct DelegateBody {
    /// The claim's token.
    claim_token: String,
    /// The delegation's name. A child job is created once per name.
    delegate_id: Option<String>,
    /// The agent: a name, or `name@version`.
    agent: String,
    /// The child's input.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    input: Option<Box<RawValue>>,
    /// The child's authority; at most its parent's.
    lease_request: Option<BTreeMap<String, Vec<String>>>,
    /// When the child's lease expires; no later than its parent's.
    lease_constraints: Option<Constraints>,
    /// Seconds after which the child times out.
    max_runtime_sec: Option<i64>,
    /// Jobs with a higher priority start first: -100 to 100; defaults to the parent's.
    priority: Option<i64>,
    /// A key by which running jobs of this principal are limited.
    concurrency: Option<Concurrency>,
}

impl DelegateBody {
    fn split(self) -> (String, Submit) {
        let submit = Submit {
            agent: self.agent,
            input: self.input,
            lease_request: self.lease_request,
            lease_constraints: self.lease_constraints,
            max_runtime_sec: self.max_runtime_sec,
            delegate_id: self.delegate_id,
            priority: self.priority,
            concurrency: self.concurrency,
            ..Submit::default()
        };
        (self.claim_token, submit)
    }
}

/// Delegate a part of a job
///
/// Creates a child job in the same session, with a part of the job's authority (ARCP §9.4, §10). Repeating the call
/// with the same `delegate_id` creates no second child.
#[utoipa::path(operation_id = "delegate_job", tag = "workers", request_body = DelegateBody,
    responses((status = 201, description = "The child job", body = Accepted),
              (status = 422, description = "`LEASE_SUBSET_VIOLATION`", body = entente_http::error::ProblemBody)))]
#[post("/jobs/{job_id}/delegate")]
async fn delegate(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<DelegateBody>,
) -> Reply {
    let (claim_token, submit) = body.value.split();
    let child = jobs::delegate(&api.ctx, &asker.caller, job_id(&path)?, &claim_token, submit).await?;
    created(&child)
}

/// The actual cost of an operation.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobSettlement, example = json!({ "claim_token": "ct_…", "cost": { "USD": "0.31" } }))]
struct SettleBody {
    /// The claim's token.
    claim_token: String,
    /// The cost by currency, deducted in place of the reserved amounts.
    #[serde(default)]
    #[schema(value_type = Object)]
    cost: BTreeMap<String, Box<RawValue>>,
}

/// A job's remaining budget.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobBudget)]
struct BudgetBody {
    /// The remaining amounts, by currency.
    #[schema(value_type = Object)]
    budget: Map<String, Value>,
}

/// Settle a reservation
///
/// A reservation that ended with its claim or its job can be settled for a day more, under the token of that claim: its
/// cost is charged all the same, so a late settlement is not lost.
#[utoipa::path(operation_id = "settle_reservation", tag = "workers", request_body = SettleBody,
    responses((status = 200, description = "The remaining budget", body = BudgetBody)))]
#[post("/jobs/{job_id}/reservations/{reservation_id}/settle")]
async fn settle(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: Body<SettleBody>,
) -> Reply {
    let SettleBody { claim_token, cost } = body.value;
    let cost = amounts("cost", cost)?;
    let left = jobs::settle(&api.ctx, &asker.caller, job_id(&path.0)?, &claim_token, &path.1, &cost).await?;
    ok(&BudgetBody { budget: numbers(&left) })
}

/// Release a reservation
#[utoipa::path(operation_id = "release_reservation", tag = "workers", request_body = TokenBody,
    responses((status = 200, description = "The remaining budget", body = BudgetBody)))]
#[post("/jobs/{job_id}/reservations/{reservation_id}/release")]
async fn let_go(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: Body<TokenBody>,
) -> Reply {
    let token = &body.value.claim_token;
    let none = Budget::default();
    let left = jobs::settle(&api.ctx, &asker.caller, job_id(&path.0)?, token, &path.1, &none).await?;
    ok(&BudgetBody { budget: numbers(&left) })
}
