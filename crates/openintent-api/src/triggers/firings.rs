//! Routes of trigger firings: firing manually, incoming webhooks, and history.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, get, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{FiringId, IntentId, JobId, TriggerId};
use entente_domain::limits::TRIGGER_BODY_BYTES;
use entente_domain::openintent::triggers::Cause;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{IdempotencyKey, Limit100, OptionalBody, Query, Raw, id, parse};
use entente_http::caller::{Asker, state_of};
use entente_http::error::{Problem, Reply};
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_http::{json, listed, ok};
use entente_openintent::triggers;
use entente_openintent::triggers::{Firing, FiringStatus, Received};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

/// Maximum number of a webhook's headers that templates can use.
const HEADERS: usize = 64;

/// Headers that carry credentials, which must not enter an intent.
const KEPT_OUT: [&str; 7] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "webhook-signature",
    "x-api-key",
    "x-hub-signature",
    "x-hub-signature-256",
];

pub fn routes(config: &mut Routes<'_>) {
    config.service(fire).service(history).service(firings).service(receive).service(receive_by_token);
}

/// Input for a manual firing, in place of the event or webhook that the trigger waits for.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = TriggerFire)]
#[schema(example = json!({ "body": { "amount": 5000 } }))]
struct FireBody {
    /// Members of an event.
    #[schema(value_type = Option<Object>)]
    event: Option<Map<String, Value>>,
    /// Body of a webhook.
    body: Option<Value>,
    /// Headers of a webhook.
    #[schema(value_type = Option<Object>)]
    headers: Option<Map<String, Value>>,
    /// Query of a webhook.
    #[schema(value_type = Option<Object>)]
    query: Option<Map<String, Value>>,
    /// Content of `payload`, for either kind of trigger.
    payload: Option<Value>,
}

impl FireBody {
    fn brought(self) -> Map<String, Value> {
        let object = |members: Option<Map<String, Value>>| members.map(Value::Object);
        let members = [
            ("event", object(self.event)),
            ("body", self.body),
            ("headers", object(self.headers)),
            ("query", object(self.query)),
            ("payload", self.payload),
        ];
        members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// The result of firing a trigger.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FiredTrigger)]
struct FiredBody {
    /// `fired`, `waiting` or `skipped`.
    status: FiringStatus,
    /// The trigger.
    trigger_id: TriggerId,
    /// Firing id.
    firing_id: FiringId,
    /// The created intent.
    intent_id: Option<IntentId>,
    /// Number of intents that the trigger has created.
    fire_count: i64,
    /// Why no intent was created.
    reason: Option<String>,
}

/// Fire a trigger manually
///
/// Behaves as if the trigger's condition had been met, whatever its type: creates the intent, unless one of
/// the same type is open and deduplication forbids another.
#[utoipa::path(operation_id = "fire_trigger", tag = "triggers", request_body = Option<FireBody>, params(IdempotencyKey),
    responses((status = 200, description = "Result of the firing", body = FiredBody)))]
#[post("/triggers/{trigger_id}/fire")]
async fn fire(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<FireBody>,
) -> Reply {
    let once = body.0.once(&request)?;
    let id: TriggerId = id("trigger", &path)?;
    let brought = body.0.value.brought();
    let (firing, fire_count) = triggers::fire(&api.ctx, &asker.caller, id, brought, once.as_ref()).await?;
    ok(&FiredBody {
        status: firing.status,
        trigger_id: firing.trigger_id,
        firing_id: firing.id,
        intent_id: firing.intent_id,
        fire_count,
        reason: firing.reason,
    })
}

/// One firing of a trigger.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TriggerFiring)]
struct FiringBody {
    /// Firing id.
    firing_id: FiringId,
    /// The trigger.
    trigger_id: TriggerId,
    /// Cause of the firing.
    cause: Cause,
    /// Status of the firing.
    status: FiringStatus,
    /// Code of the reason why no intent was created.
    reason: Option<String>,
    /// The same reason, for people.
    detail: Option<String>,
    /// The created intent.
    intent_id: Option<IntentId>,
    /// The submitted job; absent until it is submitted, within a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<JobId>,
    /// When the firing was due, if it was scheduled.
    due_at: Option<WireTime>,
    /// Agent that fired the trigger manually.
    fired_by: Option<String>,
    /// When the firing began.
    fired_at: WireTime,
    /// When the firing ended.
    done_at: Option<WireTime>,
}

impl FiringBody {
    fn new(firing: Firing, dialect: Dialect) -> Self {
        let time = |at| WireTime::new(at, dialect);
        Self {
            firing_id: firing.id,
            trigger_id: firing.trigger_id,
            cause: firing.cause,
            status: firing.status,
            reason: firing.reason,
            detail: firing.detail,
            intent_id: firing.intent_id,
            job_id: firing.job_id,
            due_at: firing.due_at.map(time),
            fired_by: firing.fired_by,
            fired_at: time(firing.created_at),
            done_at: firing.done_at.map(time),
        }
    }
}

async fn past(api: &ApiState, asker: &Asker, trigger: &str, query: &Query) -> Reply {
    let before = query.parsed("before", "a firing's id", |text| text.parse().ok())?;
    let limit = query.limit(100)?;
    let found = triggers::history(&api.ctx, &asker.caller, id("trigger", trigger)?, before, limit).await?;
    listed(found.into_iter().map(|one| FiringBody::new(one, asker.dialect)))
}

/// List a trigger's firings
///
/// Newest first; firings older than thirty days are deleted.
#[utoipa::path(operation_id = "list_trigger_history", tag = "triggers",
    params(("before" = Option<String>, Query, description = "Only firings older than this one: the last id of the previous page"), Limit100),
    responses((status = 200, description = "The firings", body = Vec<FiringBody>)))]
#[get("/triggers/{trigger_id}/history")]
async fn history(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    past(&api, &asker, &path, &query).await
}

/// List a trigger's firings (alternative path)
///
/// Same as `GET /triggers/{trigger_id}/history`.
#[utoipa::path(operation_id = "list_trigger_firings", tag = "triggers",
    params(("before" = Option<String>, Query, description = "Only firings older than this one: the last id of the previous page"), Limit100),
    responses((status = 200, description = "The firings", body = Vec<FiringBody>)))]
#[get("/triggers/{trigger_id}/firings")]
async fn firings(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    past(&api, &asker, &path, &query).await
}

/// The response to a webhook.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TriggerWebhookTaken)]
struct TakenBody {
    /// The trigger.
    trigger_id: TriggerId,
    /// Firing id.
    firing_id: FiringId,
    /// The created intent.
    intent_id: Option<IntentId>,
    /// `fired`, `waiting` or `skipped`.
    status: FiringStatus,
    /// Whether no intent was created because one of the same type is open (RFC-0017 §4.2).
    deduplicated: bool,
}

/// Content of a webhook: any JSON, whose parts the trigger's template and `condition.transform` can use.
#[derive(ToSchema)]
#[schema(as = TriggerWebhookContent)]
#[schema(example = json!({ "type": "invoice.paid", "data": { "id": "in_7", "amount": 1200 } }))]
#[expect(dead_code, reason = "only the document speaks of it: the body is read as the sender signed it")]
struct HookContent {
    /// Type of the event, in the sender's terms.
    r#type: Option<String>,
    /// Data of the event.
    data: Option<Value>,
}

async fn take(request: &HttpRequest, trigger: &str, token: Option<&str>, body: Raw) -> Reply {
    let (api, body) = (state_of::<ApiState>(request)?, body.0);
    if body.len() > TRIGGER_BODY_BYTES {
        let message = format!("A webhook has at most {TRIGGER_BODY_BYTES} bytes.");
        return Err(Refusal::new(Code::TooLarge, message).into());
    }
    let header = |name: &str| {
        let value = request.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let received = Received { header: &header, token, body: &body };
    let query = Query::of(request);
    let brought = || -> Result<Map<String, Value>, Problem> {
        let content = if body.trim_ascii().is_empty() { Value::Null } else { parse(&body)? };
        let query = query?.all();
        Ok(Map::from_iter([
            ("body".to_owned(), content),
            ("headers".to_owned(), Value::Object(spoken(request))),
            ("query".to_owned(), Value::Object(query)),
        ]))
    };
    let taken = triggers::receive(&api.ctx, trigger.parse().ok(), received, brought).await??;
    let status = if taken.status == FiringStatus::Skipped { StatusCode::OK } else { StatusCode::ACCEPTED };
    let said = TakenBody {
        trigger_id: taken.trigger_id,
        firing_id: taken.firing_id,
        intent_id: taken.intent_id,
        status: taken.status,
        deduplicated: taken.deduplicated,
    };
    json(status, &said)
}

/// Returns the headers that templates can use, with lowercase names.
fn spoken(request: &HttpRequest) -> Map<String, Value> {
    let headers = request.headers().iter().filter(|(name, _)| !KEPT_OUT.contains(&name.as_str()));
    let texts =
        headers.filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.into())));
    texts.take(HEADERS).collect()
}

/// Receive a webhook for a trigger
///
/// Needs no key: the sender signs with the trigger's secret, in the format of Standard Webhooks 1.0 or
/// GitHub. A delivery (`webhook-id`) is accepted once.
#[utoipa::path(operation_id = "receive_webhook", tag = "triggers", security(()),
    request_body(content = Option<HookContent>, description = "Body of the webhook: any JSON, or nothing"),
    params(("webhook-id" = Option<String>, Header, description = "Id of the delivery"),
           ("webhook-timestamp" = Option<String>, Header, description = "When the webhook was sent, in seconds since 1970"),
           ("webhook-signature" = Option<String>, Header, description = "`v1,` followed by the HMAC-SHA256 of id, time and body")),
    responses((status = 202, description = "The intent was created, or the firing waits", body = TakenBody),
              (status = 200, description = "No intent is created", body = TakenBody),
              (status = 401, description = "`unauthenticated`: the signature or the token is missing or wrong", body = entente_http::error::ProblemBody),
              (status = 409, description = "`invalid_transition`: the trigger is switched off", body = entente_http::error::ProblemBody)))]
#[post("/hooks/{trigger_id}")]
async fn receive(request: HttpRequest, path: web::Path<String>, body: Raw) -> Reply {
    take(&request, &path, None, body).await
}

/// Receive a webhook from a sender that cannot sign
///
/// A secret token at the end of the URL authenticates the sender (`verify: "token"`).
#[utoipa::path(operation_id = "receive_webhook_by_token", tag = "triggers", security(()),
    request_body(content = Option<HookContent>, description = "Body of the webhook: any JSON, or nothing"),
    params(("token" = String, Path, description = "Token at the end of the URL"),
           ("webhook-id" = Option<String>, Header, description = "Id of the delivery")),
    responses((status = 202, description = "The intent was created, or the firing waits", body = TakenBody),
              (status = 200, description = "No intent is created", body = TakenBody),
              (status = 401, description = "`unauthenticated`: the signature or the token is missing or wrong", body = entente_http::error::ProblemBody),
              (status = 409, description = "`invalid_transition`: the trigger is switched off", body = entente_http::error::ProblemBody)))]
#[post("/hooks/{trigger_id}/{token}")]
async fn receive_by_token(request: HttpRequest, path: web::Path<(String, String)>, body: Raw) -> Reply {
    take(&request, &path.0, Some(&path.1), body).await
}
