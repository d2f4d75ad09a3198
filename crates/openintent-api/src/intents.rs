//! Endpoints for intents (RFC-0001).

use actix_web::{HttpRequest, get, post, web};
use entente_domain::ids::IntentId;
use entente_domain::limits::PAGE;
use entente_domain::openintent::intents::{Intent, IntentAsk, IntentStatus};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, IdempotencyKey, IfMatch, Query, id, if_match};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::intent::IntentBody;
use entente_http::routes::Routes;
use entente_http::with_version;
use entente_kernel::intents::IntentFilter;
use entente_openintent::intents;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(create).service(list).service(get).service(set_status);
}

/// Returns 200 with the intent, and its version as `ETag`.
///
/// # Errors
/// The intent has no JSON form.
pub fn response(intent: &Intent, asker: &Asker) -> Reply {
    with_version(intent.version, &IntentBody::new(intent, asker.dialect))
}

/// An intent to create.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewIntent)]
#[schema(example = json!({ "title": "Research Q1 financials", "state": { "phase": "start" } }))]
pub(crate) struct CreateBody {
    /// The goal in one line.
    title: String,
    /// The goal in full.
    #[serde(default)]
    description: String,
    /// The agent that creates it; defaults to the acting agent.
    pub created_by: Option<String>,
    /// The parent intent.
    pub parent_intent_id: Option<String>,
    /// Same as `parent_intent_id`, under the reference server's name.
    pub parent_id: Option<String>,
    /// The intents it waits for.
    depends_on: Option<Vec<String>>,
    /// The constraints on the work; a list becomes the member `rules`.
    #[schema(value_type = Option<Object>)]
    constraints: Option<Value>,
    /// The initial state.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    state: Map<String, Value>,
    /// The initial status; defaults to `draft`.
    status: Option<IntentStatus>,
    /// A governance policy (RFC-0013), enforced from the beginning.
    #[schema(value_type = Option<Object>)]
    governance_policy: Option<Map<String, Value>>,
}

impl CreateBody {
    pub fn ask(self) -> Result<IntentAsk, Refusal> {
        let relation = |member: &str, text: &str| {
            text.parse::<IntentId>().map_err(|_no_id| {
                let message = format!("`{member}` names `{text}`, which is no intent's id.");
                Refusal::field(Code::Unprocessable, member, "unknown", message)
            })
        };
        let parent = self.parent_intent_id.or(self.parent_id).filter(|id| !id.is_empty());
        let constraints = match self.constraints {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(members)) => members,
            Some(Value::Array(rules)) if rules.is_empty() => Map::new(),
            Some(rules @ Value::Array(_)) => Map::from_iter([("rules".to_owned(), rules)]),
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                let message = "`constraints` must be an object.";
                return Err(Refusal::field(Code::InvalidRequest, "constraints", "object_type", message));
            }
        };
        Ok(IntentAsk {
            title: self.title,
            description: self.description,
            parent_id: parent.map(|id| relation("parent_intent_id", &id)).transpose()?,
            depends_on: self
                .depends_on
                .unwrap_or_default()
                .iter()
                .map(|id| relation("depends_on", id))
                .collect::<Result<_, _>>()?,
            constraints,
            state: self.state,
            status: self.status.unwrap_or(IntentStatus::Draft),
            governance_policy: self.governance_policy,
        })
    }
}

/// Create an intent
#[utoipa::path(operation_id = "create_intent", tag = "intents", request_body = CreateBody, params(IdempotencyKey),
    responses((status = 200, description = "The intent", body = IntentBody)))]
#[post("/intents")]
async fn create(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    body: Body<CreateBody>,
) -> Reply {
    let once = body.once(&request)?;
    let strict = api.ctx.settings.strict;
    let created_by = asker.caller.speaker("created_by", body.value.created_by.as_deref(), strict)?;
    let ask = body.value.ask()?;
    let intent = intents::create(&api.ctx, &asker.caller, &created_by, ask, once.as_ref()).await?;
    response(&intent, &asker)
}

/// A page of intents.
#[derive(Debug, Serialize, ToSchema)]
struct IntentList<'a> {
    /// The intents, the newest first.
    intents: Vec<IntentBody<'a>>,
}

/// List intents
///
/// Intents that the caller can read, newest first. A page has at most 4 MiB of states; `Entente-Has-More` tells that
/// it was cut short, and `before` continues after it.
#[utoipa::path(operation_id = "list_intents", tag = "intents",
    params(("status" = Option<IntentStatus>, Query, description = "Only intents in this status"),
           ("created_by" = Option<String>, Query, description = "Only intents created by this agent"),
           ("parent_id" = Option<String>, Query, description = "Only parts of this intent"),
           ("agent_id" = Option<String>, Query, description = "Only intents that this agent is assigned to"),
           ("before" = Option<String>, Query, description = "Only intents older than this one: the last id of the previous page"),
           ("limit" = Option<u32>, Query, description = "Page size, 1 to 1,000; defaults to 50", maximum = 1000),
           ("offset" = Option<u32>, Query, description = "Number of intents to skip; defaults to 0")),
    responses((status = 200, description = "The intents", body = IntentList,
               headers(("Entente-Has-More" = Option<String>, description = "`true` if the page was cut short because of its size")))))]
#[get("/intents")]
async fn list(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let filter = IntentFilter {
        status: query.parsed("status", "an intent status", IntentStatus::parse)?,
        created_by: query.text("created_by").map(str::to_owned),
        parent_id: query.parsed("parent_id", "an intent's id", |text| text.parse().ok())?,
        assigned_to: query.text("agent_id").map(str::to_owned),
        before: query.parsed("before", "an intent's id", |text| text.parse().ok())?,
        limit: query.limit(50.min(PAGE))?,
        offset: query.offset()?,
    };
    let found = intents::list(&api.ctx, &asker.caller, &filter).await?;
    let intents = found.items.iter().map(|intent| IntentBody::new(intent, asker.dialect)).collect();
    entente_http::paged(&IntentList { intents }, found.cut, found.large)
}

/// Get an intent
#[utoipa::path(operation_id = "get_intent",
    tag = "intents",
    responses((status = 200, description = "The intent; its version is the ETag", body = IntentBody),
              (status = 403, description = "`access_closed`: request access first", body = entente_http::error::ProblemBody)))]
#[get("/intents/{intent_id}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let intent = intents::get(&api.ctx, &asker.caller, id("intent", &path)?).await?;
    response(&intent, &asker)
}

/// A status change.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = IntentStatusChange)]
#[schema(example = json!({ "status": "completed", "reason": "all figures are in" }))]
struct StatusBody {
    /// The new status.
    status: IntentStatus,
    /// The reason.
    reason: Option<String>,
}

/// Change an intent's status
///
/// Under its version. `completed` and `abandoned` close the intent's channels and expire pending messages there
/// (RFC-0021 §7.1).
#[utoipa::path(operation_id = "set_intent_status", tag = "intents", request_body = StatusBody, params(IfMatch),
    responses((status = 200, description = "The intent", body = IntentBody),
              (status = 400, description = "`if_match_required`", body = entente_http::error::ProblemBody),
              (status = 409, description = "`version_conflict`, with `current_version`", body = entente_http::error::ProblemBody)))]
#[post("/intents/{intent_id}/status")]
async fn set_status(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<StatusBody>,
) -> Reply {
    let id: IntentId = id("intent", &path)?;
    let seen = if_match(&request)?;
    let reason = body.value.reason.as_deref();
    let intent = intents::set_status(&api.ctx, &asker.caller, id, seen, body.value.status, reason).await?;
    response(&intent, &asker)
}
