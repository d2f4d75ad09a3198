//! What is configured about the door itself: how long a client may take, what one key may have under way, and to whom a new
//! intent is open.

use std::time::Duration;

use entente_domain::access::Policy;

use super::Reader;

/// The configuration of the door.
#[derive(Debug, Clone)]
pub struct DoorConfig {
    /// How long the body of a request may take to come.
    pub body: Duration,
    /// How long an answer may take to be read, for each page's worth of it.
    pub write: Duration,
    /// Requests under way per key at the most, besides streams and those that wait.
    pub max_requests_per_key: usize,
    /// To whom a new intent is open that says nothing of it (RFC-0011).
    pub default_access: Policy,
}

impl Reader<'_> {
    pub(super) fn door(&mut self) -> DoorConfig {
        DoorConfig {
            body: Duration::from_secs(self.number("ENTENTE_BODY_SECONDS", 30, 1..=3_600)),
            write: Duration::from_secs(self.number("ENTENTE_WRITE_SECONDS", 60, 1..=3_600)),
            max_requests_per_key: self.number("ENTENTE_MAX_REQUESTS_PER_KEY", 1_000, 1..=1_000_000),
            default_access: match self.text("ENTENTE_DEFAULT_ACCESS").as_deref() {
                None | Some("open") => Policy::Open,
                Some("closed") => Policy::Closed,
                Some(other) => {
                    let fault = format!("ENTENTE_DEFAULT_ACCESS={other}: must be `open` or `closed`");
                    self.faults.push(fault);
                    Policy::Closed
                }
            },
        }
    }
}
