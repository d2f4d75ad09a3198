//! Routes of escalations (RFC-0013).

use actix_web::{HttpRequest, get, post, web};
use entente_domain::escalations::{Escalation, EscalationAsk, EscalationStatus, Weight};
use entente_domain::ids::{EscalationId, IntentId};
use entente_domain::keys::Dialect;
use entente_domain::limits::PAGE;
use entente_kernel::escalations::{self, Filter};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::body::{Body, Query, id};
use super::caller::Asker;
use super::error::{Problem, Reply};
use super::wire::WireTime;
use super::{Doors, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(escalate).service(of_intent).service(list).service(resolve);
}

/// An escalation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Escalation)]
struct EscalationBody {
    /// Its id.
    id: EscalationId,
    /// The intent.
    intent_id: IntentId,
    /// Who asks.
    #[schema(example = "agent.researcher")]
    escalated_by: String,
    /// The person who alone resolves it.
    #[schema(example = "human.ada")]
    assigned_to: Option<String>,
    /// Why.
    reason: String,
    /// How much it matters.
    priority: Weight,
    /// How soon.
    urgency: Weight,
    /// What helps whoever answers.
    #[schema(value_type = Object)]
    context: Map<String, Value>,
    /// What has become of it.
    status: EscalationStatus,
    /// When it was made.
    created_at: WireTime,
    /// When it was resolved.
    resolved_at: Option<WireTime>,
    /// By whom.
    resolved_by: Option<String>,
    /// How.
    resolution: Option<String>,
    /// What was said about that.
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

/// What is put before a person.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewEscalation)]
#[schema(example = json!({ "reason": "the two sources contradict each other", "priority": "high", "assigned_to": "human.ada" }))]
struct EscalateBody {
    /// Who asks; the acting agent when nothing is said.
    escalated_by: Option<String>,
    /// The person who alone is to resolve it; the policy's `escalate_to` when nothing is said.
    #[serde(alias = "to")]
    assigned_to: Option<String>,
    /// Why.
    reason: String,
    /// How much it matters; `medium` when nothing is said.
    priority: Option<Weight>,
    /// How soon; `medium` when nothing is said.
    urgency: Option<Weight>,
    /// What helps whoever answers.
    #[schema(value_type = Option<Object>)]
    context: Option<Map<String, Value>>,
}

/// Escalate to a person
///
/// Puts an intent before a person. One that is named resolves it alone, with a key of its own; else any person who can read the intent does, or an
/// admin of it.
#[utoipa::path(operation_id = "escalate_to_human", tag = "governance", request_body = EscalateBody,
    params(("intent_id" = String, Path, description = "The intent"),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 200, description = "The escalation", body = EscalationBody)))]
#[post("/intents/{intent_id}/escalations")]
async fn escalate(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<EscalateBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let by = said.escalated_by.as_deref().filter(|name| !name.is_empty());
    let by = asker.caller.speaker("escalated_by", by, doors.ctx.settings.strict)?;
    let ask = EscalationAsk {
        reason: said.reason,
        priority: said.priority.unwrap_or_default(),
        urgency: said.urgency.unwrap_or_default(),
        context: said.context.unwrap_or_default(),
        assigned_to: said.assigned_to.filter(|name| !name.is_empty()),
    };
    let caller = asker.caller.acting_as(by);
    let made = escalations::escalate(&doors.ctx, &caller, intent_id, ask, once.as_ref()).await?;
    ok(&EscalationBody::new(made, asker.dialect))
}

/// A page of escalations.
#[derive(Debug, Serialize, ToSchema)]
struct EscalationList {
    /// The escalations, the newest first.
    escalations: Vec<EscalationBody>,
}

/// The statuses that a list can be asked for; the SDK has a word more, which nothing here is in.
fn status(text: &str) -> Option<String> {
    let known = text == "acknowledged" || EscalationStatus::parse(text).is_some();
    known.then(|| text.to_owned())
}

fn filter(query: &Query) -> Result<Filter, Problem> {
    Ok(Filter {
        intent_id: query.text("intent_id").map(|text| id("intent", text)).transpose()?,
        status: query.parsed("status", "an escalation's status", status)?,
        assigned_to: query.text("assigned_to").map(str::to_owned),
        before: query.parsed("before", "an escalation's id", |text| text.parse().ok())?,
        limit: query.limit(100.min(PAGE))?,
    })
}

async fn listed(doors: &Doors, asker: &Asker, filter: &Filter) -> Reply {
    let found = escalations::list(&doors.ctx, &asker.caller, filter).await?;
    ok(&EscalationList {
        escalations: found.into_iter().map(|one| EscalationBody::new(one, asker.dialect)).collect(),
    })
}

/// List an intent's escalations
///
/// The newest first. A page that is full may have more behind it: ask again with `before`.
#[utoipa::path(operation_id = "list_intent_escalations", tag = "governance",
    params(("intent_id" = String, Path, description = "The intent"),
           ("status" = Option<EscalationStatus>, Query, description = "Only in this status"),
           ("assigned_to" = Option<String>, Query, description = "Only those that this person is to resolve"),
           ("before" = Option<String>, Query, description = "Only older than this one: the last id of the previous page"),
           ("limit" = Option<u32>, Query, description = "At most this many, 1 to 1,000; 100 when nothing is said", maximum = 1000)),
    responses((status = 200, description = "The escalations", body = EscalationList)))]
#[get("/intents/{intent_id}/escalations")]
async fn of_intent(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let filter = Filter { intent_id: Some(id("intent", &path)?), ..filter(&query)? };
    listed(&doors, &asker, &filter).await
}

/// List escalations
///
/// Those on intents that the caller can read, and those that were put before it by name; the newest first. A page that is full may have more
/// behind it: ask again with `before`.
#[utoipa::path(operation_id = "list_escalations", tag = "governance",
    params(("intent_id" = Option<String>, Query, description = "Only of this intent"),
           ("status" = Option<EscalationStatus>, Query, description = "Only in this status"),
           ("assigned_to" = Option<String>, Query, description = "Only those that this person is to resolve"),
           ("before" = Option<String>, Query, description = "Only older than this one: the last id of the previous page"),
           ("limit" = Option<u32>, Query, description = "At most this many, 1 to 1,000; 100 when nothing is said", maximum = 1000)),
    responses((status = 200, description = "The escalations", body = EscalationList)))]
#[get("/escalations")]
async fn list(doors: web::Data<Doors>, asker: Asker, query: Query) -> Reply {
    listed(&doors, &asker, &filter(&query)?).await
}

/// What was decided.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = EscalationResolution)]
#[schema(example = json!({ "resolution": "use the second source", "notes": "the first one was retracted" }))]
struct ResolveBody {
    /// Who decides; the acting agent when nothing is said.
    resolved_by: Option<String>,
    /// What.
    resolution: String,
    /// What is said about that.
    #[serde(alias = "resolution_notes")]
    notes: Option<String>,
}

/// Resolve an escalation
///
/// One that was put before a person by name is resolved by that person alone, with a key of its own.
#[utoipa::path(operation_id = "resolve_escalation", tag = "governance", request_body = ResolveBody,
    params(("escalation_id" = String, Path, description = "The escalation"),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 200, description = "The escalation", body = EscalationBody),
              (status = 403, description = "`not_the_principal`", body = super::error::ProblemBody),
              (status = 409, description = "`already_decided`", body = super::error::ProblemBody)))]
#[post("/escalations/{escalation_id}/resolve")]
async fn resolve(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ResolveBody>,
) -> Reply {
    let escalation: EscalationId = id("escalation", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let by = said.resolved_by.as_deref().filter(|name| !name.is_empty());
    let by = asker.caller.speaker("resolved_by", by, doors.ctx.settings.strict)?;
    let caller = asker.caller.acting_as(by);
    let done =
        escalations::resolve(&doors.ctx, &caller, escalation, &said.resolution, said.notes, once.as_ref())
            .await?;
    ok(&EscalationBody::new(done, asker.dialect))
}
