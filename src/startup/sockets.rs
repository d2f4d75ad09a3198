//! What the system is asked for connections: enough open files, to find out when the other end is gone, and to let nobody in
//! any more.

use std::net::TcpListener;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::rt::net::TcpStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use rustix::net::{Shutdown, listen, shutdown};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::time::sleep;
use tracing::info;

/// How often it is looked whether somebody waits at the gate, and how long those who let them in have in between.
const LOOKS: u32 = 500;
const LET_IN: Duration = Duration::from_millis(1);

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

/// Lets nobody in any more. The system sends away whoever waits to be let in when a listening socket is shut, though their
/// request may have been sent already. So from now on at most one may wait, and the gate is shut while nobody does. Who comes
/// when there is one hears nothing, tries again after a moment, and is then refused, which harms nobody.
pub async fn shut(gate: &TcpListener, http: &ServerHandle) {
    let _as_it_was = listen(gate, 0);
    for _ in 0..LOOKS {
        http.pause().await;
        if !somebody_waits(gate) {
            break;
        }
        http.resume().await;
        sleep(LET_IN).await;
    }
    // Where the system does not close a listening socket this way, the HTTP server does it when it stops.
    let _not_everywhere = shutdown(gate, Shutdown::Read);
}

fn somebody_waits(gate: &TcpListener) -> bool {
    let mut gates = [PollFd::new(gate, PollFlags::IN)];
    poll(&mut gates, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
