//! Discovery documents (OI-4.9), which describe this server to new clients. They are derived: a feature is
//! listed if its route is in the OpenAPI document, which is collected from the handlers.

use std::collections::BTreeMap;

use actix_web::{get, web};
use entente_domain::limits;
use entente_http::documents::brief;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::ApiState;
use crate::openapi::{Collected, Document};

/// The protocol's name in the documents.
const PROTOCOL: &str = "OpenIntent Coordination Protocol";

/// The protocol version of the SDK 0.17.0 and its reference server.
const PROTOCOL_VERSION: &str = "0.1";

/// Registers the routes under `/api/v1`.
pub fn routes(config: &mut Routes<'_>) {
    config.service(server_config);
}

/// Registers the routes at the root, where clients expect these documents.
pub fn root(config: &mut Routes<'_>) {
    config.service(discover).service(compatibility);
}

/// A part of the protocol.
struct Part {
    /// The RFC's number.
    rfc: &'static str,
    /// The RFC's subject.
    title: &'static str,
    /// Its features, each with a route under `/api/v1` that it requires.
    features: &'static [(&'static str, &'static str)],
    /// The parts of the RFC that are missing even if all features are served (CONFORMANCE.md).
    gaps: &'static str,
}

const fn part(
    rfc: &'static str,
    title: &'static str,
    features: &'static [(&'static str, &'static str)],
    gaps: &'static str,
) -> Part {
    Part { rfc, title, features, gaps }
}

/// Every part that may be served; [`Served`] tells which ones are.
const PARTS: &[Part] = &[
    part(
        "RFC-0001",
        "Intents",
        &[
            ("intents", "/intents"),
            ("events", "/intents/{}/events"),
            ("state-patches", "/intents/{}/state"),
            ("optimistic-concurrency", "/intents/{}/status"),
            ("agents", "/intents/{}/agents"),
        ],
        "",
    ),
    part("RFC-0002", "Intent graphs", &[("intent-graphs", "/intents/{}/children")], ""),
    part(
        "RFC-0003",
        "Leases and arbitration",
        &[("leasing", "/intents/{}/leases"), ("arbitration", "/intents/{}/arbitrate")],
        "delegation contracts",
    ),
    part("RFC-0004", "Portfolios", &[("portfolios", "/portfolios")], ""),
    part("RFC-0005", "Attachments", &[("attachments", "/intents/{}/attachments")], ""),
    part(
        "RFC-0006",
        "Subscriptions",
        &[("subscriptions", "/subscriptions"), ("server-sent-events", "/intents/{}/subscribe")],
        "",
    ),
    part("RFC-0007", "Portfolios' intents", &[("portfolio-intents", "/portfolios/{}/intents")], ""),
    part("RFC-0009", "Costs", &[("cost-tracking", "/intents/{}/costs")], ""),
    part(
        "RFC-0010",
        "Retry policies and failures",
        &[("retry-policies", "/intents/{}/retry-policy"), ("failures", "/intents/{}/failures")],
        "",
    ),
    part("RFC-0011", "Access control", &[("access-control", "/intents/{}/acl")], "`context` policies"),
    part(
        "RFC-0012",
        "Tasks and plans",
        &[("tasks", "/tasks"), ("plans", "/plans")],
        "plans keep `timeout_hours`, `on_timeout`, `conditions` and `on_complete` and do not act on them",
    ),
    part(
        "RFC-0013",
        "Coordination and governance",
        &[
            ("coordinators", "/coordinators"),
            ("governance", "/intents/{}/governance"),
            ("governance-enforcement", "/intents/{}/approvals"),
            ("escalations", "/escalations"),
        ],
        "",
    ),
    part("RFC-0014", "Tools and their credentials", &[("tools", "/tools/invoke")], ""),
    part("RFC-0015", "Memory", &[("memory", "/memory")], ""),
    part("RFC-0016", "Agents", &[("agent-lifecycle", "/agents/{}/heartbeat")], ""),
    part("RFC-0017", "Triggers", &[("triggers", "/triggers")], ""),
    part("RFC-0018", "Identity", &[("identity", "/agents/{}/identity")], ""),
    part(
        "RFC-0019",
        "Verifiable logs",
        &[("verifiable-logs", "/intents/{}/events/verify"), ("checkpoints", "/checkpoints")],
        "",
    ),
    part("RFC-0020", "Tracing", &[("tracing", "/events")], ""),
    part(
        "RFC-0021",
        "Channels and messages",
        &[("channels", "/intents/{}/channels"), ("messages", "/channels/{}/messages")],
        "",
    ),
    part("RFC-0022", "Federation", &[("federation", "/federation/status")], ""),
    part("RFC-0023", "Federation between servers", &[("federation-receive", "/federation/receive")], ""),
    part("RFC-0025", "Waiting for a person", &[("suspension", "/intents/{}/suspend/respond")], ""),
];

/// The features this server serves: those with a route, and federation only if it is configured, because its routes
/// refuse otherwise.
#[derive(Clone, Copy)]
struct Served<'a> {
    document: &'a Document,
    federation: bool,
}

impl<'a> Served<'a> {
    fn by(api: &ApiState, document: &'a Document) -> Self {
        Self { document, federation: api.ctx.openintent.state.federation.is_some() }
    }

    fn has(self, route: &str) -> bool {
        (self.federation || !route.starts_with("/federation/"))
            && self.document.serves(&format!("/api/v1{route}"))
    }
}

/// Converts a feature name to the compatibility document's form: `cost-tracking` becomes `costTracking`.
fn camel(word: &str) -> String {
    let mut parts = word.split('-');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |word, part| {
        let mut letters = part.chars();
        let head = letters.next().map(|letter| letter.to_ascii_uppercase());
        word + &head.into_iter().chain(letters).collect::<String>()
    })
}

/// How much of an RFC is implemented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = RfcCompliance)]
enum Compliance {
    /// Fully.
    Full,
    /// Partially; `gaps` lists the missing parts.
    Partial,
}

impl Part {
    fn there<'a>(&'a self, served: Served<'a>) -> impl Iterator<Item = &'static str> + 'a {
        self.features.iter().filter(move |(_, route)| served.has(route)).map(|(word, _)| *word)
    }

    /// Returns `None` if no feature is served.
    fn compliance(&self, served: Served<'_>) -> Option<Compliance> {
        match self.there(served).count() {
            0 => None,
            all if all == self.features.len() && self.gaps.is_empty() => Some(Compliance::Full),
            _ => Some(Compliance::Partial),
        }
    }

    /// Describes the missing parts.
    fn missing(&self, served: Served<'_>) -> Option<String> {
        let absent = self.features.iter().filter(|(_, route)| !served.has(route)).map(|(word, _)| *word);
        let gaps = absent.chain((!self.gaps.is_empty()).then_some(self.gaps)).collect::<Vec<_>>();
        (!gaps.is_empty()).then(|| gaps.join(", "))
    }
}

/// Every feature, and whether it is served.
fn features(served: Served<'_>) -> BTreeMap<String, bool> {
    let each = PARTS.iter().flat_map(|part| part.features.iter());
    each.map(|(word, route)| (camel(word), served.has(route))).collect()
}

/// An implemented RFC.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DiscoveredRfc)]
struct RfcBody {
    /// The RFC's number.
    #[schema(example = "RFC-0021")]
    rfc: &'static str,
    /// The RFC's subject.
    title: &'static str,
    /// How much of it is implemented.
    compliance: Compliance,
}

/// A description of this server.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Discovery)]
struct DiscoveryBody {
    /// The protocol's name.
    protocol: &'static str,
    /// The protocol's version.
    version: &'static str,
    /// The implementation's name.
    implementation: &'static str,
    /// The implementation's version.
    #[serde(rename = "implementationVersion")]
    implementation_version: &'static str,
    /// The implemented RFCs.
    rfcs: Vec<RfcBody>,
    /// The same RFCs, as links into the API documentation.
    #[serde(rename = "rfcUrls")]
    rfc_urls: Vec<String>,
    /// The served features.
    capabilities: Vec<&'static str>,
    /// The paths of the server's endpoints.
    #[schema(value_type = Object)]
    endpoints: Value,
    /// The headers that carry the API key; either works.
    authentication: [&'static str; 2],
    /// The path of the OpenAPI document.
    #[serde(rename = "openApiUrl")]
    open_api_url: &'static str,
}

/// Describe this server
///
/// Requires no API key.
#[utoipa::path(operation_id = "discover", tag = "server", security(()),
    responses((status = 200, description = "Description of the server", body = DiscoveryBody),
              (status = 304, description = "Unchanged since the version in `If-None-Match`")))]
#[get("/.well-known/openintent.json")]
async fn discover(api: web::Data<ApiState>, document: web::Data<Collected>) -> Reply {
    let served = Served::by(&api, &document);
    let known = || PARTS.iter().filter_map(|part| Some((part, part.compliance(served)?)));
    let rfcs = known().map(|(part, compliance)| RfcBody { rfc: part.rfc, title: part.title, compliance });
    let pages = known().map(|(part, _)| format!("/docs/#{}", part.rfc));
    let endpoints = json!({
        "api": "/api/v1", "mcp": "/mcp", "arcp": "/arcp", "docs": "/docs/", "health": "/healthz", "ready": "/readyz",
        "config": "/api/v1/server/config", "compatibility": "/.well-known/openintent-compat.json",
        "federation": served.federation.then_some("/.well-known/openintent-federation.json"),
    });
    brief(&DiscoveryBody {
        protocol: PROTOCOL,
        version: PROTOCOL_VERSION,
        implementation: "Entente",
        implementation_version: env!("CARGO_PKG_VERSION"),
        rfcs: rfcs.collect(),
        rfc_urls: pages.collect(),
        capabilities: PARTS.iter().flat_map(|part| part.there(served)).collect(),
        endpoints,
        authentication: ["X-API-Key", "Authorization: Bearer"],
        open_api_url: "/openapi.json",
    })
}

/// How much of the protocol this server implements.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Compatibility)]
struct CompatibilityBody {
    /// The implementation's name.
    implementation: &'static str,
    /// The implementation's version.
    version: &'static str,
    /// The RFCs that are implemented at least partially.
    #[serde(rename = "rfcCompliance")]
    #[schema(value_type = Object)]
    rfc_compliance: BTreeMap<&'static str, Compliance>,
    /// The missing parts of the partially implemented RFCs.
    #[schema(value_type = Object)]
    gaps: BTreeMap<&'static str, String>,
    /// Every feature, and whether it is served.
    #[schema(value_type = Object)]
    features: BTreeMap<String, bool>,
}

/// Get the protocol compatibility
///
/// Lists the implemented RFCs with their gaps. Requires no API key.
#[utoipa::path(operation_id = "get_compatibility", tag = "server", security(()),
    responses((status = 200, description = "Implemented RFCs and their gaps", body = CompatibilityBody),
              (status = 304, description = "Unchanged since the version in `If-None-Match`")))]
#[get("/.well-known/openintent-compat.json")]
async fn compatibility(api: web::Data<ApiState>, document: web::Data<Collected>) -> Reply {
    let served = Served::by(&api, &document);
    let known = || PARTS.iter().filter_map(|part| Some((part, part.compliance(served)?)));
    let gaps = known().filter_map(|(part, _)| Some((part.rfc, part.missing(served)?)));
    brief(&CompatibilityBody {
        implementation: "Entente",
        version: env!("CARGO_PKG_VERSION"),
        rfc_compliance: known().map(|(part, compliance)| (part.rfc, compliance)).collect(),
        gaps: gaps.collect(),
        features: features(served),
    })
}

/// The server's configuration, as far as it concerns clients.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ServerConfig)]
struct ConfigBody {
    /// The protocol's version.
    protocol_version: &'static str,
    /// The server's version.
    server_version: &'static str,
    /// How often people are asked again (RFC-0026); the server has no policy of its own.
    #[schema(value_type = Object)]
    suspension: Value,
    /// Whether RFC-0021 is followed to the letter where clients rely on deviations from it.
    strict_rfc0021: bool,
    /// The limits. Input over a limit is refused, never truncated.
    #[schema(value_type = Object)]
    limits: Value,
    /// Every feature, and whether it is served.
    #[schema(value_type = Object)]
    features: BTreeMap<String, bool>,
}

/// Get the server's configuration
///
/// As far as it concerns clients. Requires no API key.
#[utoipa::path(operation_id = "get_server_config", tag = "server", security(()),
    responses((status = 200, description = "The configuration", body = ConfigBody)))]
#[get("/server/config")]
async fn server_config(api: web::Data<ApiState>, document: web::Data<Collected>) -> Reply {
    let set = &api.limits;
    ok(&ConfigBody {
        protocol_version: PROTOCOL_VERSION,
        server_version: env!("CARGO_PKG_VERSION"),
        suspension: json!({ "default_retry_policy": null }),
        strict_rfc0021: api.ctx.settings.strict,
        limits: json!({
            "requests_per_second": set.rate_per_second, "body_bytes": set.max_body_bytes,
            "streams_per_key": set.max_streams_per_key, "page_items": limits::PAGE, "batch_messages": limits::BATCH,
            "payload_bytes": limits::PAYLOAD_BYTES, "metadata_bytes": limits::METADATA_BYTES,
            "state_bytes": limits::STATE_BYTES, "text_bytes": limits::TEXT_BYTES, "json_depth": limits::JSON_DEPTH,
            "lease_seconds": limits::LEASE_SECONDS, "wait_seconds": limits::WAIT_SECONDS,
            "attachments": limits::ATTACHMENTS, "retries": limits::RETRIES,
            "idempotency_seconds": api.ctx.settings.idempotency_window.as_secs(),
        }),
        features: features(Served::by(&api, &document)),
    })
}
