//! OpenIntent: the rules of RFC-0001 to RFC-0025, one file per noun.

pub mod agents;
pub mod approvals;
pub mod arbitration;
pub mod attachments;
pub mod channels;
pub mod coordinators;
pub mod costs;
pub mod escalations;
pub mod failures;
pub mod federation;
pub mod governance;
pub mod graphs;
pub mod intents;
pub mod leases;
pub mod memory;
pub mod messages;
pub mod patch;
pub mod plans;
pub mod portfolios;
pub mod retry_policies;
pub mod suspensions;
pub mod tasks;
pub mod tools;
pub mod triggers;
pub mod waits;
