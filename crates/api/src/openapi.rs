//! The OpenAPI document, and the response for unknown routes. The document is collected from the handlers; a
//! test compares it with `openapi/entente.json`.

mod failures;
mod groups;
mod parameters;
mod shapes;
mod warnings;

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use actix_web::http::Method;
use actix_web::{HttpRequest, HttpResponse, web};
use entente_domain::refusal::{Code, Refusal};
use entente_http::documents;
use entente_http::error::{Problem, ProblemBody, Reply};
use entente_http::head::is_head;
use entente_http::routes::Description;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};

pub(crate) use self::groups::Group;

/// The introduction for every user of the API: the beginning of the document and of its page.
pub(crate) const INTRODUCTION: &str = include_str!("openapi/introduction.md");

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Entente",
        description = INTRODUCTION,
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    tags(
        (name = "intents", description = "Goals with a state, a status and a log (RFC-0001)"),
        (name = "graphs", description = "Parts of intents and their dependencies (RFC-0002)"),
        (name = "portfolios", description = "Groups of intents that are followed together (RFC-0004)"),
        (name = "access", description = "Access control of intents (RFC-0011)"),
        (name = "governance", description = "Policies of intents, approvals and escalations (RFC-0013)"),
        (name = "leases", description = "Leases on parts of an intent, and arbitration (RFC-0003)"),
        (name = "ledgers", description = "Attachments, costs, failures and retry policies of intents (RFC-0005, RFC-0009, RFC-0010)"),
        (name = "channels", description = "Message channels between the agents on an intent (RFC-0021 §1)"),
        (name = "messages", description = "Messages on channels (RFC-0021 §2 to §4)"),
        (name = "streams", description = "Live events (server-sent events)"),
        (name = "jobs", description = "Work with authority and a budget (ARCP §7 to §9)"),
        (name = "bundles", description = "Intents of other servers, each in one sealed file"),
        (name = "budgets", description = "Budgets, teams, stops, and reports of what was spent"),
        (name = "workers", description = "Workers, which run jobs, and the agents that they run"),
        (name = "coordinators", description = "Coordinators of intents and their decisions (RFC-0013)"),
        (name = "suspensions", description = "Intents that wait for a person's answer (RFC-0025)"),
        (name = "moments", description = "Questions that only a person answers (binding moments)"),
        (name = "triggers", description = "Creation of intents by schedules, events and webhooks (RFC-0017)"),
        (name = "agents", description = "The directory of agents (RFC-0016)"),
        (name = "identities", description = "Agents' signing keys and signatures (RFC-0018)"),
        (name = "checkpoints", description = "Signed commitments of the server to its logs (RFC-0019)"),
        (name = "principals", description = "Principals and their API keys"),
        (name = "federation", description = "Dispatch of intents to and from other servers (RFC-0022)"),
        (name = "people", description = "Passwords and login links of people"),
        (name = "server", description = "Health, configuration and logs of the server"),
        (name = "tasks", description = "Tasks of intents: claims, attempts and ends (RFC-0012)"),
        (name = "plans", description = "Plans of tasks with checkpoints (RFC-0012)"),
        (name = "memory", description = "Agents' memory (RFC-0015)"),
        (name = "tools", description = "Vaults, grants and calls of tools (RFC-0014)"),
        (name = "webhooks", description = "Subscriptions whose events are sent to a receiver"),
        (name = "envelopes", description = "Signed envelopes, mailboxes, schemas and rules (AEE 1)"),
    ),
    components(schemas(ProblemBody))
)]
struct Base;

/// The document as the application holds it: collected when it is first needed, because describing the routes
/// costs far more than serving them.
pub type Collected = &'static LazyLock<Document>;

/// The OpenAPI document.
#[derive(Debug)]
pub struct Document {
    /// The document as JSON.
    pub json: String,
    /// Its entity tag.
    tag: String,
    /// Each path as its segments, with its methods; tells a wrong method from a wrong path.
    paths: Vec<(Vec<String>, Vec<String>)>,
    /// The query parameters of each operation, by path and method.
    queries: HashMap<String, Vec<(Method, Vec<String>)>>,
    /// The operations by group, once somebody looks at them.
    groups: OnceLock<Vec<Group>>,
}

impl Document {
    /// Joins the descriptions of the routes.
    #[must_use]
    pub fn collect(parts: impl IntoIterator<Item = Description>) -> Self {
        let mut document = Base::openapi();
        for part in parts {
            document.paths.merge(part.paths);
            document.components.get_or_insert_default().schemas.extend(part.schemas);
        }
        secure(&mut document);
        parameters::describe(&mut document);
        failures::explain(&mut document);
        shapes::straighten(&mut document);
        warnings::announce(&mut document);
        let queries = parameters::of_queries(&mut document);
        let paths = document.paths.paths.iter().map(|(path, item)| {
            let has =
                |method: &str, operation: &Option<Operation>| operation.as_ref().map(|_| method.to_owned());
            let methods = [
                has("GET", &item.get),
                // Wherever there is a GET (RFC 9110 §9.1).
                has("HEAD", &item.get),
                has("POST", &item.post),
                has("PUT", &item.put),
                has("PATCH", &item.patch),
                has("DELETE", &item.delete),
            ];
            (path.split('/').map(str::to_owned).collect(), methods.into_iter().flatten().collect())
        });
        let paths = paths.collect();
        let json = document.to_pretty_json().unwrap_or_default() + "\n";
        Self { tag: documents::tag(json.as_bytes()), json, paths, queries, groups: OnceLock::new() }
    }

    /// Returns the operations by group.
    pub(crate) fn groups(&self) -> &[Group] {
        self.groups.get_or_init(|| groups::divide(&self.json))
    }

    /// Returns the query parameters of an operation, by its method and its path with `{…}` for parameters; `None` if it
    /// does not exist, or takes any.
    #[must_use]
    pub fn query_names(&self, method: &Method, path: &str) -> Option<&[String]> {
        let operations = self.queries.get(path)?;
        operations.iter().find(|(known, _)| known == method).map(|(_, names)| names.as_slice())
    }

    /// Returns whether the path exists; parameters are written as `{}`, whatever their names.
    #[must_use]
    pub fn serves(&self, path: &str) -> bool {
        let asked: Vec<&str> = path.split('/').collect();
        let fits = |(pattern, _): &(Vec<String>, Vec<String>)| {
            let same = |(known, asked): (&String, &&str)| {
                known == asked || (*asked == "{}" && known.starts_with('{'))
            };
            pattern.len() == asked.len() && pattern.iter().zip(&asked).all(same)
        };
        self.paths.iter().any(fits)
    }

    /// Returns the methods of a path; `None` if the path does not exist.
    fn methods(&self, path: &str) -> Option<Vec<&str>> {
        let path =
            path.strip_prefix("/v1/").map_or_else(|| path.to_owned(), |rest| format!("/api/v1/{rest}"));
        let asked: Vec<&str> = path.split('/').collect();
        let fits = |pattern: &[String]| {
            pattern.len() == asked.len()
                && pattern.iter().zip(&asked).all(|(p, a)| p == a || p.starts_with('{') && !a.is_empty())
        };
        let found: Vec<&str> = self
            .paths
            .iter()
            .filter(|(pattern, _)| fits(pattern))
            .flat_map(|(_, methods)| methods.iter().map(String::as_str))
            .collect();
        (!found.is_empty()).then_some(found)
    }
}

/// Declares the authentication: either header, on every operation that does not override it.
fn secure(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(
        "api_key",
        SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description("X-API-Key", "An API key"))),
    );
    components.add_security_scheme(
        "bearer",
        SecurityScheme::Http(
            HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("The same API key")).build(),
        ),
    );
    let requirement = |name: &str| utoipa::openapi::SecurityRequirement::new::<_, [String; 0], _>(name, []);
    document.security = Some(vec![requirement("api_key"), requirement("bearer")]);
}

/// Registers the route of the document: at the root, and in both API scopes, where clients with a base URL look.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/openapi.json", web::get().to(written));
}

async fn written(document: web::Data<Collected>) -> HttpResponse {
    let (kind, content) = ("application/json", document.json.as_str());
    documents::document(HttpResponse::Ok(), kind, documents::PUBLIC, &document.tag, content)
}

/// Responds to an unknown route: 405 for a wrong method, else 404.
///
/// # Errors
/// Always returns the error that describes the response.
pub async fn unknown(request: HttpRequest, document: web::Data<Collected>) -> Reply {
    if let Some(methods) = document.methods(request.path())
        && request.method() != Method::OPTIONS
    {
        let allow = methods.join(", ");
        let method = if is_head(&request) { Method::HEAD } else { request.method().clone() };
        let refusal = Refusal::new(
            Code::MethodNotAllowed,
            format!("{method} does not exist here; this path has {allow}."),
        );
        let mut problem = Problem::from(refusal);
        problem.allow = Some(allow);
        return Err(problem);
    }
    Err(Refusal::new(
        Code::NotFound,
        "There is no such path. The API is documented at /docs and /openapi.json.",
    )
    .into())
}
