//! Routes of firing triggers: by hand, from outside, and what came of it.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, get, post, web};
use entente_domain::ids::{FiringId, IntentId, TriggerId};
use entente_domain::keys::Dialect;
use entente_domain::limits::TRIGGER_BODY_BYTES;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::triggers::Cause;
use entente_kernel::triggers::{self, Firing, FiringStatus, Received};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::http::body::{OptionalBody, Query, Raw, id, parse};
use crate::http::caller::Asker;
use crate::http::error::{Problem, Reply};
use crate::http::routes::Routes;
use crate::http::wire::WireTime;
use crate::http::{Doors, json, listed, ok};

/// Headers of a webhook that templates can speak of.
const HEADERS: usize = 64;

/// Headers that open something: they get into no intent.
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

/// What a trigger that is fired by hand is to find, as if it had come.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = TriggerFire)]
#[schema(example = json!({ "body": { "amount": 5000 } }))]
struct FireBody {
    /// The members of an event.
    #[schema(value_type = Option<Object>)]
    event: Option<Map<String, Value>>,
    /// A webhook's body.
    body: Option<Value>,
    /// A webhook's headers.
    #[schema(value_type = Option<Object>)]
    headers: Option<Map<String, Value>>,
    /// A webhook's query.
    #[schema(value_type = Option<Object>)]
    query: Option<Map<String, Value>>,
    /// For `payload`, whichever it is of.
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

/// What came of firing a trigger.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FiredTrigger)]
struct FiredBody {
    /// `fired`, `waiting` or `skipped`.
    status: FiringStatus,
    /// The trigger.
    trigger_id: TriggerId,
    /// The firing.
    firing_id: FiringId,
    /// The intent that was made.
    intent_id: Option<IntentId>,
    /// Intents that the trigger has made by now.
    fire_count: i64,
    /// Why none was made.
    reason: Option<String>,
}

/// Fire a trigger by hand
///
/// Whatever it waits for, as if it had come: it makes its intent, unless one of its type is open and it is not to make
/// another.
#[utoipa::path(operation_id = "fire_trigger", tag = "triggers", request_body = Option<FireBody>,
    params(("trigger_id" = String, Path, description = "The trigger"),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 200, description = "What came of it", body = FiredBody)))]
#[post("/triggers/{trigger_id}/fire")]
async fn fire(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<FireBody>,
) -> Reply {
    let once = body.0.once(&request)?;
    let id: TriggerId = id("trigger", &path)?;
    let brought = body.0.value.brought();
    let (firing, fire_count) = triggers::fire(&doors.ctx, &asker.caller, id, brought, once.as_ref()).await?;
    ok(&FiredBody {
        status: firing.status,
        trigger_id: firing.trigger_id,
        firing_id: firing.id,
        intent_id: firing.intent_id,
        fire_count,
        reason: firing.reason,
    })
}

/// One time that a trigger was due.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TriggerFiring)]
struct FiringBody {
    /// Its id.
    firing_id: FiringId,
    /// The trigger.
    trigger_id: TriggerId,
    /// What it was due for.
    cause: Cause,
    /// What has become of it.
    status: FiringStatus,
    /// Why it made no intent, in a word.
    reason: Option<String>,
    /// The same for people.
    detail: Option<String>,
    /// The intent that it made.
    intent_id: Option<IntentId>,
    /// The time that it was due at, if it was that.
    due_at: Option<WireTime>,
    /// Who did it by hand.
    fired_by: Option<String>,
    /// When it came.
    fired_at: WireTime,
    /// When it was over.
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
            due_at: firing.due_at.map(time),
            fired_by: firing.fired_by,
            fired_at: time(firing.created_at),
            done_at: firing.done_at.map(time),
        }
    }
}

async fn past(doors: &Doors, asker: &Asker, trigger: &str, query: &Query) -> Reply {
    let before = query.parsed("before", "a firing's id", |text| text.parse().ok())?;
    let limit = query.limit(100)?;
    let found = triggers::history(&doors.ctx, &asker.caller, id("trigger", trigger)?, before, limit).await?;
    listed(found.into_iter().map(|one| FiringBody::new(one, asker.dialect)))
}

/// List what a trigger did
///
/// The newest first; what is older than thirty days is forgotten.
#[utoipa::path(operation_id = "list_trigger_history", tag = "triggers",
    params(("trigger_id" = String, Path, description = "The trigger"),
           ("before" = Option<String>, Query, description = "Only older than this firing: the last id of the previous page"),
           ("limit" = Option<u32>, Query, description = "At most this many, 1 to 1,000; 100 when nothing is said", maximum = 1000)),
    responses((status = 200, description = "The firings", body = Vec<FiringBody>)))]
#[get("/triggers/{trigger_id}/history")]
async fn history(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    past(&doors, &asker, &path, &query).await
}

/// List what a trigger did, under the house's name
///
/// As `GET /triggers/{trigger_id}/history`.
#[utoipa::path(operation_id = "list_trigger_firings", tag = "triggers",
    params(("trigger_id" = String, Path, description = "The trigger"),
           ("before" = Option<String>, Query, description = "Only older than this firing: the last id of the previous page"),
           ("limit" = Option<u32>, Query, description = "At most this many, 1 to 1,000; 100 when nothing is said", maximum = 1000)),
    responses((status = 200, description = "The firings", body = Vec<FiringBody>)))]
#[get("/triggers/{trigger_id}/firings")]
async fn firings(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    past(&doors, &asker, &path, &query).await
}

/// What became of a webhook.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TriggerWebhookTaken)]
struct TakenBody {
    /// The trigger.
    trigger_id: TriggerId,
    /// The firing.
    firing_id: FiringId,
    /// The intent that was made.
    intent_id: Option<IntentId>,
    /// `fired`, `waiting` or `skipped`.
    status: FiringStatus,
    /// None was made, because one of its type is open (RFC-0017 §4.2).
    deduplicated: bool,
}

/// What a webhook brings: any JSON, whose parts the trigger's template and `condition.transform` speak of.
#[derive(ToSchema)]
#[schema(as = TriggerWebhookContent)]
#[schema(example = json!({ "type": "invoice.paid", "data": { "id": "in_7", "amount": 1200 } }))]
#[expect(dead_code, reason = "only the document speaks of it: the body is read as the sender signed it")]
struct HookContent {
    /// What has happened, as the sender calls it.
    r#type: Option<String>,
    /// What it is about.
    data: Option<Value>,
}

async fn take(
    request: &HttpRequest,
    doors: &Doors,
    (trigger, token): (&str, Option<&str>),
    body: Raw,
) -> Reply {
    let body = body.0;
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
    let taken = triggers::receive(&doors.ctx, trigger.parse().ok(), received, brought).await??;
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

/// The headers that templates can speak of, by their names in small letters.
fn spoken(request: &HttpRequest) -> Map<String, Value> {
    let headers = request.headers().iter().filter(|(name, _)| !KEPT_OUT.contains(&name.as_str()));
    let texts =
        headers.filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.into())));
    texts.take(HEADERS).collect()
}

/// Take in a webhook for a trigger
///
/// Needs no key: the sender signs with the trigger's secret, as Standard Webhooks 1.0 or GitHub has it. The same delivery
/// (`webhook-id`) is taken in once.
#[utoipa::path(operation_id = "receive_webhook", tag = "triggers", security(()),
    request_body(content = HookContent, description = "Any JSON"),
    params(("trigger_id" = String, Path, description = "The trigger"),
           ("webhook-id" = Option<String>, Header, description = "The delivery's own id"),
           ("webhook-timestamp" = Option<String>, Header, description = "When it was sent, in seconds since 1970"),
           ("webhook-signature" = Option<String>, Header, description = "`v1,` and the HMAC-SHA256 of id, time and body")),
    responses((status = 202, description = "An intent was made, or waits", body = TakenBody),
              (status = 200, description = "None is to be made", body = TakenBody)))]
#[post("/hooks/{trigger_id}")]
async fn receive(request: HttpRequest, doors: web::Data<Doors>, path: web::Path<String>, body: Raw) -> Reply {
    take(&request, &doors, (&path, None), body).await
}

/// Take in a webhook from who cannot sign
///
/// The end of the URL is what nobody can guess (`verify: "token"`).
#[utoipa::path(operation_id = "receive_webhook_by_token", tag = "triggers", security(()),
    request_body(content = HookContent, description = "Any JSON"),
    params(("trigger_id" = String, Path, description = "The trigger"),
           ("token" = String, Path, description = "What its URL ends in"),
           ("webhook-id" = Option<String>, Header, description = "The delivery's own id")),
    responses((status = 202, description = "An intent was made, or waits", body = TakenBody),
              (status = 200, description = "None is to be made", body = TakenBody)))]
#[post("/hooks/{trigger_id}/{token}")]
async fn receive_by_token(
    request: HttpRequest,
    doors: web::Data<Doors>,
    path: web::Path<(String, String)>,
    body: Raw,
) -> Reply {
    take(&request, &doors, (&path.0, Some(&path.1)), body).await
}
