//! The tool that tells who waits for whom.

use entente_bridges::waits;
use entente_domain::identity::keys::Dialect;
use entente_domain::openintent::waits::told;
use serde::Deserialize;
use serde_json::json;

use super::shapes::{free, gives, list, must, takes, text};
use super::{Answer, Call, Hints, Tool, ToolResult};
use crate::bridges::waits::WaitsBody;

/// Returns the tools of this file.
pub fn tools() -> [Tool; 1] {
    [Tool {
        name: "waits",
        title: "Who waits for whom",
        about: "Lists agents that wait for others, and deadlocks. If you are in one, give up what you wait for or release what \
                you hold.",
        takes: takes(vec![]),
        example: json!({}),
        gives: gives(vec![
            must("waits", list(free("from, to, kind, ref, since."), "The waits.")),
            must("deadlocks", list(free("agents, waits."), "Cycles of waits.")),
            must("deadlocked", list(text("An agent."), "Those of yours in a deadlock.")),
        ]),
        hints: Hints::reads(),
        names: &[],
        run: |call| Box::pin(run(call)),
    }]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {}

async fn run(call: Call) -> ToolResult {
    let Args {} = call.read()?;
    let found = waits::list(call.ctx(), &call.caller).await?;
    let deadlocks: String = found.deadlocks.iter().map(|one| format!(" {}", told(&one.agents))).collect();
    let hidden = match found.deadlocked.as_slice() {
        own if !own.is_empty() && deadlocks.is_empty() => {
            format!(" In a deadlock that you may not see: {}.", own.join(", "))
        }
        _ => String::new(),
    };
    let summary = format!("Found {} wait(s).{deadlocks}{hidden}", found.waits.len());
    Answer::new(summary, &WaitsBody::new(&found, Dialect::Standard))
}
