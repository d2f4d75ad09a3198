//! The log of each intent and of the system (RFC-0001): appending to it, its records and their positions.
//!
//! Reading and proving logs is in `audit`, following them in `feed`.

pub mod deferred;
pub mod guarded_write;
pub mod intent_tx;
pub mod order;
pub mod writer;

mod position;
mod record;

pub use position::{FormerPosition, GlobalPosition};
pub use record::Record;
