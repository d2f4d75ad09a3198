//! Routes of costs (RFC-0009). Amounts are written as JSON numbers to their last digit, and never pass through a double.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, get, post, web};
use entente_domain::amounts::Amount;
use entente_domain::costs::{Cost, CostAsk, Summary, UnitSummary, amount};
use entente_domain::ids::{CostId, IntentId};
use entente_domain::keys::Dialect;
use entente_domain::limits::PAGE;
use entente_kernel::costs::{self, Page};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::body::{Body, Query, id};
use super::caller::Asker;
use super::error::{Problem, Reply};
use super::wire::{NumberOrText, WireTime};
use super::{Doors, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(record);
}

/// An amount as a JSON number, to its last digit.
fn number(amount: Amount) -> Result<Box<RawValue>, Problem> {
    RawValue::from_string(amount.to_string()).map_err(|e| Problem::internal(&e.to_string()))
}

fn numbers<'a>(
    amounts: impl IntoIterator<Item = (&'a str, Option<Amount>)>,
) -> Result<BTreeMap<String, Option<Box<RawValue>>>, Problem> {
    amounts.into_iter().map(|(key, amount)| Ok((key.to_owned(), amount.map(number).transpose()?))).collect()
}

/// Something that work on an intent has used.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cost)]
struct CostBody {
    /// Its id.
    id: CostId,
    /// The intent.
    intent_id: IntentId,
    /// Who used it.
    #[schema(example = "agent.researcher")]
    agent_id: String,
    /// What sort of thing.
    #[schema(example = "tokens")]
    cost_type: String,
    /// How much, exactly.
    #[schema(value_type = f64, example = 0.0234)]
    amount: Box<RawValue>,
    /// Of what.
    #[schema(example = "USD")]
    unit: String,
    /// From whom.
    provider: Option<String>,
    /// Of which model.
    model: Option<String>,
    /// The client's own object.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// The same, under the reference server's name.
    #[schema(value_type = Object)]
    cost_metadata: Map<String, Value>,
    /// When it was recorded.
    recorded_at: WireTime,
    /// The same, as the SDK reads it.
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
            amount: number(made.amount)?,
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

/// What the costs in one unit come to.
#[derive(Debug, Serialize, ToSchema)]
struct CostUnit {
    /// All of them.
    #[schema(value_type = f64)]
    total: Box<RawValue>,
    /// How many they are.
    count: i64,
    /// By type.
    #[schema(value_type = Object)]
    by_type: BTreeMap<String, Option<Box<RawValue>>>,
    /// By agent.
    #[schema(value_type = Object)]
    by_agent: BTreeMap<String, Option<Box<RawValue>>>,
    /// By model; costs of no model are in none.
    #[schema(value_type = Object)]
    by_model: BTreeMap<String, Option<Box<RawValue>>>,
}

impl CostUnit {
    fn new(unit: &UnitSummary) -> Result<Self, Problem> {
        let some = |sums: &BTreeMap<String, Amount>| -> Result<_, Problem> {
            numbers(sums.iter().map(|(key, amount)| (key.as_str(), Some(*amount))))
        };
        Ok(Self {
            total: number(unit.total)?,
            count: unit.count,
            by_type: some(&unit.by_type)?,
            by_agent: some(&unit.by_agent)?,
            by_model: some(&unit.by_model)?,
        })
    }
}

/// What all costs of an intent come to. Different units are never added together: where there are several, a number that
/// would be their sum is null, and each unit has its own under `units`.
#[derive(Debug, Serialize, ToSchema)]
struct CostSummary {
    /// All of them, when they are in one unit; 0 when there are none.
    #[schema(value_type = Option<f64>)]
    total: Option<Box<RawValue>>,
    /// That unit.
    #[schema(example = "USD")]
    unit: Option<String>,
    /// How many they are.
    count: i64,
    /// By type.
    #[schema(value_type = Object)]
    by_type: BTreeMap<String, Option<Box<RawValue>>>,
    /// By agent.
    #[schema(value_type = Object)]
    by_agent: BTreeMap<String, Option<Box<RawValue>>>,
    /// By model; costs of no model are in none.
    #[schema(value_type = Object)]
    by_model: BTreeMap<String, Option<Box<RawValue>>>,
    /// Each unit for itself.
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
            total: total.map(number).transpose()?,
            unit: only.map(|(unit, _)| unit.to_owned()),
            count: summary.0.values().map(|unit| unit.count).sum(),
            by_type: numbers(summary.by(|unit| &unit.by_type))?,
            by_agent: numbers(summary.by(|unit| &unit.by_agent))?,
            by_model: numbers(summary.by(|unit| &unit.by_model))?,
            units: units.collect::<Result<_, Problem>>()?,
        })
    }
}

/// Some of an intent's costs, and what all of them come to.
#[derive(Debug, Serialize, ToSchema)]
struct CostList {
    /// The costs, the oldest first.
    costs: Vec<CostBody>,
    /// What all costs of the intent come to, also those on other pages: of the same moment as the list.
    summary: CostSummary,
    /// The `after` of the next page; null when this is the last.
    next: Option<i64>,
}

/// A cost to record.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewCost)]
#[schema(example = json!({ "cost_type": "tokens", "amount": 0.0234, "unit": "USD", "provider": "openai",
    "metadata": { "model": "gpt-5.2" } }))]
struct RecordBody {
    /// Who used it; the acting agent when nothing is said.
    agent_id: Option<String>,
    /// What sort of thing: `tokens`, `api_call`, `compute`, `custom`, or a word of your own.
    cost_type: String,
    /// How much: a number, or a text such as "0.10". At most 12 decimals; what a number has behind them is rounded.
    #[schema(value_type = NumberOrText)]
    amount: Box<RawValue>,
    /// Of what: a currency, `tokens`, `seconds` …
    unit: String,
    /// From whom.
    provider: Option<String>,
    /// Of which model; `metadata.model` when nothing is said.
    model: Option<String>,
    /// Your own object.
    #[serde(alias = "cost_metadata")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// Record what work on an intent has used
#[utoipa::path(operation_id = "record_cost", tag = "ledgers", request_body = RecordBody,
    params(("intent_id" = String, Path, description = "The intent"),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 200, description = "The cost", body = CostBody)))]
#[post("/intents/{intent_id}/costs")]
async fn record(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<RecordBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let strict = doors.ctx.settings.strict;
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
    let made = costs::record(&doors.ctx, &caller, intent_id, ask, once.as_ref()).await?;
    ok(&CostBody::new(made, asker.dialect)?)
}

/// List an intent's costs, and what they come to
///
/// The list comes in pages, the oldest first; the summary is always of all costs.
#[utoipa::path(operation_id = "list_costs", tag = "ledgers",
    params(("intent_id" = String, Path, description = "The intent"),
           ("after" = Option<i64>, Query, description = "The `next` of the page before"),
           ("limit" = Option<u32>, Query, description = "At most this many, 1 to 1,000; 1,000 when nothing is said", maximum = 1000)),
    responses((status = 200, description = "The costs", body = CostList)))]
#[get("/intents/{intent_id}/costs")]
async fn list(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let (after, limit) = (query.place()?, query.limit(PAGE)?);
    let Page { costs, next, summary } =
        costs::list(&doors.ctx, &asker.caller, id("intent", &path)?, after, limit).await?;
    let costs = costs.into_iter().map(|cost| CostBody::new(cost, asker.dialect)).collect::<Result<_, _>>()?;
    ok(&CostList { costs, summary: CostSummary::new(&summary)?, next })
}
