//! Tools of the toolset `attention`, which `/mcp?tools=attention` lists: for agents that work in a team
//! (docs/attention.md). The list of the core has no room for them.

mod inbox;
mod loops;
mod search;
mod waits;

use super::Tool;

/// Returns the tools of this folder.
pub fn tools() -> Vec<Tool> {
    inbox::tools().into_iter().chain(loops::tools()).chain(search::tools()).chain(waits::tools()).collect()
}
