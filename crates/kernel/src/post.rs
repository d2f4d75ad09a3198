//! The post (AEE): where envelopes are handed in to be kept and put into mailboxes, many in one commit (`store/src/commit.rs`).
//!
//! Whether one may be sent is `envelopes.rs`; what a batch does is `post/batch.rs`; the rows are their nouns'.

mod batch;
mod desk;
mod links;
mod posting;
mod push;

use std::time::Duration;

use chrono::TimeDelta;
use entente_domain::canonical::{Digest, sha256};
use entente_domain::clock::Timestamp;
use entente_domain::envelopes::purposes::Pattern;
use entente_domain::envelopes::quotas::Rates;
use entente_domain::envelopes::receipt::{Receipt, Verified, Voucher};
use entente_domain::envelopes::window::Window;
use entente_domain::envelopes::{Envelope, Priority, Warning, hash, read};
use entente_domain::ids::NodeId;
use entente_domain::refusal::Refusal;
use entente_runtime::tasks::Tasks;
use entente_store::commit::GroupCommit;

pub(crate) use self::batch::{put, put_beside};
pub(crate) use self::links::passage;
pub(crate) use self::posting::Known;
use self::posting::Posting;
pub(crate) use self::push::push;
use super::envelopes::note;
use super::refutations::Refutation;
use super::{Ctx, Outcome};
use crate::feed::Touch;

/// When envelopes must be signed (AEE §11.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signatures {
    /// Where a rule says so, and where another's envelope is passed on.
    Never,
    /// Besides, wherever any rule is for the link: there is a boundary.
    Boundary,
    /// Always.
    Always,
}

/// A principal that may hand in the signed envelopes of others.
#[derive(Debug, Clone)]
pub struct Relay {
    /// Who.
    pub principal: String,
    /// Whose: a pattern over entities.
    pub entities: Pattern,
}

/// What the operator says about the post.
#[derive(Debug, Clone)]
pub struct PostSettings {
    /// The name under which the server itself is written to, and writes.
    pub entity: String,
    /// How old an envelope may be.
    pub window: Window,
    /// When envelopes must be signed.
    pub signatures: Signatures,
    /// The longest time that a task may take.
    pub max_timeout: Duration,
    /// How long envelopes are kept.
    pub retention: Duration,
    /// Who may hand in the signed envelopes of others.
    pub relays: Vec<Relay>,
    /// Names in the protocol's space that are taken although it does not define them.
    pub tolerated: Vec<Pattern>,
    /// Whether a reference's wrong hash is refused; else it is a warning.
    pub strict_references: bool,
    /// How pressing each sender may be.
    pub quotas: Rates,
    /// The person who agrees to tasks that need one; anybody who is a person when there is none.
    pub approver: Option<String>,
}

impl PostSettings {
    /// How long envelopes are kept: never shorter than one with the same id could be taken in (AEE §11.1), nor than a task
    /// may take.
    pub(crate) fn memory(&self) -> TimeDelta {
        let long = |time: Duration| TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX);
        long(self.retention).max(long(self.max_timeout)).max(self.window.memory())
    }
}

/// An envelope that may be sent, with what stands beside it.
#[derive(Debug, Clone)]
pub struct Parcel {
    /// What it says.
    pub envelope: Envelope,
    /// The text it came in.
    pub body: String,
    /// Whose key it came with; none for the gateway's own.
    pub principal: Option<String>,
    /// What vouches for its sender.
    pub verified: Verified,
    /// The priority that it is handed out by.
    pub effective: Priority,
    /// Until when a task's answer counts.
    pub deadline: Option<Timestamp>,
    /// What is not as it should be.
    pub warnings: Vec<Warning>,
    /// The envelope that the gateway made it from.
    pub original: Option<Original>,
    /// What is done with it.
    pub way: Way,
    /// What the gateway made from it: it is taken in with it, in one transaction, or not at all.
    pub made: Option<Box<Parcel>>,
    /// What it rejects, which counts once it is taken in.
    pub refutation: Option<Refutation>,
    /// The version of the rulebook that it was judged by; none for what is judged by nobody's rules.
    pub judged: Option<i64>,
    /// SHA-256 of the text it came in.
    pub digest: Digest,
    /// What references name it by.
    pub hash: String,
}

/// An envelope that the gateway made another one from.
#[derive(Debug, Clone)]
pub struct Original {
    /// Its id.
    pub id: String,
    /// Who sent it.
    pub sender: String,
    /// Whether it was signed.
    pub signed: bool,
    /// Whether it was taken in before; else it is in the same batch, and what was made from it falls if it is refused.
    pub kept: bool,
}

impl Original {
    /// One that is taken in with what was made from it.
    pub(crate) fn of(envelope: &Envelope) -> Self {
        let signed = envelope.sig().is_some();
        Self { id: envelope.id.clone(), sender: envelope.sender.clone(), signed, kept: false }
    }
}

/// What is done with an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It goes into mailboxes.
    Deliver,
    /// A person has to agree first.
    Hold,
    /// It is kept, and goes nowhere: it was answered at once, or is such an answer.
    Keep,
    /// It is kept, and its recipients get what the gateway made from it.
    Withhold,
}

impl Parcel {
    /// An envelope that the gateway wrote itself.
    pub(crate) fn own(envelope: Envelope) -> Outcome<Self> {
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
            way: Way::Deliver,
            made: None,
            refutation: None,
            envelope,
        })
    }

    /// As [`Self::own`], of a letter that repeats what others have written: what is more than anybody may send is
    /// refused, because whoever gets it may be as strict as this server.
    pub(crate) fn repeating(envelope: Envelope) -> Outcome<Self> {
        let parcel = Self::own(envelope)?;
        read(parcel.body.as_bytes()).map_err(|refusal| {
            let message = format!("With what the gateway adds when it hands this on: {}", refusal.message);
            Refusal { message, ..refusal }
        })?;
        Ok(parcel)
    }

    /// Who says what it says: of what the gateway made from an envelope, that one's sender.
    pub(crate) fn speaker(&self) -> &str {
        self.original.as_ref().map_or(self.envelope.sender.as_str(), |original| original.sender.as_str())
    }

    /// Whether what it says was signed by who says it.
    pub(crate) fn is_signed(&self) -> bool {
        self.original.as_ref().map_or(self.verified.by == Voucher::Sig, |original| original.signed)
    }
}

/// What came of a batch.
pub(crate) struct Put {
    /// An answer for each parcel.
    pub answers: Vec<Outcome<Receipt>>,
    /// Whose mailboxes have something new.
    pub touched: Vec<String>,
    /// Whether something of it is to be sent to somebody.
    pub pushed: bool,
    /// What is written down of it (AEE §6.8), and as what.
    pub noted: Vec<(&'static str, Envelope)>,
}

impl Put {
    /// Wakes whoever waits at the mailboxes, and who sends, and writes down what went on. After the commit.
    pub fn announce(&self, ctx: &Ctx) {
        for entity in &self.touched {
            ctx.feed.ring(Touch::Mailbox(entity.clone()));
        }
        if self.pushed {
            ctx.webhooks.wake();
        }
        for (what, envelope) in &self.noted {
            note(what, envelope);
        }
    }
}

/// Where envelopes are handed in.
pub struct Post(GroupCommit<Posting>);

impl Post {
    /// Starts the writers, which work with this context.
    #[must_use]
    pub fn start(ctx: &Ctx, node: NodeId, writers: usize, tasks: &Tasks) -> Self {
        Self(GroupCommit::start(Posting::new(ctx, node), writers, tasks, &ctx.metrics))
    }

    /// Has every writer write something, within `limit`.
    ///
    /// # Errors
    /// What is wrong.
    pub async fn probe(&self, limit: Duration) -> Result<(), String> {
        self.0.probe(limit).await
    }

    /// Has envelopes kept and delivered, each with what stands or falls with it; resolves after they are committed, with
    /// the receipt of the first of each bundle. Those of one call go to one writer, in their order.
    pub(crate) async fn hand_in(&self, mut bundles: Vec<Vec<Parcel>>) -> Vec<Outcome<Receipt>> {
        // A writer needs the text and what was read of it; the tree may be many times as large, and thousands may wait.
        for parcel in bundles.iter_mut().flatten() {
            parcel.envelope.members.clear();
        }
        // Those to one recipient meet in one queue, so that writers rarely wait for each other.
        let shard = bundles.first().map_or(0, |bundle| shard_of(bundle));
        let answers = self.0.submit(shard, bundles).await;
        answers.into_iter().map(|answer| answer?).collect()
    }
}

/// Where an envelope meets others to its recipient.
fn shard_of(bundle: &[Parcel]) -> u64 {
    bundle.first().map_or(0, |parcel| shard(&parcel.envelope.recipient))
}

fn shard(recipient: &str) -> u64 {
    sha256(recipient).first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}
