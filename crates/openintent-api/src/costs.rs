//! Endpoints for costs (RFC-0009). Amounts are written as JSON numbers with all their digits and never pass through
//! an `f64`.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, get, post, web};
use entente_domain::amounts::Amount;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{CostId, IntentId};
use entente_domain::limits::PAGE;
use entente_domain::openintent::costs::{Cost, CostAsk, Summary, UnitSummary, amount};
use entente_http::amounts;
use entente_http::body::{Body, IdempotencyKey, Limit1000, Query, id};
use entente_http::caller::Asker;
use entente_http::error::{Problem, Reply};
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::{NumberOrText, WireTime};
use entente_openintent::costs;
use entente_openintent::costs::CostPage;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(record);
}

fn numbers<'a>(
    amounts: impl IntoIterator<Item = (&'a str, Option<Amount>)>,
) -> Result<BTreeMap<String, Option<Box<RawValue>>>, Problem> {
    amounts
        .into_iter()
        .map(|(key, amount)| Ok((key.to_owned(), amount.map(amounts::number).transpose()?)))
        .collect()
}

/// A cost of work on an intent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cost)]
struct CostBody {
    /// The cost's id.
    id: CostId,
    /// The intent.
    intent_id: IntentId,
    /// The agent that incurred it.
    #[schema(example = "agent.researcher")]
    agent_id: String,
    /// The kind of resource used.
    #[schema(example = "tokens")]
    cost_type: String,
    /// The exact amount.
    #[schema(value_type = f64, example = 0.0234)]
    amount: Box<RawValue>,
    /// The amount's unit.
    #[schema(example = "USD")]
    unit: String,
    /// The provider of the resource.
    provider: Option<String>,
    /// The model used.
    model: Option<String>,
    /// Client-defined metadata.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// Same as `metadata`, under the reference server's name.
    #[schema(value_type = Object)]
    cost_metadata: Map<String, Value>,
    /// When it was recorded.
    recorded_at: WireTime,
    /// Same as `recorded_at`, under the SDK's name.
    #[serde(rename = "recordedAt")]
    recorded_at_too: WireTime,
}

impl CostBody {
    fn new(made: Cost, dialect: Dialect) -> Result<Self, Problem> {
        let recorded_at = WireTime::new(made.recorded_at, dialect);
        Ok(Self {
            id: made.id,
            intent_id: made.intent_id,
            agent_id: made.agent_id,
            cost_type: made.cost_type,
            amount: amounts::number(made.amount)?,
            unit: made.unit,
            provider: made.provider,
            model: made.model,
            cost_metadata: made.metadata.clone(),
            metadata: made.metadata,
            recorded_at,
            recorded_at_too: recorded_at,
        })
    }
}

/// The sums of the costs in one unit.
#[derive(Debug, Serialize, ToSchema)]
struct CostUnit {
    /// The sum of all costs.
    #[schema(value_type = f64)]
    total: Box<RawValue>,
    /// Number of costs.
    count: i64,
    /// The sums by type.
    #[schema(value_type = Object)]
    by_type: BTreeMap<String, Option<Box<RawValue>>>,
    /// The sums by agent.
    #[schema(value_type = Object)]
    by_agent: BTreeMap<String, Option<Box<RawValue>>>,
    /// The sums by model; costs without a model are left out.
    #[schema(value_type = Object)]
    by_model: BTreeMap<String, Option<Box<RawValue>>>,
}

impl CostUnit {
    fn new(unit: &UnitSummary) -> Result<Self, Problem> {
        let some = |sums: &BTreeMap<String, Amount>| -> Result<_, Problem> {
            numbers(sums.iter().map(|(key, amount)| (key.as_str(), Some(*amount))))
        };
        Ok(Self {
            total: amounts::number(unit.total)?,
            count: unit.count,
            by_type: some(&unit.by_type)?,
            by_agent: some(&unit.by_agent)?,
            by_model: some(&unit.by_model)?,
        })
    }
}

/// The sums of an intent's costs. Different units are never added together: a sum that would span several units is
/// null, and each unit has its own sums under `units`.
#[derive(Debug, Serialize, ToSchema)]
struct CostSummary {
    /// The sum of all costs, if they share one unit; 0 if there are none.
    #[schema(value_type = Option<f64>)]
    total: Option<Box<RawValue>>,
    /// The unit that all costs share.
    #[schema(example = "USD")]
    unit: Option<String>,
    /// Number of costs.
    count: i64,
    /// The sums by type.
    #[schema(value_type = Object)]
    by_type: BTreeMap<String, Option<Box<RawValue>>>,
    /// The sums by agent.
    #[schema(value_type = Object)]
    by_agent: BTreeMap<String, Option<Box<RawValue>>>,
    /// The sums by model; costs without a model are left out.
    #[schema(value_type = Object)]
    by_model: BTreeMap<String, Option<Box<RawValue>>>,
    /// The sums of each unit.
    units: BTreeMap<String, CostUnit>,
}

impl CostSummary {
    fn new(summary: &Summary) -> Result<Self, Problem> {
        let only = summary.only();
        let total = match only {
            Some((_, unit)) => Some(unit.total),
            None => summary.0.is_empty().then_some(Amount::ZERO),
        };
        let units = summary.0.iter().map(|(unit, summary)| Ok((unit.clone(), CostUnit::new(summary)?)));
        Ok(Self {
            total: total.map(amounts::number).transpose()?,
            unit: only.map(|(unit, _)| unit.to_owned()),
            count: summary.0.values().map(|unit| unit.count).sum(),
            by_type: numbers(summary.by(|unit| &unit.by_type))?,
            by_agent: numbers(summary.by(|unit| &unit.by_agent))?,
            by_model: numbers(summary.by(|unit| &unit.by_model))?,
            units: units.collect::<Result<_, Problem>>()?,
        })
    }
}

/// A page of an intent's costs, with the sums of all of them.
#[derive(Debug, Serialize, ToSchema)]
struct CostList {
    /// The costs, oldest first.
    costs: Vec<CostBody>,
    /// The sums of all the intent's costs, including other pages; read at the same moment as the page.
    summary: CostSummary,
    /// The `after` of the next page; null on the last page.
    next: Option<i64>,
}

/// A cost to record.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewCost)]
#[schema(example = json!({ "cost_type": "tokens", "amount": 0.0234, "unit": "USD", "provider": "openai",
    "metadata": { "model": "gpt-5.2" } }))]
struct RecordBody {
    /// The agent that incurred it; defaults to the acting agent.
    agent_id: Option<String>,
    /// The kind of resource: `tokens`, `api_call`, `compute`, `custom`, or a client-defined name.
    cost_type: String,
    /// The amount: a number, or a string such as "0.10". At most 12 decimals; a number with more is rounded.
    #[schema(value_type = NumberOrText)]
    amount: Box<RawValue>,
    /// The unit: a currency, `tokens`, `seconds` or another name.
    unit: String,
    /// The provider of the resource.
    provider: Option<String>,
    /// The model used; defaults to `metadata.model`.
    model: Option<String>,
    /// Client-defined metadata.
    #[serde(alias = "cost_metadata")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// Record a cost of work on an intent
#[utoipa::path(operation_id = "record_cost", tag = "ledgers", request_body = RecordBody, params(IdempotencyKey),
    responses((status = 200, description = "The cost", body = CostBody)))]
#[post("/intents/{intent_id}/costs")]
async fn record(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<RecordBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let strict = api.ctx.settings.strict;
    let caller =
        asker.caller.acting_as(asker.caller.speaker("agent_id", said.agent_id.as_deref(), strict)?);
    let named = |text: Option<String>| text.filter(|text| !text.is_empty());
    let ask = CostAsk {
        cost_type: said.cost_type,
        amount: amount(said.amount.get())?,
        unit: said.unit,
        provider: named(said.provider),
        model: named(said.model),
        metadata: said.metadata.unwrap_or_default(),
    };
    let made = costs::record(&api.ctx, &caller, intent_id, ask, once.as_ref()).await?;
    ok(&CostBody::new(made, asker.dialect)?)
}

/// List an intent's costs and their sums
///
/// The list is paged, oldest first; the sums always cover all costs.
#[utoipa::path(operation_id = "list_costs", tag = "ledgers",
    params(("after" = Option<i64>, Query, description = "`next` of the previous page"), Limit1000),
    responses((status = 200, description = "The costs", body = CostList)))]
#[get("/intents/{intent_id}/costs")]
async fn list(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let (after, limit) = (query.place()?, query.limit(PAGE)?);
    let CostPage { costs, next, summary } =
        costs::list(&api.ctx, &asker.caller, id("intent", &path)?, after, limit).await?;
    let costs = costs.into_iter().map(|cost| CostBody::new(cost, asker.dialect)).collect::<Result<_, _>>()?;
    ok(&CostList { costs, summary: CostSummary::new(&summary)?, next })
}
