//! Routes of retry policies (RFC-0010).

use actix_web::{get, put, web};
use entente_domain::ids::{IntentId, RetryPolicyId};
use entente_domain::keys::Dialect;
use entente_domain::retry_policies::{RetryPolicy, Rules, Strategy};
use entente_kernel::retry_policies;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::{Body, id};
use super::caller::Asker;
use super::error::Reply;
use super::wire::WireTime;
use super::{Doors, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(get).service(set);
}

/// How an intent is tried again after a failure.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RetryPolicy)]
struct PolicyBody {
    /// Its id; it stays when the policy is set anew.
    id: RetryPolicyId,
    /// The intent.
    intent_id: IntentId,
    /// How the pauses grow.
    strategy: Strategy,
    /// Retries of one agent at the most.
    max_retries: u32,
    /// Milliseconds of the first pause.
    base_delay_ms: u32,
    /// Milliseconds of the longest pause.
    max_delay_ms: u32,
    /// Whether pauses are shortened by up to a fifth.
    jitter: bool,
    /// Who has its turn when an agent has failed often enough.
    fallback_agent_id: Option<String>,
    /// How often that is.
    failure_threshold: u32,
    /// Who set it last.
    set_by: String,
    /// When it was first set.
    created_at: WireTime,
    /// When it was last changed. What failed before that no longer counts.
    updated_at: WireTime,
    /// As `created_at`, as the SDK reads it.
    #[serde(rename = "createdAt")]
    created_at_too: WireTime,
    /// As `updated_at`, as the SDK reads it.
    #[serde(rename = "updatedAt")]
    updated_at_too: WireTime,
}

impl PolicyBody {
    fn new(policy: RetryPolicy, dialect: Dialect) -> Self {
        let (created_at, updated_at) =
            (WireTime::new(policy.created_at, dialect), WireTime::new(policy.updated_at, dialect));
        let rules = policy.rules;
        Self {
            id: policy.id,
            intent_id: policy.intent_id,
            strategy: rules.strategy,
            max_retries: rules.max_retries,
            base_delay_ms: rules.base_delay_ms,
            max_delay_ms: rules.max_delay_ms,
            jitter: rules.jitter,
            fallback_agent_id: rules.fallback_agent_id,
            failure_threshold: rules.failure_threshold,
            set_by: policy.set_by,
            created_at,
            updated_at,
            created_at_too: created_at,
            updated_at_too: updated_at,
        }
    }
}

/// A retry policy to set. What is missing has its default; nothing is kept of the one before.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewRetryPolicy)]
#[schema(example = json!({ "strategy": "exponential", "max_retries": 3, "base_delay_ms": 1000, "max_delay_ms": 60_000,
    "fallback_agent_id": "agent.careful" }))]
struct SetBody {
    /// How the pauses grow; `exponential` when nothing is said.
    strategy: Option<Strategy>,
    /// Retries of one agent at the most, 0 to 100; 3 when nothing is said.
    max_retries: Option<u32>,
    /// Milliseconds of the first pause; 1,000 when nothing is said.
    base_delay_ms: Option<u32>,
    /// Milliseconds of the longest pause, up to a day; 60,000 when nothing is said.
    max_delay_ms: Option<u32>,
    /// Whether pauses are shortened by up to a fifth, so that what failed together does not come back together; true when
    /// nothing is said.
    jitter: Option<bool>,
    /// Who has its turn when an agent has failed often enough: an agent that may write on the intent.
    fallback_agent_id: Option<String>,
    /// How often that is, 1 to 100; 3 when nothing is said.
    failure_threshold: Option<u32>,
}

/// Get an intent's retry policy
#[utoipa::path(operation_id = "get_retry_policy", tag = "ledgers",
    params(("intent_id" = String, Path, description = "The intent")),
    responses((status = 200, description = "The policy; 404 when the intent has none", body = PolicyBody)))]
#[get("/intents/{intent_id}/retry-policy")]
async fn get(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let policy = retry_policies::get(&doors.ctx, &asker.caller, id("intent", &path)?).await?;
    ok(&PolicyBody::new(policy, asker.dialect))
}

/// Set an intent's retry policy
///
/// With a change of it failures are counted anew.
#[utoipa::path(operation_id = "set_retry_policy", tag = "ledgers", request_body = SetBody,
    params(("intent_id" = String, Path, description = "The intent")),
    responses((status = 200, description = "The policy", body = PolicyBody)))]
#[put("/intents/{intent_id}/retry-policy")]
async fn set(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>, body: Body<SetBody>) -> Reply {
    let (said, usual) = (body.value, Rules::default());
    let rules = Rules {
        strategy: said.strategy.unwrap_or(usual.strategy),
        max_retries: said.max_retries.unwrap_or(usual.max_retries),
        base_delay_ms: said.base_delay_ms.unwrap_or(usual.base_delay_ms),
        max_delay_ms: said.max_delay_ms.unwrap_or(usual.max_delay_ms),
        jitter: said.jitter.unwrap_or(usual.jitter),
        fallback_agent_id: said.fallback_agent_id.filter(|agent| !agent.is_empty()),
        failure_threshold: said.failure_threshold.unwrap_or(usual.failure_threshold),
    };
    let policy = retry_policies::set(&doors.ctx, &asker.caller, id("intent", &path)?, rules).await?;
    ok(&PolicyBody::new(policy, asker.dialect))
}
