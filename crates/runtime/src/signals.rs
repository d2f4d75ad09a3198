//! The signals that stop a process.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that tell a server to stop: SIGTERM and Ctrl-C. They are listened to from the first moment on, so that
/// one that comes while the server starts leaves nothing behind either.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Resolves when the server is told to stop.
    pub async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
