//! Dispatches (RFC-0022): an intent of this server that a peer is to work on. The peer gets a copy, limited
//! in size and to the parts that the operator shares with it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Federation, Part, Peer};
use crate::access::check_list;
use crate::canonical::exact;
use crate::clock::{Timestamp, parse};
use crate::identity::principals::check_name;
use crate::ids::DispatchId;
use crate::limits::{FEDERATED_BYTES, LIST_ITEMS, METADATA_BYTES};
use crate::openintent::intents::{Intent, SUSPENSION};
use crate::refusal::{Code, Refusal};

/// The path of the callback endpoint, below a server's URL.
pub const CALLBACKS: &str = "/api/v1/federation/callbacks";

/// The path of the endpoint for incoming work, below a server's URL.
pub const RECEIVE: &str = "/api/v1/federation/receive";

/// The rights of the peer on the work, and for passing it on (RFC-0023).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = FederationDelegationScope)]
pub struct DelegationScope {
    /// The allowed operations.
    #[serde(default = "usual")]
    pub permissions: Vec<String>,
    /// The denied operations, which take precedence.
    #[serde(default)]
    pub denied_operations: Vec<String>,
    /// Number of times that it may be passed on.
    #[serde(default = "once")]
    pub max_delegation_depth: i64,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

fn usual() -> Vec<String> {
    ["state.patch", "events.log"].map(str::to_owned).to_vec()
}

fn once() -> i64 {
    1
}

impl DelegationScope {
    /// Checks a scope given by a client or a peer, because it becomes part of events and is sent to others.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        check_list("delegation_scope.permissions", &self.permissions)?;
        check_list("delegation_scope.denied_operations", &self.denied_operations)?;
        let message = |what: &str| format!("`delegation_scope.{what}` cannot be used.");
        let fault =
            |what: &str| Refusal::field(Code::InvalidRequest, "delegation_scope", "value", message(what));
        if !(0..=100).contains(&self.max_delegation_depth) {
            return Err(fault("max_delegation_depth"));
        }
        if self.expires_at.as_deref().is_some_and(|text| parse(text).is_none()) {
            return Err(fault("expires_at"));
        }
        Ok(())
    }

    /// Whether its time is over; an unreadable time counts as over.
    #[must_use]
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.expires_at.as_deref().is_some_and(|text| parse(text).is_none_or(|end| end <= now))
    }

    /// Whether it allows an operation.
    #[must_use]
    pub fn allows(&self, operation: &str) -> bool {
        let has = |list: &[String]| list.iter().any(|known| known == operation);
        has(&self.permissions) && !has(&self.denied_operations)
    }

    /// Attenuates the scope for passing on to a server that asked for `child`: never more than this one.
    ///
    /// # Errors
    /// [`Code::Forbidden`] if it may not be passed on, or its time is over; [`Code::TooLarge`] if the denied
    /// operations exceed the limit, because none may be left out.
    pub fn attenuated(&self, child: &Self, now: Timestamp) -> Result<Self, Refusal> {
        if self.max_delegation_depth < 1 || self.has_ended(now) {
            return Err(Refusal::new(
                Code::Forbidden,
                "This intent came from a peer that does not let it be passed on any further (`max_delegation_depth`, \
                 `expires_at` of its delegation_scope).",
            ));
        }
        let mut permissions = child.permissions.clone();
        permissions.retain(|one| self.permissions.contains(one));
        permissions.sort();
        let mut denied: Vec<String> =
            self.denied_operations.iter().chain(&child.denied_operations).cloned().collect();
        denied.sort();
        denied.dedup();
        if denied.len() > LIST_ITEMS {
            let message = format!(
                "With what the intent came with, {} operations would be denied, at most {LIST_ITEMS} can be.",
                denied.len()
            );
            return Err(Refusal::field(Code::TooLarge, "delegation_scope", "too_long", message));
        }
        let ends = [&self.expires_at, &child.expires_at];
        let expires_at = ends.into_iter().flatten().min_by_key(|text| parse(text)).cloned();
        let depth = (self.max_delegation_depth - 1).min(child.max_delegation_depth);
        Ok(Self { permissions, denied_operations: denied, max_delegation_depth: depth, expires_at })
    }
}

impl Default for DelegationScope {
    fn default() -> Self {
        Self {
            permissions: usual(),
            denied_operations: Vec::new(),
            max_delegation_depth: once(),
            expires_at: None,
        }
    }
}

/// Input for a dispatch, in addition to the intent itself.
#[derive(Debug, Clone, Default)]
pub struct DispatchAsk {
    /// The peer, by URL or DID.
    pub target_server: String,
    /// The peer's agent.
    pub agent_id: Option<String>,
    /// The rights delegated to it.
    pub scope: Option<DelegationScope>,
    /// The policy to be observed there: governance, budget, observability.
    pub policy: Option<Map<String, Value>>,
    /// Where the peer is to send callbacks; only this server's own endpoint is allowed.
    pub callback_url: Option<String>,
    /// The trace that it belongs to (RFC-0020).
    pub trace_context: Option<Map<String, Value>>,
}

/// The terms under which an intent came from a peer.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The rights delegated to this server.
    pub scope: Option<DelegationScope>,
    /// The policy to be observed.
    pub policy: Option<Map<String, Value>>,
}

/// Builds the message to the peer, without the time and the signature that each attempt adds.
///
/// # Errors
/// An invalid member, a callback URL elsewhere, a message that is too large, or an intent that may not be
/// passed on.
pub fn letter(
    federation: &Federation,
    peer: &Peer,
    intent: &Intent,
    ask: &DispatchAsk,
    origin: Option<&Origin>,
    id: DispatchId,
    now: Timestamp,
) -> Result<Map<String, Value>, Refusal> {
    ask.agent_id.as_deref().map_or(Ok(()), |agent| check_name("agent_id", agent))?;
    ask.scope.as_ref().map_or(Ok(()), DelegationScope::check)?;
    check_object("federation_policy", ask.policy.as_ref())?;
    check_object("trace_context", ask.trace_context.as_ref())?;
    let callback_url = format!("{}{CALLBACKS}", federation.url);
    if ask.callback_url.as_ref().is_some_and(|url| *url != callback_url) {
        let message = format!(
            "`callback_url` must be {callback_url}, or be left out: what the peer reports comes to this server, which records \
             it on the intent. Have it sent on with a webhook (POST /api/v1/subscriptions)."
        );
        return Err(Refusal::field(Code::Unprocessable, "callback_url", "origin", message));
    }
    let (scope, policy) = inherited(ask, origin, now)?;
    let part = |part: Part, value: Value, none: Value| if peer.shares(part) { value } else { none };
    let mut letter = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            letter.insert(name.to_owned(), value);
        }
    };
    put("dispatch_id", json!(id));
    put("idempotency_key", json!(id));
    put("source_server", json!(federation.url));
    put("target_server", json!(peer.url));
    put("intent_id", json!(intent.id));
    put("intent_title", json!(intent.title));
    put("intent_description", part(Part::Description, json!(intent.description), json!("")));
    put("intent_state", part(Part::State, json!(worked_by(&intent.state)), json!({})));
    put("intent_constraints", part(Part::Constraints, json!(intent.constraints), json!({})));
    put("agent_id", json!(ask.agent_id));
    put("delegation_scope", json!(scope));
    put("federation_policy", json!(policy));
    put("trace_context", json!(ask.trace_context));
    put("callback_url", json!(callback_url));
    let bytes = super::signing::canonical(&letter).len();
    if bytes > FEDERATED_BYTES {
        return Err(Refusal::new(
            Code::TooLarge,
            format!(
                "The intent would leave with {bytes} bytes, at most {FEDERATED_BYTES} do. Keep large data elsewhere."
            ),
        ));
    }
    Ok(letter)
}

/// Returns the part of a state that is exchanged between servers: all except a suspension and its answer,
/// which are between this server and its own people.
pub(super) fn worked_by(state: &Map<String, Value>) -> Map<String, Value> {
    let mut state = state.clone();
    state.remove(SUSPENSION);
    state
}

/// A scope and a policy.
type Inherited = (Option<DelegationScope>, Option<Map<String, Value>>);

/// Returns the scope and policy to send: an intent from a peer is never passed on with more rights than it
/// came with.
fn inherited(ask: &DispatchAsk, origin: Option<&Origin>, now: Timestamp) -> Result<Inherited, Refusal> {
    let Some(origin) = origin else { return Ok((ask.scope.clone(), ask.policy.clone())) };
    let usual = DelegationScope::default();
    let parent = origin.scope.as_ref().unwrap_or(&usual);
    let scope = parent.attenuated(ask.scope.as_ref().unwrap_or(&usual), now)?;
    if origin.policy.is_some() && ask.policy.is_some() {
        let message = "This intent came from a peer with a `federation_policy`, which goes along as it is. Leave yours out.";
        return Err(Refusal::field(Code::Unprocessable, "federation_policy", "inherited", message));
    }
    Ok((Some(scope), origin.policy.clone().or_else(|| ask.policy.clone())))
}

pub(super) fn check_object(member: &str, object: Option<&Map<String, Value>>) -> Result<(), Refusal> {
    let Some(object) = object else { return Ok(()) };
    object.values().try_for_each(exact)?;
    let bytes = serde_json::to_string(object).map_or(0, |text| text.len());
    if bytes <= METADATA_BYTES {
        return Ok(());
    }
    let message = format!("`{member}` has {bytes} bytes, at most {METADATA_BYTES} are allowed.");
    Err(Refusal::field(Code::TooLarge, member, "too_large", message))
}

/// The state of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = FederationDispatchState)]
pub enum State {
    /// Recorded, and on its way.
    Pending,
    /// The peer has accepted it.
    Accepted,
    /// The peer has rejected it.
    Rejected,
    /// It could not be delivered.
    Dead,
    /// The peer reported completion.
    Completed,
    /// The peer reported failure, or was silent for too long.
    Failed,
}

impl State {
    const ALL: [Self; 6] =
        [Self::Pending, Self::Accepted, Self::Rejected, Self::Dead, Self::Completed, Self::Failed];

    /// Returns the state's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Dead => "dead",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// Parses a state's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Returns the corresponding status among the three that the SDK knows.
    #[must_use]
    pub fn status(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted | Self::Completed | Self::Failed => "accepted",
            Self::Rejected | Self::Dead => "rejected",
        }
    }

    /// Whether the state is final.
    #[must_use]
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Accepted)
    }

    /// Returns the state after some news.
    ///
    /// A final state is kept, and an accepted dispatch never becomes pending again, because news may arrive
    /// out of order.
    #[must_use]
    pub fn after(self, next: Self) -> Self {
        if self.is_over() || next == Self::Pending { self } else { next }
    }
}
