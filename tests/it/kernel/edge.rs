//! The server's edges: HEAD, TLS, metrics, compressed answers, documents that clients keep, and poolers in front of PostgreSQL.

mod caching;
mod compression;
mod config;
mod egress;
mod head;
mod metrics;
mod pooling;
mod routing;
mod secrets;
mod tls;
