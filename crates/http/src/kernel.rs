//! Resources that all protocols share: principals, keys, the log, streams and webhooks.

mod access;
mod access_requests;
mod agent_sessions;
mod assignments;
mod audit;
mod budgets;
mod checkpoints;
mod contact_points;
mod deliveries;
mod events;
mod identities;
pub mod inbox;
mod keys;
mod log_filter;
pub mod loops;
mod people;
mod principals;
mod quotas;
pub mod search;
mod spend_reservations;
mod stops;
pub mod streams;
mod subscriptions;
mod teams;
mod traces;

use crate::routes::Routes;

/// Registers the routes of the kernel's resources.
pub fn routes(config: &mut Routes<'_>) {
    events::routes(config);
    traces::routes(config);
    assignments::routes(config);
    access::routes(config);
    access_requests::routes(config);
    identities::routes(config);
    agent_sessions::routes(config);
    inbox::routes(config);
    loops::routes(config);
    checkpoints::routes(config);
    streams::routes(config);
    subscriptions::routes(config);
    deliveries::routes(config);
    // Before `/principals/{principal_id}`.
    quotas::routes(config);
    principals::routes(config);
    keys::routes(config);
    search::routes(config);
    audit::routes(config);
    log_filter::routes(config);
    people::routes(config);
    contact_points::routes(config);
    teams::routes(config);
    budgets::routes(config);
    spend_reservations::routes(config);
    stops::routes(config);
}
