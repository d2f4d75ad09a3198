//! ARCP 1.1: the rules of jobs, sessions, capabilities and budgets.

pub mod budgets;
pub mod capabilities;
pub mod chunks;
pub mod credentials;
pub mod faults;
pub mod jobs;
pub mod sessions;
pub mod versions;
