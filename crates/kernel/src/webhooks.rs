//! Shared state of one server's webhook tasks: the encoding of records for receivers, the receivers, and wake-ups.
//! The tables are in `endpoints.rs`, `fanout.rs`, `replays.rs` and `deliveries.rs`; `rings.rs` queues the rings of inboxes.

pub mod deliveries;
pub mod endpoints;
pub mod fanout;
pub mod replays;
mod rings;

use std::collections::BTreeMap;
use std::time::Duration;

use entente_domain::clock::Timestamp;
use entente_domain::egress::Allowed;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::webhooks::sinks::SinkRule;
use tokio::sync::{Mutex, Notify};

use crate::log::Record;
use crate::webhooks::endpoints::Audience;

/// The operator's settings for webhooks.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// Exemptions from the rule that deliveries go only to the public internet.
    pub allowed: Allowed,
    /// Whether deliveries go only to `https` URLs.
    pub https_only: bool,
    /// Timeout of a receiver's response.
    pub timeout: Duration,
    /// Retention of finished deliveries.
    pub retention: Duration,
    /// Maximum number of subscriptions of one principal.
    pub per_principal: u32,
    /// Brokers that subscriptions may name as sinks.
    pub sinks: BTreeMap<String, SinkRule>,
}

/// A delivery's content, the same for all receivers.
#[derive(Debug, Clone)]
pub struct Post {
    /// The header `webhook-id`: a record has the same id in every delivery.
    pub webhook_id: String,
    /// Type of the record.
    pub kind: String,
    /// The body.
    pub body: String,
    /// Intent and number of the record in the log; `None` for a ping, for an item of a mailbox and for a ring of an inbox.
    pub told: Option<(IntentId, i64)>,
    /// The channel of the record.
    pub channel_id: Option<ChannelId>,
    /// The trace that it belongs to (RFC-0020).
    pub trace_id: Option<String>,
    /// Time of the record.
    pub at: Timestamp,
}

/// Encoder of records for receivers, provided by the API, in strict mode (`Settings::strict`) or not; returns `None` if
/// another record represents this one.
pub type Encode = fn(&Record, bool) -> Option<Post>;

/// State shared by all webhook tasks.
pub struct Webhooks {
    /// Encoder of records.
    pub encode: Encode,
    /// Cached receivers.
    pub(crate) audience: Mutex<Audience>,
    /// Wake-up after a delivery was queued.
    queued: Notify,
}

impl Webhooks {
    /// Creates the state without receivers.
    #[must_use]
    pub fn new(encode: Encode) -> Self {
        Self { encode, audience: Mutex::default(), queued: Notify::new() }
    }

    /// Returns whether there are receivers, by this server's cache.
    pub async fn has_listeners(&self) -> bool {
        !self.audience.lock().await.listeners.is_empty()
    }

    /// Wakes the webhook sender after a delivery was queued.
    pub fn wake(&self) {
        self.queued.notify_one();
    }

    /// Waits until a delivery was queued since the last call.
    pub async fn queued(&self) {
        self.queued.notified().await;
    }
}
