//! Agent cards (A2A §8): the server's for everybody, if its operator names an agent, and each agent's for those who may list
//! the agents.

use actix_web::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue, VARY};
use actix_web::{HttpRequest, HttpResponse, web};
use entente_arcp::inventory;
use entente_domain::a2a::cards::card;
use entente_domain::a2a::errors::{Failure, Fault};
use entente_domain::arcp::versions::{AgentRef, Versions};
use entente_domain::identity::keys::Scope;
use entente_domain::refusal::Code;
use entente_http::caller::Asker;
use entente_http::documents::{self, document};
use entente_http::error::Problem;
use entente_http::site::host;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::ApiState;
use crate::replies::Failed;
use crate::visits::{Visit, agent, no_agent, written};

/// Path of a card.
pub(crate) const WELL_KNOWN: &str = "/.well-known/agent-card.json";
/// Path of an agent's card for clients of 0.3, which cannot read the other.
pub(crate) const LEGACY: &str = "/v0.3/.well-known/agent-card.json";
/// `Cache-Control` of a card that only some may read.
const PRIVATE: &str = "private, max-age=300";

/// Returns the card of the agent that the operator has named.
pub(crate) async fn of_server(request: HttpRequest, api: web::Data<ApiState>) -> HttpResponse {
    let Some(name) = api.agent.clone() else {
        let message = "This server has no card of its own. Its operator names an agent in ENTENTE_A2A_AGENT; the card of each \
                       agent is at /a2a/{agent}/.well-known/agent-card.json.";
        return Failed::from(Failure::new(Fault::Refused(Code::NotFound), message)).http();
    };
    let agent = AgentRef { name, version: None };
    let shown = shown(&request, &api, &agent, documents::BRIEF, |card| card).await;
    shown.unwrap_or_else(|failed| failed.http())
}

/// Returns an agent's card.
pub(crate) async fn of_agent(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Result<Asker, Problem>,
) -> HttpResponse {
    of(&request, &api, asker, |card| card).await
}

async fn of(
    request: &HttpRequest,
    api: &ApiState,
    asker: Result<Asker, Problem>,
    form: fn(Value) -> Value,
) -> HttpResponse {
    let shown = async {
        let agent = agent(request)?;
        if api.agent.as_ref() == Some(&agent.name) {
            return shown(request, api, &agent, documents::BRIEF, form).await;
        }
        let caller = asker?.caller;
        if !caller.has(Scope::JobsWork) {
            caller.require(Scope::JobsRead)?;
        }
        shown(request, api, &agent, PRIVATE, form).await
    };
    shown.await.unwrap_or_else(|failed| failed.http())
}

async fn shown(
    request: &HttpRequest,
    api: &ApiState,
    agent: &AgentRef,
    kept: &'static str,
    form: fn(Value) -> Value,
) -> Result<HttpResponse, Failed> {
    api.site.check(request)?;
    let site = api.site.base(host(request), api.limits.encrypted());
    let text = form(made(api, &site, agent, false).await?).to_string();
    let tag = documents::tag(text.as_bytes());
    let mut response = document(HttpResponse::Ok(), "application/json", kept, &tag, text);
    if let Some(origin) = api.site.named(request) {
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    response.headers_mut().insert(VARY, HeaderValue::from_static("Origin"));
    Ok(response)
}

/// Returns the extended card of the visited agent (§3.1.11).
pub(crate) async fn extended(visit: &Visit) -> Result<Box<RawValue>, Failed> {
    visit.caller.require(Scope::JobsRead)?;
    written(&made(&visit.api, &visit.site, &visit.agent, true).await?)
}

/// Returns the extended card of the visited agent as clients of 0.3 read it.
pub(crate) async fn legacy(visit: &Visit) -> Result<Value, Failed> {
    visit.caller.require(Scope::JobsRead)?;
    Ok(older(made(&visit.api, &visit.site, &visit.agent, true).await?))
}

/// Returns an agent's card as clients of 0.3 read it.
pub(crate) async fn of_older(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Result<Asker, Problem>,
) -> HttpResponse {
    of(&request, &api, asker, older).await
}

/// Turns a card into one of 0.3.
fn older(mut card: Value) -> Value {
    card["protocolVersion"] = json!("0.3.0");
    card["url"] = card["supportedInterfaces"][0]["url"].clone();
    card["preferredTransport"] = json!("JSONRPC");
    card["supportsAuthenticatedExtendedCard"] = json!(true);
    card["capabilities"] = json!({ "streaming": true, "pushNotifications": false });
    card["securitySchemes"] = json!({
        "bearer": { "type": "http", "scheme": "bearer" },
        "apiKey": { "type": "apiKey", "in": "header", "name": "X-API-Key" },
    });
    card["security"] = json!([{ "bearer": [] }, { "apiKey": [] }]);
    if let Some(members) = card.as_object_mut() {
        for later in ["supportedInterfaces", "securityRequirements"] {
            let _removed = members.remove(later);
        }
    }
    card
}

async fn made(api: &ApiState, site: &str, agent: &AgentRef, is_extended: bool) -> Result<Value, Failed> {
    let known = inventory::find(&api.ctx, &agent.name).await?.ok_or_else(no_agent)?;
    let versions = match &agent.version {
        None => known.versions,
        Some(version) if known.versions.registered.contains(version) => {
            Versions { registered: vec![version.clone()], default: Some(version.clone()) }
        }
        Some(_) => return Err(no_agent()),
    };
    Ok(card(&agent.name, &format!("{site}/a2a/{agent}"), &versions, is_extended))
}
