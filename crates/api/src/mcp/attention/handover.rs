//! The tool by which an agent hands its part of an intent over to another one.

use entente_domain::identity::keys::Dialect;
use entente_domain::ids::IntentId;
use entente_http::body::id;
use entente_openintent::agents::handovers;
use entente_openintent_api::agents::handovers::{HandoverBody, NewHandoverBody};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::mcp::shapes::{free, gives, list, may, must, retry_key, takes, text};
use crate::mcp::{Answer, Call, Hints, Tool, ToolResult};

/// Returns the tool of this file.
pub fn tools() -> [Tool; 1] {
    [Tool {
        name: "hand_over",
        title: "Hand your work over",
        about: "Passes your part of an intent to another agent at once: role, tasks and leases with new tokens, a note, the state of the \
                work, references. Your own tokens hold no longer.",
        takes: takes(vec![
            must("intent_id", text("The intent, `intent_…`.")),
            must("to", text("The agent that takes over.")),
            may("note", text("What it should know.")),
            may("state", free("State of the work.")),
            may("references", list(text("An id or address."), "What the work refers to.")),
            may("tasks", list(text("A task."), "Defaults to all that you have.")),
            may("leases", list(text("A lease."), "Defaults to all that you hold.")),
            may("from", text("Another agent, whose work you pass on as the intent's manager.")),
            may("idempotency_key", retry_key("")),
        ]),
        example: json!({ "intent_id": "intent_…", "to": "agent.writer", "note": "Two sources are left to check." }),
        gives: gives(vec![
            must("role", text("The role that it has now.")),
            must("tasks", list(free("A task with its new claim."), "The tasks.")),
            must("leases", list(free("A lease with its new token."), "The leases.")),
        ]),
        hints: Hints::changes(),
        names: &[],
        run: |call| Box::pin(hand_over(call)),
    }]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    intent_id: String,
    to: String,
    note: Option<String>,
    state: Option<Box<RawValue>>,
    #[serde(default)]
    references: Vec<String>,
    tasks: Option<Vec<String>>,
    leases: Option<Vec<String>>,
    from: Option<String>,
    idempotency_key: Option<String>,
}

async fn hand_over(call: Call) -> ToolResult {
    let Args { intent_id, to, note, state, references, tasks, leases, from, idempotency_key } =
        call.read()?;
    let once = call.once(idempotency_key.as_deref(), "hand_over")?;
    let intent_id: IntentId = id("intent", &intent_id)?;
    let ask = NewHandoverBody { to, from, note, state, references, tasks, leases }.ask(&call.caller)?;
    let ctx = &call.ctx().openintent;
    let made = handovers::hand_over(ctx, &call.caller, intent_id, &ask, once.as_ref()).await?;
    let summary =
        format!("{} took over {} task(s) and {} lease(s).", made.to, made.tasks.len(), made.leases.len());
    Answer::new(summary, &HandoverBody::new(made, ctx.now(), Dialect::Standard))
}
