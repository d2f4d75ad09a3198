//! The tool for costs of work on an intent (RFC-0009). Costs of a job are reported with `report_job`.

use entente_domain::amounts::Amount;
use entente_domain::clock::rfc3339;
use entente_domain::ids::IntentId;
use entente_domain::limits::PAGE;
use entente_domain::openintent::costs::{Cost, CostAsk, Summary, amount};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::id;
use entente_openintent::costs;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value, json};

use super::shapes::{free, gives, list, may, must, number, retry_key, takes, text, whole, word};
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
        title: "Costs of an intent",
        about: "Costs of work on an intent: `record` one, or `list` them with sums.",
        takes: takes(vec![
            must("action", word("The action.", &["record", "list"])),
            must("intent_id", text("The intent, `intent_…`.")),
            may("cost_type", text("`record`: such as `tokens`, `compute`.")),
            may("amount", number("`record`: the amount, exact to 12 decimals.")),
            may("unit", text("`record`: a currency, `tokens` …")),
            may("provider", text("`record`: provider of the resource.")),
            may("model", text("`record`: the model.")),
            may("metadata", free("`record`: an object of your own.")),
            may("limit", whole("`list`: defaults to 100.", 1, i64::from(PAGE))),
            may("after", whole("`list`: `next` of the last answer.", 0, i64::MAX)),
            may("idempotency_key", retry_key("`record`: ")),
        ]),
        example: json!({
            "action": "record", "intent_id": "intent_…", "cost_type": "tokens", "amount": 0.0234, "unit": "USD",
        }),
        gives: gives(vec![
            must("costs", list(cost, "The costs, oldest first.")),
            may("totals", free("Sum by unit.")),
            may("next", json!({ "type": ["integer", "null"] })),
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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    action: Action,
    intent_id: String,
    cost_type: Option<String>,
    amount: Option<Box<RawValue>>,
    unit: Option<String>,
    provider: Option<String>,
    model: Option<String>,
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

async fn run(call: Call) -> ToolResult {
    let said: Args = call.read()?;
    let (ctx, intent_id) = (&call.ctx().openintent, id::<IntentId>("intent", &said.intent_id)?);
    match said.action {
        Action::Record => {
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
            let made = costs::record(ctx, &caller, intent_id, ask, once.as_ref()).await?;
            let summary = format!("Recorded {} {}.", made.amount, made.unit);
            Answer::new(summary, &json!({ "costs": [shown(&made)] }))
        }
        Action::List => {
            let limit = within("limit", said.limit, STEP, 1, PAGE)?;
            let after = said.after.unwrap_or_default();
            if after < 0 {
                let message = "`after` must be `next` of the last answer.";
                return Err(Refusal::field(Code::InvalidRequest, "after", "range", message).into());
            }
            let page = costs::list(ctx, &call.caller, intent_id, after, limit).await?;
            let costs: Vec<Value> = page.costs.iter().map(shown).collect();
            let body = json!({ "costs": costs, "totals": totals(&page.summary), "next": page.next });
            Answer::new(format!("{} cost(s).", costs.len()), &body)
        }
    }
}
