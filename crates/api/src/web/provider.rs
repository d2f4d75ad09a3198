//! Login with an account of the operator's OpenID Connect provider: sends the browser there, and takes it back.
//!
//! The state of a login travels with the browser (`entente_domain::identity::provider_logins`), so it may end on another
//! server than it began on. Its cookie is lax, unlike that of a login: the browser comes back from another site.

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, RETRY_AFTER, SET_COOKIE};
use actix_web::{HttpRequest, HttpResponse, web};
use askama::Template;
use entente_domain::identity::provider_logins::{LOGIN_SECONDS, ProviderLogin, is_browser, mint_browser};
use entente_domain::ids::KeyId;
use entente_domain::refusal::{Code, Refusal};
use entente_http::address;
use entente_kernel::AppError;
use entente_kernel::identity::keys::NewKey;
use entente_kernel::identity::{authentication, people};
use entente_oidc::{Begun, Fault, Provider};
use serde::Deserialize;

use super::guard::{PageResult, UNSAFE};
use super::login::{LoginPage, next, tell};
use super::shell::Shell;
use super::{cookies, page, see};
use crate::ApiState;

/// Path that begins a login at the provider.
pub const BEGIN: &str = "/login/provider";

/// Credential in log entries about refused accounts.
const CREDENTIAL: &str = "provider account";

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route(BEGIN, web::get().to(begin));
    config.route("/login/provider/callback", web::get().to(finish));
}

#[derive(Deserialize)]
struct Next {
    next: Option<String>,
}

async fn begin(request: HttpRequest, api: web::Data<ApiState>, query: web::Query<Next>) -> PageResult {
    let next = next(query.into_inner().next);
    let refused = |status, complaint: String| Ok(page(status, &LoginPage::of(&api, &next, Some(complaint))));
    let Some(provider) = &api.provider else { return refused(StatusCode::NOT_FOUND, NONE.to_owned()) };
    if !cookies::private(&request, &api) {
        return refused(StatusCode::FORBIDDEN, UNSAFE.to_owned());
    }
    if let Some(slow) = throttled(&request, &api, &next) {
        return Ok(slow);
    }
    let browser = browser(&request, &api).unwrap_or_else(|| mint_browser(&*api.ctx.chance));
    let replaces = current(&request, &api).await;
    let login = ProviderLogin::begin(&*api.ctx.chance, &next, replaces, api.ctx.now());
    let secret = people::provider_secret(&api.ctx);
    let Some(state) = login.state(&secret, &browser) else {
        return refused(StatusCode::INTERNAL_SERVER_ERROR, "This login could not begin.".to_owned());
    };
    match provider.begin(begun(&login, state, &secret, &browser)).await {
        Ok(url) => {
            let mut response = see(&url);
            response.insert_header((SET_COOKIE, cookies::give_lax(&api, &browser, LOGIN_SECONDS)));
            Ok(response.finish())
        }
        Err(fault) => {
            let (status, complaint) = told(provider, &fault);
            refused(status, complaint)
        }
    }
}

/// Query parameters with which the provider sends the browser back.
#[derive(Deserialize)]
struct Callback {
    state: Option<String>,
    code: Option<String>,
    error: Option<String>,
    /// Issuer of the answer (RFC 9207).
    iss: Option<String>,
}

async fn finish(request: HttpRequest, api: web::Data<ApiState>, query: web::Query<Callback>) -> PageResult {
    let inbox = next(None);
    let Some(provider) = &api.provider else {
        return Ok(page(StatusCode::NOT_FOUND, &LoginPage::of(&api, &inbox, Some(NONE.to_owned()))));
    };
    if let Some(slow) = throttled(&request, &api, &inbox) {
        return Ok(slow);
    }
    let callback = query.into_inner();
    let secret = people::provider_secret(&api.ctx);
    let now = api.ctx.now();
    let opened = browser(&request, &api).and_then(|browser| {
        let state = callback.state.clone()?;
        let login = ProviderLogin::open(&state, &secret, &browser, now)?;
        let begun = begun(&login, state, &secret, &browser);
        Some((login, begun))
    });
    let Some((login, begun)) = opened else {
        tell(&api, CREDENTIAL, address(&request, &api), "no login of this browser");
        let complaint =
            "This browser began no such login in the last ten minutes. Begin again, and stay in one browser.";
        return Ok(page(StatusCode::BAD_REQUEST, &LoginPage::of(&api, &inbox, Some(complaint.to_owned()))));
    };
    match enter(&request, &api, provider, &login, begun, callback).await {
        Ok(made) => Ok(arrived(&api, made, provider.label(), &login.next)),
        Err(Stop::Failed(failure)) => Err(failure.into()),
        Err(Stop::Shown(status, complaint)) => {
            Ok(page(status, &LoginPage::of(&api, &login.next, Some(complaint))))
        }
    }
}

/// Reason that a login did not succeed.
enum Stop {
    /// It is shown on the login page.
    Shown(StatusCode, String),
    /// An operation failed.
    Failed(AppError),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Shown(entente_http::error::status(refusal.code), refusal.message)
    }
}

impl From<AppError> for Stop {
    fn from(error: AppError) -> Self {
        match error {
            AppError::Refused(refusal) => refusal.into(),
            other => Self::Failed(other),
        }
    }
}

/// Ends a login that this browser began: asks the provider who it is, and creates the key.
async fn enter(
    request: &HttpRequest,
    api: &ApiState,
    provider: &Provider,
    login: &ProviderLogin,
    begun: Begun,
    callback: Callback,
) -> Result<NewKey, Stop> {
    let from = address(request, api);
    // Another provider's code must not be spent at this one.
    if callback.iss.is_some_and(|iss| iss != provider.policy.issuer) {
        tell(api, CREDENTIAL, from, "another issuer");
        let message = "This answer is of another provider than the one that you were sent to. Begin again.";
        return Err(Refusal::new(Code::Forbidden, message).into());
    }
    let code = match (callback.code, callback.error) {
        (Some(code), None) => code,
        (_, error) => {
            tell(api, CREDENTIAL, from, "refused by the provider");
            return Err(Stop::Shown(StatusCode::FORBIDDEN, declined(provider, error.as_deref())));
        }
    };
    let claims = provider.finish(code, begun, api.ctx.now()).await.map_err(|fault| {
        if !matches!(fault, Fault::Away(_)) {
            tell(api, CREDENTIAL, from, "not vouched for by the provider");
        }
        let (status, complaint) = told(provider, &fault);
        Stop::Shown(status, complaint)
    })?;
    let account = provider.policy.account(&claims).inspect_err(|refusal| {
        tell(api, CREDENTIAL, from, refusal.code.wire());
    })?;
    Ok(people::log_in_with_account(&api.ctx, &provider.policy, &account, login, from).await?)
}

/// Page after a login, which leads on.
#[derive(Template)]
#[template(path = "arrived.html")]
struct ArrivedPage {
    shell: Shell,
    label: String,
    path: String,
}

/// Stores the new key in the browser. The page that follows leads on, because a redirect would
/// still count as coming from the provider's site, and the browser would withhold the key.
fn arrived(api: &ApiState, made: NewKey, label: &str, next: &str) -> HttpResponse {
    let shell = Shell::plain("Log in");
    let shown = ArrivedPage { shell, label: label.to_owned(), path: next.to_owned() };
    let mut response = page(StatusCode::OK, &shown);
    let key = made.secret.map(|secret| cookies::give(api, &secret.0));
    for cookie in key.into_iter().chain([cookies::give_lax(api, "", 0)]) {
        if let Ok(value) = HeaderValue::from_str(&cookie) {
            response.headers_mut().append(SET_COOKIE, value);
        }
    }
    response
}

/// Returns the id of the key with which the browser is logged in.
async fn current(request: &HttpRequest, api: &ApiState) -> Option<KeyId> {
    let key = cookies::key(request, api)?;
    let grant = authentication::authenticate(&api.ctx, &key, address(request, api)).await.ok()?;
    Some(grant.key.id)
}

/// Returns the secret of the browser's cookie.
fn browser(request: &HttpRequest, api: &ApiState) -> Option<String> {
    cookies::lax(request, api).filter(|secret| is_browser(secret))
}

fn begun(login: &ProviderLogin, state: String, secret: &[u8], browser: &str) -> Begun {
    Begun { state, nonce: login.nonce(secret, browser), verifier: login.verifier(secret, browser) }
}

/// Returns the refusal if this address takes too many steps.
fn throttled(request: &HttpRequest, api: &ApiState, next: &str) -> Option<HttpResponse> {
    let address = address(request, api);
    let seconds = api.logins.admit_step(address).err()?.as_secs().max(1);
    tell(api, CREDENTIAL, address, "too many tries");
    let complaint = format!("That were too many tries in a minute. Try again in {seconds} seconds.");
    let mut response = page(StatusCode::TOO_MANY_REQUESTS, &LoginPage::of(api, next, Some(complaint)));
    response.headers_mut().insert(RETRY_AFTER, seconds.into());
    Some(response)
}

/// Message where no provider is configured.
const NONE: &str = "People log in with a password or a one-time link here; the operator has set no provider.";

/// Returns status and message of a fault, and logs it for the operator.
fn told(provider: &Provider, fault: &Fault) -> (StatusCode, String) {
    tracing::warn!(event = "provider_fault", issuer = provider.policy.issuer, error = %fault, "nobody can log in with this account now");
    let label = provider.label();
    match fault {
        Fault::Away(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!(
                "{label} does not answer at the moment. Try again in a minute, or log in with a password or a one-time link."
            ),
        ),
        Fault::Refused(_) => (
            StatusCode::UNAUTHORIZED,
            format!(
                "{label} does not confirm this login; it took too long, or has ended already. Begin again."
            ),
        ),
        Fault::Distrusted(_) => (
            StatusCode::BAD_GATEWAY,
            format!(
                "What {label} says about you cannot be verified, so nobody was logged in. The operator finds the reason in the log of this server."
            ),
        ),
    }
}

/// Returns the message about a login that the provider declined, with its code if that is one.
fn declined(provider: &Provider, error: Option<&str>) -> String {
    let label = provider.label();
    let is_code =
        |text: &&str| text.len() <= 40 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    match error.filter(is_code) {
        Some("access_denied") => {
            format!("{label} did not let you in, or you cancelled. Begin again, or ask the operator there.")
        }
        Some(code) => format!(
            "{label} refused the login ({code}). Begin again; if that does not help, ask the operator."
        ),
        None => format!("{label} sent you back without an answer. Begin again."),
    }
}
