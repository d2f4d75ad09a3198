//! Provisioners: who makes credentials and takes them back (ARCP §9.8). What one is asked and answers is here; how it is
//! asked is `src/background/provision`, which this floor does not know.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use entente_domain::clock::Timestamp;
use entente_domain::credentials::{Bounds, Rule, alias};
use entente_domain::ids::{CredentialId, JobId};
use entente_domain::jobs::Job;
use serde_json::Value;
use tokio::sync::Notify;

/// What a provisioner is asked for.
#[derive(Debug, Clone)]
pub struct Order {
    /// The credential.
    pub credential_id: CredentialId,
    /// Which of its values.
    pub generation: u32,
    /// For which job.
    pub job_id: JobId,
    /// Its agent, resolved.
    pub agent: String,
    /// Who submitted it.
    pub principal: String,
    /// What the credential must not go beyond.
    pub bounds: Bounds,
    /// When it is asked for.
    pub now: Timestamp,
}

impl Order {
    /// The name that the value is asked for under.
    #[must_use]
    pub fn alias(&self) -> String {
        alias(self.credential_id, self.generation)
    }
}

/// A value that was made.
#[derive(Clone)]
pub struct Minted {
    /// The secret.
    pub value: String,
    /// What the upstream calls it.
    pub upstream_id: Option<String>,
    /// Where it is good.
    pub endpoint: String,
    /// Which protocol is spoken there.
    pub profile: Option<String>,
    /// What the upstream enforces by itself.
    pub constraints: Option<Value>,
}

impl fmt::Debug for Minted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Minted(… for {})", self.endpoint)
    }
}

/// A value that is to be taken back, or that another takes the place of.
#[derive(Clone)]
pub struct Target {
    /// The credential.
    pub credential_id: CredentialId,
    /// Which of its values.
    pub generation: u32,
    /// Whose it was.
    pub job_id: JobId,
    /// Whether the worker brought it: the upstream does not know it by our alias.
    pub given: bool,
    /// What the upstream calls it, if that was ever heard.
    pub upstream_id: Option<String>,
    /// The secret, if it was ever heard.
    pub value: Option<String>,
    /// When this is asked.
    pub now: Timestamp,
}

impl Target {
    /// The name that the value was asked for under.
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

/// Why a provisioner did not do what it was asked.
#[derive(Debug, Clone)]
pub struct Trouble {
    /// In words, without secrets.
    pub why: String,
    /// Seconds after which it wants to be asked again.
    pub retry_after: Option<u32>,
    /// Whether it may have been done all the same: the request was sent, and what came of it is not known.
    pub perhaps: bool,
}

/// An answer that is waited for.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Trouble>> + Send + 'a>>;

/// One kind of upstream. Each call is one conversation over the network, with an end; never made inside a transaction.
pub trait Upstream: Send + Sync {
    /// Makes a value.
    fn mint<'a>(&'a self, order: &'a Order) -> Answer<'a, Minted>;

    /// Makes a value that takes the place of another. That one is taken back afterwards, by [`Self::revoke`].
    fn rotate<'a>(&'a self, order: &'a Order, _prior: &'a Target) -> Answer<'a, Minted> {
        self.mint(order)
    }

    /// Whether it can take back what somebody else made there.
    fn takes_given(&self) -> bool {
        false
    }

    /// Takes a value back. That there is none is as good.
    fn revoke<'a>(&'a self, target: &'a Target) -> Answer<'a, ()>;
}

/// An upstream with its name and the jobs that it is for.
#[derive(Clone)]
pub struct Provisioner {
    /// Its name in the operator's file.
    pub name: String,
    /// Which jobs.
    pub rule: Rule,
    /// Where it can be reached.
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
    /// These. `private` is whether nobody else can read what clients are told (§14).
    #[must_use]
    pub fn new(list: Vec<Provisioner>, private: bool) -> Self {
        Self { list, private, queued: Notify::new() }
    }

    /// Whether clients may be told that there are credentials: somebody makes them and takes them back, and nobody else
    /// reads along. Without that none is made (§14).
    #[must_use]
    pub fn offered(&self) -> bool {
        self.private && !self.list.is_empty()
    }

    /// Those that a job gets a credential from.
    pub fn wanted<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Provisioner> {
        self.list.iter().filter(|provisioner| self.offered() && provisioner.rule.wants(job))
    }

    /// One by its name. Also when none is offered any more: what is out has to be taken back.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Provisioner> {
        self.list.iter().find(|provisioner| provisioner.name == name)
    }

    /// Says that something waits to be taken back.
    pub fn ring(&self) {
        self.queued.notify_one();
    }

    /// Resolves when something was said to wait.
    pub async fn queued(&self) {
        self.queued.notified().await;
    }
}
