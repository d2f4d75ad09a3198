//! Endpoints for failures (RFC-0010). The SDK's two clients report them under different names: both are accepted
//! (OI-15.34).

use actix_web::{HttpRequest, get, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{FailureId, IntentId};
use entente_domain::limits::PAGE;
use entente_domain::openintent::failures::{Failure, FailureAsk, Next, Reason};
use entente_http::body::{Body, IdempotencyKey, Limit1000, Query, id};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::routes::Routes;
use entente_http::wire::{GivenTime, WireTime};
use entente_http::{ok, with_next};
use entente_openintent::failures;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(record);
}

/// The consequence of a failure.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FailureRetry)]
struct RetryBody {
    /// `again`: the agent should try again; `own`: the agent retries on its own schedule; `handed_over`: another
    /// agent takes over; `nothing`: no retry.
    #[schema(example = "again")]
    decision: &'static str,
    /// Why there is no retry.
    reason: Option<Reason>,
    /// Number of the retry, from 1.
    attempt: Option<u32>,
    /// When the retry is due.
    at: Option<WireTime>,
    /// The agent that retries.
    agent_id: Option<String>,
    /// When that agent was notified (`agent_assigned` with `retry_attempt`); null before that.
    announced_at: Option<WireTime>,
}

/// A failed attempt.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Failure)]
struct FailureBody {
    /// The failure's id.
    id: FailureId,
    /// The intent.
    intent_id: IntentId,
    /// The agent whose attempt failed.
    agent_id: String,
    /// Number of the failed attempt.
    attempt_number: u32,
    /// The kind of failure.
    error_code: Option<String>,
    /// Same as `error_code`, under another name.
    error_type: Option<String>,
    /// The error message.
    error_message: Option<String>,
    /// Whether another attempt may succeed.
    recoverable: bool,
    /// When the retry is due.
    retry_scheduled_at: Option<WireTime>,
    /// The consequence of the failure.
    retry: RetryBody,
    /// When the intent was completed, after which the failure no longer matters.
    resolved_at: Option<WireTime>,
    /// Client-defined metadata.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// When it was recorded.
    created_at: WireTime,
    /// Same as `retry_scheduled_at`, under the SDK's name.
    #[serde(rename = "retryScheduledAt")]
    retry_scheduled_at_too: Option<WireTime>,
    /// Same as `resolved_at`, under the SDK's name.
    #[serde(rename = "resolvedAt")]
    resolved_at_too: Option<WireTime>,
    /// Same as `created_at`, under the SDK's name.
    #[serde(rename = "createdAt")]
    created_at_too: WireTime,
}

impl FailureBody {
    fn new(failure: Failure, dialect: Dialect) -> Self {
        let time = |at| WireTime::new(at, dialect);
        let (created_at, resolved_at) = (time(failure.created_at), failure.resolved_at.map(time));
        let own = || Some(failure.agent_id.clone());
        let (decision, reason, attempt, at, agent_id) = match failure.next {
            Next::Again { attempt, at } => ("again", None, Some(attempt), Some(at), own()),
            Next::Own { at } => ("own", None, None, Some(at), own()),
            Next::HandedOver { agent_id, attempt } => {
                ("handed_over", None, Some(attempt), Some(failure.created_at), Some(agent_id))
            }
            Next::Nothing { reason } => ("nothing", Some(reason), None, None, None),
        };
        let at = at.map(time);
        let announced_at = failure.announced_at.map(time);
        Self {
            id: failure.id,
            intent_id: failure.intent_id,
            agent_id: failure.agent_id,
            attempt_number: failure.attempt_number,
            error_type: failure.error_code.clone(),
            error_code: failure.error_code,
            error_message: failure.error_message,
            recoverable: failure.recoverable,
            retry_scheduled_at: at,
            retry: RetryBody { decision, reason, attempt, at, agent_id, announced_at },
            resolved_at,
            metadata: failure.metadata,
            created_at,
            retry_scheduled_at_too: at,
            resolved_at_too: resolved_at,
            created_at_too: created_at,
        }
    }
}

/// A failure to record.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewFailure)]
#[schema(example = json!({ "attempt_number": 1, "error_code": "timeout", "error_message": "the archive did not answer" }))]
struct RecordBody {
    /// The agent whose attempt failed; defaults to the acting agent.
    agent_id: Option<String>,
    /// Number of the failed attempt; defaults to the next one.
    attempt_number: Option<u32>,
    /// The kind of failure. Also accepted as `error_type`.
    #[serde(alias = "error_type")]
    error_code: Option<String>,
    /// The error message.
    error_message: Option<String>,
    /// Whether another attempt may succeed; defaults to true.
    recoverable: Option<bool>,
    /// When the agent will retry on its own. It is then not notified.
    retry_scheduled_at: Option<GivenTime>,
    /// Client-defined metadata.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// Record a failed attempt at an intent
///
/// `retry` in the response has the consequence under the intent's retry policy. An agent assigned to the intent is
/// notified when its pause is over, by an assignment with `retry_attempt` and `last_error`.
#[utoipa::path(operation_id = "record_failure", tag = "ledgers", request_body = RecordBody, params(IdempotencyKey),
    responses((status = 200, description = "The failure", body = FailureBody)))]
#[post("/intents/{intent_id}/failures")]
async fn record(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<RecordBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let strict = api.ctx.settings.strict;
    let caller =
        asker.caller.acting_as(asker.caller.speaker("agent_id", said.agent_id.as_deref(), strict)?);
    let ask = FailureAsk {
        attempt_number: said.attempt_number,
        error_code: said.error_code.filter(|code| !code.is_empty()),
        error_message: said.error_message,
        recoverable: said.recoverable,
        retry_scheduled_at: said.retry_scheduled_at.map(|at| at.0),
        metadata: said.metadata.unwrap_or_default(),
    };
    let made = failures::record(&api.ctx, &caller, intent_id, ask, once.as_ref()).await?;
    ok(&FailureBody::new(made, asker.dialect))
}

/// List the failures on an intent
///
/// Oldest first, in pages. If another page follows, the header `Entente-Next-Cursor` is its `after`.
#[utoipa::path(operation_id = "list_failures", tag = "ledgers",
    params(("after" = Option<i64>, Query, description = "`Entente-Next-Cursor` of the previous page"), Limit1000),
    responses((status = 200, description = "The failures", body = [FailureBody],
               headers(("Entente-Next-Cursor" = String, description = "The `after` of the next page; absent on the last page")))))]
#[get("/intents/{intent_id}/failures")]
async fn list(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let (after, limit) = (query.place()?, query.limit(PAGE)?);
    let page = failures::list(&api.ctx, &asker.caller, id("intent", &path)?, after, limit).await?;
    let bodies: Vec<_> = page.failures.into_iter().map(|one| FailureBody::new(one, asker.dialect)).collect();
    with_next(&bodies, page.next)
}
