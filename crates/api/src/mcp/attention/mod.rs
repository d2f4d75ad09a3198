//! Tools of the toolset `attention`, which `/mcp?tools=attention` lists: for agents that work in a team
//! (docs/attention.md). The list of the core has no room for them.

mod handover;
mod inbox;
mod loops;
mod search;
mod turn;
mod waits;

use super::Tool;

/// Returns the tools of this folder.
pub fn tools() -> Vec<Tool> {
    handover::tools()
        .into_iter()
        .chain(inbox::tools())
        .chain(loops::tools())
        .chain(search::tools())
        .chain(turn::tools())
        .chain(waits::tools())
        .collect()
}
