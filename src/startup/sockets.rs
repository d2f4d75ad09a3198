//! Limits of the listening socket: enough open files, and refusing new connections on shutdown.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use actix_web::dev::ServerHandle;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::time::sleep;
use tracing::info;

/// Time for a client with a half-open connection to complete TCP's handshake and send its request: once
/// around the world, or nothing on the machine itself.
const ROUND_TRIP: Duration = Duration::from_millis(300);

/// Interval of checks for connections to be accepted, and the shortest wait.
const LOOK: Duration = Duration::from_millis(10);

/// Longest wait: a server at its connection limit accepts nothing.
const ACCEPT_LIMIT: Duration = Duration::from_secs(1);

/// Raises the limit of open files to its maximum, since each connection needs one.
///
/// Logs a note when that is less than the permitted connections: further ones are not accepted, without a
/// reason visible to clients.
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

/// Refuses new connections without dropping established ones.
///
/// The system establishes connections before the server accepts them, and clients send at once. Closing a
/// listening socket resets the connections that wait to be accepted, and their clients do not know whether
/// their request was executed. So the system first ignores new connection attempts, then all established ones
/// are accepted, and only then the socket is closed. An ignored client tries again by itself a second later,
/// and is then refused or reaches the server's successor. On systems without this ability (other than Linux),
/// connections of the last instant may be reset.
pub async fn close(gate: &TcpListener, http: &ServerHandle) {
    if overlook(gate) {
        let began = Instant::now();
        let here = gate.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let least = if here { LOOK } else { ROUND_TRIP };
        loop {
            sleep(LOOK).await;
            let late = began.elapsed();
            if (late >= least && !waits(gate)) || late >= ACCEPT_LIMIT {
                break;
            }
        }
    }
    http.pause().await;
    // Systems that do not close a listening socket this way leave that to the HTTP server's stop.
    let _not_everywhere = rustix::net::shutdown(gate, Shutdown::Read);
}

/// Returns whether a connection waits to be accepted.
fn waits(gate: &TcpListener) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut look = [PollFd::new(gate, PollFlags::IN)];
    poll(&mut look, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Makes the system ignore new connection attempts; half-open ones continue. Returns false where it cannot.
#[cfg(target_os = "linux")]
fn overlook(gate: &TcpListener) -> bool {
    use socket2::{SockFilter, SockRef};
    // A packet filter on the socket, which sees packets from the TCP header on: it loads the flags' byte,
    // masks SYN and ACK, and drops packets with SYN alone, which are new connection attempts.
    let filter = [
        SockFilter::new(0x30, 0, 0, 13),
        SockFilter::new(0x54, 0, 0, 0x12),
        SockFilter::new(0x15, 0, 1, 0x02),
        SockFilter::new(0x06, 0, 0, 0),
        SockFilter::new(0x06, 0, 0, u32::MAX),
    ];
    let set = SockRef::from(gate).attach_filter(&filter);
    if let Err(e) = &set {
        tracing::debug!(error = %e, "who connects while the server stops may be reset");
    }
    set.is_ok()
}

#[cfg(not(target_os = "linux"))]
fn overlook(_gate: &TcpListener) -> bool {
    false
}
