//! REST resources of AEE 1: envelopes, mailboxes, buses, policies and schemas.

mod approvals;
mod buses;
mod conformance;
mod envelope_keys;
mod envelope_logs;
pub mod envelopes;
pub mod mailboxes;
mod rules;
mod schemas;
mod threads;
pub mod transport;
pub mod webhooks;

use std::ops::Deref;
use std::sync::Arc;

use entente_aee::ingest::Ingest;
use entente_http::HttpState;
use entente_http::routes::Routes;

/// State of the handlers; dereferences to the HTTP layer's.
pub struct ApiState {
    /// State of the HTTP layer.
    pub http: Arc<HttpState>,
    /// Context of AEE's operations.
    pub ctx: entente_aee::Ctx,
    /// Ingest of envelopes.
    pub ingest: Ingest,
}

impl Deref for ApiState {
    type Target = HttpState;

    fn deref(&self) -> &Self::Target {
        &self.http
    }
}

/// Registers the routes.
pub fn routes(config: &mut Routes<'_>) {
    envelope_keys::routes(config);
    envelope_logs::routes(config);
    rules::routes(config);
    schemas::routes(config);
    conformance::routes(config);
    envelopes::routes(config);
    mailboxes::routes(config);
    threads::routes(config);
    approvals::routes(config);
    buses::routes(config);
}
