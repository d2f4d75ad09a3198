//! The interfaces for clients, joined: the application with the routes of all protocols (`app`, `routes`), the OpenAPI
//! document, the resources of the server itself (`server`), those where two protocols meet (`bridges`), MCP (`mcp`) and
//! the web pages (`web`). They parse, authenticate and shape responses; the kernel, the protocols and the bridges do
//! the work.

pub mod app;
mod bridges;
pub mod mcp;
pub mod openapi;
mod routes;
pub mod server;
mod state;
pub mod web;

pub use self::state::ApiState;
