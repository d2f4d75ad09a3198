//! Endpoints for coordinators' decisions (RFC-0013 §4). An arbiter's decisions are in `arbitration.rs`.

use actix_web::{HttpRequest, get, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{CoordinatorId, DecisionRecordId, IntentId};
use entente_domain::limits::PAGE;
use entente_domain::openintent::coordinators::{DecisionRecord, DecisionType};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, IdempotencyKey, Query, id, intent_of};
use entente_http::caller::Asker;
use entente_http::error::{Problem, ProblemBody, Reply};
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_openintent::coordinators;
use entente_openintent::coordinators::RecordAsk;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(decide).service(decisions).service(decisions_on);
}

/// A coordinator's decision.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CoordinatorDecision)]
struct DecisionBody {
    /// The decision's id.
    id: DecisionRecordId,
    /// Always `coordinator.decision`.
    #[serde(rename = "type")]
    #[schema(example = "coordinator.decision")]
    kind: &'static str,
    /// The appointment.
    coordinator_id: CoordinatorId,
    /// The coordinator that decided.
    agent_id: String,
    /// The intent.
    intent_id: IntentId,
    /// The kind of decision.
    decision_type: DecisionType,
    /// The decision in brief.
    summary: String,
    /// The reasoning behind it.
    rationale: String,
    /// The alternatives that were considered.
    #[schema(value_type = Vec<Object>)]
    alternatives_considered: Vec<Value>,
    /// The coordinator's confidence, 0 to 1.
    confidence: Option<f64>,
    /// When it was decided.
    timestamp: WireTime,
    /// Same as `timestamp`, under the usual name.
    created_at: WireTime,
}

impl DecisionBody {
    fn new(made: DecisionRecord, dialect: Dialect) -> Self {
        Self {
            id: made.id,
            kind: "coordinator.decision",
            coordinator_id: made.coordinator_id,
            agent_id: made.agent_id,
            intent_id: made.intent_id,
            decision_type: made.decision_type,
            summary: made.summary,
            rationale: made.rationale,
            alternatives_considered: made.alternatives,
            confidence: made.confidence,
            timestamp: WireTime::new(made.at, dialect),
            created_at: WireTime::new(made.at, dialect),
        }
    }
}

/// A coordinator's decision to record.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewCoordinatorDecision)]
#[schema(example = json!({
    "coordinator_id": "coord_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F",
    "decision_type": "plan_created", "summary": "Four tasks", "rationale": "Two of them can go on at once", "confidence": 0.85
}))]
struct RecordBody {
    /// The appointment, or the appointed agent.
    coordinator_id: String,
    /// The intent.
    intent_id: Option<String>,
    /// The kind of decision.
    decision_type: DecisionType,
    /// The decision in brief.
    summary: String,
    /// The reasoning behind it.
    #[serde(default)]
    rationale: String,
    /// The alternatives that were considered.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    alternatives_considered: Vec<Value>,
    /// The coordinator's confidence, 0 to 1.
    confidence: Option<f64>,
}

/// Record a coordinator's decision
///
/// Requires being the appointed agent, which must not be paused. Refused if a guardrail does not permit the decision.
#[utoipa::path(operation_id = "create_decision_record", tag = "coordinators", request_body = RecordBody, params(IdempotencyKey),
    responses((status = 200, description = "The decision", body = DecisionBody),
              (status = 403, description = "`forbidden`: another agent is appointed, or a guardrail is exceeded", body = ProblemBody),
              (status = 409, description = "`invalid_transition`: the appointment is paused, or over", body = ProblemBody)))]
#[post("/decisions")]
async fn decide(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    body: Body<RecordBody>,
) -> Reply {
    let once = body.once(&request)?;
    let said = body.value;
    let intent_id = intent_of(said.intent_id.as_ref())?;
    let ask = RecordAsk {
        coordinator: said.coordinator_id,
        decision_type: said.decision_type,
        summary: said.summary,
        rationale: said.rationale,
        alternatives: said.alternatives_considered,
        confidence: said.confidence,
    };
    let made = coordinators::decide(&api.ctx, &asker.caller, intent_id, ask, once.as_ref()).await?;
    ok(&DecisionBody::new(made, asker.dialect))
}

fn page(query: &Query) -> Result<(Option<DecisionRecordId>, u32), Problem> {
    let before = query.parsed("before", "a decision's id", |text| text.parse().ok())?;
    Ok((before, query.limit(50.min(PAGE))?))
}

fn bodies(found: Vec<DecisionRecord>, dialect: Dialect) -> Vec<DecisionBody> {
    found.into_iter().map(|made| DecisionBody::new(made, dialect)).collect()
}

/// List the decisions of an intent's coordinators
///
/// Returns a bare array, newest first.
#[utoipa::path(operation_id = "list_decision_records", tag = "coordinators",
    params(("before" = Option<String>, Query, description = "Only decisions older than this one: the last id of the previous page"),
           ("limit" = Option<u32>, Query, description = "Page size, 1 to 1,000; defaults to 50", maximum = 1000)),
    responses((status = 200, description = "The decisions", body = Vec<DecisionBody>)))]
#[get("/intents/{intent_id}/coordinator-decisions")]
async fn decisions_on(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    query: Query,
) -> Reply {
    let (before, limit) = page(&query)?;
    let intent_id = id("intent", &path)?;
    let found = coordinators::decisions(&api.ctx, &asker.caller, intent_id, before, limit).await?;
    ok(&bodies(found, asker.dialect))
}

/// List coordinators' decisions
///
/// By appointment (`coordinator_id`) or by intent (`intent_id`). Returns a bare array, newest first.
#[utoipa::path(operation_id = "list_coordinator_decisions", tag = "coordinators",
    params(("coordinator_id" = Option<String>, Query, description = "Only decisions under this appointment; takes precedence over `intent_id`"),
           ("intent_id" = Option<String>, Query, description = "Only decisions on this intent"),
           ("before" = Option<String>, Query, description = "Only decisions older than this one: the last id of the previous page"),
           ("limit" = Option<u32>, Query, description = "Page size, 1 to 1,000; defaults to 50", maximum = 1000)),
    responses((status = 200, description = "The decisions", body = Vec<DecisionBody>)))]
#[get("/decisions")]
async fn decisions(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let (before, limit) = page(&query)?;
    let ctx = &api.ctx;
    let found = match (query.text("coordinator_id"), query.text("intent_id")) {
        (Some(text), _) => {
            let of: CoordinatorId = id("coordinator", text)?;
            coordinators::decisions_of(ctx, &asker.caller, of, before, limit).await?
        }
        (None, Some(text)) => {
            coordinators::decisions(ctx, &asker.caller, id("intent", text)?, before, limit).await?
        }
        (None, None) => {
            let message = "Say whose decisions: `coordinator_id` or `intent_id`.";
            return Err(Refusal::new(Code::InvalidParameter, message).into());
        }
    };
    ok(&bodies(found, asker.dialect))
}
