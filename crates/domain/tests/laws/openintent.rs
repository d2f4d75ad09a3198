//! OpenIntent, RFC-0001 to RFC-0025.

mod agents;
mod approvals;
mod arbitration;
mod attachments;
pub(crate) mod channels;
mod coordinators;
mod costs;
mod escalations;
mod failures;
mod federation;
mod governance;
mod graphs;
pub mod intents;
mod leases;
mod memory;
mod messages;
mod patch;
mod plans;
mod portfolios;
mod suspensions;
mod tasks;
mod tools;
mod triggers;
mod waits;
