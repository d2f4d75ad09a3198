//! The log of each intent and of the system: writing and reading it, and the proofs that it is complete (RFC-0001, RFC-0019).

pub mod audit;
pub mod chains;
pub mod checkpoints;
pub mod events;
pub mod exports;
pub mod guarded_write;
pub mod proofs;
pub mod reader;
pub mod traces;
pub mod writer;
