//! Runtime services around the domain: system clock and randomness, TLS, metrics, spans, supervised tasks, the log filter,
//! deadlines, caches, loaders, queues and lines of pipes. Nothing here depends on a protocol, HTTP or SQL.

pub mod cache;
pub mod deadlines;
pub mod environment;
pub mod fences;
pub mod keyed;
pub mod lines;
pub mod loader;
pub mod log_filter;
pub mod metrics;
pub mod push;
pub mod refused;
pub mod signals;
pub mod sockets;
pub mod spans;
pub mod tasks;
pub mod tls;
pub mod turnstile;
