//! The tool for costs: of work on an intent (RFC-0009), and reserved before a call that budgets pay for. Costs of a job are
//! reported with `report_job`.

use std::collections::BTreeMap;

use entente_domain::amounts::Amount;
use entente_domain::clock::rfc3339;
use entente_domain::ids::{IntentId, ReservationId};
use entente_domain::limits::PAGE;
use entente_domain::openintent::costs::{Cost, CostAsk, Summary, amount};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::id;
use entente_http::error::Problem;
use entente_kernel::spending::reservations;
use entente_kernel::spending::reservations::CallAsk;
use entente_openintent::costs;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value, json};

use super::shapes::{free, gives, list, may, must, nullable, number, retry_key, takes, text, whole, word};
use super::{Answer, Call, Hints, Tool, ToolResult, needed, within};

/// Default page size.
const STEP: u32 = 100;

/// Returns the tools of this file.
pub fn tools() -> [Tool; 1] {
    let cost = gives(vec![
        must("id", text("The cost.")),
        must("cost_type", text("Kind of resource.")),
        must("amount", json!({ "type": "number" })),
        must("unit", text("Its unit.")),
    ]);
    [Tool {
        name: "costs",
        title: "Costs and reservations",
        about: "Costs of work on an intent: `record` one, or `list` them with sums. `reserve` the most that a call can cost \
                before it, then `settle` its cost, or `release`.",
        takes: takes(vec![
            must("action", word("What to do.", &["record", "list", "reserve", "settle", "release"])),
            may("intent_id", text("The intent, `intent_…`.")),
            may("cost_type", text("Such as `tokens`, `compute`.")),
            may("amount", number("The amount.")),
            may("unit", text("A currency, `tokens` …")),
            may("provider", text("Provider of the resource.")),
            may("model", text("The model.")),
            may("call_id", text("Your id for the call.")),
            may("reservation_id", text("From `reserve`.")),
            may("metadata", free("An object of your own.")),
            may("limit", whole("Defaults to 100.", 1, i64::from(PAGE))),
            may("after", whole("`next` of the last answer.", 0, i64::MAX)),
            may("idempotency_key", retry_key("`record`: ")),
        ]),
        example: json!({
            "action": "record", "intent_id": "intent_…", "cost_type": "tokens", "amount": 0.0234, "unit": "USD",
        }),
        gives: gives(vec![
            may("costs", list(cost, "The costs, oldest first.")),
            may("totals", free("Sum by unit.")),
            may("next", json!({ "type": ["integer", "null"] })),
            may("reservation_id", nullable(text("Settle it within ten minutes."))),
        ]),
        hints: Hints::adds(),
        names: &[],
        run: |call| Box::pin(run(call)),
    }]
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Record,
    List,
    Reserve,
    Settle,
    Release,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    action: Action,
    intent_id: Option<String>,
    cost_type: Option<String>,
    amount: Option<Box<RawValue>>,
    unit: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    call_id: Option<String>,
    reservation_id: Option<String>,
    metadata: Option<Map<String, Value>>,
    limit: Option<u32>,
    after: Option<i64>,
    idempotency_key: Option<String>,
}

/// Returns an amount as a JSON number.
fn numeral(amount: Amount) -> Value {
    amount.to_string().parse::<Number>().map_or(Value::Null, Value::Number)
}

fn shown(cost: &Cost) -> Value {
    json!({
        "id": cost.id, "agent_id": cost.agent_id, "cost_type": cost.cost_type, "amount": numeral(cost.amount),
        "unit": cost.unit, "provider": cost.provider, "model": cost.model, "metadata": cost.metadata,
        "recorded_at": rfc3339(cost.recorded_at),
    })
}

fn totals(summary: &Summary) -> Value {
    summary
        .0
        .iter()
        .map(|(unit, sums)| (unit.clone(), numeral(sums.total)))
        .collect::<Map<String, Value>>()
        .into()
}

/// The amount and unit of a request, if it has them.
fn said_amount(said: &Args) -> Result<BTreeMap<String, Amount>, Refusal> {
    match (&said.amount, &said.unit) {
        (None, None) => Ok(BTreeMap::new()),
        (Some(value), Some(unit)) => Ok(BTreeMap::from([(unit.clone(), amount(value.get())?)])),
        (given, _) => {
            let member = if given.is_none() { "amount" } else { "unit" };
            let message = format!("`{member}` is missing: `amount` and `unit` belong together.");
            Err(Refusal::field(Code::InvalidRequest, member, "missing", message))
        }
    }
}

async fn run(call: Call) -> ToolResult {
    let said: Args = call.read()?;
    match said.action {
        Action::Record => record(&call, said).await,
        Action::List => listed(&call, said).await,
        Action::Reserve => reserve(&call, said).await,
        Action::Settle | Action::Release => settle(&call, said).await,
    }
}

fn intent_of(said: &Args) -> Result<IntentId, Problem> {
    id::<IntentId>("intent", &needed("intent_id", said.intent_id.clone())?)
}

async fn record(call: &Call, said: Args) -> ToolResult {
    let intent_id = intent_of(&said)?;
    let once = call.once(said.idempotency_key.as_deref(), "costs")?;
    let caller = call.caller.acting_as(call.speaker()?);
    let ask = CostAsk {
        cost_type: needed("cost_type", said.cost_type)?,
        amount: amount(needed("amount", said.amount)?.get())?,
        unit: needed("unit", said.unit)?,
        provider: said.provider,
        model: said.model,
        metadata: said.metadata.unwrap_or_default(),
    };
    let made = costs::record(&call.ctx().openintent, &caller, intent_id, ask, once.as_ref()).await?;
    let summary = format!("Recorded {} {}.", made.amount, made.unit);
    Answer::new(summary, &json!({ "costs": [shown(&made)] }))
}

async fn listed(call: &Call, said: Args) -> ToolResult {
    let intent_id = intent_of(&said)?;
    let limit = within("limit", said.limit, STEP, 1, PAGE)?;
    let after = said.after.unwrap_or_default();
    if after < 0 {
        let message = "`after` must be `next` of the last answer.";
        return Err(Refusal::field(Code::InvalidRequest, "after", "range", message).into());
    }
    let page = costs::list(&call.ctx().openintent, &call.caller, intent_id, after, limit).await?;
    let costs: Vec<Value> = page.costs.iter().map(shown).collect();
    let body = json!({ "costs": costs, "totals": totals(&page.summary), "next": page.next });
    Answer::new(format!("{} cost(s).", costs.len()), &body)
}

async fn reserve(call: &Call, said: Args) -> ToolResult {
    let amounts = said_amount(&said)?;
    let agent = call.speaker()?;
    let ask = CallAsk {
        agent: (agent != call.caller.agent).then_some(agent),
        intent_id: said.intent_id.as_deref().map(|text| id::<IntentId>("intent", text)).transpose()?,
        provider: said.provider,
        model: said.model,
        amounts,
        call_id: said.call_id,
        ..CallAsk::default()
    };
    let allowed = reservations::reserve(call.ctx(), &call.caller, ask).await?;
    let reservation = allowed.reservation.map(|made| made.id);
    let summary = if reservation.is_some() { "Reserved: make the call, then settle it." } else { "Allowed." };
    Answer::new(summary.to_owned(), &json!({ "reservation_id": reservation }))
}

async fn settle(call: &Call, said: Args) -> ToolResult {
    let cost = match said.action {
        Action::Settle => {
            needed("amount", said.amount.as_ref())?;
            said_amount(&said)?
        }
        _ => BTreeMap::new(),
    };
    let reservation = id::<ReservationId>("reservation", &needed("reservation_id", said.reservation_id)?)?;
    let made = reservations::settle(call.ctx(), &call.caller, reservation, &cost, said.model).await?;
    let ended = made.ended_as.unwrap_or_default();
    Answer::new(
        format!("{reservation} is {ended}."),
        &json!({ "reservation_id": reservation, "ended_as": ended }),
    )
}
