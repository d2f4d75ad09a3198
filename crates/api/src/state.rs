//! State of the handlers that name several protocols.

use std::ops::Deref;
use std::sync::Arc;

use entente_bridges::Ctx;
use entente_http::HttpState;
use entente_oidc::Provider;

use crate::server::health::Checkup;

/// State of the handlers that name several protocols; dereferences to the HTTP layer's.
pub struct ApiState {
    /// State of the HTTP layer.
    pub http: Arc<HttpState>,
    /// Context of all protocols, which operations receive.
    pub ctx: Ctx,
    /// State of A2A's handlers.
    pub a2a: Arc<entente_a2a_api::ApiState>,
    /// State of OpenIntent's handlers.
    pub openintent: Arc<entente_openintent_api::ApiState>,
    /// State of ARCP's handlers.
    pub arcp: Arc<entente_arcp_api::ApiState>,
    /// State of AEE's handlers.
    pub aee: Arc<entente_aee_api::ApiState>,
    /// State of the handlers of binding moments.
    pub moments: Arc<entente_moments_api::ApiState>,
    /// The operator's OpenID Connect provider, with whose accounts people log in.
    pub provider: Option<Arc<Provider>>,
    /// Cached result of the last readiness check.
    pub checkup: Checkup,
}

impl Deref for ApiState {
    type Target = HttpState;

    fn deref(&self) -> &Self::Target {
        &self.http
    }
}
