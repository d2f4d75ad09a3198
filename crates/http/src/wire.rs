//! Dialects: the format of times and event types for each client (OI-3.6, OI-5.6). Clients receive RFC
//! 3339 times with `Z` and the original event types, except the OpenIntent Python SDK, which can parse
//! neither.

use actix_web::HttpRequest;
use entente_domain::clock::{Timestamp, naive, offset, parse, rfc3339};
use entente_domain::identity::keys::Dialect;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, SchemaFormat, Type};
use utoipa::openapi::{KnownFormat, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Recognises the Python SDK by its fingerprint: a `python-httpx` user agent with an agent header.
#[must_use]
pub fn recognise(request: &HttpRequest) -> Dialect {
    let headers = request.headers();
    let agent = headers.get("user-agent").and_then(|value| value.to_str().ok()).unwrap_or("");
    if agent.starts_with("python-httpx/") && headers.contains_key("x-agent-id") {
        Dialect::OpenIntentPython
    } else {
        Dialect::Standard
    }
}

/// A time in a response.
#[derive(Debug, Clone, Copy)]
pub struct WireTime {
    at: Timestamp,
    dialect: Dialect,
    given: bool,
}

impl WireTime {
    /// Wraps a time that the server generated.
    #[must_use]
    pub fn new(at: Timestamp, dialect: Dialect) -> Self {
        Self { at, dialect, given: false }
    }

    /// Wraps a time that the client gave: the SDK receives it with an offset, as it sent it (OI-3.6.4).
    #[must_use]
    pub fn given(at: Timestamp, dialect: Dialect) -> Self {
        Self { at, dialect, given: true }
    }
}

impl Serialize for WireTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = match (self.dialect, self.given) {
            (Dialect::Standard, _) => rfc3339(self.at),
            (Dialect::OpenIntentPython, true) => offset(self.at),
            (Dialect::OpenIntentPython, false) => naive(self.at),
        };
        serializer.serialize_str(&text)
    }
}

impl PartialSchema for WireTime {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("RFC 3339, UTC, microseconds"))
            .examples(["2026-11-21T08:00:00.000000Z"])
            .build()
            .into()
    }
}

impl ToSchema for WireTime {}

/// A time in a request: RFC 3339, or without an offset, which means UTC (OI-3.6.5).
#[derive(Debug, Clone, Copy)]
pub struct GivenTime(pub Timestamp);

impl<'de> Deserialize<'de> for GivenTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at = parse(&text).map(Self);
        at.ok_or_else(|| {
            D::Error::custom(format!("`{text}` is no RFC 3339 time such as 2026-11-21T08:00:00Z"))
        })
    }
}

impl PartialSchema for GivenTime {
    fn schema() -> RefOr<Schema> {
        WireTime::schema()
    }
}

impl ToSchema for GivenTime {}

/// A number, or the same number as a text, so that no digit is lost.
pub struct NumberOrText;

impl PartialSchema for NumberOrText {
    fn schema() -> RefOr<Schema> {
        let one = |kind| ObjectBuilder::new().schema_type(kind);
        let either = OneOfBuilder::new().item(one(Type::Number)).item(one(Type::String)).build();
        RefOr::T(Schema::OneOf(either))
    }
}

impl ToSchema for NumberOrText {}

/// Returns an event type that the client can parse.
///
/// The SDK fails on a whole page if it contains one unknown type, so it receives those as `comment`, with the
/// original type in `original_event_type`.
#[must_use]
pub fn event_type(event_type: &str, dialect: Dialect) -> &str {
    let known = dialect == Dialect::Standard || SDK_EVENT_TYPES.contains(&event_type);
    if known { event_type } else { "comment" }
}

/// The event types known to version 0.17.0 of the SDK, which its programs post.
pub(crate) const SDK_EVENT_TYPES: &[&str] = &[
    "intent_created",
    "state_patched",
    "status_changed",
    "agent_assigned",
    "agent_unassigned",
    "constraint_added",
    "constraint_removed",
    "dependency_added",
    "dependency_removed",
    "lease_acquired",
    "lease_released",
    "arbitration_requested",
    "decision_recorded",
    "attachment_added",
    "portfolio_created",
    "added_to_portfolio",
    "removed_from_portfolio",
    "failure_recorded",
    "comment",
    "tool_call_started",
    "tool_call_completed",
    "tool_call_failed",
    "llm_request_started",
    "llm_request_completed",
    "llm_request_failed",
    "stream_started",
    "stream_chunk",
    "stream_completed",
    "stream_cancelled",
    "access_granted",
    "access_revoked",
    "access_expired",
    "access_requested",
    "access_request_approved",
    "access_request_denied",
    "task.created",
    "task.ready",
    "task.claimed",
    "task.started",
    "task.progress",
    "task.completed",
    "task.failed",
    "task.retrying",
    "task.blocked",
    "task.unblocked",
    "task.delegated",
    "task.escalated",
    "task.cancelled",
    "task.skipped",
    "plan.created",
    "plan.activated",
    "plan.paused",
    "plan.resumed",
    "plan.completed",
    "plan.failed",
    "plan.checkpoint_reached",
    "plan.checkpoint_approved",
    "plan.checkpoint_rejected",
    "coordinator.decision",
    "coordinator.heartbeat",
    "coordinator.paused",
    "coordinator.resumed",
    "coordinator.replaced",
    "coordinator.unresponsive",
    "coordinator.failed_over",
    "coordinator.handoff",
    "coordinator.plan_overridden",
    "coordinator.guardrails_updated",
    "coordinator.stalled",
    "coordinator.escalation_resolved",
    "governance.policy_set",
    "governance.policy_removed",
    "governance.approval_granted",
    "governance.approval_denied",
    "governance.violation",
    "governance.approval_enforced",
    "tool.invoked",
    "tool.denied",
    "grant.created",
    "grant.delegated",
    "grant.revoked",
    "grant.expired",
    "grant.suspended",
    "grant.resumed",
    "credential.created",
    "credential.rotated",
    "credential.expired",
    "credential.revoked",
    "memory.created",
    "memory.updated",
    "memory.deleted",
    "memory.archived",
    "memory.evicted",
    "memory.expired",
    "agent.lifecycle",
    "agent.registered",
    "agent.status_changed",
    "agent.dead",
    "trigger.fired",
    "trigger.skipped",
    "trigger.cascade_limit",
    "trigger.namespace_blocked",
    "agent.identity.registered",
    "agent.identity.rotated",
    "agent.identity.revoked",
    "agent.identity.challenge_issued",
    "agent.identity.verified",
    "log.checkpoint.created",
    "log.checkpoint.anchored",
    "channel.created",
    "channel.closed",
    "channel.message",
    "federation.dispatched",
    "federation.received",
    "federation.callback",
    "federation.budget_warning",
    "federation.completed",
    "federation.failed",
    "intent.suspended",
    "intent.resumed",
    "intent.suspension_expired",
    "intent.suspension_renotified",
    "intent.suspension_escalated",
    "engagement.decision",
    "portfolio.member_suspended",
    "portfolio.member_resumed",
];
