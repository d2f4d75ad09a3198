//! Resources of AEE 1: envelopes, mailboxes, buses, policies and schemas.

pub(crate) mod approvals;
pub(crate) mod buses;
pub(crate) mod conformance;
pub(crate) mod envelope_keys;
pub(crate) mod envelope_logs;
pub(crate) mod envelopes;
pub(crate) mod mailboxes;
pub(crate) mod rules;
pub(crate) mod schemas;
pub(crate) mod threads;
pub(crate) mod transport;
