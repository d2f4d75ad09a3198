//! OAuth for MCP hosts that insist on it: the metadata of the protected resource (RFC 9728) and of the authorization
//! server (RFC 8414), and the token endpoint with client credentials (RFC 6749 §4.4). The client's secret is an API key,
//! and the access token stands for it for at most an hour (`crates/kernel/src/identity/access_tokens.rs`). There are no
//! authorization codes: an agent has a key of its own, and nobody lends it theirs.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION,
    CONTENT_TYPE, HeaderValue, PRAGMA, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, HttpResponse, web};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::refusal::Code;
use entente_http::address;
use entente_http::body::Raw;
use entente_http::documents::brief;
use entente_http::error::{Problem, Reply};
use entente_http::site::host;
use entente_kernel::identity::{access_tokens, authentication};
use entente_kernel::{AppError, Grant};
use entente_runtime::refused::Refused;
use serde_json::{Value, json};

use crate::ApiState;

/// The token endpoint.
const TOKEN: &str = "/oauth/token";
/// The authorization endpoint, which only refuses: clients cannot read metadata without one.
const AUTHORIZE: &str = "/oauth/authorize";
/// The only grant type.
const GRANT: &str = "client_credentials";
/// Media type of a request for a token.
const FORM: &str = "application/x-www-form-urlencoded";

/// Registers the routes.
pub fn routes(config: &mut web::ServiceConfig) {
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        config.route(path, web::get().to(resource)).route(path, web::method(Method::OPTIONS).to(preflight));
    }
    let server = "/.well-known/oauth-authorization-server";
    config.route(server, web::get().to(metadata)).route(server, web::method(Method::OPTIONS).to(preflight));
    config.route(TOKEN, web::post().to(token)).route(TOKEN, web::method(Method::OPTIONS).to(preflight));
    config.route(AUTHORIZE, web::get().to(authorize));
}

/// Returns the URL of this server for the client, for requests that are meant for it.
fn base(request: &HttpRequest, api: &ApiState) -> Result<String, Problem> {
    api.site.check(request)?;
    Ok(api.site.base(host(request), api.limits.encrypted()))
}

/// Allows pages of configured origins to read the response. A cache keeps it for one origin and not for others, so the
/// response for no origin varies too.
fn readable(request: &HttpRequest, api: &ApiState, mut response: HttpResponse) -> HttpResponse {
    if let Some(origin) = api.site.named(request) {
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    response.headers_mut().insert(VARY, HeaderValue::from_static("Origin"));
    response
}

/// Answers the CORS preflights of configured origins.
async fn preflight(request: HttpRequest, api: web::Data<ApiState>) -> Reply {
    let mut response = HttpResponse::NoContent();
    response.insert_header((ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"));
    response.insert_header((
        ACCESS_CONTROL_ALLOW_HEADERS,
        "Authorization, Content-Type, Accept, MCP-Protocol-Version",
    ));
    base(&request, &api)?;
    Ok(readable(&request, &api, response.finish()))
}

fn scopes() -> Vec<&'static str> {
    Scope::ALL.into_iter().map(Scope::as_str).collect()
}

/// Describes the server as a protected resource: the MCP endpoint at the path that ends in its path, else all of it.
async fn resource(request: HttpRequest, api: web::Data<ApiState>) -> Reply {
    let base = base(&request, &api)?;
    let path = if request.path().ends_with("/mcp") { "/mcp" } else { "" };
    let body = json!({
        "resource": format!("{base}{path}"), "resource_name": "Entente", "authorization_servers": [base],
        "scopes_supported": scopes(), "bearer_methods_supported": ["header"],
        "resource_documentation": format!("{base}/docs/"),
    });
    Ok(readable(&request, &api, brief(&body)?))
}

/// Describes the server as an authorization server.
async fn metadata(request: HttpRequest, api: web::Data<ApiState>) -> Reply {
    let base = base(&request, &api)?;
    let body = json!({
        "issuer": base, "token_endpoint": format!("{base}{TOKEN}"),
        "authorization_endpoint": format!("{base}{AUTHORIZE}"), "response_types_supported": [],
        "grant_types_supported": [GRANT], "scopes_supported": scopes(),
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "service_documentation": format!("{base}/docs/"),
    });
    Ok(readable(&request, &api, brief(&body)?))
}

/// Refuses authorization requests. It never redirects: no redirect URI is registered (RFC 6749 §3.1.2.4).
async fn authorize() -> HttpResponse {
    let told = "There are no authorization codes here. Use the grant type `client_credentials`, with an agent's API key as \
                the client's secret.";
    Denied::new("unsupported_response_type", told).response()
}

/// A refused request for a token (RFC 6749 §5.2).
struct Denied {
    status: StatusCode,
    error: &'static str,
    description: String,
    retry_after: Option<Duration>,
}

impl Denied {
    fn new(error: &'static str, description: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error, description: description.into(), retry_after: None }
    }

    fn client() -> Self {
        let told = "The client is unknown, or its secret is no valid key of it. `client_id` is the id of the key or of its \
                    principal, `client_secret` the API key.";
        Self { status: StatusCode::UNAUTHORIZED, ..Self::new("invalid_client", told) }
    }

    fn response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        if self.status == StatusCode::UNAUTHORIZED {
            response.insert_header((WWW_AUTHENTICATE, "Basic realm=\"entente\""));
        }
        if let Some(wait) = self.retry_after {
            response.insert_header((RETRY_AFTER, wait.as_secs().max(1)));
        }
        response.insert_header((PRAGMA, "no-cache"));
        let body = json!({ "error": self.error, "error_description": self.description });
        response.content_type("application/json").body(body.to_string())
    }
}

/// Why a request for a token has no token.
enum Failure {
    Denied(Denied),
    Problem(Problem),
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

/// Issues an access token.
async fn token(request: HttpRequest, api: web::Data<ApiState>, body: Raw) -> Reply {
    let base = base(&request, &api)?;
    let response = match granted(&request, &api, &base, &body.0).await {
        Ok(issued) => {
            let mut response = HttpResponse::Ok();
            response.insert_header((PRAGMA, "no-cache"));
            response.content_type("application/json").body(issued.to_string())
        }
        Err(Failure::Denied(denied)) => denied.response(),
        Err(Failure::Problem(problem)) => return Err(problem),
    };
    Ok(readable(&request, &api, response))
}

async fn granted(request: &HttpRequest, api: &ApiState, base: &str, body: &[u8]) -> Result<Value, Failure> {
    let form = Form::read(request, body)?;
    match form.one("grant_type")? {
        Some(GRANT) => {}
        Some(_) => {
            let told = format!("The only grant type is `{GRANT}`.");
            return Err(Denied::new("unsupported_grant_type", told).into());
        }
        None => return Err(Denied::new("invalid_request", "`grant_type` is missing.").into()),
    }
    let grant = authenticated(request, api, &form).await?;
    // A person acts with a login of their own; a host acts as an agent or a service.
    if grant.kind == PrincipalKind::Human {
        let told = "This key is a person's. Give the host a key of an agent.";
        return Err(Denied::new("unauthorized_client", told).into());
    }
    for resource in form.all("resource") {
        let place = resource.trim_end_matches('/');
        if !place.strip_suffix("/mcp").unwrap_or(place).eq_ignore_ascii_case(base) {
            let told = format!("`resource` must be {base}/mcp.");
            return Err(Denied::new("invalid_target", told).into());
        }
    }
    let held = &grant.key.scopes;
    let asked = form.one("scope")?.unwrap_or_default();
    let words: Vec<Option<Scope>> = asked.split_ascii_whitespace().map(Scope::parse).collect();
    let has_any = words.is_empty() || words.iter().flatten().any(|scope| held.contains(scope));
    if !has_any || words.contains(&None) {
        let told =
            "`scope` names an unknown scope, or none that the key has. A token has all scopes of its key.";
        return Err(Denied::new("invalid_scope", told).into());
    }
    // Clients ask for every scope of the metadata. The token has those of its key, and the answer says so (§3.3).
    let scope = held.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" ");
    let issued = access_tokens::issue(&api.ctx, &grant)
        .ok_or_else(|| Failure::Problem(Problem::internal("an access token could not be issued")))?;
    Ok(json!({
        "access_token": issued.token, "token_type": "Bearer", "expires_in": issued.seconds, "scope": scope,
    }))
}

/// Verifies the client's id and secret. Attempts are limited like those to log in.
async fn authenticated(request: &HttpRequest, api: &ApiState, form: &Form) -> Result<Arc<Grant>, Failure> {
    let (id, secret) = credentials(request, form)?;
    // Clients that send no id are counted by their secret, so that they do not use up each other's attempts.
    let (from, name) = (address(request, api), format!("oauth:{}", id.as_deref().unwrap_or(&secret)));
    if let Err(wait) = api.logins.admit(&name, from) {
        log_refused(api, from, None, "too many tries");
        let description = "Too many requests for tokens in a minute. A token lasts up to an hour: keep it.";
        let denied = Denied::new("temporarily_unavailable", description);
        let denied = Denied { status: StatusCode::TOO_MANY_REQUESTS, retry_after: Some(wait), ..denied };
        return Err(denied.into());
    }
    let grant = match authentication::authenticate(&api.ctx, &secret, from).await {
        Ok(grant) => grant,
        Err(AppError::Refused(refusal)) if refusal.code == Code::Unauthenticated => {
            return Err(Denied::client().into());
        }
        Err(failure) => return Err(Failure::Problem(failure.into())),
    };
    let key = &grant.key;
    // Some clients send the secret alone in the body; it names its key by itself.
    if id.is_some_and(|id| id != key.principal_id && id != key.id.to_string()) {
        log_refused(api, from, Some(&key.principal_id), "the key of another client");
        return Err(Denied::client().into());
    }
    api.logins.got_in(&name, from);
    Ok(grant)
}

/// Logs a refused client.
fn log_refused(api: &ApiState, address: Option<IpAddr>, principal: Option<&str>, reason: &str) {
    let refused = Refused { credential: "client", address, key: None, principal, reason };
    api.ctx.grants.watch.tell(&refused);
}

/// Returns the client's id, if it sent one, and its secret: from the header (`client_secret_basic`) or the body
/// (`client_secret_post`), but not from both.
fn credentials(request: &HttpRequest, form: &Form) -> Result<(Option<String>, String), Denied> {
    let (id, secret) = (form.one("client_id")?, form.one("client_secret")?);
    let Some(header) = request.headers().get(AUTHORIZATION) else {
        let secret = secret.ok_or_else(Denied::client)?;
        return Ok((id.map(str::to_owned), secret.to_owned()));
    };
    if secret.is_some() {
        let told = "The client authenticates twice: use the header or the body.";
        return Err(Denied::new("invalid_request", told));
    }
    let (scheme, encoded) =
        header.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(Denied::client)?;
    let decoded = STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let decoded = decoded.filter(|_| scheme.eq_ignore_ascii_case("basic")).ok_or_else(Denied::client)?;
    let (user, password) = decoded.split_once(':').ok_or_else(Denied::client)?;
    // Both are encoded like a form's values (RFC 6749 §2.3.1).
    let (user, password) = (unescaped(user)?, unescaped(password)?);
    if id.is_some_and(|id| id != user) {
        return Err(Denied::new("invalid_request", "`client_id` in the body is another than in the header."));
    }
    Ok((Some(user), password))
}

/// Decodes a value as in a form.
fn unescaped(text: &str) -> Result<String, Denied> {
    let form = Form::parse(&format!("value={text}"))?;
    form.one("value")?.map(str::to_owned).ok_or_else(Denied::client)
}

/// The members of a request; one without a value counts as absent (RFC 6749 §3.2).
struct Form(Vec<(String, String)>);

impl Form {
    fn read(request: &HttpRequest, body: &[u8]) -> Result<Self, Denied> {
        let kind =
            request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let text = std::str::from_utf8(body).ok().filter(|_| kind.eq_ignore_ascii_case(FORM));
        let text = text.ok_or_else(|| Denied::new("invalid_request", format!("The body must be {FORM}.")))?;
        Self::parse(text)
    }

    fn parse(text: &str) -> Result<Self, Denied> {
        web::Query::<Vec<(String, String)>>::from_query(text)
            .map(|members| {
                Self(members.into_inner().into_iter().filter(|(_, value)| !value.is_empty()).collect())
            })
            .map_err(|_no_form| Denied::new("invalid_request", format!("The body must be {FORM}.")))
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(member, _)| member == name).map(|(_, value)| value.as_str())
    }

    /// Returns a member that may be there once (RFC 6749 §3.2).
    fn one(&self, name: &str) -> Result<Option<&str>, Denied> {
        let mut found = self.all(name);
        let first = found.next();
        if found.next().is_some() {
            return Err(Denied::new("invalid_request", format!("`{name}` is there more than once.")));
        }
        Ok(first)
    }
}
