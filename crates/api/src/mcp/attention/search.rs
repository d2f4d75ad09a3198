//! The tool that searches messages, events and jobs by words.

use entente_domain::identity::keys::Dialect;
use entente_domain::ids::IntentId;
use entente_http::body::id;
use entente_http::kernel::search::{FoundBody, STEP, ask};
use entente_kernel::audit::search::{PAGE, find};
use serde::Deserialize;
use serde_json::json;

use crate::mcp::shapes::{free, gives, list, may, must, takes, text, whole};
use crate::mcp::{Answer, Call, Hints, Tool, ToolResult, within};

/// Returns the tools of this file.
pub fn tools() -> [Tool; 1] {
    [Tool {
        name: "search",
        title: "Search by words",
        about: "Finds messages, events and jobs that you may read, newest first. `q`: all words, \"a phrase\", `or`, `-without`.",
        takes: takes(vec![
            must("q", text("The words.")),
            may("kinds", text("Of `message,event,job`.")),
            may("intent_id", text("Only this intent.")),
            may("limit", whole("Defaults to 20.", 1, i64::from(PAGE))),
            may("cursor", text("`next_cursor` of the last answer.")),
        ]),
        example: json!({ "q": "deploy -staging" }),
        gives: gives(vec![
            must("results", list(free("`kind`, ids, `excerpt`."), "The results.")),
            must("next_cursor", json!({ "type": ["string", "null"] })),
            must("indexed", free("Newer than this may be missing.")),
        ]),
        hints: Hints::reads(),
        names: &[],
        run: |call| Box::pin(run(call)),
    }]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    q: String,
    kinds: Option<String>,
    intent_id: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

async fn run(call: Call) -> ToolResult {
    let said: Args = call.read()?;
    let intent_id = said.intent_id.as_deref().map(|text| id::<IntentId>("intent", text)).transpose()?;
    let limit = within("limit", said.limit, STEP, 1, PAGE)?;
    let ask = ask(Some(&said.q), said.kinds.as_deref(), intent_id, said.cursor.as_deref(), limit)?;
    let found = FoundBody::new(find(call.ctx(), &call.caller, &ask).await?, Dialect::Standard);
    Answer::new(format!("{} result(s).", found.results.len()), &found)
}
