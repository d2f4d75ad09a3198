//! Envelopes on their way into the table `aee_envelopes`: they may be sent, and carry the facts established about them.

use entente_domain::aee::envelopes::receipt::{Verified, Voucher};
use entente_domain::aee::envelopes::{Envelope, Priority, Warning, hash, read};
use entente_domain::canonical::{Digest, sha256};
use entente_domain::clock::Timestamp;
use entente_domain::identity::fences::Fence;
use entente_domain::refusal::Refusal;
use entente_kernel::Outcome;

use crate::refutations::Refutation;

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
    /// Conditions that must hold when the envelope is accepted.
    pub fences: Vec<Fence>,
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
        let signed = envelope.is_signed();
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
    ///
    /// # Errors
    /// The envelope cannot be serialized.
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
            fences: Vec::new(),
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
