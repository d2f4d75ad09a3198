//! What the system is asked for connections: enough open files, to find out when the other end is gone, and to let nobody
//! in any more.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use actix_web::dev::ServerHandle;
use actix_web::rt::net::TcpStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::time::sleep;
use tracing::info;

/// How long somebody takes to get in who has been answered and is about to answer (the third step of TCP's handshake) and to
/// ask: once around the world, or nothing on the machine itself.
const ROUND_TRIP: Duration = Duration::from_millis(300);

/// How often it is looked whether everybody has been accepted, and the least that is waited.
const LOOK: Duration = Duration::from_millis(10);

/// How long it is waited at the most: a server that has as many connections as it may accepts nobody.
const ACCEPT_LIMIT: Duration = Duration::from_secs(1);

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

/// Bytes that the system takes of what could not be sent yet: else it would hold megabytes of each answer that nobody reads, and
/// nobody would know. What is on its way is not bounded by it.
///
/// It is also how far the reader of a stream may be behind when the server stops: a stream that cannot be written to its end holds up
/// the stop until `ENTENTE_DRAIN_SECONDS` are over. So it is seconds' worth of a busy stream, and a quarter of a large page.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 1024 * 1024;

/// Has the system end a connection on which the other end takes nothing of what is written for so long, however it pretends to
/// be there, and hold little of it meanwhile. Elsewhere than on Linux only who is gone is found out.
#[cfg(target_os = "linux")]
pub fn cut_off(stream: &TcpStream, after: Duration) {
    let millis = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
    let set = rustix::net::sockopt::set_tcp_user_timeout(stream, millis)
        .map_err(std::io::Error::from)
        .and_then(|()| socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES));
    if let Err(e) = set {
        tracing::debug!(error = %e, "a connection that is not read is not cut off");
    }
}

#[cfg(not(target_os = "linux"))]
pub fn cut_off(_stream: &TcpStream, _after: Duration) {}

/// Lets nobody in any more, so that whoever connects is refused, and sends nobody away who has got in.
///
/// The system connects clients before the server accepts them, and they send at once. When a listening socket is closed, those
/// that wait to be accepted are reset, and do not know whether what they asked was done. So first the system takes no notice of
/// anybody new, then all who are in are accepted, and only then it is closed. Whoever went unnoticed asks again by itself a second
/// later, and is refused then, or gets into the server that has come in the meantime. Where the system cannot do that
/// (elsewhere than on Linux), those who connect in the last instant may be reset.
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
    // Where the system does not close a listening socket this way, the HTTP server does it when it stops.
    let _not_everywhere = rustix::net::shutdown(gate, Shutdown::Read);
}

/// Whether somebody waits to be accepted.
fn waits(gate: &TcpListener) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut look = [PollFd::new(gate, PollFlags::IN)];
    poll(&mut look, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Has the system take no notice of whoever asks to connect; those who are half in go on. False where it cannot.
#[cfg(target_os = "linux")]
fn overlook(gate: &TcpListener) -> bool {
    use socket2::{SockFilter, SockRef};
    // A filter for what comes to the socket, which sees it from TCP's header on: the byte of the flags; of those SYN and ACK;
    // SYN alone is somebody new, and nothing of that is kept.
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
