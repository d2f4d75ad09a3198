//! Endpoints for tool invocations (RFC-0014): calling a tool through the server, reporting a call, and listing calls.

use actix_web::{HttpRequest, get, post, web};
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{InvocationId, ToolGrantId};
use entente_domain::limits::INVOCATION_PAGE;
use entente_domain::openintent::tools::invocations::{Invocation, InvocationStatus, Report};
use entente_http::body::{IdempotencyKey, Query, Raw, id, read};
use entente_http::caller::Asker;
use entente_http::error::{Problem, ProblemBody, Reply};
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_http::{listed, ok};
use entente_openintent::tools::invocations;
use entente_openintent::tools::invocations::{Ask, InvocationPage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

/// Default page size, the SDK's.
const USUAL_PAGE: u32 = 50;

pub fn routes(config: &mut Routes<'_>) {
    config.service(invoke).service(report).service(list);
}

/// An invocation of a tool.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolInvocation)]
struct InvocationBody {
    /// The invocation's id.
    id: InvocationId,
    /// Same as `id`, under the SDK's name.
    invocation_id: InvocationId,
    /// The grant it was made under.
    grant_id: ToolGrantId,
    /// The service.
    service: String,
    /// The tool.
    tool: String,
    /// The agent that made it.
    agent_id: String,
    /// The parameters, without secrets.
    #[schema(value_type = Object)]
    parameters: Map<String, Value>,
    /// The invocation's status.
    status: InvocationStatus,
    /// The tool's result: an object as it is, other JSON as `value`, other text as `raw`.
    #[schema(value_type = Option<Object>)]
    result: Option<Map<String, Value>>,
    /// The error, with `code` and `message`.
    #[schema(value_type = Option<Object>)]
    error: Option<Map<String, Value>>,
    /// The cost, as reported by the agent.
    #[schema(value_type = Option<Object>)]
    cost: Option<Map<String, Value>>,
    /// Duration in milliseconds.
    duration_ms: Option<i32>,
    /// The tool's HTTP status.
    http_status: Option<i32>,
    /// Size of the request body in bytes.
    request_bytes: Option<i32>,
    /// Size of the response in bytes.
    response_bytes: Option<i32>,
    /// The client's idempotency key.
    idempotency_key: Option<String>,
    /// Further information from the agent.
    #[schema(value_type = Object)]
    context: Map<String, Value>,
    /// Whether an agent reported the call; the server then did not make it.
    reported: bool,
    /// When it began.
    timestamp: WireTime,
}

impl InvocationBody {
    fn new(one: Invocation, dialect: Dialect) -> Self {
        Self {
            id: one.id,
            invocation_id: one.id,
            grant_id: one.grant_id,
            service: one.service,
            tool: one.tool,
            agent_id: one.agent_id,
            parameters: one.parameters,
            status: one.status,
            result: one.result,
            error: one.error,
            cost: one.cost,
            duration_ms: one.duration_ms,
            http_status: one.http_status,
            request_bytes: one.request_bytes,
            response_bytes: one.response_bytes,
            idempotency_key: one.idempotency_key,
            context: one.context,
            reported: one.reported,
            timestamp: WireTime::new(one.started_at, dialect),
        }
    }
}

/// A tool call to make.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ToolCall, example = json!({
    "tool_name": "web_search", "agent_id": "agent.researcher", "parameters": { "q": "coordination of agents" }
}))]
struct CallBody {
    /// The tool.
    #[serde(alias = "tool")]
    tool_name: String,
    /// The agent that calls; defaults to the acting agent.
    agent_id: Option<String>,
    /// The parameters for the tool.
    #[serde(default)]
    #[schema(value_type = Object)]
    parameters: Map<String, Value>,
    /// The grant to use; defaults to the first that fits, with the agent's own vaults before those of others.
    grant_id: Option<String>,
    /// The intent that the call is for: stops and budgets of the intent then hold for the call as well.
    intent_id: Option<String>,
    /// Same as the header `Idempotency-Key`, for clients that send it in the body.
    idempotency_key: Option<String>,
}

/// The result of a tool call.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolCallResult)]
struct ResultBody {
    /// The id of the recorded invocation.
    invocation_id: InvocationId,
    /// The tool.
    tool_name: String,
    /// The grant it was called under.
    grant_id: ToolGrantId,
    /// The service.
    service: String,
    /// `success`, `error` or `denied`.
    status: InvocationStatus,
    /// The tool's result, without the credential's secret.
    #[schema(value_type = Option<Object>)]
    result: Option<Map<String, Value>>,
    /// The error as a sentence.
    error: Option<String>,
    /// The error's code: `refused`, `redirected`, `timed_out`, `unreachable`, `blocked`, `too_large`, `no_token` or
    /// `interrupted`.
    error_code: Option<String>,
    /// Duration in milliseconds.
    duration_ms: Option<i32>,
    /// The tool's HTTP status.
    http_status: Option<i32>,
}

impl From<Invocation> for ResultBody {
    fn from(one: Invocation) -> Self {
        let part = |name: &str| one.error.as_ref()?.get(name)?.as_str().map(str::to_owned);
        Self {
            error: part("message"),
            error_code: part("code"),
            invocation_id: one.id,
            tool_name: one.tool,
            grant_id: one.grant_id,
            service: one.service,
            status: one.status,
            result: one.result,
            duration_ms: one.duration_ms,
            http_status: one.http_status,
        }
    }
}

/// Returns the idempotency key: from the header, or from the body as clients of the reference server send it.
fn once(request: &HttpRequest, raw: &Raw, said: Option<&String>) -> Result<Option<Idempotency>, Problem> {
    let header = raw.once(request)?;
    let operation = format!("{} {}", request.method(), request.path());
    let beside = said.filter(|key| !key.is_empty()).map(|key| Idempotency::new(key, &operation, &raw.0));
    Ok(header.or(beside.transpose()?))
}

/// Call a tool
///
/// The server chooses the agent's grant, makes the request described by the credential's connection with a secret
/// that the agent never sees, and records the result. A failure of the tool is reported with 200 and `status`,
/// because the call was made and recorded; a call that may not begin is refused. With an idempotency key a tool is
/// called only once, even if its result was lost.
#[utoipa::path(operation_id = "invoke_tool", tag = "tools", request_body = CallBody, params(IdempotencyKey),
    responses((status = 200, description = "Result of the call", body = ResultBody),
              (status = 403, description = "No grant allows the call, or it is stopped", body = ProblemBody),
              (status = 422, description = "The credential's connection cannot make such a call", body = ProblemBody),
              (status = 429, description = "The hourly limit of the grant is reached", body = ProblemBody)))]
#[post("/tools/invoke")]
async fn invoke(request: HttpRequest, api: web::Data<ApiState>, asker: Asker, raw: Raw) -> Reply {
    let said: CallBody = read(&request, &raw.0)?;
    let once = once(&request, &raw, said.idempotency_key.as_ref())?;
    let ask = Ask {
        tool: said.tool_name,
        agent_id: said.agent_id,
        parameters: said.parameters,
        grant_id: said.grant_id.map(|text| id("grant", &text)).transpose()?,
        intent_id: said.intent_id.map(|text| id("intent", &text)).transpose()?,
        peer: request.peer_addr().map(|peer| peer.ip()),
    };
    let done = api.tools.invoke(asker.caller, ask, once).await?;
    ok(&ResultBody::from(done))
}

/// A call that an agent made on its own.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ToolReport, example = json!({
    "grant_id": "grant_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "service": "search", "tool": "web_search", "agent_id": "agent.researcher",
    "parameters": { "q": "coordination of agents" }, "status": "success", "duration_ms": 420
}))]
struct ReportBody {
    /// The grant.
    grant_id: String,
    /// The service.
    service: String,
    /// The tool.
    tool: String,
    /// The agent that made the call.
    agent_id: String,
    /// The parameters.
    #[serde(default)]
    #[schema(value_type = Object)]
    parameters: Map<String, Value>,
    /// The call's status; defaults to `success`.
    status: Option<InvocationStatus>,
    /// The tool's result.
    #[schema(value_type = Option<Object>)]
    result: Option<Map<String, Value>>,
    /// The error.
    #[schema(value_type = Option<Object>)]
    error: Option<Map<String, Value>>,
    /// The cost.
    #[schema(value_type = Option<Object>)]
    cost: Option<Map<String, Value>>,
    /// Duration in milliseconds.
    duration_ms: Option<i32>,
    /// Same as the header `Idempotency-Key`, for clients that send it in the body.
    idempotency_key: Option<String>,
    /// Further information.
    #[serde(default)]
    #[schema(value_type = Object)]
    context: Map<String, Value>,
}

/// Report a call
///
/// One that an agent made itself under a grant it holds. It is marked as reported and counts towards the grant's
/// hourly limit. Members with the names of secrets (`password`, `token` …) are not stored.
#[utoipa::path(operation_id = "record_invocation", tag = "tools", request_body = ReportBody, params(IdempotencyKey),
    responses((status = 200, description = "The recorded invocation", body = InvocationBody)))]
#[post("/invocations")]
async fn report(request: HttpRequest, api: web::Data<ApiState>, asker: Asker, raw: Raw) -> Reply {
    let said: ReportBody = read(&request, &raw.0)?;
    let once = once(&request, &raw, said.idempotency_key.as_ref())?;
    let grant = id("grant", &said.grant_id)?;
    let said = Report {
        service: said.service,
        tool: said.tool,
        agent_id: said.agent_id,
        parameters: said.parameters,
        status: said.status,
        result: said.result,
        error: said.error,
        cost: said.cost,
        duration_ms: said.duration_ms,
        idempotency_key: said.idempotency_key,
        context: said.context,
    };
    let made = invocations::report(&api.ctx, &asker.caller, grant, said, once.as_ref()).await?;
    ok(&InvocationBody::new(made, asker.dialect))
}

/// List the invocations of a grant
///
/// Newest first; `before` with the last id gets the next page. Visible to the grant's holder, its giver, and the
/// vault's owner. For the Python SDK, which does not know the status `running`, calls are listed once they are over.
#[utoipa::path(operation_id = "list_invocations", tag = "tools",
    params(("before" = Option<InvocationId>, Query, description = "Last invocation of the previous page"),
           ("limit" = Option<u32>, Query, description = "Page size, 1 to 100; defaults to 50", maximum = 100)),
    responses((status = 200, description = "The invocations", body = [InvocationBody])))]
#[get("/grants/{grant_id}/invocations")]
async fn list(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let page = InvocationPage {
        before: query.parsed("before", "the id of a use", |text| text.parse().ok())?,
        limit: query.number("limit", USUAL_PAGE, 1, INVOCATION_PAGE)?,
        running: asker.dialect == Dialect::Standard,
    };
    let found = invocations::list(&api.ctx, &asker.caller, id("grant", &path)?, page).await?;
    listed(found.into_iter().map(|one| InvocationBody::new(one, asker.dialect)))
}
