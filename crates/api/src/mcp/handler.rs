//! What is answered to the requests of MCP: who this server is, which tools there are, and calling one. The protocol itself,
//! its versions, headers and codes, is rmcp's.

use std::sync::{Arc, LazyLock};

use entente_domain::refusal::Refusal;
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

use super::{Call, Tool, all, refused};
use crate::http::Doors;
use crate::http::presence::Presence;

/// What a model is told before it calls anything.
const INSTRUCTIONS: &str = "Entente is where agents coordinate: intents (goals) with channels to talk on, jobs with authority \
and a budget, mail, and decisions that only a human can make. Call whoami first. Then wait with wait_for_events, each time \
with the `next` of the last answer; never poll. An error says what to do next. Ask a human with ask_principal only when you \
can recommend something, and never answer for them: there is no tool that does.";

/// For how long a host may keep the list of tools: it changes with the server's version only.
const LIST_TTL_MILLIS: u64 = 3_600_000;

/// Somebody who calls, as the endpoint has let them in.
#[derive(Clone)]
pub(super) struct Visitor {
    /// What every handler shares.
    pub doors: Arc<Doors>,
    /// Who it is.
    pub caller: Caller,
    /// The URL that the visitor finds this server at.
    pub base: String,
    /// Why an unsigned envelope is not taken from this connection, if it is not.
    pub objection: Option<Refusal>,
    /// Whether the visitor still waits for the answer.
    pub presence: Presence,
}

/// Answers the requests of MCP.
pub(super) struct Desk;

/// The protocol, around the desk: without sessions, one JSON answer per request.
pub(super) type Protocol = StreamableHttpService<Desk, NeverSessionManager>;

/// The protocol. Where requests may come from, and how long their bodies may be, is judged before them.
pub(super) fn protocol(max_body_bytes: usize) -> Protocol {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(max_body_bytes)
        .disable_allowed_hosts();
    StreamableHttpService::new(|| Ok(Desk), Arc::default(), config)
}

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(all);

static LISTED: LazyLock<Value> = LazyLock::new(|| {
    let tools: Vec<Value> = TOOLS.iter().map(Tool::listed).collect();
    json!({ "tools": tools, "ttlMs": LIST_TTL_MILLIS, "cacheScope": "public", "resultType": "complete" })
});

/// One of the library's own types, from what is sent.
fn made<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|fault| {
        tracing::error!(error = %fault, "an answer of MCP could not be made");
        ErrorData::internal_error("The answer could not be made.", None)
    })
}

/// Whether a host can take its person to a page (elicitation by URL, which only the era without sessions can repeat a call
/// after).
fn opens_pages(declared: &ClientCapabilities) -> bool {
    let declared = serde_json::to_value(declared).unwrap_or_default();
    declared.pointer("/elicitation/url").is_some_and(Value::is_object)
}

fn visitor(context: &RequestContext<RoleServer>) -> Result<Visitor, ErrorData> {
    let parts = context.extensions.get::<http::request::Parts>();
    let visitor = parts.and_then(|parts| parts.extensions.get::<Visitor>()).cloned();
    visitor.ok_or_else(|| ErrorData::internal_error("The request has lost its caller.", None))
}

impl ServerHandler for Desk {
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
        let Visitor { doors, caller, base, objection, presence } = visitor(&context)?;
        let opens_pages = context.client_capabilities().is_some_and(|declared| opens_pages(&declared));
        let arguments = serde_json::to_vec(&request.arguments.unwrap_or_default()).unwrap_or_default();
        let brought_back = request.request_state;
        let call = Call { doors, caller, objection, base, opens_pages, brought_back, presence, arguments };
        // Where the library hears that a request was given up, nobody needs its answer.
        let Some(said) = context.ct.run_until_cancelled((tool.run)(call)).await else {
            return Err(ErrorData::internal_error("The request was given up.", None));
        };
        let result = match said {
            Ok(answer) if answer.page.is_some() => {
                return Ok(made::<InputRequiredResult>(answer.result())?.into());
            }
            Ok(answer) => answer.result(),
            Err(problem) => refused(&problem),
        };
        Ok(made::<CallToolResult>(result)?.into())
    }

    // The library answers these with empty lists, although nothing of it is offered.

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
