//! Tools for intents (RFC-0001): creating one, and finding those that the caller can read.

use entente_domain::clock::rfc3339;
use entente_domain::ids::IntentId;
use entente_domain::limits::PAGE;
use entente_domain::openintent::intents::{Intent, IntentAsk, IntentStatus};
use entente_http::body::id;
use entente_http::error::Problem;
use entente_kernel::intents::IntentFilter;
use entente_openintent::intents;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::shapes::{free, gives, list, may, must, retry_key, takes, text, whole, word};
use super::{Answer, Call, Hints, Tool, ToolResult, within};

/// Default page size.
const STEP: u32 = 20;

/// The statuses of an intent.
const STATUSES: [&str; 6] =
    ["draft", "active", "blocked", "suspended_awaiting_input", "completed", "abandoned"];

/// Returns the tools of this file.
pub fn tools() -> [Tool; 2] {
    [create_tool(), list_tool()]
}

fn create_tool() -> Tool {
    Tool {
        name: "create_intent",
        title: "Create an intent",
        about: "Creates an intent: a goal on which agents work together.",
        takes: takes(vec![
            must("title", text("The goal in one line.")),
            may("description", text("The goal in full.")),
            may("state", free("Initial state.")),
            may("constraints", free("Constraints on the work.")),
            may("status", word("Initial status; defaults to `active`.", &["draft", "active", "blocked"])),
            may("parent_intent_id", text("The intent that this one is a part of.")),
            may("depends_on", list(text("An intent."), "Intents that it waits for.")),
            may("idempotency_key", retry_key("")),
        ]),
        example: json!({ "title": "Research Q1 financials", "state": { "phase": "start" } }),
        gives: intent(),
        hints: Hints::adds(),
        names: &[("parent_id", "parent_intent_id")],
        run: |call| Box::pin(create_intent(call)),
    }
}

fn list_tool() -> Tool {
    Tool {
        name: "list_intents",
        title: "List intents",
        about: "Lists the intents that you can read; with `intent_id`, that one with its state.",
        takes: takes(vec![
            may("intent_id", text("Only this intent, `intent_…`.")),
            may("status", word("Only intents in this status.", &STATUSES)),
            may("agent_id", text("Only intents that this agent is assigned to.")),
            may("created_by", text("Only intents that this agent created.")),
            may("parent_id", text("Only parts of this intent.")),
            may("limit", whole("Maximum number of intents; defaults to 20.", 1, i64::from(PAGE))),
            may("before", text("`next` of the last answer.")),
        ]),
        example: json!({ "status": "active" }),
        gives: gives(vec![
            must("intents", list(intent(), "The intents.")),
            must("next", json!({ "type": ["string", "null"] })),
        ]),
        hints: Hints::reads(),
        names: &[],
        run: |call| Box::pin(list_intents(call)),
    }
}

fn intent() -> Value {
    gives(vec![
        must("id", text("The intent.")),
        must("title", text("The goal in one line.")),
        must("status", text("Its status.")),
        must("version", json!({ "type": "integer" })),
    ])
}

/// Returns an intent without its state and constraints, which may be large.
fn brief(intent: &Intent) -> Value {
    json!({
        "id": intent.id, "title": intent.title, "status": intent.status.as_str(), "created_by": intent.created_by,
        "parent_id": intent.parent_id, "version": intent.version, "created_at": rfc3339(intent.created_at),
    })
}

/// Returns an intent with its state and constraints.
pub(super) fn whole_intent(intent: &Intent) -> Value {
    let mut body = brief(intent);
    body["description"] = json!(intent.description);
    body["depends_on"] = json!(intent.depends_on);
    body["constraints"] = json!(intent.constraints);
    body["state"] = json!(intent.state);
    body
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateArgs {
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    state: Map<String, Value>,
    #[serde(default)]
    constraints: Map<String, Value>,
    status: Option<IntentStatus>,
    parent_intent_id: Option<String>,
    #[serde(default)]
    depends_on: Vec<String>,
    idempotency_key: Option<String>,
}

fn intent_of(text: Option<&str>) -> Result<Option<IntentId>, Problem> {
    text.filter(|text| !text.is_empty()).map(|text| id("intent", text)).transpose()
}

async fn create_intent(call: Call) -> ToolResult {
    let said: CreateArgs = call.read()?;
    let once = call.once(said.idempotency_key.as_deref(), "create_intent")?;
    let created_by = call.speaker()?;
    let ask = IntentAsk {
        title: said.title,
        description: said.description,
        parent_id: intent_of(said.parent_intent_id.as_deref())?,
        depends_on: said.depends_on.iter().map(|text| id("intent", text)).collect::<Result<_, _>>()?,
        constraints: said.constraints,
        state: said.state,
        status: said.status.unwrap_or(IntentStatus::Active),
        governance_policy: None,
    };
    let (ctx, caller) = (call.ctx(), &call.caller);
    let intent = intents::create(&ctx.openintent, caller, &created_by, ask, once.as_ref()).await?;
    Answer::new(format!("Created {}.", intent.id), &whole_intent(&intent))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    intent_id: Option<String>,
    status: Option<IntentStatus>,
    agent_id: Option<String>,
    created_by: Option<String>,
    parent_id: Option<String>,
    limit: Option<u32>,
    before: Option<String>,
}

async fn list_intents(call: Call) -> ToolResult {
    let said: ListArgs = call.read()?;
    let (ctx, caller) = (call.ctx(), &call.caller);
    if let Some(only) = &said.intent_id {
        let intent = intents::get(&ctx.openintent, caller, id("intent", only)?).await?;
        let summary = format!("{} is {}.", intent.id, intent.status.as_str());
        return Answer::new(summary, &json!({ "intents": [whole_intent(&intent)], "next": null }));
    }
    let limit = within("limit", said.limit, STEP, 1, PAGE)?;
    let filter = IntentFilter {
        status: said.status,
        created_by: said.created_by,
        parent_id: intent_of(said.parent_id.as_deref())?,
        assigned_to: said.agent_id,
        before: intent_of(said.before.as_deref())?,
        limit,
        offset: 0,
    };
    let found = intents::list(&ctx.openintent, caller, &filter).await?;
    let more = found.cut || found.items.len() >= limit as usize;
    let next = found.items.last().filter(|_| more).map(|intent| intent.id);
    let intents: Vec<Value> = found.items.iter().map(brief).collect();
    Answer::new(format!("{} intent(s).", intents.len()), &json!({ "intents": intents, "next": next }))
}
