//! Portfolio routes (RFC-0004, RFC-0007). Their wire format is in `portfolios/bodies.rs`, their streams in
//! `http/kernel/streams.rs`.

mod bodies;

use actix_web::{HttpRequest, delete, get, patch, post, web};
use entente_domain::identity::keys::{Dialect, Scope};
use entente_domain::ids::{IntentId, PortfolioId};
use entente_domain::limits::{PORTFOLIO_PAGE, WHOLE_INTENTS};
use entente_domain::openintent::portfolios::{Aggregate, MembershipRole, PortfolioAsk, PortfolioStatus};
use entente_http::body::{Body, IdempotencyKey, Query, id};
use entente_http::caller::Asker;
use entente_http::error::{Problem, ProblemBody, Reply};
use entente_openintent::portfolios;
use entente_openintent::portfolios::{Cursor, Cut, MembershipAsk, PortfolioFilter, PortfolioPage, Summed};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub use crate::portfolios::bodies::AggregateBody;
use crate::portfolios::bodies::{
    FullPortfolio, MembershipBody, PortfolioBody, PortfolioIntents, RemovedIntent,
};
use entente_http::routes::Routes;
use entente_http::{ok, with_next};

pub fn routes(config: &mut Routes<'_>) {
    config
        .service(create)
        .service(list)
        .service(get)
        .service(set_status)
        .service(intents)
        .service(add)
        .service(remove)
        .service(of_intent);
}

/// A new portfolio.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewPortfolio)]
#[schema(example = json!({ "name": "Q1 reporting", "governance_policy": { "require_all_completed": true } }))]
struct CreateBody {
    /// Name of the portfolio.
    name: String,
    /// Purpose of the portfolio.
    description: Option<String>,
    /// Agent that owns the portfolio; defaults to the acting agent.
    #[serde(alias = "createdBy")]
    created_by: Option<String>,
    /// Rules, stored as given; with `require_all_completed`, the portfolio can be completed only when all its
    /// intents are.
    #[serde(alias = "governancePolicy")]
    #[schema(value_type = Option<Object>)]
    governance_policy: Option<Map<String, Value>>,
    /// Metadata, an object of the client's own.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// Create a portfolio
///
/// Visible only to its creator and to keys with the scope `admin`.
#[utoipa::path(operation_id = "create_portfolio", tag = "portfolios", request_body = CreateBody, params(IdempotencyKey),
    responses((status = 200, description = "The portfolio", body = PortfolioBody)))]
#[post("/portfolios")]
async fn create(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    body: Body<CreateBody>,
) -> Reply {
    let once = body.once(&request)?;
    let said = body.value;
    let strict = api.ctx.settings.strict;
    let created_by = asker.caller.speaker("created_by", said.created_by.as_deref(), strict)?;
    let ask = PortfolioAsk {
        name: said.name,
        description: said.description,
        governance_policy: said.governance_policy.unwrap_or_default(),
        metadata: said.metadata.unwrap_or_default(),
    };
    let made = portfolios::create(&api.ctx, &asker.caller, &created_by, ask, once.as_ref()).await?;
    ok(&PortfolioBody::new(&made, &Aggregate::default(), asker.dialect))
}

fn filter(query: &Query, created_by: Option<&str>) -> Result<PortfolioFilter, Problem> {
    Ok(PortfolioFilter {
        created_by: created_by.map(str::to_owned),
        before: query.parsed("before", "a portfolio's id", |text| text.parse().ok())?,
        limit: query.number("limit", PORTFOLIO_PAGE, 1, PORTFOLIO_PAGE)?,
    })
}

/// Returns a page of portfolios, with the cursor of the next page if there is one.
fn page(found: &PortfolioPage, dialect: Dialect) -> Reply {
    let body = |one| -> PortfolioBody<'_> {
        let Summed { portfolio, sums }: &Summed = one;
        PortfolioBody::new(portfolio, sums, dialect)
    };
    with_next(&found.portfolios.iter().map(body).collect::<Vec<_>>(), found.next)
}

/// Parses which of a portfolio's intents to return.
fn cut(query: &Query) -> Result<Cut, Problem> {
    Ok(Cut {
        after: query.parsed("after", "the cursor of a page before", Cursor::parse)?,
        limit: query.limit(WHOLE_INTENTS)?,
    })
}

/// List portfolios
///
/// Returns the caller's own portfolios, newest first; with the scope `admin`, everyone's.
#[utoipa::path(operation_id = "list_portfolios", tag = "portfolios",
    params(("created_by" = Option<String>, Query, description = "Only portfolios owned by this agent"),
           ("before" = Option<String>, Query, description = "Only portfolios older than this one: `Entente-Next-Cursor` of the previous page"),
           ("limit" = Option<u32>, Query, description = "Page size, 1 to 100; defaults to 100", maximum = 100)),
    responses((status = 200, description = "The portfolios", body = [PortfolioBody],
               headers(("Entente-Next-Cursor" = String, description = "The `before` of the next page; absent on the last page")))))]
#[get("/portfolios")]
async fn list(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let filter = filter(&query, query.text("created_by"))?;
    page(&portfolios::list(&api.ctx, &asker.caller, &filter).await?, asker.dialect)
}

/// List the portfolios that contain an intent
///
/// Returns those visible to the caller, newest first.
#[utoipa::path(operation_id = "list_intent_portfolios", tag = "portfolios",
    params(("before" = Option<String>, Query, description = "Only portfolios older than this one: `Entente-Next-Cursor` of the previous page"),
           ("limit" = Option<u32>, Query, description = "Page size, 1 to 100; defaults to 100", maximum = 100)),
    responses((status = 200, description = "The portfolios", body = [PortfolioBody],
               headers(("Entente-Next-Cursor" = String, description = "The `before` of the next page; absent on the last page")))))]
#[get("/intents/{intent_id}/portfolios")]
async fn of_intent(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let intent: IntentId = id("intent", &path)?;
    let filter = filter(&query, None)?;
    page(&portfolios::of_intent(&api.ctx, &asker.caller, intent, &filter).await?, asker.dialect)
}

/// Get a portfolio
///
/// Returns the portfolio with the intents that the caller can read and their aggregate status. Many intents
/// are paged; the aggregate status always covers all of them.
#[utoipa::path(operation_id = "get_portfolio", tag = "portfolios",
    params(("after" = Option<String>, Query, description = "Only intents after this cursor: `Entente-Next-Cursor` of the previous page"),
           ("limit" = Option<u32>, Query, description = "Intents per page, 1 to 1,000; defaults to 100", maximum = 1000)),
    responses((status = 200, description = "The portfolio", body = FullPortfolio,
               headers(("Entente-Next-Cursor" = String, description = "The `after` of the next page; absent on the last page")))))]
#[get("/portfolios/{portfolio_id}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let found = portfolios::get(&api.ctx, &asker.caller, id("portfolio", &path)?, cut(&query)?).await?;
    with_next(&FullPortfolio::new(&found, asker.dialect), found.next)
}

/// List a portfolio's intents
///
/// Many intents are paged; the aggregate status always covers all of them.
#[utoipa::path(operation_id = "list_portfolio_intents", tag = "portfolios",
    params(("after" = Option<String>, Query, description = "Only intents after this cursor: `Entente-Next-Cursor` of the previous page"),
           ("limit" = Option<u32>, Query, description = "Intents per page, 1 to 1,000; defaults to 100", maximum = 1000)),
    responses((status = 200, description = "The intents of the portfolio", body = PortfolioIntents,
               headers(("Entente-Next-Cursor" = String, description = "The `after` of the next page; absent on the last page")))))]
#[get("/portfolios/{portfolio_id}/intents")]
async fn intents(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let found = portfolios::get(&api.ctx, &asker.caller, id("portfolio", &path)?, cut(&query)?).await?;
    with_next(&PortfolioIntents::new(&found, asker.dialect), found.next)
}

/// A new status of a portfolio.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = PortfolioStatusChange)]
#[schema(example = json!({ "status": "completed" }))]
struct StatusBody {
    /// New status.
    status: PortfolioStatus,
}

/// Change a portfolio's status
///
/// Does not change the portfolio's intents.
#[utoipa::path(operation_id = "set_portfolio_status", tag = "portfolios", request_body = StatusBody,
    responses((status = 200, description = "The portfolio", body = PortfolioBody),
              (status = 409, description = "`invalid_transition`: the rule `require_all_completed` prevents completion", body = ProblemBody)))]
#[patch("/portfolios/{portfolio_id}/status")]
async fn set_status(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<StatusBody>,
) -> Reply {
    let portfolio: PortfolioId = id("portfolio", &path)?;
    let moved = portfolios::set_status(&api.ctx, &asker.caller, portfolio, body.value.status).await?;
    ok(&PortfolioBody::new(&moved.portfolio, &moved.sums, asker.dialect))
}

/// An intent to add to a portfolio.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewPortfolioMembership)]
#[schema(example = json!({ "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "role": "primary", "priority": 10 }))]
struct AddBody {
    /// The intent.
    #[serde(alias = "intentId")]
    intent_id: String,
    /// Role of the intent in the portfolio; defaults to `member`.
    role: Option<MembershipRole>,
    /// Priority: higher ones are listed first; defaults to 0.
    priority: Option<i32>,
}

/// Add an intent to a portfolio
///
/// The caller must be able to read the intent. If the portfolio already contains it, its role and priority
/// are changed.
#[utoipa::path(operation_id = "add_portfolio_intent", tag = "portfolios", request_body = AddBody, params(IdempotencyKey),
    responses((status = 200, description = "The membership", body = MembershipBody)))]
#[post("/portfolios/{portfolio_id}/intents")]
async fn add(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<AddBody>,
) -> Reply {
    // The scope is checked first, because the body is validated before the operation begins.
    asker.caller.require(Scope::IntentsWrite)?;
    let portfolio: PortfolioId = id("portfolio", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let ask = MembershipAsk {
        intent_id: id("intent", &said.intent_id)?,
        role: said.role.unwrap_or(MembershipRole::Member),
        priority: said.priority.unwrap_or(0),
    };
    let place = portfolios::add(&api.ctx, &asker.caller, portfolio, ask, once.as_ref()).await?;
    ok(&MembershipBody::new(&place, asker.dialect))
}

/// Remove an intent from a portfolio
#[utoipa::path(operation_id = "remove_portfolio_intent", tag = "portfolios",
    responses((status = 200, description = "The intent was removed", body = RemovedIntent)))]
#[delete("/portfolios/{portfolio_id}/intents/{intent_id}")]
async fn remove(api: web::Data<ApiState>, asker: Asker, path: web::Path<(String, String)>) -> Reply {
    let portfolio_id: PortfolioId = id("portfolio", &path.0)?;
    let intent_id: IntentId = id("intent", &path.1)?;
    portfolios::remove(&api.ctx, &asker.caller, portfolio_id, intent_id).await?;
    ok(&RemovedIntent { message: "The intent is no longer in the portfolio.", portfolio_id, intent_id })
}
