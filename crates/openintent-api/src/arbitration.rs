//! Endpoints for arbitration and decisions (RFC-0003). The SDK, the reference server and the RFC name the members
//! differently: all names are accepted and all are returned (OI-6.7, OI-6.8).

use actix_web::{HttpRequest, get, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{ArbitrationId, DecisionId, IntentId};
use entente_domain::openintent::arbitration::{
    Arbitration, ArbitrationAsk, ArbitrationStatus, Decision, DecisionAsk,
};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, IdempotencyKey, Query, id};
use entente_http::caller::Asker;
use entente_http::error::{Problem, Reply};
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_openintent::arbitration;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

/// The default `decision_type`.
const DEFAULT_TYPE: &str = "arbitration";

pub fn routes(config: &mut Routes<'_>) {
    config.service(arbitrate).service(requests).service(decide).service(decisions);
}

/// A request for arbitration.
#[derive(Debug, Serialize, ToSchema)]
struct ArbitrationBody {
    /// The request's id.
    id: ArbitrationId,
    /// The intent.
    intent_id: IntentId,
    /// The agent that asks for arbitration.
    #[schema(example = "agent.researcher")]
    requester_id: String,
    /// Same as `requester_id`, under the RFC's name.
    requestor: String,
    /// Why arbitration is needed.
    reason: String,
    /// Context for the arbiter.
    #[schema(value_type = Object)]
    context: Map<String, Value>,
    /// The options to choose from.
    options: Vec<Value>,
    /// The request's status.
    status: ArbitrationStatus,
    /// The outcome of the decision that resolved the request.
    resolution: Option<String>,
    /// The decision that resolved the request.
    decision_id: Option<DecisionId>,
    /// The status as a human-readable sentence.
    #[schema(example = "Arbitration requested")]
    message: &'static str,
    /// When the request was made.
    created_at: WireTime,
    /// When the request was resolved.
    resolved_at: Option<WireTime>,
}

impl ArbitrationBody {
    fn new(made: Arbitration, dialect: Dialect) -> Self {
        Self {
            id: made.id,
            intent_id: made.intent_id,
            requestor: made.requester_id.clone(),
            requester_id: made.requester_id,
            reason: made.reason,
            context: made.context,
            options: made.options,
            status: made.status,
            resolution: made.resolution,
            decision_id: made.decision_id,
            message: match made.status {
                ArbitrationStatus::Pending => "Arbitration requested",
                ArbitrationStatus::Resolved => "Arbitration resolved",
            },
            created_at: WireTime::new(made.created_at, dialect),
            resolved_at: made.resolved_at.map(|at| WireTime::new(at, dialect)),
        }
    }
}

/// A request for arbitration to make.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewArbitration)]
#[schema(example = json!({ "reason": "two agents want the same hotel", "context": { "scope": "hotel_search" } }))]
struct ArbitrateBody {
    /// The agent that asks; defaults to the acting agent.
    #[serde(alias = "requester_id", alias = "requestor")]
    requested_by: Option<String>,
    /// Why arbitration is needed.
    reason: String,
    /// Context for the arbiter.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    context: Option<Map<String, Value>>,
    /// The options to choose from.
    #[serde(default)]
    options: Option<Vec<Value>>,
}

/// Ask for arbitration
///
/// An admin of the intent resolves the request by recording a decision that names it.
#[utoipa::path(operation_id = "request_arbitration", tag = "leases", request_body = ArbitrateBody, params(IdempotencyKey),
    responses((status = 200, description = "The request", body = ArbitrationBody)))]
#[post("/intents/{intent_id}/arbitrate")]
async fn arbitrate(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ArbitrateBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let strict = api.ctx.settings.strict;
    let caller =
        asker.caller.acting_as(asker.caller.speaker("requested_by", said.requested_by.as_deref(), strict)?);
    let ask = ArbitrationAsk {
        reason: said.reason,
        context: said.context.unwrap_or_default(),
        options: said.options.unwrap_or_default(),
    };
    let made = arbitration::request(&api.ctx, &caller, intent_id, ask, once.as_ref()).await?;
    ok(&ArbitrationBody::new(made, asker.dialect))
}

/// The requests for arbitration on an intent.
#[derive(Debug, Serialize, ToSchema)]
struct ArbitrationList {
    /// The requests, oldest first.
    arbitrations: Vec<ArbitrationBody>,
}

/// List the requests for arbitration on an intent
#[utoipa::path(operation_id = "list_arbitrations", tag = "leases",
    params(("status" = Option<ArbitrationStatus>, Query, description = "Only requests in this status")),
    responses((status = 200, description = "The requests", body = ArbitrationList)))]
#[get("/intents/{intent_id}/arbitrations")]
async fn requests(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let status = query.parsed("status", "`pending` or `resolved`", ArbitrationStatus::parse)?;
    let found = arbitration::requests(&api.ctx, &asker.caller, id("intent", &path)?, status).await?;
    let arbitrations = found.into_iter().map(|one| ArbitrationBody::new(one, asker.dialect)).collect();
    ok(&ArbitrationList { arbitrations })
}

/// A decision.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DecisionRecord)]
struct DecisionBody {
    /// The decision's id.
    id: DecisionId,
    /// The intent.
    intent_id: IntentId,
    /// The agent that decided.
    #[schema(example = "human.ada")]
    decision_maker_id: String,
    /// Same as `decision_maker_id`, under the RFC's name.
    decided_by: String,
    /// The kind of decision.
    #[schema(example = "arbitration")]
    decision_type: String,
    /// The outcome.
    outcome: String,
    /// Same as `outcome`, under the RFC's name.
    decision: String,
    /// The reasoning behind the outcome.
    reasoning: String,
    /// Same as `reasoning`, under the RFC's name.
    rationale: String,
    /// The evidence the decision rests on.
    evidence: Vec<Value>,
    /// The request for arbitration that the decision resolves.
    arbitration_id: Option<ArbitrationId>,
    /// When the decision was recorded.
    created_at: WireTime,
}

impl DecisionBody {
    fn new(made: Decision, dialect: Dialect) -> Self {
        Self {
            id: made.id,
            intent_id: made.intent_id,
            decided_by: made.decision_maker_id.clone(),
            decision_maker_id: made.decision_maker_id,
            decision_type: made.decision_type,
            decision: made.outcome.clone(),
            outcome: made.outcome,
            rationale: made.reasoning.clone(),
            reasoning: made.reasoning,
            evidence: made.evidence,
            arbitration_id: made.arbitration_id,
            created_at: WireTime::new(made.created_at, dialect),
        }
    }
}

/// A decision to record.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewDecision)]
#[schema(example = json!({ "decision_type": "arbitration", "outcome": "agent.b goes first", "reasoning": "it is nearly done" }))]
struct DecideBody {
    /// The agent that decides; defaults to the acting agent.
    #[serde(alias = "decision_maker_id")]
    decided_by: Option<String>,
    /// The kind of decision; defaults to `arbitration`.
    decision_type: Option<String>,
    /// The outcome.
    outcome: Option<String>,
    /// Same as `outcome`, under the RFC's name.
    decision: Option<String>,
    /// The reasoning behind the outcome.
    reasoning: Option<String>,
    /// Same as `reasoning`, under the RFC's name.
    rationale: Option<String>,
    /// The evidence the decision rests on.
    evidence: Option<Vec<Value>>,
    /// The request for arbitration that the decision resolves.
    arbitration_id: Option<String>,
}

impl DecideBody {
    fn ask(self) -> Result<DecisionAsk, Problem> {
        let outcome = self.outcome.or(self.decision).ok_or_else(|| {
            let message = "`outcome` is missing: say what was decided.";
            Refusal::field(Code::InvalidRequest, "outcome", "missing", message)
        })?;
        let answered = self.arbitration_id.filter(|id| !id.is_empty());
        Ok(DecisionAsk {
            decision_type: self.decision_type.unwrap_or_else(|| DEFAULT_TYPE.to_owned()),
            outcome,
            reasoning: self.reasoning.or(self.rationale).unwrap_or_default(),
            evidence: self.evidence.unwrap_or_default(),
            arbitration_id: answered.map(|text| id("pending request for arbitration", &text)).transpose()?,
        })
    }
}

/// Record a decision
///
/// Requires admin access to the intent. A decision is permanent; with `arbitration_id` it resolves that request.
#[utoipa::path(operation_id = "record_decision", tag = "leases", request_body = DecideBody, params(IdempotencyKey),
    responses((status = 200, description = "The decision", body = DecisionBody)))]
#[post("/intents/{intent_id}/decisions")]
async fn decide(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<DecideBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let strict = api.ctx.settings.strict;
    let caller =
        asker.caller.acting_as(asker.caller.speaker("decided_by", said.decided_by.as_deref(), strict)?);
    let made = arbitration::decide(&api.ctx, &caller, intent_id, said.ask()?, once.as_ref()).await?;
    ok(&DecisionBody::new(made, asker.dialect))
}

/// The decisions on an intent.
#[derive(Debug, Serialize, ToSchema)]
struct DecisionList {
    /// The decisions, oldest first.
    decisions: Vec<DecisionBody>,
}

/// List the decisions on an intent
#[utoipa::path(operation_id = "list_decisions", tag = "leases",
    responses((status = 200, description = "The decisions", body = DecisionList)))]
#[get("/intents/{intent_id}/decisions")]
async fn decisions(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = arbitration::decisions(&api.ctx, &asker.caller, id("intent", &path)?).await?;
    let decisions = found.into_iter().map(|one| DecisionBody::new(one, asker.dialect)).collect();
    ok(&DecisionList { decisions })
}
