//! Signals that stop the process.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that stop a server: SIGTERM and Ctrl-C.
///
/// Registered before anything else, so that a signal during startup also ends in a clean stop.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Registers the signal handlers.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Resolves when a stop signal arrives.
    pub async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
