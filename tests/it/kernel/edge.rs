//! The server's edges: HEAD, compressed answers, documents that clients keep, and poolers in front of PostgreSQL.

mod caching;
mod compression;
mod head;
mod pooling;
mod routing;
