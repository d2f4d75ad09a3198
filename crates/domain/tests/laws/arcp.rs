//! ARCP 1.1: jobs, sessions, capabilities, budgets and credentials.

mod budgets;
mod capabilities;
mod credentials;
mod jobs;
mod sessions;
