//! REST resources of OpenIntent (RFC-0001 to RFC-0025), one file per noun.

pub mod agents;
mod approvals;
mod arbitration;
mod attachments;
pub mod channels;
mod coordinators;
mod costs;
mod escalations;
pub mod events;
mod failures;
mod federation;
mod governance;
mod graphs;
pub mod intents;
mod leases;
mod memory;
pub mod messages;
mod plans;
mod portfolios;
mod retry_policies;
pub mod tasks;
mod tools;
mod triggers;

use std::ops::Deref;
use std::sync::Arc;

use entente_http::HttpState;
use entente_http::routes::Routes;
use entente_openintent::messages::writer::MessageWriter;
use entente_openintent::tools::invocations::CallQueue;

pub use self::federation::well_known;

/// State of the handlers; dereferences to the HTTP layer's.
pub struct ApiState {
    /// State of the HTTP layer.
    pub http: Arc<HttpState>,
    /// Context of OpenIntent's operations.
    pub ctx: entente_openintent::Ctx,
    /// Group commit of messages and posted events.
    pub message_writer: Arc<MessageWriter>,
    /// Executes tool calls.
    pub tools: CallQueue,
}

impl Deref for ApiState {
    type Target = HttpState;

    fn deref(&self) -> &Self::Target {
        &self.http
    }
}

/// Registers the routes of the group commit, which the router tries first.
pub fn frequent_routes(config: &mut Routes<'_>) {
    messages::routes(config);
    messages::batches::routes(config);
    messages::asks::routes(config);
    events::routes(config);
}

/// Registers the other routes.
pub fn routes(config: &mut Routes<'_>) {
    channels::routes(config);
    intents::routes(config);
    graphs::routes(config);
    leases::routes(config);
    arbitration::routes(config);
    attachments::routes(config);
    costs::routes(config);
    retry_policies::routes(config);
    failures::routes(config);
    tasks::routes(config);
    tasks::verbs::routes(config);
    plans::routes(config);
    plans::verbs::routes(config);
    memory::routes(config);
    coordinators::routes(config);
    coordinators::decisions::routes(config);
    governance::routes(config);
    approvals::routes(config);
    escalations::routes(config);
    agents::routes(config);
    portfolios::routes(config);
    triggers::routes(config);
    federation::routes(config);
    tools::vaults::routes(config);
    tools::tool_credentials::routes(config);
    tools::tool_grants::routes(config);
    tools::invocations::routes(config);
}
