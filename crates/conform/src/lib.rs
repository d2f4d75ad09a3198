//! `entente conform`: checks a server from the outside against the clauses of a protocol.
//!
//! The crate knows no other crate of ours: it judges by the specifications, so that a fault of ours cannot hide in both.

mod a2a;
mod aee;
mod arcp;
mod check;
mod command;
mod finding;
mod mcp;
mod moments;
mod openintent;
mod report;
mod runner;
mod site;
mod socket;
mod sse;

pub use command::{Arguments, Broken};
