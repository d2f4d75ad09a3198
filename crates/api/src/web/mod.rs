//! The door of people: pages made on the server, for a browser. They work without JavaScript and without style; with it they
//! stay true by themselves (`live.rs`) and can be used from the keyboard.
//!
//! A page is opened by the cookie of a login, which holds an ordinary key (`kernel/src/people.rs`): so a page is a caller like any
//! other, and sees and does what that key may. The cookie opens pages and nothing under `/api`. No GET changes anything;
//! every form is checked twice (`guard.rs`). Deciding and SQL are elsewhere.

mod answers;
mod assets;
mod cookies;
mod dashboard;
mod figures;
mod guard;
mod held;
mod inbox;
mod live;
mod login;
pub mod pace;
mod shell;
mod threads;
mod words;

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, HeaderName, LOCATION};
use actix_web::{HttpResponse, HttpResponseBuilder, web};
use askama::Template;

/// What a page may load and send: from here and to here, and nothing that stands inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The routes of pages.
pub fn routes(config: &mut web::ServiceConfig) {
    assets::routes(config);
    login::routes(config);
    live::routes(config);
    answers::routes(config);
    inbox::routes(config);
    held::routes(config);
    dashboard::routes(config);
    threads::routes(config);
}

/// Puts on a response what every page has.
fn dressed(status: StatusCode) -> HttpResponseBuilder {
    dressed_by(status, POLICY)
}

/// As [`dressed`], of a page that keeps to another policy.
#[must_use]
pub fn dressed_by(status: StatusCode, policy: &'static str) -> HttpResponseBuilder {
    let mut response = HttpResponse::build(status);
    let named = |name| HeaderName::from_static(name);
    response.insert_header((named("content-security-policy"), policy));
    // The origin has to come along with forms, for browsers that say nothing else of where they come from.
    response.insert_header((named("referrer-policy"), "same-origin"));
    response.insert_header((named("x-content-type-options"), "nosniff"));
    response.insert_header((named("x-frame-options"), "DENY"));
    response.insert_header((named("cross-origin-opener-policy"), "same-origin"));
    response
}

/// A page.
fn page(status: StatusCode, template: &impl Template) -> HttpResponse {
    match template.render() {
        Ok(text) => {
            let mut response = dressed(status);
            response.insert_header((CACHE_CONTROL, "no-store"));
            response.content_type("text/html; charset=utf-8").body(text)
        }
        Err(e) => {
            tracing::error!(error = %e, "a page could not be written");
            dressed(StatusCode::INTERNAL_SERVER_ERROR).body("This page could not be written.")
        }
    }
}

/// Sends the browser to another page, with a GET.
fn see(path: &str) -> HttpResponseBuilder {
    let mut response = dressed(StatusCode::SEE_OTHER);
    response.insert_header((LOCATION, path)).insert_header((CACHE_CONTROL, "no-store"));
    response
}
