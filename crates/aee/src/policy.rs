//! The policy for envelopes: the rules and schemas that decide which of them may pass, and the cached snapshot of both.

pub mod rules;
pub mod schemas;
pub mod snapshot;
pub mod version;
