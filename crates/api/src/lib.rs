//! Client-facing interfaces: REST with server-sent events (`http`), ARCP over WebSocket and stdio (`arcp`),
//! MCP (`mcp`) and the web pages (`web`). They parse, authenticate and shape responses; the kernel, the
//! protocols and the bridges do the work. `app` joins them into one application.

pub mod app;
pub mod arcp;
pub mod http;
pub mod mcp;
pub mod web;
