//! Resources of ARCP 1.1: jobs, workers, credentials and the inventory.

pub(crate) mod authority;
pub(crate) mod claims;
pub(crate) mod credentials;
pub(crate) mod inventory;
pub(crate) mod job_events;
pub(crate) mod jobs;
pub(crate) mod reports;
pub(crate) mod workers;
