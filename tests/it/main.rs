//! Integration tests over the API: a real server on a real PostgreSQL, raw JSON over real sockets, and a
//! clock that the tests control.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::disallowed_methods, reason = "a test owns its tasks, and some follow the true clock")]
#![expect(clippy::similar_names, reason = "`asked` and `asker` are what they are")]

/// The program's allocator: servers that start and stop mostly allocate.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod a2a;
pub(crate) mod aee;
pub(crate) mod arcp;
mod bridges;
mod cli;
mod concurrency;
mod config;
mod dashboard;
mod egress;
mod harness;
mod house_rules;
pub(crate) mod kernel;
mod ledger;
mod mcp;
mod moments;
mod openapi;
pub(crate) mod openintent;
mod outage;
mod pages;
mod powers;
mod readme;
mod secrets;
mod shares;
mod sweeps;
mod unauthorized;
mod waits;
