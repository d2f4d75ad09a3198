//! Private connections, which may replace a missing signature because nobody can change anything on them (AEE
//! §11.3).

use std::net::IpAddr;

/// Whether nobody on the way can have read or changed a request.
///
/// True if it came from this machine, or if the operator states that a proxy terminates TLS and that nothing
/// else reaches the server.
#[must_use]
pub fn is_private(peer: Option<IpAddr>, tls_terminated: bool) -> bool {
    tls_terminated || peer.is_some_and(|peer| peer.to_canonical().is_loopback())
}
