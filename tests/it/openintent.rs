//! OpenIntent, RFC-0001 to RFC-0025.

pub(crate) mod approvals;
pub(crate) mod arbitration;
pub(crate) mod attachments;
pub(crate) mod channels;
pub(crate) mod coordinators;
pub(crate) mod costs;
pub(crate) mod escalations;
pub(crate) mod failures;
pub(crate) mod federation;
pub(crate) mod governance;
pub(crate) mod graphs;
pub(crate) mod intents;
pub(crate) mod invocations;
pub(crate) mod leases;
pub(crate) mod memory;
pub(crate) mod messages;
pub(crate) mod plans;
pub(crate) mod portfolios;
pub(crate) mod suspensions;
pub(crate) mod tasks;
pub(crate) mod tool_grants;
pub(crate) mod triggers;
pub(crate) mod vaults;
mod waits;
