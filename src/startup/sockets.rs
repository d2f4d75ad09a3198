//! What the system is asked for connections: enough open files, and to find out when the other end is gone.

use std::time::Duration;

use actix_web::rt::net::TcpStream;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use rustix::process::{Resource, getrlimit, setrlimit};
use tracing::info;

/// Takes as many open files as the system allows: each connection is one. Says so when that is fewer than the process
/// may have connections: beyond it none is accepted, and clients see no reason.
pub fn take_files(connections: usize) {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(e) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(error = %e, "the limit of open files could not be raised");
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if files < connections as u64 {
        info!(
            open.files = files,
            connections,
            "the system allows fewer open files than ENTENTE_MAX_CONNECTIONS; with more clients raise `ulimit -n`"
        );
    }
}

/// Has the system find out when the other end of a connection is gone, which a silent stream would not.
pub fn keep_alive(stream: &TcpStream) {
    let set = set_socket_keepalive(stream, true)
        .and_then(|()| set_tcp_keepidle(stream, Duration::from_secs(30)))
        .and_then(|()| set_tcp_keepintvl(stream, Duration::from_secs(10)))
        .and_then(|()| set_tcp_keepcnt(stream, 3));
    if let Err(e) = set {
        tracing::debug!(error = %e, "TCP keep-alive could not be set");
    }
}
