//! Endpoints for escalations (RFC-0013).

use actix_web::{HttpRequest, get, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{EscalationId, IntentId};
use entente_domain::limits::PAGE;
use entente_domain::openintent::escalations::{Escalation, EscalationAsk, EscalationStatus, Weight};
use entente_http::body::{Body, IdempotencyKey, Limit100, Query, id};
use entente_http::caller::Asker;
use entente_http::error::{Problem, Reply};
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_openintent::escalations;
use entente_openintent::escalations::EscalationFilter;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(escalate).service(of_intent).service(list).service(resolve);
}

/// An escalation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Escalation)]
struct EscalationBody {
    /// The escalation's id.
    id: EscalationId,
    /// The intent.
    intent_id: IntentId,
    /// The agent that escalated.
    #[schema(example = "agent.researcher")]
    escalated_by: String,
    /// The assigned person, who alone may resolve it; null if unassigned.
    #[schema(example = "human.ada")]
    assigned_to: Option<String>,
    /// Why it was escalated.
    reason: String,
    /// How important it is.
    priority: Weight,
    /// How urgent it is.
    urgency: Weight,
    /// Context for the person who resolves it.
    #[schema(value_type = Object)]
    context: Map<String, Value>,
    /// The escalation's status.
    status: EscalationStatus,
    /// When it was made.
    created_at: WireTime,
    /// When it was resolved.
    resolved_at: Option<WireTime>,
    /// The person that resolved it.
    resolved_by: Option<String>,
    /// The resolution.
    resolution: Option<String>,
    /// Notes on the resolution.
    resolution_notes: Option<String>,
}

impl EscalationBody {
    fn new(made: Escalation, dialect: Dialect) -> Self {
        Self {
            id: made.id,
            intent_id: made.intent_id,
            escalated_by: made.escalated_by,
            assigned_to: made.assigned_to,
            reason: made.reason,
            priority: made.priority,
            urgency: made.urgency,
            context: made.context,
            status: made.status,
            created_at: WireTime::new(made.created_at, dialect),
            resolved_at: made.resolved_at.map(|at| WireTime::new(at, dialect)),
            resolved_by: made.resolved_by,
            resolution: made.resolution,
            resolution_notes: made.resolution_notes,
        }
    }
}

/// An escalation to make.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewEscalation)]
#[schema(example = json!({ "reason": "the two sources contradict each other", "priority": "high", "assigned_to": "human.ada" }))]
struct EscalateBody {
    /// The agent that escalates; defaults to the acting agent.
    escalated_by: Option<String>,
    /// The person to assign; defaults to the policy's `escalate_to`.
    #[serde(alias = "to")]
    assigned_to: Option<String>,
    /// Why it is escalated.
    reason: String,
    /// How important it is; defaults to `medium`.
    priority: Option<Weight>,
    /// How urgent it is; defaults to `medium`.
    urgency: Option<Weight>,
    /// Context for the person who resolves it.
    #[schema(value_type = Option<Object>)]
    context: Option<Map<String, Value>>,
}

/// Escalate to a person
///
/// Puts an intent before a person. An assigned person alone resolves the escalation, with their own key; an
/// unassigned one is resolved by any person with read access to the intent, except its originator.
#[utoipa::path(operation_id = "escalate_to_human", tag = "governance", request_body = EscalateBody, params(IdempotencyKey),
    responses((status = 200, description = "The escalation", body = EscalationBody)))]
#[post("/intents/{intent_id}/escalations")]
async fn escalate(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<EscalateBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let by = said.escalated_by.as_deref().filter(|name| !name.is_empty());
    let by = asker.caller.speaker("escalated_by", by, api.ctx.settings.strict)?;
    let ask = EscalationAsk {
        reason: said.reason,
        priority: said.priority.unwrap_or_default(),
        urgency: said.urgency.unwrap_or_default(),
        context: said.context.unwrap_or_default(),
        assigned_to: said.assigned_to.filter(|name| !name.is_empty()),
    };
    let caller = asker.caller.acting_as(by);
    let made = escalations::escalate(&api.ctx, &caller, intent_id, ask, once.as_ref()).await?;
    ok(&EscalationBody::new(made, asker.dialect))
}

/// A page of escalations.
#[derive(Debug, Serialize, ToSchema)]
struct EscalationList {
    /// The escalations, the newest first.
    escalations: Vec<EscalationBody>,
}

/// Parses a status to filter by; also accepts the SDK's `acknowledged`, which no escalation here is in.
fn status(text: &str) -> Option<String> {
    let known = text == "acknowledged" || EscalationStatus::parse(text).is_some();
    known.then(|| text.to_owned())
}

fn filter(query: &Query) -> Result<EscalationFilter, Problem> {
    Ok(EscalationFilter {
        intent_id: query.text("intent_id").map(|text| id("intent", text)).transpose()?,
        status: query.parsed("status", "an escalation's status", status)?,
        assigned_to: query.text("assigned_to").map(str::to_owned),
        before: query.parsed("before", "an escalation's id", |text| text.parse().ok())?,
        limit: query.limit(100.min(PAGE))?,
    })
}

async fn listed(api: &ApiState, asker: &Asker, filter: &EscalationFilter) -> Reply {
    let found = escalations::list(&api.ctx, &asker.caller, filter).await?;
    ok(&EscalationList {
        escalations: found.into_iter().map(|one| EscalationBody::new(one, asker.dialect)).collect(),
    })
}

/// List an intent's escalations
///
/// Newest first. A full page may be followed by another: request it with `before`.
#[utoipa::path(operation_id = "list_intent_escalations", tag = "governance",
    params(("status" = Option<EscalationStatus>, Query, description = "Only escalations in this status"),
           ("assigned_to" = Option<String>, Query, description = "Only escalations assigned to this person"),
           ("before" = Option<String>, Query, description = "Only escalations older than this one: the last id of the previous page"), Limit100),
    responses((status = 200, description = "The escalations", body = EscalationList)))]
#[get("/intents/{intent_id}/escalations")]
async fn of_intent(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let filter = EscalationFilter { intent_id: Some(id("intent", &path)?), ..filter(&query)? };
    listed(&api, &asker, &filter).await
}

/// List escalations
///
/// Escalations on intents that the caller can read, and those assigned to the caller; newest first. A full page may
/// be followed by another: request it with `before`.
#[utoipa::path(operation_id = "list_escalations", tag = "governance",
    params(("intent_id" = Option<String>, Query, description = "Only escalations of this intent"),
           ("status" = Option<EscalationStatus>, Query, description = "Only escalations in this status"),
           ("assigned_to" = Option<String>, Query, description = "Only escalations assigned to this person"),
           ("before" = Option<String>, Query, description = "Only escalations older than this one: the last id of the previous page"), Limit100),
    responses((status = 200, description = "The escalations", body = EscalationList)))]
#[get("/escalations")]
async fn list(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    listed(&api, &asker, &filter(&query)?).await
}

/// The resolution of an escalation.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = EscalationResolution)]
#[schema(example = json!({ "resolution": "use the second source", "notes": "the first one was retracted" }))]
struct ResolveBody {
    /// The person that resolves it; defaults to the acting agent.
    resolved_by: Option<String>,
    /// The resolution.
    resolution: String,
    /// Notes on the resolution.
    #[serde(alias = "resolution_notes")]
    notes: Option<String>,
}

/// Resolve an escalation
///
/// An escalation assigned to a person is resolved by that person alone, with their own key.
#[utoipa::path(operation_id = "resolve_escalation", tag = "governance", request_body = ResolveBody, params(IdempotencyKey),
    responses((status = 200, description = "The escalation", body = EscalationBody),
              (status = 403, description = "`not_the_principal`", body = entente_http::error::ProblemBody),
              (status = 409, description = "`already_decided`", body = entente_http::error::ProblemBody)))]
#[post("/escalations/{escalation_id}/resolve")]
async fn resolve(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ResolveBody>,
) -> Reply {
    let escalation: EscalationId = id("escalation", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let by = said.resolved_by.as_deref().filter(|name| !name.is_empty());
    let by = asker.caller.speaker("resolved_by", by, api.ctx.settings.strict)?;
    let caller = asker.caller.acting_as(by);
    let done =
        escalations::resolve(&api.ctx, &caller, escalation, &said.resolution, said.notes, once.as_ref())
            .await?;
    ok(&EscalationBody::new(done, asker.dialect))
}
