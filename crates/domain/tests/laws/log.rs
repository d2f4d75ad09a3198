//! The log: its hash chain, checkpoints and proofs.

mod checkpoints;
pub(crate) mod events;
mod merkle;
mod proofs;
