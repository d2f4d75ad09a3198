//! Resources of the server itself: health, and what it offers.

pub(crate) mod discovery;
pub mod health;
