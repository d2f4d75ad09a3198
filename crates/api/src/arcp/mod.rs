//! The doors of ARCP: sessions over WebSocket (`socket.rs`) and over stdio (`stdio.rs`). A connection is an ear and a mouth;
//! `session.rs` carries a conversation between them and the deeds, `asking.rs` asks these. What may be said when is the law's
//! (`entente_domain::sessions`); nothing here decides.

mod asking;
mod session;
pub mod socket;
pub mod stdio;

use std::future::Future;
use std::net::IpAddr;

use bytes::Bytes;
use entente_domain::sessions::dialects::Dialect;

/// What a connection is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Line {
    /// The dialect that was asked for.
    pub dialect: Option<Dialect>,
    /// Whether frames are lines.
    pub lines: bool,
    /// Where the other end is, when it is not this machine's own pipe.
    pub address: Option<IpAddr>,
}

/// What is heard.
#[derive(Debug)]
enum Heard {
    /// A frame.
    Text(String),
    /// Something that is none; the connection goes on.
    Noise(&'static str),
    /// Something after which nothing more can be read.
    Broken(&'static str),
    /// A ping of the transport.
    Ping(Bytes),
    /// Nothing that matters.
    Breath,
    /// The other side is gone.
    Gone,
}

/// How a connection is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// As the client wanted.
    Done,
    /// The client was not let in, or no longer is.
    Refused,
    /// The client has fallen silent (`HEARTBEAT_LOST`).
    Silent,
    /// What it sent was too large, or no frame at all.
    Broken,
    /// The session was resumed on another connection.
    Taken,
    /// Nothing has happened for a long time.
    Idle,
    /// The server stops: come back, here or elsewhere.
    Restart,
    /// The other side is gone.
    Gone,
}

/// The incoming half of a connection.
trait Ear {
    /// What is heard next. Nothing is lost when this is given up and asked again.
    fn hear(&mut self) -> impl Future<Output = Heard>;
}

/// The outgoing half.
trait Mouth {
    /// Sends a frame, as soon as there is room. False when the other side is gone.
    fn say(&mut self, frame: String) -> impl Future<Output = bool>;

    /// Asks for a sign of life, where the transport has one. False when the other side is gone.
    fn ping(&mut self) -> impl Future<Output = bool>;

    /// Answers a ping of the transport.
    fn pong(&mut self, ping: &[u8]) -> impl Future<Output = bool>;

    /// Ends the connection.
    fn end(self, how: Ending) -> impl Future<Output = ()>;
}
