//! Resources of OpenIntent (RFC-0001 to RFC-0025), one file per noun.

pub(crate) mod approvals;
pub(crate) mod arbitration;
pub(crate) mod attachments;
pub(crate) mod channels;
pub(crate) mod coordinator_decisions;
pub(crate) mod coordinators;
pub(crate) mod costs;
pub(crate) mod escalations;
pub(crate) mod failures;
pub(crate) mod federation;
pub(crate) mod governance;
pub(crate) mod graphs;
pub(crate) mod intents;
pub(crate) mod leases;
pub(crate) mod memory;
pub(crate) mod messages;
pub(crate) mod plan_verbs;
pub(crate) mod plans;
pub(crate) mod portfolios;
pub(crate) mod retry_policies;
pub(crate) mod suspensions;
pub(crate) mod task_verbs;
pub(crate) mod tasks;
pub(crate) mod tools;
pub(crate) mod triggers;
