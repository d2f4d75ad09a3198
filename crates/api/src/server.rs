//! Resources of the server itself: health, discovery, and access by OAuth.

pub(crate) mod discovery;
pub mod health;
pub(crate) mod oauth;
