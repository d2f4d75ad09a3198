//! Integration tests of every way in: the command line, MCP, the pages, the API's document and its refusals, the README.
//! Real servers on a real PostgreSQL, raw JSON over real sockets, and a clock that the tests control.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::disallowed_methods, reason = "a test owns its tasks, and some follow the true clock")]
#![expect(clippy::similar_names, reason = "`asked` and `asker` are what they are")]

mod cli;
mod house_rules;
mod mcp;
mod openapi;
mod pages;
mod unauthorized;
