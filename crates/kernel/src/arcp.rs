//! ARCP 1.1: jobs, the workers that run them, client sessions and provisioned credentials.

pub mod credentials;
pub mod inventory;
pub mod jobs;
pub mod sessions;
pub mod workers;
