//! Events, the chain they form, and the proofs that a log is complete (RFC-0001, RFC-0019).

pub mod chains;
pub mod checkpoints;
pub mod deleted;
pub mod event_types;
pub mod events;
pub mod kinds;
pub mod merkle;
pub mod proofs;
pub mod receipts;
pub mod seals;
pub mod search;
