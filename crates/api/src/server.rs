//! Resources of the server itself: health, what it offers, and access by OAuth.

pub(crate) mod discovery;
pub mod health;
pub(crate) mod oauth;
