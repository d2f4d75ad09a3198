//! ARCP 1.1 for its clients: REST resources of jobs, workers, credentials and the inventory, and sessions over WebSocket and
//! stdio (`transport`).

pub mod attempts;
mod authority;
pub mod claims;
mod credentials;
mod inventory;
pub mod job_events;
pub mod jobs;
mod limits;
mod queues;
pub mod reports;
pub mod reruns;
pub mod signal_bodies;
mod signals;
pub mod transport;
pub mod trees;
pub mod turns;
pub mod workers;

use std::ops::Deref;
use std::sync::Arc;

use entente_arcp::jobs::JobWriter;
use entente_http::HttpState;
use entente_http::routes::Routes;

/// State of the handlers; dereferences to the HTTP layer's.
pub struct ApiState {
    /// State of the HTTP layer.
    pub http: Arc<HttpState>,
    /// Context of ARCP's operations.
    pub ctx: entente_arcp::Ctx,
    /// Context of binding moments: a job shows the questions that it waits for.
    pub moments: entente_moments::Ctx,
    /// Group commit of jobs and of workers' reports.
    pub job_writer: Arc<JobWriter>,
}

impl Deref for ApiState {
    type Target = HttpState;

    fn deref(&self) -> &Self::Target {
        &self.http
    }
}

/// Registers the routes of jobs, which the router tries early.
pub fn frequent_routes(config: &mut Routes<'_>) {
    // A fixed path comes before the one with a parameter.
    job_events::routes(config);
    attempts::routes(config);
    reruns::routes(config);
    jobs::routes(config);
    claims::routes(config);
    reports::routes(config);
    authority::routes(config);
    signals::routes(config);
    trees::routes(config);
}

/// Registers the other routes.
pub fn routes(config: &mut Routes<'_>) {
    credentials::routes(config);
    workers::routes(config);
    inventory::routes(config);
    queues::routes(config);
    limits::routes(config);
}
