//! Features that all protocols share: identity, access, the log, streams and webhooks.

pub(crate) mod access;
pub(crate) mod agents;
pub(crate) mod assignments;
pub(crate) mod audits;
pub(crate) mod checkpoints;
pub(crate) mod departures;
pub(crate) mod discovery;
mod edge;
pub(crate) mod events;
pub(crate) mod exports;
pub(crate) mod heartbeats;
pub(crate) mod identities;
pub(crate) mod inbox;
pub(crate) mod keys;
pub(crate) mod loops;
pub(crate) mod nodes;
pub(crate) mod people;
pub(crate) mod principals;
pub(crate) mod proofs;
pub(crate) mod rates;
pub(crate) mod revocations;
pub(crate) mod seeds;
pub(crate) mod spans;
pub(crate) mod streams;
pub(crate) mod tampering;
pub(crate) mod traces;
pub(crate) mod webhooks;
