//! What every process needs around the domain: the clock and randomness of the system, TLS, metrics, spans, supervised tasks
//! and deadlines. Nothing here knows a protocol, HTTP or SQL.

pub mod deadlines;
pub mod environment;
pub mod metrics;
pub mod signals;
pub mod spans;
pub mod tasks;
pub mod tls;
