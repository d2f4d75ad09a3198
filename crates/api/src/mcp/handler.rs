//! Responses to MCP requests: server information, the list of tools, and tool calls. The protocol itself,
//! with its versions, headers and codes, is implemented by rmcp.

use std::sync::{Arc, LazyLock};

use entente_domain::refusal::Refusal;
use entente_http::presence::Presence;
use entente_kernel::Caller;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ErrorData, Implementation, InputRequiredResult,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
    ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

use super::{Call, Tool, all, arguments, refused};
use crate::ApiState;

/// Instructions that a model receives before it calls a tool.
const INSTRUCTIONS: &str = "Entente coordinates agents: intents (goals) with channels for messages and with tasks, jobs with \
permissions and a budget, mailboxes, and decisions that only a human makes. Call whoami first; list_intents, list_agents and \
list_people show the intents, agents and people; create_intent begins a new goal. Then wait with wait_for_events and a \
`cursor` of your choice, such as `c1`: the server keeps your place; never poll. Every error names the next step. Ask a human with \
ask_principal only when you can recommend an option, and never answer for them: no tool does.";

/// How long a host may cache the list of tools, which changes only with the server's version.
const LIST_TTL_MILLIS: u64 = 3_600_000;

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
}

/// Handler of MCP requests.
pub(super) struct McpServer;

/// The protocol service around the handler: without sessions, one JSON response per request.
pub(super) type Protocol = StreamableHttpService<McpServer, NeverSessionManager>;

/// Creates the protocol service; the endpoint checks the request's origin and body size beforehand.
pub(super) fn protocol(max_body_bytes: usize) -> Protocol {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(max_body_bytes)
        .disable_allowed_hosts();
    StreamableHttpService::new(|| Ok(McpServer), Arc::default(), config)
}

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(all);

static LISTED: LazyLock<Value> = LazyLock::new(|| {
    let tools: Vec<Value> = TOOLS.iter().map(Tool::listed).collect();
    json!({ "tools": tools, "ttlMs": LIST_TTL_MILLIS, "cacheScope": "public", "resultType": "complete" })
});

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

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("entente", env!("CARGO_PKG_VERSION")).with_title("Entente");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(server)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        made(LISTED.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = TOOLS.iter().find(|tool| tool.name == request.name) else {
            let message =
                format!("There is no tool `{}`. tools/list names those that there are.", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let Visitor { api, caller, base, objection, presence } = visitor(&context)?;
        let opens_pages = context.client_capabilities().is_some_and(|declared| opens_pages(&declared));
        let arguments = arguments::understood(tool, request.arguments.unwrap_or_default());
        let brought_back = request.request_state;
        let call =
            Call { api, caller, tool, objection, base, opens_pages, brought_back, presence, arguments };
        // Once the library reports that the request was cancelled, nobody needs its response.
        let Some(said) = context.ct.run_until_cancelled((tool.run)(call)).await else {
            return Err(ErrorData::internal_error("The request was given up.", None));
        };
        let result = match said {
            Ok(answer) if answer.page.is_some() => {
                return Ok(made::<InputRequiredResult>(answer.result())?.into());
            }
            Ok(answer) => answer.result(),
            Err(problem) => refused(tool, &problem),
        };
        Ok(made::<CallToolResult>(result)?.into())
    }

    // The library would answer these with empty lists, although the server offers none of them.

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

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>())
    }
}
