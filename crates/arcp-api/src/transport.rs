//! Transports of ARCP sessions: WebSocket (`socket.rs`) and stdio (`stdio.rs`). A connection is an `FrameSource` and
//! a `FrameSink`; `session.rs` connects them with the protocol state machine (`entente_domain::arcp::sessions`), which
//! makes all decisions, and `asking.rs` calls the operations.

mod asking;
mod session;
pub mod socket;
pub mod stdio;

use std::future::Future;
use std::net::IpAddr;

use bytes::Bytes;
use entente_domain::arcp::sessions::dialects::Dialect;

/// Properties of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Connection {
    /// Requested dialect.
    pub dialect: Option<Dialect>,
    /// Whether frames are lines of text.
    pub lines: bool,
    /// Address of the client; `None` for a local pipe.
    pub address: Option<IpAddr>,
}

/// Result of reading from a connection.
#[derive(Debug)]
enum Incoming {
    /// A frame.
    Text(String),
    /// Invalid input, after which the connection continues.
    Noise(&'static str),
    /// Invalid input, after which nothing more can be read.
    Broken(&'static str),
    /// A ping of the transport.
    Ping(Bytes),
    /// A sign of life without content.
    Breath,
    /// The client has disconnected.
    Gone,
}

/// Reason why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The client ended the session.
    Done,
    /// The client was refused, or has lost its access.
    Refused,
    /// The client has fallen silent (`HEARTBEAT_LOST`).
    Silent,
    /// The client's input was too large, or not a frame.
    Broken,
    /// The session was resumed on another connection.
    Taken,
    /// The session was idle for too long.
    Idle,
    /// The server stops: the client should reconnect, here or elsewhere.
    Restart,
    /// The client has disconnected.
    Gone,
}

/// The receiving half of a connection.
trait FrameSource {
    /// Reads the next input; cancel safe: nothing is lost if the future is dropped.
    fn hear(&mut self) -> impl Future<Output = Incoming>;
}

/// The sending half of a connection.
trait FrameSink {
    /// Sends a frame as soon as there is room; returns false if the client has disconnected.
    fn say(&mut self, frame: String) -> impl Future<Output = bool>;

    /// Sends a ping, if the transport has one; returns false if the client has disconnected.
    fn ping(&mut self) -> impl Future<Output = bool>;

    /// Answers a ping of the transport.
    fn pong(&mut self, ping: &[u8]) -> impl Future<Output = bool>;

    /// Closes the connection.
    fn end(self, how: Ending) -> impl Future<Output = ()>;
}
