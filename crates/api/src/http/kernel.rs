//! Resources that all protocols share: principals, keys, agents, the log, streams and webhooks.

pub(crate) mod access;
pub(crate) mod access_requests;
pub(crate) mod agents;
pub(crate) mod assignments;
pub(crate) mod audit;
pub(crate) mod checkpoints;
pub(crate) mod deliveries;
pub(crate) mod discovery;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod identities;
pub(crate) mod keys;
pub(crate) mod people;
pub(crate) mod principals;
pub(crate) mod streams;
pub(crate) mod subscriptions;
pub(crate) mod traces;
