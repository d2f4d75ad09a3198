//! Routes of gateways: a call of a model or tool is reserved before it is made, and settled after it. The same question in
//! the form of Envoy's external authorization (`ext_authz` over HTTP), for gateways that ask with headers alone.

use std::collections::BTreeMap;

use actix_web::http::header::HeaderMap;
use actix_web::{HttpRequest, HttpResponse, delete, get, post, route, web};
use entente_domain::amounts::Amount;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{IntentId, JobId, ReservationId};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::spending::Unsettled;
use entente_kernel::spending::reservations;
use entente_kernel::spending::reservations::{AllowedCall, CallAsk, Reservation};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::amounts;
use crate::body::{Body, id, one};
use crate::caller::Asker;
use crate::error::{Problem, Reply};
use crate::kernel::budgets::BudgetBody;
use crate::routes::Routes;
use crate::wire::{NumberOrText, WireTime};
use crate::{HttpState, created, ok};

pub fn routes(config: &mut Routes<'_>) {
    config.service(reserve).service(settle).service(release).service(authorize);
    config.service_below(authorize_path);
}

/// A call that is about to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewSpendReservation, example = json!({
    "agent_id": "agent.researcher", "model": "gpt-5-mini", "provider": "openai", "reserve": { "USD": 0.02 },
    "call_id": "chatcmpl-1",
}))]
struct ReserveBody {
    /// Principal on whose behalf it is made; defaults to the key's. The key must be able to act as it.
    principal_id: Option<String>,
    /// Agent that makes it; defaults to the acting agent.
    agent_id: Option<String>,
    /// Intent that it is for.
    intent_id: Option<String>,
    /// Job that it is for: then whoever submitted the job spends, with its intent. The key must be able to act as that principal.
    job_id: Option<String>,
    /// Provider of the model or tool.
    provider: Option<String>,
    /// Model that is called.
    model: Option<String>,
    /// Tool that is called.
    tool: Option<String>,
    /// Amounts to reserve by unit: the most that the call can cost. Empty only asks whether it is allowed.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, NumberOrText>)]
    reserve: BTreeMap<String, Box<RawValue>>,
    /// The client's id for the call: while its reservation holds the amounts, the same call again gets the same one.
    call_id: Option<String>,
    /// Seconds until the reservation expires, if nobody settles it: up to a day; defaults to ten minutes.
    expires_in: Option<u32>,
    /// What happens to the amounts then: `release` (the default), or `charge`, for calls that cost even if their end is not
    /// reported.
    #[serde(default)]
    unsettled: Unsettled,
}

/// An allowed call.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SpendReservation)]
struct ReservationBody {
    /// Id to settle it by; null if nothing was to be reserved.
    reservation_id: Option<ReservationId>,
    /// The reserved amounts.
    #[schema(value_type = BTreeMap<String, f64>)]
    reserve: BTreeMap<String, Box<RawValue>>,
    /// When it expires, if nobody settles it.
    expires_at: Option<WireTime>,
    /// How it ended: `settled`, `released`, `expired`, or `charged` when it expired; null while it holds the amounts.
    ended_as: Option<String>,
    /// The budgets that pay for the call, as they are now.
    budgets: Vec<BudgetBody>,
}

fn said_in(
    member: &str,
    said: &BTreeMap<String, Box<RawValue>>,
) -> Result<BTreeMap<String, Amount>, Refusal> {
    said.iter().map(|(unit, amount)| Ok((unit.clone(), amounts::given(member, amount)?))).collect()
}

fn body(api: &HttpState, call: AllowedCall, dialect: Dialect) -> Result<ReservationBody, Problem> {
    let now = api.ctx.now();
    let budgets = call.budgets.into_iter().map(|usage| BudgetBody::new(usage, now, dialect));
    let budgets = budgets.collect::<Result<_, _>>()?;
    let Some(made) = call.reservation else {
        return Ok(ReservationBody {
            reservation_id: None,
            reserve: BTreeMap::new(),
            expires_at: None,
            ended_as: None,
            budgets,
        });
    };
    settled(made, budgets, dialect)
}

fn settled(
    made: Reservation,
    budgets: Vec<BudgetBody>,
    dialect: Dialect,
) -> Result<ReservationBody, Problem> {
    let held = made.amounts.into_iter().map(|(unit, amount)| Ok((unit, amounts::number(amount)?)));
    Ok(ReservationBody {
        reservation_id: Some(made.id),
        reserve: held.collect::<Result<_, Problem>>()?,
        expires_at: Some(WireTime::new(made.expires_at, dialect)),
        ended_as: made.ended_as,
        budgets,
    })
}

/// Reserve the cost of a call
///
/// Before a gateway calls a model or a tool. The amounts are taken from every budget that pays for the call, or from none;
/// the call is refused when it is stopped (`stopped`), when a budget has too little left (`BUDGET_EXHAUSTED`), or when one
/// restricts the model or tool (`PERMISSION_DENIED`). Needs the scope `jobs:work` or `tools:use`.
#[utoipa::path(operation_id = "reserve_spend", tag = "budgets", request_body = ReserveBody,
    responses((status = 201, description = "The call is allowed", body = ReservationBody),
              (status = 403, description = "The call is refused", body = crate::error::ProblemBody)))]
#[post("/spend/reservations")]
async fn reserve(api: web::Data<HttpState>, asker: Asker, body_: Body<ReserveBody>) -> Reply {
    let said = body_.value;
    let ask = CallAsk {
        principal: said.principal_id,
        agent: said.agent_id,
        intent_id: one::<IntentId>("intent_id", said.intent_id)?,
        job_id: one::<JobId>("job_id", said.job_id)?,
        provider: said.provider,
        model: said.model,
        tool: said.tool,
        amounts: said_in("reserve", &said.reserve)?,
        call_id: said.call_id,
        seconds: said.expires_in,
        unsettled: said.unsettled,
    };
    let call = reservations::reserve(&api.ctx, &asker.caller, ask).await?;
    created(&body(&api, call, asker.dialect)?)
}

/// The cost of a call.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SpendSettlement, example = json!({ "cost": { "USD": 0.0131 } }))]
struct SettleBody {
    /// The cost by unit; empty releases the reserved amounts.
    #[schema(value_type = BTreeMap<String, NumberOrText>)]
    cost: BTreeMap<String, Box<RawValue>>,
    /// The model that was used, if it is another one.
    model: Option<String>,
}

/// Settle a reservation
///
/// The cost is charged, and the reserved amounts are released, at once. A cost above the reserved amount is charged in
/// full, and so is one whose reservation has expired or was released: the money is spent. If the reserved amount was
/// charged when the reservation expired, only the part above it is charged. Settling again changes nothing.
#[utoipa::path(operation_id = "settle_spend", tag = "budgets", request_body = SettleBody,
    params(("reservation_id" = ReservationId, Path, description = "Id of the reservation")),
    responses((status = 200, description = "The reservation", body = ReservationBody)))]
#[post("/spend/reservations/{reservation_id}/settle")]
async fn settle(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<SettleBody>,
) -> Reply {
    let SettleBody { cost, model } = body.value;
    let cost = said_in("cost", &cost)?;
    let id = id("reservation", &path)?;
    let made = reservations::settle(&api.ctx, &asker.caller, id, &cost, model).await?;
    ok(&settled(made, Vec::new(), asker.dialect)?)
}

/// Release a reservation
///
/// For a call that was not made, or cost nothing.
#[utoipa::path(operation_id = "release_spend", tag = "budgets",
    params(("reservation_id" = ReservationId, Path, description = "Id of the reservation")),
    responses((status = 200, description = "The reservation", body = ReservationBody)))]
#[delete("/spend/reservations/{reservation_id}")]
async fn release(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let id = id("reservation", &path)?;
    let made = reservations::settle(&api.ctx, &asker.caller, id, &BTreeMap::new(), None).await?;
    ok(&settled(made, Vec::new(), asker.dialect)?)
}

/// Judge a request for a gateway (Envoy `ext_authz`)
///
/// Envoy's HTTP authorization service with `path_prefix: /api/v1/ext-authz`: 200 lets the request pass, anything else is its
/// answer. The request's own key is asked for; the headers `x-entente-intent`, `-job`, `-model`, `-tool`, `-provider`, `-call-id`,
/// `-expires-in`, `-unsettled` and `-reserve` (`USD=0.02`, several separated by commas) say what it is about: the gateway sets
/// them, and removes those that its clients send. With an amount, the answer has the header `x-entente-reservation`, to settle
/// by.
#[utoipa::path(operation_id = "ext_authz", tag = "budgets",
    responses((status = 200, description = "The request may pass"),
              (status = 403, description = "The request is refused", body = crate::error::ProblemBody)))]
#[get("/ext-authz")]
async fn authorize(request: HttpRequest, api: web::Data<HttpState>, asker: Asker) -> Reply {
    judge(&request, &api, &asker).await
}

/// Judge a request for a gateway, whatever its method and path
#[utoipa::path(get, operation_id = "ext_authz_path", tag = "budgets",
    params(("path" = String, Path, description = "Path of the request that is judged")),
    responses((status = 200, description = "The request may pass"),
              (status = 403, description = "The request is refused", body = crate::error::ProblemBody)))]
#[route(
    "/ext-authz/{path:.*}",
    method = "GET",
    method = "HEAD",
    method = "POST",
    method = "PUT",
    method = "PATCH",
    method = "DELETE",
    method = "OPTIONS"
)]
async fn authorize_path(request: HttpRequest, api: web::Data<HttpState>, asker: Asker) -> Reply {
    judge(&request, &api, &asker).await
}

async fn judge(request: &HttpRequest, api: &HttpState, asker: &Asker) -> Reply {
    let headers = request.headers();
    let ask = CallAsk {
        principal: None,
        agent: None,
        intent_id: one::<IntentId>("x-entente-intent", header(headers, "x-entente-intent")?)?,
        job_id: one::<JobId>("x-entente-job", header(headers, "x-entente-job")?)?,
        provider: header(headers, "x-entente-provider")?,
        model: header(headers, "x-entente-model")?,
        tool: header(headers, "x-entente-tool")?,
        amounts: said_amounts(header(headers, "x-entente-reserve")?.as_deref().unwrap_or(""))?,
        call_id: header(headers, "x-entente-call-id")?,
        seconds: seconds(header(headers, "x-entente-expires-in")?.as_deref())?,
        unsettled: unsettled(header(headers, "x-entente-unsettled")?.as_deref())?,
    };
    let call = reservations::reserve(&api.ctx, &asker.caller, ask).await?;
    let mut answer = HttpResponse::Ok();
    if let Some(made) = call.reservation {
        answer.insert_header(("x-entente-reservation", made.id.to_string()));
    }
    Ok(answer.finish())
}

fn seconds(said: Option<&str>) -> Result<Option<u32>, Refusal> {
    let Some(text) = said else { return Ok(None) };
    text.parse().map(Some).map_err(|_e| {
        let message = format!("The header x-entente-expires-in must be a number of seconds, not `{text}`.");
        Refusal::new(Code::InvalidParameter, message)
    })
}

fn unsettled(said: Option<&str>) -> Result<Unsettled, Refusal> {
    match said {
        None | Some("release") => Ok(Unsettled::Release),
        Some("charge") => Ok(Unsettled::Charge),
        Some(text) => {
            let message =
                format!("The header x-entente-unsettled must be `release` or `charge`, not `{text}`.");
            Err(Refusal::new(Code::InvalidParameter, message))
        }
    }
}

fn header(headers: &HeaderMap, name: &str) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().map_err(|_e| {
        Refusal::new(Code::InvalidParameter, format!("The header {name} must be plain text."))
    })?;
    Ok(Some(text.to_owned()))
}

/// Parses `USD=0.02,tokens=1000`.
fn said_amounts(text: &str) -> Result<BTreeMap<String, Amount>, Refusal> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let amount = |part: &str| {
        let (unit, amount) = part.split_once('=')?;
        Some((unit.trim().to_owned(), amount.trim().parse::<Amount>().ok()?))
    };
    parts
        .map(|part| {
            amount(part).ok_or_else(|| {
                let message = format!("`{part}` in x-entente-reserve must be UNIT=AMOUNT, such as USD=0.02.");
                Refusal::new(Code::InvalidParameter, message)
            })
        })
        .collect()
}
