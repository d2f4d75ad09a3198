//! Endpoints for an intent's governance policy (RFC-0013).

use actix_web::{HttpRequest, delete, get, put, web};
use entente_domain::ids::IntentId;
use entente_domain::openintent::governance::{GovernancePolicy, WriteScope};
use entente_domain::refusal::violation::CompletionMode;
use entente_http::body::{Body, IfMatch, id, if_match};
use entente_http::caller::Asker;
use entente_http::error::{Problem, Reply};
use entente_http::intent::IntentBody;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_openintent::governance;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;
use crate::intents::response;

pub fn routes(config: &mut Routes<'_>) {
    config.service(set).service(get).service(remove);
}

/// The policy in force on an intent.
#[derive(Debug, Serialize, ToSchema)]
struct EffectivePolicy {
    /// The condition for becoming `completed`.
    completion_mode: CompletionMode,
    /// With `quorum`: the fraction of voters that must approve.
    #[schema(example = 0.6)]
    quorum_threshold: f64,
    /// The agents that may work on the intent.
    write_scope: WriteScope,
    /// If not empty: the only agents that may be assigned to the intent or work on it.
    allowed_agents: Vec<String>,
    /// The maximum cost.
    #[schema(value_type = Option<f64>, example = 100)]
    max_cost: Option<Box<RawValue>>,
    /// Whether each status change needs a reason.
    require_status_reason: bool,
    /// If not empty: the only ones that may approve and vote.
    approvers: Vec<String>,
    /// Whether a requester may approve its own request.
    allow_self_approval: bool,
    /// The person that receives escalations without an assignee.
    escalate_to: Option<String>,
}

impl TryFrom<GovernancePolicy> for EffectivePolicy {
    type Error = Problem;

    fn try_from(policy: GovernancePolicy) -> Result<Self, Problem> {
        // An amount's text form, digits and a point, is a valid JSON number.
        let max_cost = policy.max_cost.map(|most| RawValue::from_string(most.to_string())).transpose();
        Ok(Self {
            completion_mode: policy.completion_mode,
            quorum_threshold: policy.quorum_threshold,
            write_scope: policy.write_scope,
            allowed_agents: policy.allowed_agents,
            max_cost: max_cost.map_err(|e| Problem::internal(&e.to_string()))?,
            require_status_reason: policy.require_status_reason,
            approvers: policy.approvers,
            allow_self_approval: policy.allow_self_approval,
            escalate_to: policy.escalate_to,
        })
    }
}

/// An intent's governance policy.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = IntentGovernance)]
struct PolicyBody<'a> {
    /// The intent.
    intent_id: IntentId,
    /// The policy as its author wrote it; empty if there is none.
    #[schema(value_type = Object)]
    governance_policy: &'a Map<String, Value>,
    /// The policy in force, defaults included.
    effective_policy: EffectivePolicy,
    /// The intent's version, to be sent in `If-Match`.
    version: i64,
}

/// A governance policy as its author writes it: missing and null members have their defaults.
#[derive(Debug, Deserialize)]
struct GivenPolicy(Map<String, Value>);

impl utoipa::PartialSchema for GivenPolicy {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        // Full paths, because an import would conflict with the macros' output.
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::Object)
            .description(Some("A governance policy; missing and null members take their defaults"))
            .examples([
                serde_json::json!({ "completion_mode": "require_approval", "write_scope": "assigned_only" }),
            ])
            .build()
            .into()
    }
}

impl ToSchema for GivenPolicy {}

/// Set an intent's governance policy
///
/// Replaces the previous policy immediately. Allowed to the intent's creator and to those with an admin entry on its
/// access list. Members: `completion_mode` (`auto`, `require_approval`, `quorum`), `quorum_threshold`, `write_scope`
/// (`any`, `assigned_only`), `allowed_agents`, `max_cost`, `require_status_reason`, `approvers`,
/// `allow_self_approval`, `escalate_to`; others are stored but ignored.
#[utoipa::path(operation_id = "set_governance_policy", tag = "governance",
    request_body = GivenPolicy, params(IfMatch),
    responses((status = 200, description = "The intent", body = IntentBody),
              (status = 400, description = "`if_match_required`", body = entente_http::error::ProblemBody),
              (status = 409, description = "`version_conflict`, with `current_version`; `intent_resolved`", body = entente_http::error::ProblemBody)))]
#[put("/intents/{intent_id}/governance")]
async fn set(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<GivenPolicy>,
) -> Reply {
    let id: IntentId = id("intent", &path)?;
    let seen = if_match(&request)?;
    let intent = governance::set(&api.ctx, &asker.caller, id, seen, Some(body.value.0)).await?;
    response(&intent, &asker)
}

/// Get an intent's governance policy
#[utoipa::path(operation_id = "get_governance_policy", tag = "governance",
    responses((status = 200, description = "The policy as set, and the policy in force", body = PolicyBody)))]
#[get("/intents/{intent_id}/governance")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let (intent, policy) = governance::get(&api.ctx, &asker.caller, id("intent", &path)?).await?;
    let none = Map::new();
    ok(&PolicyBody {
        intent_id: intent.id,
        governance_policy: intent.governance_policy.as_ref().unwrap_or(&none),
        effective_policy: policy.try_into()?,
        version: intent.version,
    })
}

/// Remove an intent's governance policy
///
/// Allowed to the same callers as setting it, and recorded on the intent's log.
#[utoipa::path(operation_id = "remove_governance_policy", tag = "governance", params(IfMatch),
    responses((status = 200, description = "The intent", body = IntentBody),
              (status = 400, description = "`if_match_required`", body = entente_http::error::ProblemBody),
              (status = 409, description = "`version_conflict`, with `current_version`; `intent_resolved`", body = entente_http::error::ProblemBody)))]
#[delete("/intents/{intent_id}/governance")]
async fn remove(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
) -> Reply {
    let id: IntentId = id("intent", &path)?;
    let seen = if_match(&request)?;
    let intent = governance::set(&api.ctx, &asker.caller, id, seen, None).await?;
    response(&intent, &asker)
}
