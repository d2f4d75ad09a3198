//! What clients call: REST with its server-sent events (`http`), ARCP over WebSocket and stdio (`arcp`), MCP (`mcp`) and the
//! pages (`web`). It parses, authenticates and shapes replies; `entente_kernel` does the work.

pub mod arcp;
pub mod http;
pub mod mcp;
pub mod web;
