//! AEE 1: envelopes, mailboxes, policies and approvals.

pub(crate) mod answers;
pub(crate) mod approvals;
pub(crate) mod envelope_keys;
pub(crate) mod envelope_logs;
pub(crate) mod envelopes;
pub(crate) mod mailboxes;
pub(crate) mod quotas;
pub(crate) mod redactions;
pub(crate) mod rules;
pub(crate) mod schemas;
