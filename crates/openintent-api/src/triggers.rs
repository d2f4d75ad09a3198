//! Trigger routes (RFC-0017): creating, finding and changing triggers. Firing, history and incoming webhooks
//! are in `triggers/firings.rs`.

mod bodies;
mod firings;
mod templates;

use actix_web::{HttpRequest, delete, get, patch, post, web};
use entente_domain::ids::TriggerId;
use entente_domain::limits::PAGE;
use entente_domain::openintent::triggers::{Trigger, TriggerKind};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, IdempotencyKey, IfMatch, Limit1000, Query, id, if_match_of};
use entente_http::caller::Asker;
use entente_http::error::{ProblemBody, Reply};
use entente_http::routes::Routes;
use entente_http::{listed, ok, with_version};
use entente_openintent::triggers;
use entente_openintent::triggers::TriggerView;
use serde::Serialize;
use utoipa::ToSchema;

use crate::ApiState;
use crate::triggers::bodies::{AskBody, TriggerBody};

pub fn routes(config: &mut Routes<'_>) {
    config.service(create).service(list).service(get).service(change).service(remove).service(rotate);
    firings::routes(config);
}

/// Returns a 200 with the trigger, and its version as `ETag`.
fn answer(shown: TriggerView, asker: &Asker) -> Reply {
    with_version(shown.trigger.version, &TriggerBody::new(shown, asker.dialect))
}

fn plain(trigger: Trigger) -> TriggerView {
    TriggerView { trigger, secret: None }
}

fn missing(member: &str, what: &str) -> Refusal {
    Refusal::field(Code::InvalidRequest, member, "missing", format!("`{member}` is missing: {what}."))
}

/// Create a trigger
///
/// The trigger creates intents as the acting agent, with the powers of this key or of the keys that replace
/// it by rotation. A schedule uses `cron`, `every_seconds` or `at`; an event trigger uses `event` and
/// `filter`; webhooks are received at its `webhook_url`.
#[utoipa::path(operation_id = "create_trigger", tag = "triggers", request_body = AskBody, params(IdempotencyKey),
    responses((status = 200, description = "The trigger, with the secret that signs webhooks, which is shown only once", body = TriggerBody)))]
#[post("/triggers")]
async fn create(request: HttpRequest, api: web::Data<ApiState>, asker: Asker, body: Body<AskBody>) -> Reply {
    let once = body.once(&request)?;
    let strict = api.ctx.settings.strict;
    let agent = asker.caller.speaker("created_by", None, strict)?;
    let kind = body.value.r#type.ok_or_else(|| missing("type", "`schedule`, `event` or `webhook`"))?;
    let (ask, secret) = body.value.split();
    if ask.name.is_none() {
        return Err(missing("name", "what people call it").into());
    }
    let (ctx, once) = (&api.ctx, once.as_ref());
    answer(triggers::create(ctx, &asker.caller, &agent, kind, ask, secret, once).await?, &asker)
}

/// List triggers
///
/// Returns the caller's own triggers, oldest first; with the scope `admin`, everyone's.
#[utoipa::path(operation_id = "list_triggers", tag = "triggers",
    params(("namespace" = Option<String>, Query, description = "Only triggers of this namespace"),
           ("type" = Option<TriggerKind>, Query, description = "Only triggers of this type"),
           ("enabled" = Option<bool>, Query, description = "Only enabled triggers (`true`), or only disabled ones (`false`)"),
           ("after" = Option<String>, Query, description = "Only triggers later than this one: the last id of the previous page"), Limit1000),
    responses((status = 200, description = "The triggers", body = Vec<TriggerBody>)))]
#[get("/triggers")]
async fn list(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let word = |text: &str| match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    };
    let filter = triggers::TriggerFilter {
        namespace: query.text("namespace").map(str::to_owned),
        kind: query.parsed("type", "a trigger's type", TriggerKind::parse)?,
        enabled: query.parsed("enabled", "true or false", word)?,
        after: query.parsed("after", "a trigger's id", |text| text.parse().ok())?,
        limit: query.limit(PAGE)?,
    };
    let found = triggers::list(&api.ctx, &asker.caller, &filter).await?;
    let bodies = found.into_iter().map(|one| TriggerBody::new(plain(one), asker.dialect));
    listed(bodies)
}

/// Get a trigger
#[utoipa::path(operation_id = "get_trigger", tag = "triggers",
    responses((status = 200, description = "The trigger; its version is the ETag", body = TriggerBody)))]
#[get("/triggers/{trigger_id}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    answer(plain(triggers::get(&api.ctx, &asker.caller, id("trigger", &path)?).await?), &asker)
}

/// Change a trigger
///
/// Requires the version last read in `If-Match`. From then on, the trigger creates intents with the powers of
/// this key, and its schedule restarts. With the scope `admin`, triggers of others can be switched on and
/// off.
#[utoipa::path(operation_id = "update_trigger", tag = "triggers", request_body = AskBody, params(IfMatch),
    responses((status = 200, description = "The trigger", body = TriggerBody),
              (status = 409, description = "`version_conflict`", body = ProblemBody),
              (status = 428, description = "`precondition_required`", body = ProblemBody)))]
#[patch("/triggers/{trigger_id}")]
async fn change(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<AskBody>,
) -> Reply {
    let id: TriggerId = id("trigger", &path)?;
    let seen = if_match_of("trigger", &request)?;
    if let Some(kind) = body.value.r#type
        && triggers::get(&api.ctx, &asker.caller, id).await?.kind != kind
    {
        let message = "A trigger's `type` cannot be changed. Set up another trigger.";
        return Err(Refusal::field(Code::Unprocessable, "type", "fixed", message).into());
    }
    let (ask, secret) = body.value.split();
    answer(triggers::change(&api.ctx, &asker.caller, id, seen, ask, secret).await?, &asker)
}

/// The response to a deletion.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RemovedTrigger)]
struct RemovedBody {
    /// Always `deleted`.
    status: &'static str,
    /// Trigger id.
    trigger_id: TriggerId,
}

/// Delete a trigger
///
/// Intents that the trigger created remain.
#[utoipa::path(operation_id = "delete_trigger", tag = "triggers",
    responses((status = 200, description = "The trigger was deleted", body = RemovedBody)))]
#[delete("/triggers/{trigger_id}")]
async fn remove(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let trigger_id: TriggerId = id("trigger", &path)?;
    triggers::remove(&api.ctx, &asker.caller, trigger_id).await?;
    ok(&RemovedBody { status: "deleted", trigger_id })
}

/// Rotate a webhook trigger's secret
///
/// The old secret stops working immediately, and so does a URL that contains the old token.
#[utoipa::path(operation_id = "rotate_trigger_secret", tag = "triggers",
    responses((status = 200, description = "The trigger, with its new secret, which is shown only once", body = TriggerBody)))]
#[post("/triggers/{trigger_id}/secret")]
async fn rotate(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    answer(triggers::rotate(&api.ctx, &asker.caller, id("trigger", &path)?).await?, &asker)
}
