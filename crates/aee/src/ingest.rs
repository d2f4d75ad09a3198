//! Ingest of envelopes (AEE): envelopes are stored and put into mailboxes, many in one commit
//! (`store/src/commit.rs`).
//!
//! `envelopes.rs` decides whether an envelope may be sent; `ingest/batch.rs` processes a batch; the rows are in the
//! modules of their tables.

mod batch;
mod context;
mod handler;
mod links;
mod push;

use std::time::Duration;

use chrono::TimeDelta;
use entente_domain::aee::envelopes::purposes::Pattern;
use entente_domain::aee::envelopes::quotas::Rates;
use entente_domain::aee::envelopes::receipt::{Receipt, Verified, Voucher};
use entente_domain::aee::envelopes::window::Window;
use entente_domain::aee::envelopes::{Envelope, Priority, Warning, hash, read};
use entente_domain::canonical::{Digest, sha256};
use entente_domain::clock::Timestamp;
use entente_domain::ids::NodeId;
use entente_domain::refusal::Refusal;
use entente_runtime::tasks::Tasks;
use entente_store::commit::GroupCommit;

use crate::Ctx;
use crate::envelopes::note;
pub use crate::ingest::batch::put;
pub use crate::ingest::batch::put_beside;
pub use crate::ingest::handler::IngestHandler;
pub use crate::ingest::handler::Known;
pub(crate) use crate::ingest::links::passage;
pub(crate) use crate::ingest::push::push;
use crate::refutations::Refutation;
use entente_kernel::Outcome;
use entente_kernel::feed::WakeKey;

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
    pub fn memory(&self) -> TimeDelta {
        let long = |time: Duration| TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX);
        long(self.retention).max(long(self.max_timeout)).max(self.window.memory())
    }
}

/// A prepared envelope: it may be sent, and carries the facts established about it.
#[derive(Debug, Clone)]
pub struct PreparedEnvelope {
    /// The parsed envelope.
    pub envelope: Envelope,
    /// The text as it was received.
    pub body: String,
    /// Principal of the key that handed it in; `None` for the gateway's own.
    pub principal: Option<String>,
    /// Proof of its sender.
    pub verified: Verified,
    /// Priority for its delivery.
    pub effective: Priority,
    /// Time until which a task's answer counts.
    pub deadline: Option<Timestamp>,
    /// Warnings for the sender.
    pub warnings: Vec<Warning>,
    /// The envelope that the gateway derived it from.
    pub original: Option<Original>,
    /// How it is processed.
    pub disposition: Disposition,
    /// The envelope that the gateway derived from it; both are accepted in one transaction, or neither.
    pub made: Option<Box<PreparedEnvelope>>,
    /// Refutation that it states, which takes effect once it is accepted.
    pub refutation: Option<Refutation>,
    /// Version of the policy snapshot that admitted it; `None` if no policy applies.
    pub judged: Option<i64>,
    /// SHA-256 of the received text.
    pub digest: Digest,
    /// Hash that references to it carry.
    pub hash: String,
}

/// An envelope that the gateway derived another one from.
#[derive(Debug, Clone)]
pub struct Original {
    /// Its id.
    pub id: String,
    /// Its sender.
    pub sender: String,
    /// Whether it was signed.
    pub signed: bool,
    /// Whether it was accepted earlier; otherwise it is in the same batch, and the derived envelope falls with it.
    pub kept: bool,
}

impl Original {
    /// Describes an envelope that is accepted together with the one derived from it.
    pub(crate) fn of(envelope: &Envelope) -> Self {
        let signed = envelope.sig().is_some();
        Self { id: envelope.id.clone(), sender: envelope.sender.clone(), signed, kept: false }
    }
}

/// Processing of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// It is put into mailboxes.
    Deliver,
    /// A person must approve it first.
    Hold,
    /// It is stored but not delivered: it was answered at once, or is such an answer.
    Keep,
    /// It is stored, and its recipients get the envelope that the gateway derived from it.
    Withhold,
}

impl PreparedEnvelope {
    /// Prepares an envelope that the gateway wrote itself.
    pub fn own(envelope: Envelope) -> Outcome<Self> {
        let body = serde_json::to_string(&envelope.members)?;
        let warnings = envelope.warnings.clone();
        Ok(Self {
            effective: envelope.priority,
            digest: sha256(&body),
            hash: hash(&envelope.members),
            judged: None,
            body,
            principal: None,
            verified: Verified::by(Voucher::Gateway),
            deadline: None,
            warnings,
            original: None,
            disposition: Disposition::Deliver,
            made: None,
            refutation: None,
            envelope,
        })
    }

    /// Like [`Self::own`], for an envelope that repeats content of others.
    ///
    /// It is refused if it exceeds the limits for senders, because its recipient may be as strict as this server.
    pub(crate) fn repeating(envelope: Envelope) -> Outcome<Self> {
        let prepared = Self::own(envelope)?;
        read(prepared.body.as_bytes()).map_err(|refusal| {
            let message = format!("With what the gateway adds when it hands this on: {}", refusal.message);
            Refusal { message, ..refusal }
        })?;
        Ok(prepared)
    }

    /// Returns the author of the content: for a derived envelope, the sender of the original.
    pub(crate) fn speaker(&self) -> &str {
        self.original.as_ref().map_or(self.envelope.sender.as_str(), |original| original.sender.as_str())
    }

    /// Whether the author signed the content.
    pub(crate) fn is_signed(&self) -> bool {
        self.original.as_ref().map_or(self.verified.by == Voucher::Sig, |original| original.signed)
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
