//! Receipts: the gateway's statements about an ingested envelope, kept beside it, never in it.

use serde::{Deserialize, Serialize};

use super::signing::Scope;
use super::{Priority, Warning};
use crate::clock::{Timestamp, rfc3339};

/// The proof of an envelope's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Voucher {
    /// A signature by a key of the sender's (AEE §8).
    Sig,
    /// The API key that it was submitted with.
    Token,
    /// The gateway wrote it.
    Gateway,
}

impl Voucher {
    /// Returns the voucher's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sig => "sig",
            Self::Token => "token",
            Self::Gateway => "gateway",
        }
    }

    /// Parses a voucher's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Sig, Self::Token, Self::Gateway].into_iter().find(|one| one.as_str() == text)
    }
}

/// The check of a signature that proves nothing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = SignatureCheck)]
pub enum SigCheck {
    /// The signature is of a form that the gateway cannot verify (AEE-W-9.6).
    Unverified,
}

/// The proof of an envelope's sender, with its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = EnvelopeVerified)]
pub struct Verified {
    /// The kind of proof.
    pub by: Voucher,
    /// The sender's key, if the envelope is signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// `core` if the signature covers only the ten members of AEE §8: intermediaries may have changed
    /// `priority`, `requires`, `trace` and all members that the draft does not define; absent if it covers
    /// everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// `unverified` if the envelope has a signature of another form, which nobody has checked: the sender is proven by
    /// the API key alone; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sig: Option<SigCheck>,
}

impl Verified {
    /// Creates a proof other than a signature.
    #[must_use]
    pub fn by(voucher: Voucher) -> Self {
        Self { by: voucher, kid: None, scope: None, sig: None }
    }

    /// Creates the proof by API key of an envelope whose signature cannot be verified (AEE-W-9.6).
    #[must_use]
    pub fn unchecked() -> Self {
        Self { sig: Some(SigCheck::Unverified), ..Self::by(Voucher::Token) }
    }

    /// Creates a proof by signature.
    #[must_use]
    pub fn signed(kid: String, scope: Scope) -> Self {
        Self { by: Voucher::Sig, kid: Some(kid), scope: (scope == Scope::Core).then_some(scope), sig: None }
    }
}

/// The status of an envelope when its receipt is issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ReceiptStatus)]
pub enum ReceiptStatus {
    /// It is in its recipients' mailboxes.
    Accepted,
    /// A person has to approve it first.
    Held,
    /// It was addressed to the server, which has answered.
    Answered,
    /// A rule redacts it: its recipients get an envelope of the server's instead (AEE §11.5).
    Redacted,
}

/// The receipt for an ingested envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = EnvelopeReceipt)]
pub struct Receipt {
    /// The envelope's id.
    pub id: String,
    /// The envelope's status.
    pub status: ReceiptStatus,
    /// When it was ingested.
    #[serde(serialize_with = "moment")]
    #[schema(value_type = String)]
    pub received_at: Timestamp,
    /// Its number in its recipient's mailbox; absent for a channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    /// Number of mailboxes that it was delivered to.
    pub delivered: i32,
    /// The priority that it is delivered with.
    pub effective_priority: Priority,
    /// The deadline for answers to a task.
    #[serde(serialize_with = "perhaps", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub deadline: Option<Timestamp>,
    /// The proof of its sender.
    pub verified: Verified,
    /// The violations of SHOULDs.
    pub warnings: Vec<Warning>,
}

impl Receipt {
    /// Returns the receipt as JSON text, for the refusal of the same envelope.
    #[must_use]
    pub fn json(&self) -> Box<str> {
        // A receipt always has a JSON form.
        serde_json::to_string(self).unwrap_or_default().into_boxed_str()
    }
}

fn moment<S: serde::Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&rfc3339(*at))
}

#[expect(clippy::ref_option, reason = "serde hands it over like this")]
fn perhaps<S: serde::Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    at.map(rfc3339).serialize(to)
}
