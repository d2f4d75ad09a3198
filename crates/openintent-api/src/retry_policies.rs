//! Retry policy routes (RFC-0010).

use actix_web::{get, put, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{IntentId, RetryPolicyId};
use entente_domain::openintent::retry_policies::{RetryPolicy, Rules, Strategy};
use entente_http::body::{Body, id};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_openintent::failures::retry_policies;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(get).service(set);
}

/// How an intent is retried after a failure.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RetryPolicy)]
struct PolicyBody {
    /// Policy id, which stays the same when the policy is replaced.
    id: RetryPolicyId,
    /// The intent.
    intent_id: IntentId,
    /// Growth of the delays.
    strategy: Strategy,
    /// Maximum number of retries by one agent.
    max_retries: u32,
    /// First delay in milliseconds.
    base_delay_ms: u32,
    /// Longest delay in milliseconds.
    max_delay_ms: u32,
    /// Whether delays are shortened at random by up to a fifth.
    jitter: bool,
    /// Agent that takes over after repeated failures.
    fallback_agent_id: Option<String>,
    /// Number of failures before the fallback agent takes over.
    failure_threshold: u32,
    /// Agent that last set the policy.
    set_by: String,
    /// When the policy was first set.
    created_at: WireTime,
    /// When the policy was last changed; earlier failures no longer count.
    updated_at: WireTime,
    /// Same as `created_at`, in the SDK's spelling.
    #[serde(rename = "createdAt")]
    created_at_too: WireTime,
    /// Same as `updated_at`, in the SDK's spelling.
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

/// A retry policy to set; it replaces the previous one, and missing fields take their defaults.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewRetryPolicy)]
#[schema(example = json!({ "strategy": "exponential", "max_retries": 3, "base_delay_ms": 1000, "max_delay_ms": 60_000,
    "fallback_agent_id": "agent.careful" }))]
struct SetBody {
    /// Growth of the delays; defaults to `exponential`.
    strategy: Option<Strategy>,
    /// Maximum number of retries by one agent, 0 to 100; defaults to 3.
    max_retries: Option<u32>,
    /// First delay in milliseconds; defaults to 1,000.
    base_delay_ms: Option<u32>,
    /// Longest delay in milliseconds, up to a day; defaults to 60,000.
    max_delay_ms: Option<u32>,
    /// Whether delays are shortened at random by up to a fifth, so that simultaneous failures are not retried
    /// simultaneously; defaults to true.
    jitter: Option<bool>,
    /// Agent that takes over after repeated failures; it must have write access to the intent.
    fallback_agent_id: Option<String>,
    /// Number of failures before the fallback agent takes over, 1 to 100; defaults to 3.
    failure_threshold: Option<u32>,
}

/// Get an intent's retry policy
#[utoipa::path(operation_id = "get_retry_policy", tag = "ledgers",
    responses((status = 200, description = "The policy; 404 if the intent has none", body = PolicyBody)))]
#[get("/intents/{intent_id}/retry-policy")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let policy = retry_policies::get(&api.ctx, &asker.caller, id("intent", &path)?).await?;
    ok(&PolicyBody::new(policy, asker.dialect))
}

/// Set an intent's retry policy
///
/// Changing the policy resets the failure counts.
#[utoipa::path(operation_id = "set_retry_policy", tag = "ledgers", request_body = SetBody,
    responses((status = 200, description = "The policy", body = PolicyBody)))]
#[put("/intents/{intent_id}/retry-policy")]
async fn set(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, body: Body<SetBody>) -> Reply {
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
    let policy = retry_policies::set(&api.ctx, &asker.caller, id("intent", &path)?, rules).await?;
    ok(&PolicyBody::new(policy, asker.dialect))
}
