//! Ingest of envelopes (AEE): envelopes are stored and put into mailboxes, many in one commit
//! (`store/src/commit.rs`).
//!
//! `acceptance.rs` decides whether an envelope may be sent; `ingest/batch.rs` processes a batch; the rows are in the
//! modules of their tables.

mod batch;
mod context;
mod handler;
mod links;
mod push;

use std::time::Duration;

use chrono::TimeDelta;
use entente_domain::aee::envelopes::Envelope;
use entente_domain::aee::envelopes::purposes::Pattern;
use entente_domain::aee::envelopes::quotas::Rates;
use entente_domain::aee::envelopes::receipt::Receipt;
use entente_domain::aee::envelopes::window::Window;
use entente_domain::canonical::sha256;
use entente_domain::ids::NodeId;
use entente_kernel::Outcome;
use entente_kernel::wakeups::WakeKey;
use entente_runtime::tasks::Tasks;
use entente_store::commit::GroupCommit;

use crate::Ctx;
use crate::envelopes::{PreparedEnvelope, note};
pub use crate::ingest::batch::put;
pub use crate::ingest::batch::put_beside;
use crate::ingest::handler::IngestHandler;
pub(crate) use crate::ingest::handler::fit;
pub(crate) use crate::ingest::links::passage;
pub(crate) use crate::ingest::push::push;

/// When envelopes must be signed (AEE §11.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signatures {
    /// Only where a rule requires it, and where an envelope of another entity is relayed.
    Never,
    /// In addition, wherever any rule applies to the link: there is a boundary.
    Boundary,
    /// Always.
    Always,
}

/// A principal that may hand in the signed envelopes of other entities.
#[derive(Debug, Clone)]
pub struct Relay {
    /// Id of the principal.
    pub principal: String,
    /// Pattern over the entities that it may relay for.
    pub entities: Pattern,
}

/// The operator's settings for envelopes.
#[derive(Debug, Clone)]
pub struct IngestSettings {
    /// Name of the server's own entity, as sender and recipient.
    pub entity: String,
    /// Accepted age of an envelope.
    pub window: Window,
    /// When envelopes must be signed.
    pub signatures: Signatures,
    /// Whether a signature of the draft's own form, which nobody can verify, is passed on unverified; otherwise its
    /// envelope is refused (AEE-W-9.6).
    pub opaque_signatures: bool,
    /// Upper bound of a task's timeout.
    pub max_timeout: Duration,
    /// Retention of envelopes.
    pub retention: Duration,
    /// Principals that may hand in the signed envelopes of other entities.
    pub relays: Vec<Relay>,
    /// Names in the protocol's namespace that are accepted although the protocol does not define them.
    pub tolerated: Vec<Pattern>,
    /// Whether a wrong hash in a reference is refused; otherwise it is a warning.
    pub strict_references: bool,
    /// Per-minute limits of each sender, by priority.
    pub quotas: Rates,
    /// The person that approves tasks which need it; `None` means any person.
    pub approver: Option<String>,
}

impl IngestSettings {
    /// Returns how long envelopes are kept.
    ///
    /// This is at least as long as one with the same id could be accepted (AEE §11.1), and as a task may take.
    #[must_use]
    pub fn memory(&self) -> TimeDelta {
        let long = |time: Duration| TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX);
        long(self.retention).max(long(self.max_timeout)).max(self.window.memory())
    }
}

/// The result of a batch.
pub struct IngestResult {
    /// One answer for each prepared envelope.
    pub answers: Vec<Outcome<Receipt>>,
    /// Entities with new entries in their mailboxes.
    pub touched: Vec<String>,
    /// Whether there is something to push to endpoints.
    pub pushed: bool,
    /// Whether people are told of tasks that wait for their approval.
    pub is_told: bool,
    /// Envelopes to log (AEE §6.8), with the kind of entry.
    pub noted: Vec<(&'static str, Envelope)>,
}

impl IngestResult {
    /// Wakes the readers of the mailboxes and the webhook sender, and writes the log entries; runs after the commit.
    pub fn announce(&self, ctx: &Ctx) {
        for entity in &self.touched {
            ctx.feed.wake(WakeKey::Mailbox(entity.clone()));
        }
        if self.pushed {
            ctx.webhooks.wake();
        }
        if self.is_told {
            ctx.notifications.wake();
        }
        for (what, envelope) in &self.noted {
            note(what, envelope);
        }
    }
}

/// The group commit for envelopes.
pub struct Ingest(GroupCommit<IngestHandler>);

impl Ingest {
    /// Starts the writers with this context.
    #[must_use]
    pub fn start(ctx: &Ctx, node: NodeId, writers: usize, tasks: &Tasks) -> Self {
        Self(GroupCommit::start(IngestHandler::new(ctx, node), writers, tasks, &ctx.metrics))
    }

    /// Has every writer commit a probe write within `limit`.
    ///
    /// # Errors
    /// Returns a description of the failure.
    pub async fn probe(&self, limit: Duration) -> Result<(), String> {
        self.0.probe(limit).await
    }

    /// Stores and delivers bundles of envelopes; each bundle is accepted or refused as a whole.
    ///
    /// Resolves after the commit with the receipt of the first of each bundle. The bundles of one call go to one
    /// writer, in order.
    pub(crate) async fn hand_in(&self, mut bundles: Vec<Vec<PreparedEnvelope>>) -> Vec<Outcome<Receipt>> {
        // A writer needs the text and the parsed fields; the JSON tree may be many times as large, and thousands may
        // wait.
        for prepared in bundles.iter_mut().flatten() {
            prepared.envelope.members.clear();
        }
        // Envelopes to one recipient share a queue, so that writers rarely wait for each other.
        let shard = bundles.first().map_or(0, |bundle| shard_of(bundle));
        let answers = self.0.submit(shard, bundles).await;
        answers.into_iter().map(|answer| answer?).collect()
    }
}

/// Returns the queue for a bundle, by its recipient.
fn shard_of(bundle: &[PreparedEnvelope]) -> u64 {
    bundle.first().map_or(0, |prepared| shard(&prepared.envelope.recipient))
}

fn shard(recipient: &str) -> u64 {
    sha256(recipient).first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}
