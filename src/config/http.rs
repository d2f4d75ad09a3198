//! Settings of the API: clients' time limits, concurrency per key, and the default access policy of new
//! intents.

use std::time::Duration;

use entente_domain::access::Policy;

use super::Reader;

/// Configuration of the API.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Time limit for receiving a request's body.
    pub body: Duration,
    /// Time limit for a client to read an answer, per page's worth of it.
    pub write: Duration,
    /// Concurrent requests per key at most, besides streams and waiting requests.
    pub max_requests_per_key: usize,
    /// Default access policy of a new intent (RFC-0011).
    pub default_access: Policy,
}

impl Reader<'_> {
    pub(super) fn http(&mut self) -> HttpConfig {
        HttpConfig {
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
