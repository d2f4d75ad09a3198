//! Entente: the coordination server for AI agents, one binary over PostgreSQL.
//!
//! This crate composes the server (`startup`), reads its configuration, and runs its background tasks and
//! command line. Everything else is in the crates below it, of which ARCHITECTURE.md has a picture.

pub mod background;
pub mod cli;
pub mod config;
pub mod startup;
pub mod telemetry;
