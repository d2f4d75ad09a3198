//! Entente: the coordination server for AI agents, one binary over PostgreSQL.
//!
//! This crate composes the server (`startup`), reads its configuration, and runs its background tasks and
//! command line. Everything else is in the crates below: `entente_api`, `entente_client`, `entente_bridges`,
//! `entente_openintent`, `entente_arcp`, `entente_aee`, `entente_moments`, `entente_kernel`, `entente_store`,
//! `entente_runtime`, `entente_domain`. ARCHITECTURE.md has an overview.

pub mod background;
pub mod cli;
pub mod config;
pub mod startup;
pub mod telemetry;
