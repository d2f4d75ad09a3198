//! Authenticates visitors of pages, and verifies that forms were sent by our own pages. Unauthenticated
//! visitors are redirected to the login page.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::http::header::{HOST, ORIGIN, RETRY_AFTER};
use actix_web::{FromRequest, HttpRequest, HttpResponse, ResponseError, web};
use entente_domain::identity::people::{check_path, form_token, is_form_token};
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::refusal::{Code, Refusal};
use entente_http::HttpState;
use entente_http::error::Problem;
use entente_kernel::identity::authentication;
use entente_kernel::{AppError, Caller, Outcome};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::shell::{CrossSitePage, Notice};
use super::words::escaped;
use super::{cookies, page, see};

/// Characters that a text field of a page accepts (`maxlength` in templates/moment.html).
const FIELD_LETTERS: usize = 16_000;
/// Maximum size of a form in bytes: one such field, whose characters may have three bytes, each
/// percent-encoded as three, plus small fields.
///
/// An overlong text thus reaches the domain rules, whose refusal is shown on the page with the text still in
/// it.
const FORM_BYTES: usize = 9 * FIELD_LETTERS + 4 * 1024;

/// Reason why a visitor does not get the requested page.
#[derive(Debug)]
pub enum PageError {
    /// The visitor is not logged in: redirect to the login page, then back to this path.
    NotLoggedIn(String),
    /// The visitor followed a link on another site, so the browser withholds the cookie: continue to this
    /// path from a page of our own.
    CrossSite(String),
    /// The request was refused or failed.
    Refused {
        /// Status of the response.
        status: StatusCode,
        /// Message to show.
        message: String,
        /// Seconds until a retry makes sense.
        retry_after: Option<u64>,
    },
}

/// Refusal of a form, to show on the page that the form is on.
#[derive(Debug)]
pub struct FormRefusal {
    /// Status of the response.
    pub status: StatusCode,
    /// Message to show.
    pub message: String,
}

/// Splits the result of a form's operation: its value, or its refusal, which its page shows. Any other failure is an
/// error of the request.
///
/// # Errors
/// The operation failed and was not refused.
pub fn concluded<T>(done: Outcome<T>) -> Result<Result<T, FormRefusal>, PageError> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(AppError::Refused(refusal)) => {
            let status = entente_http::error::status(refusal.code);
            Ok(Err(FormRefusal { status, message: refusal.message }))
        }
        Err(failure) => Err(failure.into()),
    }
}

/// Result of a page handler.
pub type PageResult = Result<HttpResponse, PageError>;

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoggedIn(_) => f.write_str("nobody is logged in"),
            Self::CrossSite(_) => f.write_str("another site has led here"),
            Self::Refused { message, .. } => f.write_str(message),
        }
    }
}

impl From<Refusal> for PageError {
    fn from(refusal: Refusal) -> Self {
        let retry_after = refusal.retry_after_seconds.map(u64::from);
        Self::Refused {
            status: entente_http::error::status(refusal.code),
            message: refusal.message,
            retry_after,
        }
    }
}

impl From<AppError> for PageError {
    fn from(error: AppError) -> Self {
        match error {
            AppError::Refused(refusal) => refusal.into(),
            // Reported and logged as for any other interface.
            other => Problem::from(other).into(),
        }
    }
}

impl From<Problem> for PageError {
    fn from(problem: Problem) -> Self {
        let status = problem.status_code();
        let message = problem.body().message;
        Self::Refused { status, message, retry_after: problem.retry_after }
    }
}

impl ResponseError for PageError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::NotLoggedIn(_) => StatusCode::SEE_OTHER,
            Self::CrossSite(_) => StatusCode::OK,
            Self::Refused { status, .. } => *status,
        }
    }

    fn error_response(&self) -> HttpResponse {
        match self {
            Self::NotLoggedIn(next) => see(&login_path(next)).finish(),
            Self::CrossSite(path) => page(StatusCode::OK, &CrossSitePage::to(path)),
            Self::Refused { status, message, retry_after } => {
                let mut response = page(*status, &Notice::of(*status, message));
                if let Some(seconds) = retry_after {
                    response.headers_mut().insert(RETRY_AFTER, (*seconds).into());
                }
                response
            }
        }
    }
}

/// Returns the path of the login page, which leads back to `next`.
fn login_path(next: &str) -> String {
    format!("/login?next={}", escaped(next))
}

/// A logged-in visitor.
#[derive(Debug)]
pub struct Visitor {
    /// Caller of the login's key, which always acts as the person.
    pub caller: Caller,
    /// Token that the visitor's forms must carry.
    pub token: String,
    /// The key itself, for verifying the token.
    key: String,
}

type Waiting<T> = Pin<Box<dyn Future<Output = Result<T, PageError>>>>;

impl FromRequest for Visitor {
    type Error = PageError;
    type Future = Waiting<Self>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let request = request.clone();
        Box::pin(async move { visitor(&request).await })
    }
}

/// Returns the page to show after the login: the requested one or, for a form, the page of the moment that it
/// concerns.
fn wanted(request: &HttpRequest) -> String {
    let uri = request.uri();
    let asked = uri.path_and_query().map_or("/inbox", |path| path.as_str());
    let shown = if request.method().is_safe() {
        Some(asked)
    } else {
        uri.path().rsplit_once('/').map(|(above, _verb)| above).filter(|above| above.starts_with("/inbox/"))
    };
    shown.filter(|path| check_path(path).is_ok()).unwrap_or("/inbox").to_owned()
}

/// Returns whether the visitor followed a link on another site, so that the strict cookie is not sent.
fn is_cross_site(request: &HttpRequest) -> bool {
    let says = |name, word| request.headers().get(name).is_some_and(|value| value == word);
    request.method().is_safe() && says("sec-fetch-site", "cross-site") && says("sec-fetch-mode", "navigate")
}

async fn visitor(request: &HttpRequest) -> Result<Visitor, PageError> {
    let api = entente_http::state_of::<HttpState>(request)?;
    let next = || PageError::NotLoggedIn(wanted(request));
    let Some(key) = cookies::key(request, api) else {
        return Err(if is_cross_site(request) { PageError::CrossSite(wanted(request)) } else { next() });
    };
    let grant = match authentication::authenticate(&api.ctx, &key, entente_http::address(request, api)).await
    {
        // Pages are for people; other principals use the API.
        Ok(grant) if grant.kind == PrincipalKind::Human => grant,
        Ok(_) | Err(AppError::Refused(_)) => return Err(next()),
        Err(failure) => return Err(failure.into()),
    };
    entente_http::admit(api, &grant, request)?;
    let open = entente_http::begin(api, &grant, request)?;
    let caller = Caller::new(grant, None, api.ctx.now())?.within(open);
    Ok(Visitor { caller, token: form_token(&key), key })
}

/// A form that a logged-in visitor has submitted from one of our own pages.
#[derive(Debug)]
pub struct Form<T> {
    /// The visitor.
    pub visitor: Visitor,
    /// Fields of the form.
    pub fields: T,
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

impl<T: DeserializeOwned + 'static> FromRequest for Form<T> {
    type Error = PageError;
    type Future = Waiting<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, mut payload) = (request.clone(), payload.take());
        Box::pin(async move {
            same_origin(&request)?;
            let visitor = visitor(&request).await?;
            let body = body(&request, &mut payload).await?;
            let Token { token } = read(&body)?;
            if !is_form_token(&visitor.key, &token) {
                let message = "This form is of another login. Open the page again and repeat what you did.";
                return Err(Refusal::new(Code::Forbidden, message).into());
            }
            Ok(Self { visitor, fields: read(&body)? })
        })
    }
}

/// A form of a visitor that is not logged in yet, from one of our own pages.
#[derive(Debug)]
pub struct OpenForm<T>(pub T);

impl<T: DeserializeOwned + 'static> FromRequest for OpenForm<T> {
    type Error = PageError;
    type Future = Waiting<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, mut payload) = (request.clone(), payload.take());
        Box::pin(async move {
            same_origin(&request)?;
            let api = entente_http::state_of::<HttpState>(&request)?;
            if !cookies::private(&request, api) {
                return Err(Refusal::new(Code::Forbidden, UNSAFE).into());
            }
            Ok(Self(read(&body(&request, &mut payload).await?)?))
        })
    }
}

/// Message for connections over which a password would travel in clear text.
pub const UNSAFE: &str = "This connection is not encrypted, so nobody logs in over it. Put a proxy that ends TLS in front and set \
                          ENTENTE_TLS_TERMINATED=true, or open the page on the machine itself or through a tunnel.";

/// Requires that a page of this server sent the request: browsers state this themselves, and scripts cannot
/// change it.
fn same_origin(request: &HttpRequest) -> Result<(), PageError> {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let own = match request.headers().get("sec-fetch-site") {
        Some(site) => site == "same-origin",
        None => match (header(ORIGIN), header(HOST)) {
            (Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, from)| from == host),
            _ => false,
        },
    };
    if own {
        return Ok(());
    }
    let message = "This form was not sent by a page of this server. Open the page itself and repeat what you did there.";
    Err(Refusal::new(Code::Forbidden, message).into())
}

async fn body(request: &HttpRequest, payload: &mut Payload) -> Result<String, PageError> {
    let unreadable = |_| PageError::from(Refusal::new(Code::InvalidRequest, "The form cannot be read."));
    let bytes = web::Bytes::from_request(request, payload).await.map_err(unreadable)?;
    if bytes.len() > FORM_BYTES {
        return Err(Refusal::new(Code::TooLarge, "The form is too long.").into());
    }
    String::from_utf8(bytes.to_vec())
        .map_err(|_no_text| Refusal::new(Code::InvalidRequest, "The form cannot be read.").into())
}

fn read<T: DeserializeOwned>(body: &str) -> Result<T, PageError> {
    let parsed = web::Query::<T>::from_query(body).map(web::Query::into_inner);
    let refusal = |e: actix_web::error::QueryPayloadError| {
        Refusal::new(Code::InvalidRequest, format!("The form lacks something: {e}. Open the page again."))
    };
    let text = parsed.map_err(refusal)?;
    Ok(text)
}
