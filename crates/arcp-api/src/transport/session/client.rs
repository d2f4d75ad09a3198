//! The client of a session: its connection and, once it is admitted, its identity.

use super::super::Connection;
use super::super::asking::Backend;

/// The client at the other end.
pub(super) struct Client {
    pub line: Connection,
    /// Calls operations on the client's behalf; `None` until it is admitted.
    pub backend: Option<Backend>,
    /// Whether it is still unconfirmed that the client of a resumed session has received the welcome, and with it its new
    /// token.
    pub unheard: bool,
    /// Bytes of its frames that were not counted for a quota yet: its next request counts them.
    pub came: usize,
}

impl Client {
    pub fn new(line: Connection) -> Self {
        Self { line, backend: None, unheard: false, came: 0 }
    }

    /// Admits the client.
    pub fn admit(&mut self, backend: Backend) {
        self.unheard = backend.entered.connection > 1;
        self.backend = Some(backend);
    }

    /// Notes a sign of life; returns the backend that records it if it is the first after the welcome of a resumed
    /// session.
    pub fn note_life(&mut self) -> Option<Backend> {
        let backend = self.backend.as_ref().filter(|_| self.unheard)?.clone();
        self.unheard = false;
        Some(backend)
    }

    /// Waits until the client has lost its access.
    pub async fn voided(&self) {
        match &self.backend {
            Some(backend) => backend.caller.grant.voided().await,
            None => std::future::pending().await,
        }
    }
}
