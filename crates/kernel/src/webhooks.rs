//! What all that has to do with webhooks shares on one server: how a record is written for a receiver, who receives, and
//! who is to be woken. The tables are those of `endpoints.rs`, `fanout.rs`, `replays.rs` and `deliveries.rs`.

use std::time::Duration;

use entente_domain::clock::Timestamp;
use entente_domain::egress::Allowed;
use entente_domain::ids::{ChannelId, IntentId};
use tokio::sync::{Mutex, Notify};

use super::Outcome;
use super::endpoints::Audience;
use super::mailboxes::Letter;
use crate::feed::Record;

/// What the operator says about webhooks.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// What is exempt from the rule that only the public internet is sent to.
    pub allowed: Allowed,
    /// Whether only https URLs are sent to.
    pub https_only: bool,
    /// How long a receiver may take to answer.
    pub timeout: Duration,
    /// How long finished deliveries are kept.
    pub retention: Duration,
    /// Subscriptions of one principal at the most.
    pub per_principal: u32,
}

/// What is sent, the same for all who get it.
#[derive(Debug, Clone)]
pub struct Post {
    /// The header `webhook-id`: what it tells has this id wherever and however often it is told.
    pub webhook_id: String,
    /// Its type.
    pub kind: String,
    /// The body.
    pub body: String,
    /// The place of what it tells; `None` for a ping and for what lies in a
    /// mailbox.
    pub told: Option<(IntentId, i64)>,
    /// The channel that it happened on.
    pub channel_id: Option<ChannelId>,
    /// The trace that it belongs to (RFC-0020).
    pub trace_id: Option<String>,
    /// When it happened.
    pub at: Timestamp,
}

/// Writes a record for a receiver; `None` for one that another stands for. The door knows how things are written.
pub type Encode = fn(&Record) -> Option<Post>;

/// Writes an envelope in somebody's mailbox for a receiver.
pub type EncodeItem = fn(&str, Letter) -> Outcome<Post>;

/// What is shared.
pub struct Webhooks {
    /// How a record is written.
    pub encode: Encode,
    /// How an envelope in a mailbox is written.
    pub encode_item: EncodeItem,
    /// Those who receive, as this server last knew them.
    pub(crate) audience: Mutex<Audience>,
    /// Something was queued.
    queued: Notify,
}

impl Webhooks {
    /// Nobody receives yet.
    #[must_use]
    pub fn new(encode: Encode, encode_item: EncodeItem) -> Self {
        Self { encode, encode_item, audience: Mutex::default(), queued: Notify::new() }
    }

    /// Whether anybody receives, as this server last knew.
    pub async fn has_listeners(&self) -> bool {
        !self.audience.lock().await.listeners.is_empty()
    }

    /// Says that something was queued.
    pub fn wake(&self) {
        self.queued.notify_one();
    }

    /// Resolves when something was queued since the last time.
    pub async fn queued(&self) {
        self.queued.notified().await;
    }
}
