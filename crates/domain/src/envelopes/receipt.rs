//! What the gateway says of an envelope that it took in: beside it, never in it.

use serde::{Deserialize, Serialize};

use super::signing::Scope;
use super::{Priority, Warning};
use crate::clock::{Timestamp, rfc3339};

/// What vouches for an envelope's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Voucher {
    /// A signature by a key of the sender's (AEE §8).
    Sig,
    /// The API key that it came with.
    Token,
    /// The gateway wrote it.
    Gateway,
}

impl Voucher {
    /// The voucher as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sig => "sig",
            Self::Token => "token",
            Self::Gateway => "gateway",
        }
    }

    /// Reads a voucher; `None` when there is no such thing.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Sig, Self::Token, Self::Gateway].into_iter().find(|one| one.as_str() == text)
    }
}

/// What vouches for the sender, and with which key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = EnvelopeVerified)]
pub struct Verified {
    /// What.
    pub by: Voucher,
    /// With which of the sender's keys, when it is signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// `core` when the signature binds the ten members of AEE §8 and no others: whoever carried the envelope may have changed
    /// `priority`, `requires`, `trace` and all that the draft does not name. Not there when it binds everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

impl Verified {
    /// Vouched for by something that is no signature.
    #[must_use]
    pub fn by(voucher: Voucher) -> Self {
        Self { by: voucher, kid: None, scope: None }
    }

    /// Vouched for by a signature.
    #[must_use]
    pub fn signed(kid: String, scope: Scope) -> Self {
        Self { by: Voucher::Sig, kid: Some(kid), scope: (scope == Scope::Core).then_some(scope) }
    }
}

/// What has become of an envelope when its receipt is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ReceiptStatus)]
pub enum ReceiptStatus {
    /// It lies where its recipients find it.
    Accepted,
    /// A person has to agree first.
    Held,
    /// It was for the server, which has answered.
    Answered,
    /// A rule leaves something out of it: its recipients have an envelope of the server's instead (AEE §11.5).
    Redacted,
}

/// A receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = EnvelopeReceipt)]
pub struct Receipt {
    /// The envelope's id.
    pub id: String,
    /// What has become of it.
    pub status: ReceiptStatus,
    /// When it was taken in.
    #[serde(serialize_with = "moment")]
    #[schema(value_type = String)]
    pub received_at: Timestamp,
    /// Its number in its recipient's mailbox; none for a channel's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    /// In how many mailboxes it was put.
    pub delivered: i32,
    /// The priority that it is handed out by.
    pub effective_priority: Priority,
    /// Until when a task's answer counts.
    #[serde(serialize_with = "perhaps", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub deadline: Option<Timestamp>,
    /// What vouches for its sender.
    pub verified: Verified,
    /// What is not as it should be.
    pub warnings: Vec<Warning>,
}

fn moment<S: serde::Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&rfc3339(*at))
}

#[expect(clippy::ref_option, reason = "serde hands it over like this")]
fn perhaps<S: serde::Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    at.map(rfc3339).serialize(to)
}
