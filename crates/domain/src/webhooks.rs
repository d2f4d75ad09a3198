//! Receivers of webhooks: subscriptions (RFC-0006) and agents' endpoints (RFC-0016), their filters and their status.
//! Forms of bodies are in `formats.rs`, sinks at brokers in `sinks.rs`, signing is in `signing.rs`, retries in `retries.rs`, address
//! restrictions in `egress.rs`.

pub mod formats;
pub mod retries;
pub mod signing;
pub mod sinks;

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::canonical::sha256;
use crate::clock::Timestamp;
use crate::globs::glob_matches;
use crate::identity::principals::check_name;
use crate::ids::{ChannelId, EndpointId, IntentId, PortfolioId};
use crate::limits::LIST_ITEMS;
use crate::log::kinds::{Kind, MESSAGE_EVENTS, names};
use crate::refusal::{Code, Refusal};
use crate::webhooks::formats::BodyFormat;
use crate::webhooks::signing::Scheme;
use crate::webhooks::sinks::Sink;

/// Event type of a delivered message (RFC-0021 §2.4), and its alias in filters (OI-10.7.1).
pub const MESSAGE: [&str; 2] = MESSAGE_EVENTS;

/// Event type of a test delivery.
pub const PING: &str = "ping";

/// Returns the `webhook-id` of a message receipt, which has no id of its own; it is the same on every server.
#[must_use]
pub fn receipt_id(intent: IntentId, seq: i64) -> String {
    let digest = sha256(format!("receipt\0{intent}\0{seq}"));
    let bits = digest.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
    format!("rcpt_{}", Ulid(bits))
}

/// Event type of a delivered mailbox envelope.
pub const ENVELOPE: &str = "aee.envelope";

/// Returns the `webhook-id` of a mailbox envelope; it is the same on every attempt and server.
#[must_use]
pub fn item_id(entity: &str, seq: i64) -> String {
    let digest = sha256(format!("item\0{entity}\0{seq}"));
    let bits = digest.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
    format!("item_{}", Ulid(bits))
}

/// Event type of a ring of an agent's inbox. A subscription must name it: a filter of all types is one of records.
pub const RING: &str = "inbox.ring";

/// Returns the types of the server's own events; clients post others.
pub fn own_types() -> impl Iterator<Item = &'static str> {
    Kind::ALL.iter().map(|kind| kind.wire()).chain(MESSAGE).chain([PING, ENVELOPE, RING])
}

/// Returns the `webhook-id` of a ring; it is the same on every attempt and server, and another in an inbox that was closed and
/// opened again.
#[must_use]
pub fn ring_id(agent: &str, opened_at: Timestamp, place: i64, rings: i32) -> String {
    let digest = sha256(format!("ring\0{agent}\0{}\0{place}\0{rings}", opened_at.timestamp_micros()));
    let bits = digest.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
    format!("ring_{}", Ulid(bits))
}

/// Origin of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EndpointKind {
    /// A subscription (RFC-0006).
    Subscription,
    /// An agent registered with an `endpoint` (RFC-0016): receives everything that concerns the agent.
    Agent,
    /// A subscription to the mailbox of an entity (AEE §5): receives every envelope in it.
    Mailbox,
}

impl EndpointKind {
    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Subscription => "subscription",
            Self::Agent => "agent",
            Self::Mailbox => "mailbox",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Subscription, Self::Agent, Self::Mailbox].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Reason why a receiver is disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DisabledReason {
    /// Disabled by its owner.
    Asked,
    /// Answered 410: it has gone permanently.
    Gone,
    /// Failed continuously for five days.
    Failing,
    /// Its backlog exceeded the limit.
    Backlog,
}

impl DisabledReason {
    /// All reasons.
    const ALL: [Self; 4] = [Self::Asked, Self::Gone, Self::Failing, Self::Backlog];

    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Gone => "gone",
            Self::Failing => "failing",
            Self::Backlog => "backlog",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// A receiver of webhooks, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Identifier.
    pub id: EndpointId,
    /// Origin.
    pub kind: EndpointKind,
    /// Principal that owns it.
    pub principal_id: String,
    /// Agent with the view that the receiver shares.
    pub agent_id: String,
    /// Restriction to this intent.
    pub intent_id: Option<IntentId>,
    /// Restriction to this channel.
    pub channel_id: Option<ChannelId>,
    /// Restriction to this portfolio; missing in responses stored by an older server for a retry.
    #[serde(default)]
    pub portfolio_id: Option<PortfolioId>,
    /// Event types, globs with `*`; empty for all.
    pub event_types: Vec<String>,
    /// Target URL, or the address of a sink; without one nothing is sent (the SDK creates such subscriptions, RFC-0006).
    pub url: Option<String>,
    /// Form of the bodies; missing in responses stored by an older server for a retry.
    #[serde(default)]
    pub format: BodyFormat,
    /// Signature scheme.
    pub signature: Scheme,
    /// Public half of the signing key (`v1a`).
    pub public_key: Option<String>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Expiry time.
    pub expires_at: Option<Timestamp>,
    /// Time and reason of disabling.
    pub disabled: Option<(Timestamp, DisabledReason)>,
}

/// Request to create a subscription.
#[derive(Debug, Clone)]
pub struct EndpointAsk {
    /// Whether it is to the mailbox of its agent's entity, instead of events.
    pub mailbox: bool,
    /// Restriction to this intent.
    pub intent_id: Option<IntentId>,
    /// Restriction to this channel.
    pub channel_id: Option<ChannelId>,
    /// Restriction to this portfolio.
    pub portfolio_id: Option<PortfolioId>,
    /// Event types.
    pub event_types: Vec<String>,
    /// Target URL.
    pub url: Option<String>,
    /// Sink to publish to instead.
    pub sink: Option<Sink>,
    /// Form of the bodies; defaults to the standard one, and to `CloudEvents` for a sink, which has no other.
    pub format: Option<BodyFormat>,
    /// Signature scheme; defaults to `v1`.
    pub signature: Scheme,
    /// Expiry time.
    pub expires_at: Option<Timestamp>,
}

/// A change of a subscription; members that are `None` stay as they are.
#[derive(Debug, Clone, Default)]
pub struct EndpointChange {
    /// New target URL.
    pub url: Option<String>,
    /// New event types.
    pub event_types: Option<Vec<String>>,
    /// Whether it is enabled.
    pub active: Option<bool>,
    /// Expiry time.
    pub expires_at: Option<Timestamp>,
}

impl Endpoint {
    /// Creates a subscription; whether its URL is allowed is decided by `egress`, whether its sink is by the operator.
    ///
    /// # Errors
    /// An invalid filter, or an expiry time in the past.
    pub fn subscribe(
        ask: EndpointAsk,
        id: EndpointId,
        principal_id: &str,
        agent_id: &str,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        check_types(&ask.event_types)?;
        check_end(ask.expires_at, now)?;
        let kind = if ask.mailbox { EndpointKind::Mailbox } else { EndpointKind::Subscription };
        let narrowed = ask.intent_id.is_some() || ask.channel_id.is_some();
        if ask.mailbox && (narrowed || ask.portfolio_id.is_some()) {
            return Err(whole_mailbox());
        }
        if narrowed && ask.portfolio_id.is_some() {
            let message = "A subscription is to an intent, a channel or a portfolio. Name one of them.";
            return Err(Refusal::field(Code::Unprocessable, "portfolio_id", "either", message));
        }
        check_whole(kind, &ask.event_types)?;
        check_rings(narrowed || ask.portfolio_id.is_some(), &ask.event_types)?;
        let format = check_format(&ask)?;
        let url = ask.sink.map(|sink| sink.address()).or(ask.url);
        Ok(Self {
            id,
            kind,
            principal_id: principal_id.to_owned(),
            agent_id: agent_id.to_owned(),
            intent_id: ask.intent_id,
            channel_id: ask.channel_id,
            portfolio_id: ask.portfolio_id,
            event_types: ask.event_types,
            url,
            format,
            signature: ask.signature,
            public_key: None,
            created_at: now,
            expires_at: ask.expires_at,
            disabled: None,
        })
    }

    /// Creates the endpoint of an agent registered with this URL.
    #[must_use]
    pub fn of_agent(id: EndpointId, principal_id: &str, agent_id: &str, url: &str, now: Timestamp) -> Self {
        Self {
            id,
            kind: EndpointKind::Agent,
            principal_id: principal_id.to_owned(),
            agent_id: agent_id.to_owned(),
            intent_id: None,
            channel_id: None,
            portfolio_id: None,
            event_types: Vec::new(),
            url: Some(url.to_owned()),
            format: BodyFormat::Standard,
            signature: Scheme::V1,
            public_key: None,
            created_at: now,
            expires_at: None,
            disabled: None,
        }
    }

    /// Returns the endpoint after a change by its owner.
    ///
    /// # Errors
    /// An invalid filter, an expiry time in the past, or a new URL for an agent's endpoint, which is set by registration.
    pub fn changed(&self, change: EndpointChange, now: Timestamp) -> Result<Self, Refusal> {
        let mut next = self.clone();
        if let Some(types) = change.event_types {
            check_types(&types)?;
            check_whole(self.kind, &types)?;
            let narrowed =
                self.intent_id.is_some() || self.channel_id.is_some() || self.portfolio_id.is_some();
            check_rings(narrowed, &types)?;
            next.event_types = types;
        }
        if change.expires_at.is_some() {
            check_end(change.expires_at, now)?;
            next.expires_at = change.expires_at;
        }
        if let Some(url) = change.url {
            if self.kind == EndpointKind::Agent && self.url.as_ref() != Some(&url) {
                let message =
                    "An agent's endpoint is changed by registering the agent with another `endpoint`.";
                return Err(Refusal::field(Code::Unprocessable, "webhook_url", "agent", message));
            }
            if self.sink().is_some() {
                let message = "A subscription to a sink keeps its topic. Make another one, and delete this.";
                return Err(Refusal::field(Code::Unprocessable, "webhook_url", "sink", message));
            }
            next.url = Some(url);
        }
        match change.active {
            Some(true) => next.disabled = None,
            Some(false) => next.disabled = next.disabled.or(Some((now, DisabledReason::Asked))),
            None => {}
        }
        Ok(next)
    }

    /// Returns the sink that it publishes to, if it has no URL.
    #[must_use]
    pub fn sink(&self) -> Option<Sink> {
        self.url.as_deref().and_then(Sink::parse)
    }

    /// Returns whether deliveries are sent at this time.
    #[must_use]
    pub fn live(&self, now: Timestamp) -> bool {
        self.url.is_some() && self.active(now)
    }

    /// Returns whether it has neither expired nor been disabled.
    #[must_use]
    pub fn active(&self, now: Timestamp) -> bool {
        self.disabled.is_none() && self.expires_at.is_none_or(|end| end > now)
    }

    /// Returns whether it subscribed to the rings of its agent's inbox.
    #[must_use]
    pub fn hears_rings(&self) -> bool {
        self.event_types.iter().any(|name| name == RING)
    }

    /// Returns whether it subscribed to this event type.
    #[must_use]
    pub fn wants(&self, event_type: &str) -> bool {
        let said = |name: &str| self.event_types.iter().any(|glob| glob_matches(glob, name));
        self.event_types.is_empty() || names(event_type).any(said)
    }
}

/// Returns the form of a subscription's bodies.
fn check_format(ask: &EndpointAsk) -> Result<BodyFormat, Refusal> {
    let Some(_) = &ask.sink else { return Ok(ask.format.unwrap_or_default()) };
    if ask.url.is_some() {
        let message = "A subscription has a `webhook_url` or a `sink`. Name one of them.";
        return Err(Refusal::field(Code::Unprocessable, "sink", "either", message));
    }
    match ask.format {
        None | Some(BodyFormat::CloudEvents) => Ok(BodyFormat::CloudEvents),
        Some(BodyFormat::Standard) => {
            let message = "A sink gets CloudEvents. Leave out `format`.";
            Err(Refusal::field(Code::Unprocessable, "format", "sink", message))
        }
    }
}

/// Refuses filters for mailboxes: filtered numbers would have gaps that look like lost envelopes.
fn check_whole(kind: EndpointKind, types: &[String]) -> Result<(), Refusal> {
    if kind == EndpointKind::Mailbox && !types.is_empty() { Err(whole_mailbox()) } else { Ok(()) }
}

/// Refuses rings of an intent, a channel or a portfolio: an inbox is of all that reaches its agent.
fn check_rings(narrowed: bool, types: &[String]) -> Result<(), Refusal> {
    if !narrowed || types.iter().all(|name| name != RING) {
        return Ok(());
    }
    let message = format!(
        "`{RING}` is of the agent's whole inbox. Leave out `intent_id`, `channel_id` and `portfolio_id`, or subscribe to it apart."
    );
    Err(Refusal::field(Code::Unprocessable, "event_types", "whole", message))
}

fn whole_mailbox() -> Refusal {
    let message = "A subscription to a mailbox is to all of it. Leave out `intent_id`, `channel_id`, `portfolio_id` and \
         `event_types`.";
    Refusal::field(Code::Unprocessable, "mailbox", "whole", message)
}

fn check_types(types: &[String]) -> Result<(), Refusal> {
    if types.len() > LIST_ITEMS {
        let message = format!("`event_types` has {} items, at most {LIST_ITEMS} are allowed.", types.len());
        return Err(Refusal::field(Code::TooLarge, "event_types", "too_long", message));
    }
    // A bare `*` is a term of addressing, and not a name elsewhere.
    types.iter().filter(|name| *name != "*").try_for_each(|name| check_name("event_types", name))
}

fn check_end(end: Option<Timestamp>, now: Timestamp) -> Result<(), Refusal> {
    if end.is_none_or(|end| end > now) {
        return Ok(());
    }
    let message = "`expires_at` lies in the past. Give a later time, or none for no end.";
    Err(Refusal::field(Code::AlreadyExpired, "expires_at", "past", message))
}

/// Status of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryStatus {
    /// Waits for its first or next attempt.
    Waiting,
    /// Accepted by the receiver.
    Delivered,
    /// All scheduled attempts failed.
    Failed,
    /// Cancelled: its owner may no longer see the content, or the content no longer exists.
    Dropped,
}

impl DeliveryStatus {
    /// All statuses.
    const ALL: [Self; 4] = [Self::Waiting, Self::Delivered, Self::Failed, Self::Dropped];

    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}
