//! Receivers of webhooks: subscriptions (RFC-0006) and agents' endpoints (RFC-0016), what they ask for and whether they
//! are live. Signing is `signing.rs`, trying again `retries.rs`, where requests may go `egress.rs`.

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::canonical::sha256;
use crate::clock::Timestamp;
use crate::ids::{ChannelId, EndpointId, IntentId, PortfolioId};
use crate::keys::glob_matches;
use crate::limits::LIST_ITEMS;
use crate::principals::check_name;
use crate::refusal::{Code, Refusal};
use crate::signing::Scheme;

/// The type under which a message is delivered (RFC-0021 §2.4), and its other name in a filter (contract 10.7).
pub const MESSAGE: [&str; 2] = ["channel_message", "channel.message"];

/// The type of the delivery that only tests whether a receiver works.
pub const PING: &str = "ping";

/// The `webhook-id` of what happened to a message, which has no id of its own: the same wherever it is made.
#[must_use]
pub fn receipt_id(intent: IntentId, seq: i64) -> String {
    let digest = sha256(format!("receipt\0{intent}\0{seq}"));
    let bits = digest.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
    format!("rcpt_{}", Ulid(bits))
}

/// The type under which an envelope in a mailbox is delivered.
pub const ENVELOPE: &str = "aee.envelope";

/// The `webhook-id` of an envelope in a mailbox: the same on every attempt and server.
#[must_use]
pub fn item_id(entity: &str, seq: i64) -> String {
    let digest = sha256(format!("item\0{entity}\0{seq}"));
    let bits = digest.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
    format!("item_{}", Ulid(bits))
}

/// What a receiver came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EndpointKind {
    /// Somebody subscribed (RFC-0006).
    Subscription,
    /// An agent registered with an `endpoint` (RFC-0016): it gets what concerns it.
    Agent,
    /// Somebody subscribed to the mailbox of an entity (AEE §5): it gets every envelope that is put there.
    Mailbox,
}

impl EndpointKind {
    /// The kind as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Subscription => "subscription",
            Self::Agent => "agent",
            Self::Mailbox => "mailbox",
        }
    }

    /// Reads a kind; `None` when there is no such kind.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Subscription, Self::Agent, Self::Mailbox].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Why a receiver is not tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DisabledReason {
    /// Its owner wanted it so.
    Asked,
    /// It answered 410: it is gone for good.
    Gone,
    /// Nothing but failures for five days.
    Failing,
    /// More waits for it than is kept for anybody.
    Backlog,
}

impl DisabledReason {
    /// Every reason.
    const ALL: [Self; 4] = [Self::Asked, Self::Gone, Self::Failing, Self::Backlog];

    /// The reason as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Gone => "gone",
            Self::Failing => "failing",
            Self::Backlog => "backlog",
        }
    }

    /// Reads a reason; `None` when there is no such reason.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// A receiver of webhooks, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Its id.
    pub id: EndpointId,
    /// What it came from.
    pub kind: EndpointKind,
    /// Whose it is.
    pub principal_id: String,
    /// The agent that it sees as.
    pub agent_id: String,
    /// Only of this intent.
    pub intent_id: Option<IntentId>,
    /// Only of this channel.
    pub channel_id: Option<ChannelId>,
    /// Only of this portfolio. Missing in what an older server kept for a retry.
    #[serde(default)]
    pub portfolio_id: Option<PortfolioId>,
    /// Only of these types, globs with `*`; empty for all.
    pub event_types: Vec<String>,
    /// Where to send; without it nothing is sent (the SDK makes such, RFC-0006).
    pub url: Option<String>,
    /// How it is signed.
    pub signature: Scheme,
    /// The public half of the key that signs (`v1a`).
    pub public_key: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// Since when it is not tried, and why.
    pub disabled: Option<(Timestamp, DisabledReason)>,
}

/// What is asked for in a subscription.
#[derive(Debug, Clone)]
pub struct EndpointAsk {
    /// Of the mailbox of the entity that it sees as, instead of what happens.
    pub mailbox: bool,
    /// Only of this intent.
    pub intent_id: Option<IntentId>,
    /// Only of this channel.
    pub channel_id: Option<ChannelId>,
    /// Only of this portfolio.
    pub portfolio_id: Option<PortfolioId>,
    /// Only of these types.
    pub event_types: Vec<String>,
    /// Where to send.
    pub url: Option<String>,
    /// How to sign; `v1` when nothing is said.
    pub signature: Scheme,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// A change of a subscription: what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct EndpointChange {
    /// Where to send from now on.
    pub url: Option<String>,
    /// Only of these types from now on.
    pub event_types: Option<Vec<String>>,
    /// Whether it is tried.
    pub active: Option<bool>,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

impl Endpoint {
    /// A subscription. That its URL may be sent to is for `egress` to say.
    ///
    /// # Errors
    /// A filter that is none; an end that lies in the past.
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
        Ok(Self {
            id,
            kind,
            principal_id: principal_id.to_owned(),
            agent_id: agent_id.to_owned(),
            intent_id: ask.intent_id,
            channel_id: ask.channel_id,
            portfolio_id: ask.portfolio_id,
            event_types: ask.event_types,
            url: ask.url,
            signature: ask.signature,
            public_key: None,
            created_at: now,
            expires_at: ask.expires_at,
            disabled: None,
        })
    }

    /// The endpoint of an agent that registered with this URL.
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
            signature: Scheme::V1,
            public_key: None,
            created_at: now,
            expires_at: None,
            disabled: None,
        }
    }

    /// The endpoint after a change by its owner.
    ///
    /// # Errors
    /// A filter that is none; an end that lies in the past; a URL for the endpoint of an agent, which registers with it.
    pub fn changed(&self, change: EndpointChange, now: Timestamp) -> Result<Self, Refusal> {
        let mut next = self.clone();
        if let Some(types) = change.event_types {
            check_types(&types)?;
            check_whole(self.kind, &types)?;
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
            next.url = Some(url);
        }
        match change.active {
            Some(true) => next.disabled = None,
            Some(false) => next.disabled = next.disabled.or(Some((now, DisabledReason::Asked))),
            None => {}
        }
        Ok(next)
    }

    /// Whether things are sent there at this moment.
    #[must_use]
    pub fn live(&self, now: Timestamp) -> bool {
        self.url.is_some() && self.active(now)
    }

    /// Whether it has neither ended nor been disabled.
    #[must_use]
    pub fn active(&self, now: Timestamp) -> bool {
        self.disabled.is_none() && self.expires_at.is_none_or(|end| end > now)
    }

    /// Whether it asked for things of this type.
    #[must_use]
    pub fn wants(&self, event_type: &str) -> bool {
        let said = |name: &str| self.event_types.iter().any(|glob| glob_matches(glob, name));
        let names: &[&str] = if event_type == MESSAGE[0] { &MESSAGE } else { &[event_type] };
        self.event_types.is_empty() || names.iter().any(|name| said(name))
    }
}

/// A mailbox is received whole: its numbers would have gaps otherwise, and nobody could tell what was lost from what was
/// left out.
fn check_whole(kind: EndpointKind, types: &[String]) -> Result<(), Refusal> {
    if kind == EndpointKind::Mailbox && !types.is_empty() { Err(whole_mailbox()) } else { Ok(()) }
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
    // `*` alone is a word of addressing, and no name elsewhere.
    types.iter().filter(|name| *name != "*").try_for_each(|name| check_name("event_types", name))
}

fn check_end(end: Option<Timestamp>, now: Timestamp) -> Result<(), Refusal> {
    if end.is_none_or(|end| end > now) {
        return Ok(());
    }
    let message = "`expires_at` lies in the past. Give a later time, or none for no end.";
    Err(Refusal::field(Code::AlreadyExpired, "expires_at", "past", message))
}

/// What has become of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryStatus {
    /// It waits for its first or another attempt.
    Waiting,
    /// The receiver took it.
    Delivered,
    /// Tried as often as the schedule says, and given up.
    Failed,
    /// Not sent any more: its owner may no longer see what it tells, or it is no longer there.
    Dropped,
}

impl DeliveryStatus {
    /// Every status.
    const ALL: [Self; 4] = [Self::Waiting, Self::Delivered, Self::Failed, Self::Dropped];

    /// The status as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }

    /// Reads a status; `None` when there is no such status.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}
