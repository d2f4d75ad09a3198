//! The tool that tells an agent its identity and permissions; a model calls it first.

use entente_domain::clock::rfc3339;
use entente_domain::identity::keys::Scope;
use entente_domain::limits::PAYLOAD_BYTES;
use entente_kernel::intents::IntentFilter;
use entente_kernel::spending::budgets;
use entente_openintent::intents;
use serde::Deserialize;
use serde_json::{Value, json};

use super::shapes::{free, gives, list, must, nullable, takes, text};
use super::{Answer, Call, Hints, Tool, ToolResult, WAIT_SECONDS};

/// Maximum number of intents listed.
const INTENTS: u32 = 20;

/// Returns the tool of this file.
pub fn tools() -> [Tool; 1] {
    [Tool {
        name: "whoami",
        title: "Who am I?",
        about: "Returns the agent that you act as, the scopes of your key, the server's time, your intents, and what your \
                budgets have left. Call this first.",
        takes: takes(vec![]),
        example: json!({}),
        gives: gives(vec![
            must("agent", text("Agent that you act as.")),
            must("principal", text("Principal that owns the key.")),
            must("kind", text("`human`, `agent` or `service`.")),
            must("scopes", list(text("A scope."), "Scopes of the key.")),
            must("key_expires_at", nullable(text("When the key expires; null for never."))),
            must("time", text("Current time of the server.")),
            must("realm", text("Entity name of this server.")),
            must("intents", list(intent(), "The newest intents that you are assigned to.")),
            must("limits", free("Limits that apply to you.")),
        ]),
        hints: Hints::reads(),
        names: &[],
        run: |call| Box::pin(whoami(call)),
    }]
}

fn intent() -> Value {
    gives(vec![
        must("id", text("The intent, `intent_…`.")),
        must("title", text("The goal in one line.")),
        must("status", text("The intent's status.")),
    ])
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArgs {}

async fn whoami(call: Call) -> ToolResult {
    let NoArgs {} = call.read()?;
    let (ctx, caller) = (call.ctx(), &call.caller);
    let filter =
        IntentFilter { assigned_to: Some(caller.agent.clone()), limit: INTENTS, ..IntentFilter::default() };
    let found = if caller.has(Scope::IntentsRead) {
        intents::list(&ctx.openintent, caller, &filter).await?.items
    } else {
        Vec::new()
    };
    let intents: Vec<Value> = found
        .iter()
        .map(|intent| json!({ "id": intent.id, "title": intent.title, "status": intent.status.as_str() }))
        .collect();
    let budgets = budgets::own(ctx, caller).await?;
    let budgets: Vec<Value> = budgets
        .iter()
        .map(|one| {
            json!({
                "scope": one.budget.scope, "unit": one.budget.unit, "window": one.budget.window, "left": one.left(),
                "until": one.ends_at.map(rfc3339),
            })
        })
        .collect();
    let key = &caller.grant.key;
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let body = json!({
        "agent": caller.agent,
        "principal": caller.principal(),
        "kind": caller.grant.kind.as_str(),
        "scopes": scopes,
        "key_expires_at": key.expires_at.map(rfc3339),
        "time": rfc3339(ctx.now()),
        "realm": ctx.aee.state.settings.entity,
        "server": { "name": "entente", "version": env!("CARGO_PKG_VERSION") },
        "intents": intents,
        "limits": {
            "requests_per_second": key.rate_per_second.unwrap_or(call.api.limits.rate_per_second),
            "payload_bytes": PAYLOAD_BYTES,
            "wait_seconds": WAIT_SECONDS,
            "budgets": budgets,
            "stopped": ctx.stops.objection(caller, &caller.agent, None).map(|refusal| refusal.message),
        },
    });
    Answer::new(format!("You are {}, by a key of {}.", caller.agent, caller.principal()), &body)
}
