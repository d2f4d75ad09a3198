//! Logging in, with a password or a one-time link, and out again; and letting in one's own terminal.

use std::net::IpAddr;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, RETRY_AFTER, SET_COOKIE};
use actix_web::{HttpRequest, HttpResponse, web};
use askama::Template;
use entente_core::people::{PASSWORD_BYTES, check_path};
use entente_core::refusal::Code;
use serde::Deserialize;

use super::guard::{Form, OpenForm, Shown, Turned, UNSAFE, Visitor};
use super::shell::{Place, Shell};
use super::words::When;
use super::{cookies, page, see};
use crate::app::keys::{self, NewKey};
use crate::app::{AppError, authentication, people};
use crate::http::{Doors, address};
use crate::telemetry::refused::Refused;

/// The routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/", web::get().to(home));
    config.route("/login", web::get().to(ask)).route("/login", web::post().to(enter));
    config.route("/l/{ticket}", web::get().to(invited)).route("/l/{ticket}", web::post().to(redeem));
    config.route("/logout", web::post().to(leave));
    config.route("/terminal", web::get().to(terminals)).route("/terminal", web::post().to(terminal));
}

async fn home() -> HttpResponse {
    see("/inbox").finish()
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    shell: Shell,
    next: String,
    name: String,
    complaint: Option<String>,
    open: bool,
}

/// Where to go after the login: a path of this server, or the inbox.
fn next(given: Option<String>) -> String {
    given.filter(|path| check_path(path).is_ok()).unwrap_or_else(|| "/inbox".to_owned())
}

#[derive(Deserialize)]
struct Next {
    next: Option<String>,
}

async fn ask(request: HttpRequest, doors: web::Data<Doors>, query: web::Query<Next>) -> HttpResponse {
    let open = cookies::private(&request, &doors);
    let complaint = (!open).then(|| UNSAFE.to_owned());
    let next = next(query.into_inner().next);
    page(
        StatusCode::OK,
        &LoginPage { shell: Shell::plain("Log in"), next, name: String::new(), complaint, open },
    )
}

#[derive(Deserialize)]
struct Login {
    name: String,
    password: String,
    next: Option<String>,
}

async fn enter(request: HttpRequest, doors: web::Data<Doors>, form: OpenForm<Login>) -> Shown {
    let Login { name, password, next: given } = form.0;
    let (name, next) = (name.trim().to_owned(), next(given));
    let refused = |status, complaint: &str, wait: Option<Duration>| {
        let complaint = Some(complaint.to_owned());
        let shell = Shell::plain("Log in");
        let mut answer =
            page(status, &LoginPage { shell, next: next.clone(), name: name.clone(), complaint, open: true });
        if let Some(wait) = wait {
            answer.headers_mut().insert(RETRY_AFTER, wait.as_secs().max(1).into());
        }
        answer
    };
    let address = address(&request, &doors);
    if let Err(wait) = doors.logins.admit(&name, address) {
        // The name may be nobody's, or a password in the wrong field.
        tell(&doors, "password", address, "too many tries");
        let complaint = format!(
            "That were too many tries in a minute. Try again in {} seconds, or ask for a one-time link.",
            wait.as_secs().max(1)
        );
        return Ok(refused(StatusCode::TOO_MANY_REQUESTS, &complaint, Some(wait)));
    }
    if password.len() > PASSWORD_BYTES {
        return Ok(refused(StatusCode::UNAUTHORIZED, "This is longer than any password.", None));
    }
    let _turn = doors.logins.turn(&name, address).await;
    match people::log_in(&doors.ctx, &name, password, address).await {
        Ok(made) => {
            doors.logins.got_in(&name, address);
            Ok(welcome(&request, &doors, made, &next).await)
        }
        Err(AppError::Refused(refusal)) if refusal.code == Code::Unauthenticated => {
            Ok(refused(StatusCode::UNAUTHORIZED, &refusal.message, None))
        }
        Err(failure) => Err(failure.into()),
    }
}

/// Has the log say that something opened nothing.
fn tell(doors: &Doors, credential: &'static str, address: Option<IpAddr>, reason: &str) {
    doors.ctx.grants.watch.tell(&Refused { credential, address, key: None, principal: None, reason });
}

/// The same of a link; why is in what is said to who came with it.
fn told<T>(request: &HttpRequest, doors: &Doors, opened: Result<T, AppError>) -> Result<T, AppError> {
    if let Err(AppError::Refused(refusal)) = &opened {
        tell(doors, "link", address(request, doors), refusal.code.wire());
    }
    opened
}

/// Gives the browser its key, ends the one that it had before, and leads on.
async fn welcome(request: &HttpRequest, doors: &Doors, made: NewKey, next: &str) -> HttpResponse {
    end(request, doors).await;
    let mut response = see(next);
    if let Some(secret) = made.secret {
        response.insert_header((SET_COOKIE, cookies::give(doors, &secret.0)));
    }
    response.finish()
}

/// Revokes the key that a browser comes with, if it is one.
async fn end(request: &HttpRequest, doors: &Doors) {
    let Some(old) = cookies::key(request, doors) else { return };
    let Ok(grant) = authentication::authenticate(&doors.ctx, &old, address(request, doors)).await else {
        return;
    };
    let id = grant.key.id;
    let Ok(caller) = crate::app::Caller::new(grant, None, doors.ctx.now()) else { return };
    if let Err(failure) = keys::revoke(&doors.ctx, &caller, id).await {
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

async fn invited(request: HttpRequest, doors: web::Data<Doors>, ticket: web::Path<String>) -> Shown {
    if !cookies::private(&request, &doors) {
        return Err(Turned::Refused {
            status: StatusCode::FORBIDDEN,
            message: UNSAFE.to_owned(),
            retry_after: None,
        });
    }
    let invitation = told(&request, &doors, people::invitation(&doors.ctx, &ticket).await)?;
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
    doors: web::Data<Doors>,
    ticket: web::Path<String>,
    _form: OpenForm<Nothing>,
) -> Shown {
    let (made, leads_to) = told(&request, &doors, people::redeem(&doors.ctx, &ticket).await)?;
    Ok(welcome(&request, &doors, made, &leads_to).await)
}

async fn leave(doors: web::Data<Doors>, form: Form<Nothing>) -> Shown {
    let caller = &form.visitor.caller;
    keys::revoke(&doors.ctx, caller, caller.grant.key.id).await?;
    let mut response = see("/login").finish();
    if let Ok(cookie) = HeaderValue::from_str(&cookies::take(&doors)) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}

#[derive(Template)]
#[template(path = "terminal.html")]
struct TerminalPage {
    shell: Shell,
    key: Option<String>,
    until: Option<When>,
}

async fn terminals(visitor: Visitor) -> HttpResponse {
    let shell = Shell::of(&visitor, "Terminal", Place::Elsewhere);
    page(StatusCode::OK, &TerminalPage { shell, key: None, until: None })
}

async fn terminal(doors: web::Data<Doors>, form: Form<Nothing>) -> Shown {
    let made = people::terminal(&doors.ctx, &form.visitor.caller).await?;
    let until = made.key.expires_at.map(|end| When::new(end, doors.ctx.now()));
    let shell = Shell::of(&form.visitor, "Terminal", Place::Elsewhere);
    Ok(page(StatusCode::OK, &TerminalPage { shell, key: made.secret.map(|secret| secret.0), until }))
}
