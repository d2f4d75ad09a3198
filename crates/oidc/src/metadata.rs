//! The provider's published metadata: its addresses and keys. They are asked for when somebody logs in, kept for an
//! hour, and asked for anew when a key is unknown. While the provider is away, each login is refused at once.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openidconnect::core::CoreProviderMetadata;
use openidconnect::{DiscoveryError, IssuerUrl};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::{Fault, short};

/// A request to the provider.
pub type Request = http::Request<Vec<u8>>;
/// An answer of the provider.
pub type Response = http::Response<Vec<u8>>;
/// A request under way.
pub type Sending = Pin<Box<dyn Future<Output = Result<Response, Unreachable>> + Send>>;

/// Sends requests to the provider.
pub trait Transport: Send + Sync {
    /// Sends one request, within a time limit.
    fn send(&self, request: Request) -> Sending;
}

/// Reason for a missing answer.
#[derive(Debug)]
pub struct Unreachable(pub String);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreachable {}

/// Addresses and keys of the provider.
pub type Metadata = CoreProviderMetadata;

/// Time that they are kept.
const KEPT: Duration = Duration::from_hours(1);

/// Time for asking for both.
const TIME: Duration = Duration::from_secs(8);

/// Time after a failure in which nobody else waits for the provider.
const PAUSE: Duration = Duration::from_secs(3);

/// Addresses and keys as far as they are known.
pub struct Known {
    issuer: IssuerUrl,
    latest: Mutex<Latest>,
}

#[derive(Default)]
struct Latest {
    found: Option<(Instant, Arc<Metadata>)>,
    failed: Option<(Instant, Fault)>,
}

impl Known {
    pub fn new(issuer: IssuerUrl) -> Self {
        Self { issuer, latest: Mutex::default() }
    }

    /// Returns addresses and keys with the time at which they were found, later than `after`.
    ///
    /// One login asks the provider, and all others wait for that.
    pub async fn current(
        &self,
        transport: &dyn Transport,
        after: Option<Instant>,
    ) -> Result<(Instant, Arc<Metadata>), Fault> {
        let mut latest = self.latest.lock().await;
        if let Some((at, found)) = &latest.found
            && at.elapsed() < KEPT
            && after.is_none_or(|after| *at > after)
        {
            return Ok((*at, Arc::clone(found)));
        }
        if let Some((at, fault)) = &latest.failed
            && at.elapsed() < PAUSE
        {
            return Err(fault.clone());
        }
        match self.discover(transport).await {
            Ok(found) => {
                let (at, found) = (Instant::now(), Arc::new(found));
                *latest = Latest { found: Some((at, Arc::clone(&found))), failed: None };
                Ok((at, found))
            }
            Err(fault) => {
                latest.failed = Some((Instant::now(), fault.clone()));
                Err(fault)
            }
        }
    }

    async fn discover(&self, transport: &dyn Transport) -> Result<Metadata, Fault> {
        let send = |request| transport.send(request);
        let asked = timeout(TIME, Metadata::discover_async(self.issuer.clone(), &send)).await;
        let found = asked.map_err(|_late| Fault::Away("it did not answer in time".to_owned()))?;
        found.map_err(|fault| match fault {
            DiscoveryError::Request(Unreachable(why)) => Fault::Away(why),
            DiscoveryError::Response(status, _, _) if status.is_server_error() => {
                Fault::Away(format!("it answers with status {}", status.as_u16()))
            }
            DiscoveryError::Response(status, _, _) => {
                Fault::Distrusted(format!("its discovery document has status {}", status.as_u16()))
            }
            DiscoveryError::Parse(fault) => Fault::Distrusted(short(fault.inner())),
            other => Fault::Distrusted(short(&other)),
        })
    }
}
