//! Provisioners, which mint and revoke credentials (ARCP §9.8): their requests and answers. The
//! implementations are in `src/background/provision`, which this crate does not know.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use entente_domain::arcp::credentials::{Bounds, Rule, alias};
use entente_domain::arcp::jobs::Job;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{CredentialId, JobId};
use serde_json::Value;
use tokio::sync::Notify;

/// A request for a value.
#[derive(Debug, Clone)]
pub struct Order {
    /// The credential.
    pub credential_id: CredentialId,
    /// The value's generation.
    pub generation: u32,
    /// The job that it is for.
    pub job_id: JobId,
    /// The job's agent, resolved.
    pub agent: String,
    /// The principal that submitted the job.
    pub principal: String,
    /// The limits of the credential.
    pub bounds: Bounds,
    /// When it is requested.
    pub now: Timestamp,
}

impl Order {
    /// Returns the name under which the value is requested.
    #[must_use]
    pub fn alias(&self) -> String {
        alias(self.credential_id, self.generation)
    }
}

/// A minted value.
#[derive(Clone)]
pub struct Minted {
    /// The secret.
    pub value: String,
    /// The upstream's id for it.
    pub upstream_id: Option<String>,
    /// The endpoint that accepts it.
    pub endpoint: String,
    /// The protocol of that endpoint.
    pub profile: Option<String>,
    /// The constraints that the upstream enforces.
    pub constraints: Option<Value>,
}

impl fmt::Debug for Minted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Minted(… for {})", self.endpoint)
    }
}

/// A value to be revoked or replaced.
#[derive(Clone)]
pub struct Target {
    /// The credential.
    pub credential_id: CredentialId,
    /// The value's generation.
    pub generation: u32,
    /// The job that it was made for.
    pub job_id: JobId,
    /// Whether the worker supplied it, so that the upstream does not know it by our alias.
    pub given: bool,
    /// The upstream's id for it, if known.
    pub upstream_id: Option<String>,
    /// The secret, if known.
    pub value: Option<String>,
    /// When the request is made.
    pub now: Timestamp,
}

impl Target {
    /// Returns the name under which the value was requested.
    #[must_use]
    pub fn alias(&self) -> String {
        alias(self.credential_id, self.generation)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.alias())
    }
}

/// An error of a provisioner.
#[derive(Debug, Clone)]
pub struct ProvisionerError {
    /// The reason, without secrets.
    pub why: String,
    /// Seconds after which to retry.
    pub retry_after: Option<u32>,
    /// Whether it may have succeeded all the same: the request was sent, but its outcome is unknown.
    pub perhaps: bool,
}

/// A pending answer.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ProvisionerError>> + Send + 'a>>;

/// One kind of upstream; each call talks to the network for a bounded time, and is never made inside a
/// transaction.
pub trait Upstream: Send + Sync {
    /// Mints a value.
    fn mint<'a>(&'a self, order: &'a Order) -> Answer<'a, Minted>;

    /// Mints a value that replaces another, which is revoked afterwards by [`Self::revoke`].
    fn rotate<'a>(&'a self, order: &'a Order, _prior: &'a Target) -> Answer<'a, Minted> {
        self.mint(order)
    }

    /// Whether it can revoke values made by somebody else.
    fn takes_given(&self) -> bool {
        false
    }

    /// Revokes a value; succeeds if it no longer exists.
    fn revoke<'a>(&'a self, target: &'a Target) -> Answer<'a, ()>;
}

/// An upstream with its name and the rule for its jobs.
#[derive(Clone)]
pub struct Provisioner {
    /// Its name in the operator's configuration file.
    pub name: String,
    /// The rule that selects its jobs.
    pub rule: Rule,
    /// The upstream.
    pub upstream: Arc<dyn Upstream>,
}

/// All provisioners of a server.
#[derive(Default)]
pub struct Provisioners {
    list: Vec<Provisioner>,
    private: bool,
    queued: Notify,
}

impl Provisioners {
    /// Creates the set; `private` states that nobody else can read the messages to clients (§14).
    #[must_use]
    pub fn new(list: Vec<Provisioner>, private: bool) -> Self {
        Self { list, private, queued: Notify::new() }
    }

    /// Whether credentials are offered to clients: there are provisioners, and nobody else can read along;
    /// otherwise none is minted (§14).
    #[must_use]
    pub fn offered(&self) -> bool {
        self.private && !self.list.is_empty()
    }

    /// Returns the provisioners that a job gets a credential from.
    pub fn wanted<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Provisioner> {
        self.list.iter().filter(|provisioner| self.offered() && provisioner.rule.wants(job))
    }

    /// Returns a provisioner by name, even if none are offered any more, because existing values must be
    /// revoked.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Provisioner> {
        self.list.iter().find(|provisioner| provisioner.name == name)
    }

    /// Signals that values wait for revocation.
    pub fn ring(&self) {
        self.queued.notify_one();
    }

    /// Resolves at the next such signal.
    pub async fn queued(&self) {
        self.queued.notified().await;
    }
}
