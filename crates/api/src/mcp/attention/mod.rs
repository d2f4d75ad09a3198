//! Tools of the toolset `attention`, which `/mcp?tools=attention` lists: for agents that work in a team
//! (docs/attention.md). The list of the core has no room for them.

use super::Tool;

/// Returns the tools of this folder.
pub fn tools() -> Vec<Tool> {
    Vec::new()
}
