//! Web pages for people, rendered on the server. They work without JavaScript and style sheets; with
//! JavaScript they update themselves (`live.rs`) and support the keyboard.
//!
//! A page is authorised by a login cookie, which holds an ordinary key (`kernel/src/identity/people.rs`): a page is a
//! caller like any other, and sees and does only as much as its key allows. The cookie is valid for pages
//! only, not under `/api`. No GET changes state, except the one by which a provider sends a browser back to end its login
//! (`provider.rs`); every form is checked twice (`guard.rs`). The API's
//! documentation (`docs.rs`) is public. Domain decisions and SQL are elsewhere.

mod answers;
mod assets;
mod bars;
mod budgets;
mod charts;
mod cookies;
mod dashboard;
mod docs;
mod figures;
mod guard;
mod held;
mod inbox;
mod inboxes;
mod jobs;
mod live;
mod login;
mod notifications;
mod provider;
mod queues;
mod records;
mod search;
mod shell;
mod threads;
mod words;

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, HeaderName, LOCATION};
use actix_web::{HttpResponse, HttpResponseBuilder, web};
use askama::Template;

/// Content security policy of pages: same-origin resources and requests only, nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Registers the routes of pages.
pub fn routes(config: &mut web::ServiceConfig) {
    docs::routes(config);
    assets::routes(config);
    login::routes(config);
    provider::routes(config);
    live::routes(config);
    answers::routes(config);
    inbox::routes(config);
    held::routes(config);
    notifications::routes(config);
    dashboard::routes(config);
    jobs::routes(config);
    queues::routes(config);
    budgets::routes(config);
    threads::routes(config);
    inboxes::routes(config);
    search::routes(config);
    records::routes(config);
    charts::routes(config);
}

/// Starts a response with the headers common to all pages.
fn dressed(status: StatusCode) -> HttpResponseBuilder {
    dressed_by(status, POLICY)
}

/// Starts a response as [`dressed`] does, with another content security policy.
fn dressed_by(status: StatusCode, policy: &'static str) -> HttpResponseBuilder {
    let mut response = HttpResponse::build(status);
    let named = |name| HeaderName::from_static(name);
    response.insert_header((named("content-security-policy"), policy));
    // Forms must send their origin, for browsers that send no `Sec-Fetch-Site`.
    response.insert_header((named("referrer-policy"), "same-origin"));
    response.insert_header((named("x-content-type-options"), "nosniff"));
    response.insert_header((named("x-frame-options"), "DENY"));
    response.insert_header((named("cross-origin-opener-policy"), "same-origin"));
    response
}

/// Renders a page.
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

/// Redirects the browser to another page with a GET.
fn see(path: &str) -> HttpResponseBuilder {
    let mut response = dressed(StatusCode::SEE_OTHER);
    response.insert_header((LOCATION, path)).insert_header((CACHE_CONTROL, "no-store"));
    response
}
