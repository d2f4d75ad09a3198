//! Login with a password or a one-time link, logout, and keys for a person's own terminal.

use std::net::IpAddr;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, RETRY_AFTER, SET_COOKIE};
use actix_web::{HttpRequest, HttpResponse, web};
use askama::Template;
use entente_domain::identity::authority::Basis;
use entente_domain::identity::people::{PASSWORD_BYTES, PASSWORD_CHARS, PROGRAM, check_path};
use entente_domain::refusal::Code;
use entente_http::address;
use entente_kernel::AppError;
use entente_kernel::identity::keys::NewKey;
use entente_kernel::identity::people::KeyPurpose;
use entente_kernel::identity::{authentication, keys, people};
use entente_runtime::refused::Refused;
use serde::Deserialize;

use super::guard::{Form, OpenForm, PageError, PageResult, UNSAFE, Visitor};
use super::shell::{Place, Shell};
use super::words::{When, escaped};
use super::{cookies, page, see};
use crate::ApiState;

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/", web::get().to(home));
    config.route("/login", web::get().to(ask)).route("/login", web::post().to(enter));
    config.route("/l/{ticket}", web::get().to(invited)).route("/l/{ticket}", web::post().to(redeem));
    config.route("/logout", web::post().to(leave));
    config.route("/terminal", web::get().to(terminals)).route("/terminal", web::post().to(terminal));
    config.route("/password", web::get().to(passwords)).route("/password", web::post().to(choose));
}

async fn home() -> HttpResponse {
    see("/inbox").finish()
}

#[derive(Template)]
#[template(path = "login.html")]
pub(super) struct LoginPage {
    shell: Shell,
    next: String,
    name: String,
    complaint: Option<String>,
    open: bool,
    provider: Option<ProviderButton>,
}

impl LoginPage {
    /// Returns the page that leads to `next`, with a complaint about the last attempt.
    pub(super) fn of(api: &ApiState, next: &str, complaint: Option<String>) -> Self {
        let provider = ProviderButton::of(api, next);
        let (shell, next) = (Shell::plain("Log in"), next.to_owned());
        Self { shell, next, name: String::new(), complaint, open: true, provider }
    }
}

/// The link that begins a login at the operator's provider.
struct ProviderButton {
    label: String,
    path: String,
}

impl ProviderButton {
    fn of(api: &ApiState, next: &str) -> Option<Self> {
        let label = api.provider.as_ref()?.label().to_owned();
        // The provider sends the browser back to the public URL, where its cookie must be.
        let site = api.site.url().unwrap_or_default();
        Some(Self { label, path: format!("{site}{}?next={}", super::provider::BEGIN, escaped(next)) })
    }
}

/// Returns the destination after the login: a path of this server, or the inbox.
pub(super) fn next(given: Option<String>) -> String {
    given.filter(|path| check_path(path).is_ok()).unwrap_or_else(|| "/inbox".to_owned())
}

#[derive(Deserialize)]
struct Next {
    next: Option<String>,
}

async fn ask(request: HttpRequest, api: web::Data<ApiState>, query: web::Query<Next>) -> HttpResponse {
    let open = cookies::private(&request, &api);
    let complaint = (!open).then(|| UNSAFE.to_owned());
    let next = next(query.into_inner().next);
    page(StatusCode::OK, &LoginPage { open, ..LoginPage::of(&api, &next, complaint) })
}

#[derive(Deserialize)]
struct Login {
    name: String,
    password: String,
    next: Option<String>,
}

async fn enter(request: HttpRequest, api: web::Data<ApiState>, form: OpenForm<Login>) -> PageResult {
    let Login { name, password, next: given } = form.0;
    let (name, next) = (name.trim().to_owned(), next(given));
    let refused = |status, complaint: &str, wait: Option<Duration>| {
        let shown = LoginPage::of(&api, &next, Some(complaint.to_owned()));
        let mut answer = page(status, &LoginPage { name: name.clone(), ..shown });
        if let Some(wait) = wait {
            answer.headers_mut().insert(RETRY_AFTER, wait.as_secs().max(1).into());
        }
        answer
    };
    let address = address(&request, &api);
    if let Err(wait) = api.logins.admit(&name, address) {
        // The name is not logged: it may be unknown, or a password typed into the wrong field.
        tell(&api, "password", address, "too many tries");
        let complaint = format!(
            "That were too many tries in a minute. Try again in {} seconds, or ask for a one-time link.",
            wait.as_secs().max(1)
        );
        return Ok(refused(StatusCode::TOO_MANY_REQUESTS, &complaint, Some(wait)));
    }
    if password.len() > PASSWORD_BYTES {
        return Ok(refused(StatusCode::UNAUTHORIZED, "This is longer than any password.", None));
    }
    let _turn = api.logins.turn(&name, address).await;
    match people::log_in(&api.ctx, &name, password, address).await {
        Ok(made) => {
            api.logins.got_in(&name, address);
            // A person with a password set by somebody else chooses a new one first: until then they can
            // decide nothing.
            let given = made.key.authority.as_ref().is_some_and(|one| one.basis == Basis::GivenPassword);
            let next = if given { "/password" } else { &next };
            Ok(welcome(&request, &api, made, next).await)
        }
        Err(AppError::Refused(refusal)) if refusal.code == Code::Unauthenticated => {
            Ok(refused(StatusCode::UNAUTHORIZED, &refusal.message, None))
        }
        Err(failure) => Err(failure.into()),
    }
}

/// Logs a refused credential.
pub(super) fn tell(api: &ApiState, credential: &'static str, address: Option<IpAddr>, reason: &str) {
    api.ctx.grants.watch.tell(&Refused { credential, address, key: None, principal: None, reason });
}

/// Logs a refused link, with the refusal's code as the reason.
fn told<T>(request: &HttpRequest, api: &ApiState, opened: Result<T, AppError>) -> Result<T, AppError> {
    if let Err(AppError::Refused(refusal)) = &opened {
        tell(api, "link", address(request, api), refusal.code.wire());
    }
    opened
}

/// Stores the new key in the browser, revokes the previous one, and redirects.
async fn welcome(request: &HttpRequest, api: &ApiState, made: NewKey, next: &str) -> HttpResponse {
    end(request, api).await;
    let mut response = see(next);
    if let Some(secret) = made.secret {
        response.insert_header((SET_COOKIE, cookies::give(api, &secret.0)));
    }
    response.finish()
}

/// Revokes the key in the browser's cookie, if there is one.
async fn end(request: &HttpRequest, api: &ApiState) {
    let Some(old) = cookies::key(request, api) else { return };
    let Ok(grant) = authentication::authenticate(&api.ctx, &old, address(request, api)).await else {
        return;
    };
    let id = grant.key.id;
    let Ok(caller) = entente_kernel::Caller::new(grant, None, api.ctx.now()) else { return };
    if let Err(failure) = keys::revoke(&api.ctx, &caller, id).await {
        tracing::warn!(error = %failure, "an old login was not ended; it ends by itself");
    }
}

#[derive(Template)]
#[template(path = "invited.html")]
struct InvitedPage {
    shell: Shell,
    who: String,
    path: String,
}

async fn invited(request: HttpRequest, api: web::Data<ApiState>, ticket: web::Path<String>) -> PageResult {
    if !cookies::private(&request, &api) {
        return Err(PageError::Refused {
            status: StatusCode::FORBIDDEN,
            message: UNSAFE.to_owned(),
            retry_after: None,
        });
    }
    let invitation = told(&request, &api, people::invitation(&api.ctx, &ticket).await)?;
    let path = request.path().to_owned();
    Ok(page(
        StatusCode::OK,
        &InvitedPage { shell: Shell::plain("Log in"), who: invitation.principal_id, path },
    ))
}

#[derive(Deserialize)]
struct Nothing {}

async fn redeem(
    request: HttpRequest,
    api: web::Data<ApiState>,
    ticket: web::Path<String>,
    _form: OpenForm<Nothing>,
) -> PageResult {
    let (made, leads_to) = told(&request, &api, people::redeem(&api.ctx, &ticket).await)?;
    Ok(welcome(&request, &api, made, &leads_to).await)
}

async fn leave(api: web::Data<ApiState>, form: Form<Nothing>) -> PageResult {
    let caller = &form.visitor.caller;
    keys::revoke(&api.ctx, caller, caller.grant.key.id).await?;
    let mut response = see("/login").finish();
    if let Ok(cookie) = HeaderValue::from_str(&cookies::take(&api)) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}

#[derive(Template)]
#[template(path = "terminal.html")]
struct TerminalPage {
    shell: Shell,
    key: Option<String>,
    program: bool,
    until: Option<When>,
}

async fn terminals(visitor: Visitor) -> HttpResponse {
    let shell = Shell::of(&visitor, "Terminal", Place::Elsewhere);
    page(StatusCode::OK, &TerminalPage { shell, key: None, program: false, until: None })
}

#[derive(Deserialize)]
struct Wanted {
    /// Purpose of the key: `program`, or else a terminal.
    r#for: Option<String>,
}

async fn terminal(api: web::Data<ApiState>, form: Form<Wanted>) -> PageResult {
    let program = form.fields.r#for.as_deref() == Some(PROGRAM);
    let purpose = if program { KeyPurpose::Program } else { KeyPurpose::Terminal };
    let made = people::own_key(&api.ctx, &form.visitor.caller, purpose).await?;
    let until = made.key.expires_at.map(|end| When::new(end, api.ctx.now()));
    let shell = Shell::of(&form.visitor, "Terminal", Place::Elsewhere);
    let key = made.secret.map(|secret| secret.0);
    Ok(page(StatusCode::OK, &TerminalPage { shell, key, program, until }))
}

#[derive(Template)]
#[template(path = "password.html")]
struct PasswordPage {
    shell: Shell,
    /// Principal that set the current password, if it was not the person.
    given_by: Option<String>,
    /// Whether the current password is required.
    current: bool,
    least: usize,
    complaint: Option<String>,
}

impl PasswordPage {
    fn of(visitor: &Visitor, complaint: Option<String>) -> Self {
        let authority = visitor.caller.authority();
        let given = authority.filter(|one| one.basis == Basis::GivenPassword);
        Self {
            shell: Shell::of(visitor, "Password", Place::Elsewhere),
            given_by: given.map(|one| one.let_in_by.clone().unwrap_or_else(|| "somebody else".to_owned())),
            current: authority.is_none_or(|one| one.basis != Basis::OneTimeLink),
            least: PASSWORD_CHARS,
            complaint,
        }
    }
}

async fn passwords(visitor: Visitor) -> HttpResponse {
    page(StatusCode::OK, &PasswordPage::of(&visitor, None))
}

#[derive(Deserialize)]
struct Chosen {
    current: Option<String>,
    password: String,
}

async fn choose(request: HttpRequest, api: web::Data<ApiState>, form: Form<Chosen>) -> PageResult {
    let Chosen { current, password } = form.fields;
    let caller = &form.visitor.caller;
    let refused =
        |status, complaint: String| Ok(page(status, &PasswordPage::of(&form.visitor, Some(complaint))));
    let address = address(&request, &api);
    if let Err(wait) = api.logins.admit(caller.principal(), address) {
        let seconds = wait.as_secs().max(1);
        let complaint = format!("That were too many tries in a minute. Try again in {seconds} seconds.");
        return refused(StatusCode::TOO_MANY_REQUESTS, complaint);
    }
    if current.as_ref().is_some_and(|current| current.len() > PASSWORD_BYTES) {
        return refused(StatusCode::UNAUTHORIZED, "This is longer than any password.".to_owned());
    }
    match people::change_password(&api.ctx, caller, current, password).await {
        Ok(made) => Ok(welcome(&request, &api, made, "/inbox").await),
        Err(AppError::Refused(refusal)) if refusal.code == Code::Unauthenticated => {
            refused(StatusCode::UNAUTHORIZED, "This is not your current password.".to_owned())
        }
        Err(AppError::Refused(refusal)) if refusal.code == Code::InvalidRequest => {
            refused(StatusCode::UNPROCESSABLE_ENTITY, refusal.message)
        }
        Err(failure) => Err(failure.into()),
    }
}
