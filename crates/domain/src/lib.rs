//! Domain rules of Entente: decides which operations the protocols allow, without IO.
//!
//! Each function takes the current state and a request, and returns the new state or a [`refusal::Refusal`]. Nothing
//! in this crate knows HTTP, SQL, a clock or a random number generator: time and randomness are arguments
//! ([`clock::Clock`], [`ids::Chance`]). The server's operations (in the kernel and the protocols) call these functions
//! inside their transactions; `entente verify` calls them without a server.

pub mod a2a;
pub mod access;
pub mod aee;
pub mod arcp;
pub mod bridges;
pub mod bundles;
pub mod canonical;
pub mod clock;
pub mod cursors;
pub mod egress;
pub mod globs;
pub mod idempotency;
pub mod identity;
pub mod ids;
pub mod inbox;
pub mod limits;
pub mod log;
pub mod loops;
pub mod metadata;
pub mod moments;
pub mod notifications;
pub mod openintent;
pub mod payload;
pub mod rate;
pub mod refusal;
pub mod slips;
pub mod spending;
pub mod traces;
pub mod webhooks;

pub use spending::{amounts, stops, subjects};
