//! Routes of budgets, and the report of spending. Amounts are JSON numbers with all their digits.

use actix_web::{HttpRequest, delete, get, patch, post, web};
use entente_domain::clock::{earlier, plus_seconds};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{BudgetId, IntentId};
use entente_domain::limits::PAGE;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::spending::{BudgetAsk, BudgetChange, Threshold, Usage, Window};
use entente_domain::subjects::Subject;
use entente_kernel::spending::budgets;
use entente_kernel::spending::cost_limits::{self, CostLimitUsage};
use entente_kernel::spending::reports;
use entente_kernel::spending::reports::{Division, Line, ReportAsk};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::amounts;
use crate::body::{Body, IdempotencyKey, Limit1000, Query, id};
use crate::caller::Asker;
use crate::error::{Problem, Reply};
use crate::routes::Routes;
use crate::wire::{GivenTime, NumberOrText, WireTime};
use crate::{HttpState, created, ok};

pub fn routes(config: &mut Routes<'_>) {
    config
        .service(create)
        .service(list)
        .service(report)
        .service(get)
        .service(change)
        .service(raise)
        .service(close);
}

/// Default time of a report: 30 days, in seconds.
const REPORT_SECONDS: u32 = 30 * 24 * 3_600;

/// A budget with its use in the present window.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Budget)]
pub struct BudgetBody {
    /// Its id.
    pub id: BudgetId,
    /// Its name.
    #[schema(example = "Research, per day")]
    pub name: String,
    /// Whose spending it limits.
    #[schema(value_type = String, example = "team:research")]
    pub scope: Subject,
    /// The unit.
    #[schema(example = "USD")]
    pub unit: String,
    /// How often it begins anew.
    pub window: Window,
    /// Time zone in which its windows begin.
    pub time_zone: String,
    /// The limit of each window.
    #[schema(value_type = f64, example = 50)]
    pub limit: Box<RawValue>,
    /// Shares of the limit, and the consequences of spending them.
    pub thresholds: Vec<Threshold>,
    /// Principal that created it.
    pub created_by: String,
    /// When it was created.
    pub created_at: WireTime,
    /// When it was closed; null while it limits anything.
    pub closed_at: Option<WireTime>,
    /// Its use in the present window.
    pub usage: UsageBody,
}

/// The use of a budget in a window.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BudgetUsage)]
pub struct UsageBody {
    /// Begin of the window.
    starts_at: WireTime,
    /// End of the window; null if it never ends.
    ends_at: Option<WireTime>,
    /// The limit of this window, with all raises.
    #[schema(value_type = f64)]
    limit: Box<RawValue>,
    /// Costs.
    #[schema(value_type = f64)]
    spent: Box<RawValue>,
    /// Amounts reserved for work under way.
    #[schema(value_type = f64)]
    reserved: Box<RawValue>,
    /// The amount that can still be reserved; below zero when costs that nobody reserved exceed the limit.
    #[schema(value_type = f64)]
    left: Box<RawValue>,
    /// Costs at the end of the window, if they go on as since the begin; null without an end, and at first.
    #[schema(value_type = Option<f64>)]
    forecast: Option<Box<RawValue>>,
}

impl BudgetBody {
    /// Returns the budget in the client's dialect.
    ///
    /// # Errors
    /// An amount cannot be written.
    pub fn new(
        usage: Usage,
        now: entente_domain::clock::Timestamp,
        dialect: Dialect,
    ) -> Result<Self, Problem> {
        let time = |at| WireTime::new(at, dialect);
        let forecast = reports::forecast(&usage, now).map(amounts::number).transpose()?;
        let body = UsageBody {
            starts_at: time(usage.starts_at),
            ends_at: usage.ends_at.map(time),
            limit: amounts::number(usage.limit())?,
            spent: amounts::number(usage.spent)?,
            reserved: amounts::number(usage.reserved)?,
            left: amounts::number(usage.left())?,
            forecast,
        };
        let budget = usage.budget;
        Ok(Self {
            id: budget.id,
            name: budget.name,
            scope: budget.scope,
            unit: budget.unit,
            window: budget.window,
            time_zone: budget.time_zone,
            limit: amounts::number(budget.limit)?,
            thresholds: budget.thresholds,
            created_by: budget.created_by,
            created_at: time(budget.created_at),
            closed_at: budget.closed_at.map(time),
            usage: body,
        })
    }
}

/// A budget to create.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewBudget, example = json!({
    "scope": "team:research", "unit": "USD", "window": "day", "time_zone": "Europe/Berlin", "limit": 50,
    "thresholds": [{ "percent": 80, "degrade": { "models": ["*-mini"] } }, { "percent": 100, "ask": { "person": "alice" } }],
}))]
struct NewBody {
    /// Its name; defaults to a description.
    name: Option<String>,
    /// Whose spending it limits: `system`, `team:NAME`, `principal:NAME`, `agent:NAME`, `intent:ID` or `key:ID`.
    scope: String,
    /// The unit: a currency, `tokens` …. Costs in other units are not charged to it.
    unit: String,
    /// How often it begins anew; defaults to `total`.
    #[serde(default)]
    window: Window,
    /// IANA time zone in which its windows begin; defaults to UTC.
    time_zone: Option<String>,
    /// The limit of each window.
    #[schema(value_type = NumberOrText)]
    limit: Box<RawValue>,
    /// Shares of the limit, and the consequences of spending them.
    #[serde(default)]
    thresholds: Vec<Threshold>,
}

/// Changes of a budget; absent members stay.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BudgetPatch, example = json!({ "limit": 80 }))]
struct ChangeBody {
    /// Its name.
    name: Option<String>,
    /// The limit of each window, the present one included.
    #[schema(value_type = Option<NumberOrText>)]
    limit: Option<Box<RawValue>>,
    /// Shares of the limit, and the consequences of spending them.
    thresholds: Option<Vec<Threshold>>,
}

/// An amount by which a limit is raised.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BudgetRaise, example = json!({ "amount": 25 }))]
struct RaiseBody {
    /// The amount, above zero.
    #[schema(value_type = NumberOrText)]
    amount: Box<RawValue>,
}

/// A page of budgets.
#[derive(Debug, Serialize, ToSchema)]
struct BudgetList {
    /// The budgets, oldest first.
    budgets: Vec<BudgetBody>,
    /// The `max_cost` of the intent's governance policy, which is a budget of the intent in each unit; only in a list of the
    /// scope of an intent that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_limit: Option<CostLimitBody>,
}

/// The `max_cost` of an intent and its use.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CostLimit)]
struct CostLimitBody {
    /// The intent.
    intent_id: IntentId,
    /// The limit, in each unit separately.
    #[schema(value_type = f64)]
    limit: Box<RawValue>,
    /// Its use, in each unit that has costs or reservations.
    usage: Vec<CostLimitUsageBody>,
}

/// Use of an intent's `max_cost` in one unit.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CostLimitUsage)]
struct CostLimitUsageBody {
    /// The unit.
    unit: String,
    /// The sum of the costs.
    #[schema(value_type = f64)]
    spent: Box<RawValue>,
    /// The reserved amounts that are not costs yet.
    #[schema(value_type = f64)]
    reserved: Box<RawValue>,
    /// The rest of the limit; zero if it is exceeded.
    #[schema(value_type = f64)]
    left: Box<RawValue>,
}

impl CostLimitUsageBody {
    fn new(usage: &CostLimitUsage) -> Result<Self, Problem> {
        Ok(Self {
            unit: usage.unit.clone(),
            spent: amounts::number(usage.spent)?,
            reserved: amounts::number(usage.reserved)?,
            left: amounts::number(usage.left())?,
        })
    }
}

/// Returns the cost limit of the intent that the scope names.
async fn cost_limit(
    api: &HttpState,
    asker: &Asker,
    scope: Option<&Subject>,
) -> Result<Option<CostLimitBody>, Problem> {
    let Some(intent_id) = scope.and_then(Subject::intent) else { return Ok(None) };
    let Some((limit, usage)) = cost_limits::usage(&api.ctx, &asker.caller, intent_id).await? else {
        return Ok(None);
    };
    let usage = usage.iter().map(CostLimitUsageBody::new).collect::<Result<_, _>>()?;
    Ok(Some(CostLimitBody { intent_id, limit: amounts::number(limit)?, usage }))
}

/// Create a budget
///
/// Needs the scope `admin`. From then on, every cost in its unit that its scope incurs is charged to it, whichever way it is
/// reported, once; and an amount that is reserved before it is spent is taken from all budgets that pay for it, or from
/// none. Costs reported on other servers within half a second may not be charged yet.
#[utoipa::path(operation_id = "create_budget", tag = "budgets", request_body = NewBody, params(IdempotencyKey),
    responses((status = 201, description = "The budget", body = BudgetBody)))]
#[post("/budgets")]
async fn create(request: HttpRequest, api: web::Data<HttpState>, asker: Asker, body: Body<NewBody>) -> Reply {
    let once = body.once(&request)?;
    let said = body.value;
    let ask = BudgetAsk {
        name: said.name,
        scope: Subject::read("scope", &said.scope)?,
        unit: said.unit,
        window: said.window,
        time_zone: said.time_zone,
        limit: amounts::given("limit", &said.limit)?,
        thresholds: said.thresholds,
    };
    let made = budgets::create(&api.ctx, &asker.caller, ask, once.as_ref()).await?;
    let usage = budgets::get(&api.ctx, &asker.caller, made.id).await?;
    created(&BudgetBody::new(usage, api.ctx.now(), asker.dialect)?)
}

/// List budgets
///
/// With their use in the present window. Callers without the scope `admin` see those that pay for their own work.
/// The list of an intent's scope also has the intent's `max_cost`.
#[utoipa::path(operation_id = "list_budgets", tag = "budgets",
    params(("scope" = Option<String>, Query, description = "Budgets of this scope alone"),
           ("after" = Option<String>, Query, description = "Id of the last budget of the previous page"), Limit1000),
    responses((status = 200, description = "The budgets", body = BudgetList)))]
#[get("/budgets")]
async fn list(api: web::Data<HttpState>, asker: Asker, query: Query) -> Reply {
    let scope = query.text("scope").map(|text| Subject::read("scope", text)).transpose()?;
    let after = query.text("after").map(|text| id::<BudgetId>("budget", text)).transpose()?;
    let found = budgets::list(&api.ctx, &asker.caller, scope.as_ref(), after, query.limit(PAGE)?).await?;
    let now = api.ctx.now();
    let bodies = found.into_iter().map(|usage| BudgetBody::new(usage, now, asker.dialect));
    let cost_limit = cost_limit(&api, &asker, scope.as_ref()).await?;
    ok(&BudgetList { budgets: bodies.collect::<Result<_, _>>()?, cost_limit })
}

/// Get a budget
///
/// With its use in the present window, and a forecast for the end of that.
#[utoipa::path(operation_id = "get_budget", tag = "budgets",
    params(("budget_id" = BudgetId, Path, description = "Id of the budget")),
    responses((status = 200, description = "The budget", body = BudgetBody)))]
#[get("/budgets/{budget_id}")]
async fn get(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let usage = budgets::get(&api.ctx, &asker.caller, id("budget", &path)?).await?;
    ok(&BudgetBody::new(usage, api.ctx.now(), asker.dialect)?)
}

/// Change a budget
///
/// Needs the scope `admin`. A new limit holds for the present window too.
#[utoipa::path(operation_id = "change_budget", tag = "budgets", request_body = ChangeBody,
    params(("budget_id" = BudgetId, Path, description = "Id of the budget"), IdempotencyKey),
    responses((status = 200, description = "The budget", body = BudgetBody)))]
#[patch("/budgets/{budget_id}")]
async fn change(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ChangeBody>,
) -> Reply {
    let once = body.once(&request)?;
    let said = body.value;
    let change = BudgetChange {
        name: said.name,
        limit: said.limit.map(|limit| amounts::given("limit", &limit)).transpose()?,
        thresholds: said.thresholds,
    };
    let usage = budgets::change(&api.ctx, &asker.caller, id("budget", &path)?, change, once.as_ref()).await?;
    ok(&BudgetBody::new(usage, api.ctx.now(), asker.dialect)?)
}

/// Raise a budget in its present window
///
/// Needs the scope `admin`. The next window has the old limit again.
#[utoipa::path(operation_id = "raise_budget", tag = "budgets", request_body = RaiseBody,
    params(("budget_id" = BudgetId, Path, description = "Id of the budget"), IdempotencyKey),
    responses((status = 200, description = "The budget", body = BudgetBody)))]
#[post("/budgets/{budget_id}/raise")]
async fn raise(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<RaiseBody>,
) -> Reply {
    let once = body.once(&request)?;
    let by = amounts::given("amount", &body.value.amount)?;
    let usage = budgets::raise(&api.ctx, &asker.caller, id("budget", &path)?, by, once.as_ref()).await?;
    ok(&BudgetBody::new(usage, api.ctx.now(), asker.dialect)?)
}

/// Close a budget
///
/// Needs the scope `admin`. It limits nothing any more; amounts reserved of it can still be settled.
#[utoipa::path(operation_id = "close_budget", tag = "budgets",
    params(("budget_id" = BudgetId, Path, description = "Id of the budget")),
    responses((status = 200, description = "The closed budget", body = BudgetBody)))]
#[delete("/budgets/{budget_id}")]
async fn close(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let usage = budgets::close(&api.ctx, &asker.caller, id("budget", &path)?, None).await?;
    ok(&BudgetBody::new(usage, api.ctx.now(), asker.dialect)?)
}

/// A line of a report.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SpendLine)]
struct LineBody {
    /// The day; absent unless the report is divided by it. So with the other members.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "2026-11-26")]
    day: Option<String>,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
    /// The principal.
    #[serde(skip_serializing_if = "Option::is_none")]
    principal_id: Option<String>,
    /// The intent; absent for costs without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    intent_id: Option<IntentId>,
    /// The model; absent for costs without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The unit; different units are never added together.
    #[schema(example = "USD")]
    unit: String,
    /// The sum.
    #[schema(value_type = f64, example = 12.5)]
    amount: Box<RawValue>,
    /// Number of costs.
    count: i64,
}

impl LineBody {
    fn new(line: Line) -> Result<Self, Problem> {
        Ok(Self {
            day: line.day,
            agent_id: line.agent,
            principal_id: line.principal,
            intent_id: line.intent.map(IntentId::from),
            model: line.model,
            unit: line.unit,
            amount: amounts::number(line.amount)?,
            count: line.count,
        })
    }
}

/// A report of spending.
#[derive(Debug, Serialize, ToSchema)]
struct SpendReport {
    /// Begin of the time.
    from: WireTime,
    /// End of the time.
    until: WireTime,
    /// The lines: by day, then the largest sums first; at most 10,000.
    lines: Vec<LineBody>,
    /// Whether these are all lines. Otherwise ask for a shorter time, or divide it by less.
    complete: bool,
}

/// Report spending
///
/// Every cost once, whichever way it was reported: by jobs, on intents, or by gateways. Callers without the scope `admin`
/// see the costs of their own principal.
#[utoipa::path(operation_id = "report_spend", tag = "budgets",
    params(("from" = Option<String>, Query, description = "Costs from this time on; defaults to 30 days ago"),
           ("until" = Option<String>, Query, description = "Costs before this time; defaults to now"),
           ("by" = Option<String>, Query, description = "What it is divided by: `agent`, `principal`, `intent`, `model`, `day`, several separated by commas"),
           ("time_zone" = Option<String>, Query, description = "Time zone of the days; defaults to UTC"),
           ("scope" = Option<String>, Query, description = "Costs of this scope alone")),
    responses((status = 200, description = "The report", body = SpendReport)))]
#[get("/spend")]
async fn report(api: web::Data<HttpState>, asker: Asker, query: Query) -> Reply {
    let time = |name: &str| {
        query.text(name).map(|text| serde_json::from_value::<GivenTime>(text.into())).transpose().map_err(
            |_e| {
                let message = format!("`{name}` must be a time such as 2026-11-26T08:00:00Z.");
                Problem::from(Refusal::new(Code::InvalidParameter, message))
            },
        )
    };
    let until = time("until")?.map_or_else(|| plus_seconds(api.ctx.now(), 1), |time| time.0);
    let from = time("from")?.map_or_else(|| earlier(until, REPORT_SECONDS), |time| time.0);
    let time_zone = query.text("time_zone").unwrap_or("UTC").to_owned();
    let scope = query.text("scope").map(|text| Subject::read("scope", text)).transpose()?;
    let ask = ReportAsk { from, until, time_zone, scope, by: division(query.text("by").unwrap_or(""))? };
    let lines = reports::report(&api.ctx, &asker.caller, &ask).await?;
    let complete = lines.len() < reports::LINES;
    ok(&SpendReport {
        from: WireTime::new(from, asker.dialect),
        until: WireTime::new(until, asker.dialect),
        lines: lines.into_iter().map(LineBody::new).collect::<Result<_, _>>()?,
        complete,
    })
}

fn division(text: &str) -> Result<Division, Refusal> {
    let mut by = Division::default();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part {
            "agent" => by.agent = true,
            "principal" => by.principal = true,
            "intent" => by.intent = true,
            "model" => by.model = true,
            "day" => by.day = true,
            other => {
                let message = format!(
                    "`by` has no {other}: use agent, principal, intent, model or day, separated by commas."
                );
                return Err(Refusal::new(Code::InvalidParameter, message));
            }
        }
    }
    Ok(by)
}
