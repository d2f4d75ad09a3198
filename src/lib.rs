//! Entente: the coordination server for AI agents, one binary over PostgreSQL.
//!
//! The floors, from the top: doors (`http`, `cli`) parse, authenticate and shape replies; deeds (`app`) each do one thing
//! in one transaction, and own all SQL; the law (`entente_core`) decides. `feed` tells followers what was committed,
//! `background` does what time makes due, `db` reaches the database. ARCHITECTURE.md has the map.

pub mod app;
pub mod arcp;
pub mod background;
pub mod cli;
pub mod config;
pub mod db;
pub mod environment;
pub mod feed;
pub mod http;
pub mod mcp;
pub mod shutdown;
pub mod startup;
pub mod telemetry;
pub mod tls;
pub mod web;
