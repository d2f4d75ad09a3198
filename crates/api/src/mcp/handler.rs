//! Responses to MCP requests: server information, tools and their calls, tasks, and resources. The protocol itself,
//! with its versions, headers and codes, is implemented by rmcp.

use std::sync::Arc;

use entente_domain::identity::fences::Fence;
use entente_domain::refusal::{Code, Refusal};
use entente_http::error::Problem;
use entente_http::presence::Presence;
use entente_kernel::Caller;
use entente_runtime::fences;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities,
    CompleteRequestMethod, CompleteRequestParams, CompleteResult, ErrorData, GetTaskParams, GetTaskResult,
    Implementation, InitializeRequestParams, InitializeResult, InputRequiredResult, ListPromptsRequestMethod,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ServerCapabilities, ServerConfig, SubscriptionFilter, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

use super::resources::subscriptions::Subscriptions;
use super::task_calls::{Begun, Loaded, Subject};
use super::toolsets::{LIST_TTL_MILLIS, Toolset, tool_named};
use super::{Call, Tool, arguments, fault, refused, resources, task_calls};
use crate::ApiState;

/// Instructions that a model receives before it calls a tool.
const INSTRUCTIONS: &str = "Entente coordinates agents: intents (goals) with channels for messages and with tasks, jobs with \
permissions and a budget, mailboxes, and decisions that only a human makes. Call whoami first; list_intents, list_agents and \
list_people show the intents, agents and people; create_intent begins a new goal. Then wait with wait_for_events and a \
`cursor` of your choice, such as `c1`: the server keeps your place; never poll. Every error names the next step. Ask a human with \
ask_principal only when you can recommend an option, and never answer for them: no tool does.";

/// A client that the endpoint has admitted.
#[derive(Clone)]
pub(super) struct Visitor {
    /// State shared by all request handlers.
    pub api: Arc<ApiState>,
    /// The authenticated caller.
    pub caller: Caller,
    /// URL at which the client reaches the server.
    pub base: String,
    /// Refusal for an unsigned envelope, if this connection does not accept one.
    pub objection: Option<Refusal>,
    /// Whether the client still waits for the response.
    pub presence: Presence,
    /// The tools that it lists.
    pub toolset: Toolset,
    /// Fences of the HTTP request: the library handles the message in another task, which has none.
    pub fences: Vec<Fence>,
}

impl Visitor {
    /// Returns a call of a tool.
    pub fn call(self, tool: &'static Tool, arguments: Vec<u8>) -> Call {
        let Self { api, caller, base, objection, presence, toolset: _, fences: _ } = self;
        Call {
            api,
            caller,
            tool,
            objection,
            base,
            opens_pages: false,
            brought_back: None,
            presence,
            as_task: false,
            arguments,
        }
    }

    /// Returns a call of a tool for reading its results.
    pub fn reader(self, tool: &str) -> Result<Call, ErrorData> {
        let tool = tool_named(tool);
        let tool = tool.ok_or_else(|| ErrorData::internal_error("A task has lost its tool.", None))?;
        Ok(self.call(tool, Vec::new()))
    }
}

/// Handler of a request to MCP.
pub(super) struct McpServer {
    /// The resources that the request subscribes to.
    subscriptions: Arc<Subscriptions>,
}

/// The protocol service around the handler: without sessions, one JSON response per request.
pub(super) type Protocol = StreamableHttpService<McpServer, NeverSessionManager>;

/// Creates the protocol service; the endpoint checks the request's origin and body size beforehand.
pub(super) fn protocol(max_body_bytes: usize, subscriptions: Subscriptions) -> Protocol {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(max_body_bytes)
        .disable_allowed_hosts();
    let subscriptions = Arc::new(subscriptions);
    let server = move || Ok(McpServer { subscriptions: Arc::clone(&subscriptions) });
    StreamableHttpService::new(server, Arc::default(), config)
}

/// Converts JSON into one of the library's types.
fn made<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|fault| {
        tracing::error!(error = %fault, "an answer of MCP could not be made");
        ErrorData::internal_error("The answer could not be made.", None)
    })
}

/// Returns whether a host can open a page for its person (elicitation by URL; only the era without sessions
/// can repeat a call afterwards).
fn opens_pages(declared: &ClientCapabilities) -> bool {
    let declared = serde_json::to_value(declared).unwrap_or_default();
    declared.pointer("/elicitation/url").is_some_and(Value::is_object)
}

fn visitor(context: &RequestContext<RoleServer>) -> Result<Visitor, ErrorData> {
    let parts = context.extensions.get::<http::request::Parts>();
    let visitor = parts.and_then(|parts| parts.extensions.get::<Visitor>()).cloned();
    visitor.ok_or_else(|| ErrorData::internal_error("The request has lost its caller.", None))
}

/// Returns a task's subject, and a call of its tool to read it by.
fn task(context: &RequestContext<RoleServer>, id: &str) -> Result<(Call, Subject), ErrorData> {
    let subject = Subject::parse(id).map_err(|problem| fault(&problem))?;
    Ok((visitor(context)?.reader(subject.tool())?, subject))
}

/// Refuses a place in a list that has one page: the client got none (MCP, "Pagination").
fn require_first(page: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match page.and_then(|page| page.cursor) {
        Some(cursor) if !cursor.is_empty() => Err(ErrorData::invalid_params(
            "The list has one page, so it gave no `cursor`. Ask without one.",
            None,
        )),
        _ => Ok(()),
    }
}

/// Adds to a result how long a host may keep it, and for whom.
fn cached(mut result: Value, ttl_millis: u64, scope: &str) -> Value {
    result["ttlMs"] = json!(ttl_millis);
    result["cacheScope"] = json!(scope);
    result["resultType"] = json!("complete");
    result
}

/// Returns the error for a resource that cannot be read, with its URI.
fn unread(problem: &Problem, uri: &str) -> ErrorData {
    let mut error = fault(problem);
    if problem.code() == Code::NotFound {
        error = ErrorData::resource_not_found(error.message, error.data);
    }
    if let Some(data) = &mut error.data {
        data["uri"] = json!(uri);
    }
    error
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("entente", env!("CARGO_PKG_VERSION")).with_title("Entente");
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities).with_server_info(server).with_instructions(INSTRUCTIONS)
    }

    /// The versions that begin with this request have neither extensions nor, without a session, subscriptions.
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut info = self.negotiate_initialize(&request)?;
        info.capabilities.extensions = None;
        if let Some(resources) = &mut info.capabilities.resources {
            resources.subscribe = None;
        }
        Ok(info)
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        require_first(page)?;
        made(visitor(&context)?.toolset.listed())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tool_named(&request.name) else {
            let message =
                format!("There is no tool `{}`. tools/list names those that there are.", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let visitor = visitor(&context)?;
        let declared = context.client_capabilities();
        let waits = declared.as_ref().is_some_and(ClientCapabilities::supports_tasks);
        // A host that returns from a page began without a task.
        let as_task = waits && request.request_state.is_none() && task_calls::TOOLS.contains(&tool.name);
        let call = Call {
            opens_pages: !as_task && declared.as_ref().is_some_and(opens_pages),
            brought_back: request.request_state,
            as_task,
            ..visitor.clone().call(tool, arguments::understood(tool, request.arguments.unwrap_or_default()))
        };
        // Once the library reports that the request was cancelled, nobody needs its response.
        let Some(said) =
            context.ct.run_until_cancelled(fences::within(visitor.fences.clone(), (tool.run)(call))).await
        else {
            return Err(ErrorData::internal_error("The request was given up.", None));
        };
        let result = match said {
            Ok(answer) if answer.page.is_some() => {
                return Ok(made::<InputRequiredResult>(answer.result())?.into());
            }
            Ok(answer) if as_task => {
                if let Some(task) = Begun::of(&visitor.call(tool, Vec::new()), &answer).await {
                    return Ok(task.result().into());
                }
                answer.result()
            }
            Ok(answer) => answer.result(),
            Err(problem) => refused(tool, &problem),
        };
        Ok(made::<CallToolResult>(result)?.into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let (call, subject) = task(&context, &request.task_id)?;
        let found = Loaded::load(&call, subject).await.map_err(|problem| fault(&problem))?;
        Ok(GetTaskResult::new(found.detailed()))
    }

    /// Accepts nothing, because no task asks its host for input: a person answers on a page.
    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (call, subject) = task(&context, &request.task_id)?;
        Loaded::load(&call, subject).await.map_err(|problem| fault(&problem))?;
        Ok(())
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (call, subject) = task(&context, &request.task_id)?;
        let cancelled = fences::within(visitor(&context)?.fences, task_calls::cancel(&call, subject));
        Box::pin(cancelled).await.map(|_is_cancelled| ()).map_err(|problem| fault(&problem))
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let Visitor { api, caller, .. } = visitor(&context)?;
        let cursor = page.and_then(|page| page.cursor);
        let found = resources::list(&api.ctx, &caller, cursor.as_deref()).await;
        let (resources, next) = found.map_err(|problem| fault(&problem))?;
        made(cached(json!({ "resources": resources, "nextCursor": next }), 0, "private"))
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        require_first(page)?;
        let templates = json!({ "resourceTemplates": resources::templates() });
        made(cached(templates, LIST_TTL_MILLIS, "public"))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Visitor { api, caller, .. } = visitor(&context)?;
        let contents = resources::read(&api.ctx, &caller, &request.uri).await;
        let contents = contents.map_err(|problem| unread(&problem, &request.uri))?;
        let result = cached(json!({ "contents": contents }), 0, "private");
        Ok(made::<ReadResourceResult>(result)?.into())
    }

    fn accepted_subscription_filter(&self, _requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().resource_subscriptions(self.subscriptions.uris.clone()).build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let Visitor { api, caller, presence, .. } = visitor(context.request_context())?;
        self.subscriptions.follow(&api, &caller, &presence, &context).await;
        Ok(())
    }

    // The library would answer these with empty lists, although the server offers neither.

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }
}
