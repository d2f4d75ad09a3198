//! Deliveries (RFC-0022): work requested by a peer.
//!
//! The peer's signature is checked first, then the request; then the server accepts or rejects it, with a
//! reason.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::dispatches::{DelegationScope, check_object, worked_by};
use super::{Federation, Peer, signing};
use crate::canonical::{Digest, sha256};
use crate::clock::Timestamp;
use crate::identity::principals::check_name;
use crate::limits::{NAME_BYTES, URL_BYTES};
use crate::openintent::intents::{IntentAsk, IntentStatus};
use crate::refusal::{Code, Refusal};

/// The member with the time of a delivery's signature.
pub const STAMP: &str = "created_at";

/// A delivery from a peer; unknown members are covered by the signature and otherwise ignored.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[schema(as = FederationDelivery)]
#[schema(example = json!({
    "dispatch_id": "disp_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "source_server": "https://a.example", "target_server": "https://b.example",
    "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "intent_title": "Translate the manual", "created_at": "2026-11-21T08:00:00+00:00",
    "signature": "…"
}))]
pub struct Delivery {
    /// The peer's id for the delivery; repeated deliveries with the same id are processed once.
    pub dispatch_id: String,
    /// The sender, by URL or DID.
    pub source_server: String,
    /// The addressee; required in a signed delivery.
    pub target_server: Option<String>,
    /// The peer's own intent.
    pub intent_id: String,
    /// The intent's title.
    pub intent_title: String,
    /// The intent's description.
    pub intent_description: Option<String>,
    /// The intent's state so far.
    #[schema(value_type = Option<Object>)]
    pub intent_state: Option<Map<String, Value>>,
    /// The intent's constraints.
    #[schema(value_type = Option<Object>)]
    pub intent_constraints: Option<Map<String, Value>>,
    /// The agent of this server that is to do the work.
    pub agent_id: Option<String>,
    /// The rights delegated with it.
    pub delegation_scope: Option<DelegationScope>,
    /// The policy to be observed here.
    #[schema(value_type = Option<Object>)]
    pub federation_policy: Option<Map<String, Value>>,
    /// The trace that it belongs to.
    #[schema(value_type = Option<Object>)]
    pub trace_context: Option<Map<String, Value>>,
    /// Where the peer wants to receive callbacks: a URL of its own server.
    pub callback_url: Option<String>,
}

/// Returns a hash that is equal for all attempts at one delivery: it covers everything except the signing
/// time.
#[must_use]
pub fn fingerprint(body: &Map<String, Value>) -> Digest {
    let mut bare = body.clone();
    bare.remove(STAMP);
    sha256(signing::canonical(&bare))
}

/// Checks that a signed delivery is from the peer, for this server, and recent.
///
/// Because it names its target, a delivery signed for another server cannot be replayed here.
///
/// # Errors
/// [`Code::SignatureRequired`], [`Code::BadSignature`], [`Code::OutsideWindow`], [`Code::Forbidden`].
pub fn check_signed(
    federation: &Federation,
    peer: &Peer,
    delivery: &Delivery,
    body: &Map<String, Value>,
    now: Timestamp,
) -> Result<(), Refusal> {
    signing::check(body, &peer.keys)?;
    if !delivery.target_server.as_deref().is_some_and(|name| federation.is_called(name)) {
        let message = "`target_server` is not this server: what was signed for another one is not taken.";
        return Err(Refusal::field(Code::Forbidden, "target_server", "other", message));
    }
    signing::check_fresh(body, STAMP, now)
}

impl Delivery {
    /// Checks the request against the peer's rights.
    ///
    /// # Errors
    /// [`Code::Forbidden`] if the peer may not deliver; invalid names or an invalid scope; a callback URL
    /// outside the peer's own server.
    pub fn check(&self, peer: &Peer) -> Result<(), Refusal> {
        if !peer.delivers {
            let message = "The operator of this server takes no work from that peer.";
            return Err(Refusal::new(Code::Forbidden, message));
        }
        for (member, name) in [("dispatch_id", &self.dispatch_id), ("intent_id", &self.intent_id)] {
            if name.is_empty() || name.len() > NAME_BYTES || !name.bytes().all(|byte| byte.is_ascii_graphic())
            {
                let message = format!("`{member}` must have 1 to {NAME_BYTES} printable ASCII characters.");
                return Err(Refusal::field(Code::InvalidRequest, member, "invalid_name", message));
            }
        }
        self.agent_id.as_deref().map_or(Ok(()), |agent| check_name("agent_id", agent))?;
        self.delegation_scope.as_ref().map_or(Ok(()), DelegationScope::check)?;
        check_object("federation_policy", self.federation_policy.as_ref())?;
        check_object("trace_context", self.trace_context.as_ref())?;
        if self.callback_url.as_ref().is_some_and(|url| url.len() > URL_BYTES || !peer.owns(url)) {
            let message = "`callback_url` must lead to the peer's own server, by the scheme, host and port that it is known by.";
            return Err(Refusal::field(Code::Unprocessable, "callback_url", "origin", message));
        }
        Ok(())
    }

    /// Returns why it is rejected, if it is; `served` means that the named agent exists and is exported to
    /// the peer.
    #[must_use]
    pub fn rejection(&self, served: bool, now: Timestamp) -> Option<&'static str> {
        let budget = self.federation_policy.as_ref().and_then(|policy| policy.get("budget"));
        let nothing =
            |name: &str| budget.and_then(|b| b.get(name)).and_then(Value::as_f64).is_some_and(|n| n <= 0.0);
        if !served {
            return Some("Rejected: no such agent is exported to you here");
        }
        if self.delegation_scope.as_ref().is_some_and(|scope| scope.has_ended(now)) {
            return Some("Rejected: the delegation_scope has expired");
        }
        if nothing("max_llm_tokens") || nothing("cost_ceiling_usd") {
            return Some("Rejected: the budget of the federation_policy allows nothing");
        }
        None
    }

    /// Returns the input for the intent to be created here.
    #[must_use]
    pub fn intent(&self) -> IntentAsk {
        IntentAsk {
            title: self.intent_title.clone(),
            description: self.intent_description.clone().unwrap_or_default(),
            parent_id: None,
            depends_on: Vec::new(),
            constraints: self.intent_constraints.clone().unwrap_or_default(),
            state: self.intent_state.as_ref().map(worked_by).unwrap_or_default(),
            status: IntentStatus::Active,
            governance_policy: None,
        }
    }

    /// Returns the id of the trace that it belongs to, if valid.
    #[must_use]
    pub fn trace_id(&self) -> Option<String> {
        let named = self.trace_context.as_ref()?.get("trace_id")?.as_str()?;
        crate::log::events::check_trace_id(named).is_ok().then(|| named.to_owned())
    }
}
