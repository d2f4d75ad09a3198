//! What stands in for a signature that is not there: a connection on which nobody can change anything (AEE §11.3).

use std::net::IpAddr;

/// Whether nobody on the way can have read or changed what came: it came from this machine, or the operator says that a
/// proxy in front ends TLS and that nothing else gets through to the server.
#[must_use]
pub fn is_private(peer: Option<IpAddr>, tls_terminated: bool) -> bool {
    tls_terminated || peer.is_some_and(|peer| peer.to_canonical().is_loopback())
}
