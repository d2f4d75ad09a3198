//! The tool that tells of loops and storms among agents.

use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{IntentId, LineageId};
use entente_domain::loops::lineages::LineageState;
use entente_http::body::id;
use entente_http::kernel::loops::{LineageBody, LineageList, state};
use entente_kernel::loops;
use serde::Deserialize;
use serde_json::json;

use crate::mcp::shapes::{free, gives, list, may, must, takes, text, whole};
use crate::mcp::{Answer, Call, Hints, Tool, ToolResult, within};

/// Default number of lineages.
const STEP: u32 = 20;

/// Maximum number of lineages.
const MOST: u32 = 100;

/// Returns the tool of this file.
pub fn tools() -> [Tool; 1] {
    [Tool {
        name: "loops",
        title: "Lineages of messages",
        about: "Lists what came of which message on an intent, and which of it is a loop or a storm. If you are in one that is \
                slowed or stopped, send nothing that repeats what was said.",
        takes: takes(vec![
            must("intent", text("The intent's id.")),
            may("state", text("`running`, `told`, `slowed`, `stopped` or `ended`.")),
            may("before", text("Id of the last lineage of the previous page.")),
            may("limit", whole("Maximum number; defaults to 20.", 1, i64::from(MOST))),
        ]),
        example: json!({ "intent": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "state": "stopped" }),
        gives: gives(vec![must(
            "lineages",
            list(free("id, state, cause, hops, messages, repeats, agents, pairs, root."), "Newest first."),
        )]),
        hints: Hints::reads(),
        names: &[],
        run: |call| Box::pin(run(call)),
    }]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    intent: String,
    state: Option<String>,
    before: Option<String>,
    limit: Option<u32>,
}

async fn run(call: Call) -> ToolResult {
    let said: Args = call.read()?;
    let intent: IntentId = id("intent", &said.intent)?;
    let before = said.before.as_deref().map(|text| id::<LineageId>("lineage", text)).transpose()?;
    let state: Option<LineageState> = said.state.as_deref().map(state).transpose()?;
    let limit = within("limit", said.limit, STEP, 1, MOST)?;
    let found = loops::list(call.ctx(), &call.caller, intent, before, state, limit).await?;
    let stopped = found.iter().filter(|one| one.state == LineageState::Stopped).count();
    let summary = format!("Found {} lineage(s), {stopped} of them stopped.", found.len());
    let lineages = found.into_iter().map(|one| LineageBody::new(intent, one, Dialect::Standard)).collect();
    Answer::new(summary, &LineageList { lineages })
}
