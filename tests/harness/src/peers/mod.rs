//! What a test starts besides a server in its own process: PostgreSQL and what stands before it, brokers, receivers, and
//! Entente's program.

pub mod cable;
pub mod cluster;
pub mod desk;
pub mod kafka;
pub mod nats;
pub mod patroni;
pub mod pgbouncer;
pub mod process;
pub mod program;
pub mod proxy;
pub mod receiver;
pub mod scratch;
pub mod terminal;
