//! Decides which connections can replace a signature (AEE §11.3): plain HTTP from another machine cannot.
//! `entente_domain::aee::envelopes::transport` defines which connections are private.

use actix_web::HttpRequest;
use entente_domain::aee::envelopes::transport::is_private;
use entente_domain::refusal::{Code, Refusal};
use entente_http::HttpState;

/// Requires a connection on which nobody can have read or changed an unsigned request.
///
/// # Errors
/// Fails with `code` if the connection is not private.
pub fn require_private(request: &HttpRequest, api: &HttpState, code: Code) -> Result<(), Refusal> {
    let peer = request.peer_addr().map(|peer| peer.ip());
    if is_private(peer, api.limits.encrypted()) {
        return Ok(());
    }
    Err(Refusal::new(
        code,
        "This came unsigned over plain HTTP from another machine, where anybody on the way could have changed it (AEE \
         §11.3). Put a proxy that ends TLS in front and set ENTENTE_TLS_TERMINATED=true, sign it, or send it from the \
         server's own machine.",
    ))
}
