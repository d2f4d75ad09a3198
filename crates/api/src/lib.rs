//! Client-facing interfaces: REST with server-sent events (`http`), ARCP over WebSocket and stdio (`arcp`),
//! MCP (`mcp`) and the web pages (`web`). They parse, authenticate and shape responses; `entente_kernel` does
//! the work.

pub mod arcp;
pub mod http;
pub mod mcp;
pub mod web;
