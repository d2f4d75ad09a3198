//! Socket options that detect dead connections, and end those that accept no data.

use std::time::Duration;

use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use tokio::net::TcpStream;

/// Enables TCP keep-alive, which detects a dead client even on an idle stream.
pub fn keep_alive(stream: &TcpStream) {
    let set = set_socket_keepalive(stream, true)
        .and_then(|()| set_tcp_keepidle(stream, Duration::from_secs(30)))
        .and_then(|()| set_tcp_keepintvl(stream, Duration::from_secs(10)))
        .and_then(|()| set_tcp_keepcnt(stream, 3));
    if let Err(e) = set {
        tracing::debug!(error = %e, "TCP keep-alive could not be set");
    }
}

/// Unsent bytes that the system buffers per connection: otherwise it would hold megabytes of an unread
/// answer, unnoticed by the server.
///
/// Data in flight is not included.
///
/// It also bounds how far the reader of a stream may lag behind on shutdown: a stream that cannot be flushed
/// delays the stop until `ENTENTE_DRAIN_SECONDS` are over. So it is seconds' worth of a busy stream, and a
/// quarter of a large page.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 1024 * 1024;

/// Ends a connection when the client accepts no data for this time, even if it keeps the connection alive,
/// and limits the buffered data meanwhile.
///
/// Other systems than Linux only detect dead clients.
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
