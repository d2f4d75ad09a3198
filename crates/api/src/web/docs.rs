//! Swagger UI at `/docs`, from files embedded in the binary. It shows the OpenAPI document, and needs no login.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use entente_domain::refusal::Refusal;
use entente_http::documents;
use entente_http::error::{Problem, Reply};

use super::dressed_by;

/// Content security policy of Swagger UI: that of the server's own pages, except that its files bring inline
/// styles and `data:` images.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The page that leads to the others: their relative links need the trailing slash.
const START: &str =
    "<!doctype html><title>Entente API</title><meta http-equiv=\"refresh\" content=\"0; url=/docs/\">";

/// Entity tags of the files that were served, by their names: at most as many as there are embedded files, of which
/// the largest has a megabyte.
static TAGS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    // Served without a redirect, because a client that does not follow redirects would see nothing.
    config.route("/docs", web::get().to(docs));
    let ui = utoipa_swagger_ui::Config::from("/openapi.json");
    config.app_data(web::Data::new(Arc::new(ui)));
    config.route("/docs/{file:.*}", web::get().to(docs));
}

async fn docs(request: HttpRequest, ui: web::Data<Arc<utoipa_swagger_ui::Config<'static>>>) -> Reply {
    let file = request.match_info().query("file");
    if file.is_empty() && !request.path().ends_with('/') {
        let tag = documents::tag(START.as_bytes());
        return Ok(kept("text/html; charset=utf-8", &tag, START.as_bytes().to_vec()));
    }
    match utoipa_swagger_ui::serve(file, Arc::clone(&ui)) {
        Ok(Some(found)) => {
            let tag = tag(file, &found.bytes);
            Ok(kept(&found.content_type, &tag, found.bytes.into_owned()))
        }
        Ok(None) => Err(Refusal::not_found("page").into()),
        Err(e) => Err(Problem::internal(&e.to_string())),
    }
}

fn kept(kind: &str, tag: &str, content: Vec<u8>) -> HttpResponse {
    documents::document(dressed_by(StatusCode::OK, POLICY), kind, documents::PUBLIC, tag, content)
}

/// Returns the entity tag of a file, which is computed once.
fn tag(file: &str, content: &[u8]) -> String {
    let mut tags = TAGS.lock().unwrap_or_else(PoisonError::into_inner);
    tags.entry(file.to_owned()).or_insert_with(|| documents::tag(content)).clone()
}
