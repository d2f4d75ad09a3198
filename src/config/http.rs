//! Settings of the API: clients' time limits, concurrency per key, quotas, and the default access policy of new
//! intents.

use std::time::Duration;

use entente_domain::access::Policy;
use entente_domain::identity::quotas::{Defaults, MOST, Quota};

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
    /// Quotas of principals and teams for which an admin has set none.
    pub quotas: Defaults,
    /// Default access policy of a new intent (RFC-0011).
    pub default_access: Policy,
}

impl Reader<'_> {
    pub(super) fn http(&mut self) -> HttpConfig {
        HttpConfig {
            body: Duration::from_secs(self.number("ENTENTE_BODY_SECONDS", 30, 1..=3_600)),
            write: Duration::from_secs(self.number("ENTENTE_WRITE_SECONDS", 60, 1..=3_600)),
            max_requests_per_key: self.number("ENTENTE_MAX_REQUESTS_PER_KEY", 1_000, 1..=1_000_000),
            quotas: Defaults {
                principal: self.quota(
                    "ENTENTE_PRINCIPAL_OPEN_REQUESTS",
                    "ENTENTE_PRINCIPAL_BYTES_PER_MINUTE",
                    "ENTENTE_PRINCIPAL_STORAGE_BYTES",
                ),
                team: self.quota(
                    "ENTENTE_TEAM_OPEN_REQUESTS",
                    "ENTENTE_TEAM_BYTES_PER_MINUTE",
                    "ENTENTE_TEAM_STORAGE_BYTES",
                ),
            },
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

    fn quota(&mut self, open_requests: &str, bytes_per_minute: &str, storage_bytes: &str) -> Quota {
        let mut limit = |name: &str| {
            self.parsed(name, 0, "a number from 0 (no limit) to 9007199254740991", |limit| *limit <= MOST)
        };
        Quota {
            open_requests: limit(open_requests),
            bytes_per_minute: limit(bytes_per_minute),
            storage_bytes: limit(storage_bytes),
        }
    }
}
