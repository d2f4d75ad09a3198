//! The wire format of an intent (RFC-0001): in the intent routes, and in the frames of streams.

use entente_domain::identity::keys::Dialect;
use entente_domain::ids::IntentId;
use entente_domain::openintent::intents::{Intent, IntentStatus};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::wire::WireTime;

/// An intent.
#[derive(Debug, Serialize, ToSchema)]
pub struct IntentBody<'a> {
    /// The intent's id.
    id: IntentId,
    /// The goal in one line.
    #[schema(example = "Research Q1 financials")]
    title: &'a str,
    /// The goal in full.
    description: &'a str,
    /// The agent that created it.
    created_by: &'a str,
    /// The parent intent.
    parent_id: Option<IntentId>,
    /// Same as `parent_id`, under the SDK's name.
    parent_intent_id: Option<IntentId>,
    /// The intents it waits for.
    depends_on: &'a [IntentId],
    /// The constraints on the work.
    #[schema(value_type = Object)]
    constraints: &'a Map<String, Value>,
    /// The current state.
    #[schema(value_type = Object)]
    state: &'a Map<String, Value>,
    /// The intent's status.
    status: IntentStatus,
    /// The agents' confidence, 0 to 1.
    confidence: f64,
    /// The version, which guards writes: send it in `If-Match`.
    version: i64,
    /// The governance policy (RFC-0013), as its author wrote it.
    #[schema(value_type = Option<Object>)]
    governance_policy: Option<&'a Map<String, Value>>,
    /// When it was created.
    created_at: WireTime,
    /// When it last changed.
    updated_at: WireTime,
}

impl<'a> IntentBody<'a> {
    /// Returns the intent in the client's dialect.
    #[must_use]
    pub fn new(intent: &'a Intent, dialect: Dialect) -> Self {
        Self {
            id: intent.id,
            title: &intent.title,
            description: &intent.description,
            created_by: &intent.created_by,
            parent_id: intent.parent_id,
            parent_intent_id: intent.parent_id,
            depends_on: &intent.depends_on,
            constraints: &intent.constraints,
            state: &intent.state,
            status: intent.status,
            confidence: intent.confidence,
            version: intent.version,
            governance_policy: intent.governance_policy.as_ref(),
            created_at: WireTime::new(intent.created_at, dialect),
            updated_at: WireTime::new(intent.updated_at, dialect),
        }
    }
}
