//! The routes of every resource; the index tries nouns in the order of their first routes.

use entente_http::kernel;
use entente_http::routes::Routes;
use {
    entente_aee_api as aee, entente_arcp_api as arcp, entente_moments_api as moments,
    entente_openintent_api as openintent,
};

use crate::bridges::{bundles, envelope_bridges, state_patches, suspensions, turns, waits};
use crate::server::{discovery, health};

/// Routes outside the API prefixes.
pub(crate) fn root(config: &mut Routes<'_>) {
    health::routes(config);
    openintent::well_known(config);
    discovery::root(config);
}

/// Routes under `/api/v1` and `/v1`.
pub(crate) fn api_routes(config: &mut Routes<'_>) {
    // The index tries nouns in the order of their first routes, so the most frequent requests come first.
    openintent::frequent_routes(config);
    arcp::frequent_routes(config);
    state_patches::routes(config);
    openintent::routes(config);
    kernel::routes(config);
    arcp::routes(config);
    aee::routes(config);
    moments::routes(config);
    suspensions::routes(config);
    envelope_bridges::routes(config);
    bundles::routes(config);
    turns::routes(config);
    waits::routes(config);
    discovery::routes(config);
}
