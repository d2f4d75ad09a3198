//! ARCP 1.1: jobs, workers, sessions and credentials.

pub(crate) mod arcp_sessions;
pub(crate) mod authority;
pub(crate) mod credentials;
pub(crate) mod jobs;
pub(crate) mod spending;
pub(crate) mod worker;
