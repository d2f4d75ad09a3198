//! AEE 1: accepting envelopes, mailboxes, buses, policies, schemas and approvals.

pub mod answers;
pub mod approvals;
pub mod buses;
pub mod envelope_keys;
pub mod envelope_logs;
pub mod envelopes;
pub mod exchanges;
pub mod ingest;
pub mod mailboxes;
pub mod policy_snapshot;
pub mod quotas;
pub(crate) mod redactions;
pub mod refutations;
pub mod rules;
pub mod schemas;
pub(crate) mod voices;
