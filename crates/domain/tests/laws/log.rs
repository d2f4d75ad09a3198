//! The log: its hash chain, checkpoints and proofs.

mod checkpoints;
mod deleted;
mod event_types;
pub(crate) mod events;
mod merkle;
mod proofs;
mod search;
