//! A2A 1.0 for its clients: agent cards, and tasks over JSON-RPC and HTTP+JSON below `/a2a/{agent}`.
//!
//! A task is a job, and has no record of its own: its id is the job's, so a task lasts as long as the job does, every server
//! answers, and a job that came over another interface is a task too. Both bindings call the same operations;
//! `crates/domain/src/a2a` defines the protocol's objects.

mod cards;
mod following;
mod legacy;
mod listing;
mod operations;
mod pushes;
mod replies;
mod rest;
mod rpc;
mod visits;
mod waiting;

use std::ops::Deref;
use std::sync::Arc;

use actix_web::web::{self, ServiceConfig};
use entente_arcp::jobs::JobWriter;
use entente_http::HttpState;

/// State of the handlers; dereferences to the HTTP layer's.
pub struct ApiState {
    /// State of the HTTP layer.
    pub http: Arc<HttpState>,
    /// Context of ARCP's operations.
    pub ctx: entente_arcp::Ctx,
    /// Group commit of jobs.
    pub job_writer: Arc<JobWriter>,
    /// The agent whose card is the server's, which everybody may read.
    pub agent: Option<String>,
}

impl Deref for ApiState {
    type Target = HttpState;

    fn deref(&self) -> &Self::Target {
        &self.http
    }
}

/// Registers the routes. The OpenAPI document leaves them out: A2A has a definition of its own.
pub fn routes(config: &mut ServiceConfig) {
    config.route(cards::WELL_KNOWN, web::get().to(cards::of_server));
    config.service(
        web::scope("/a2a/{agent}")
            .route("", web::post().to(rpc::speak))
            .route("/", web::post().to(rpc::speak))
            .route("/v0.3", web::post().to(rpc::speak))
            .route(cards::WELL_KNOWN, web::get().to(cards::of_agent))
            .route(cards::LEGACY, web::get().to(cards::of_older))
            .configure(rest::routes)
            .default_service(web::to(rest::unknown)),
    );
}
