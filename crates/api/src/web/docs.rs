//! Swagger UI at `/docs`, from files embedded in the binary. It shows the OpenAPI document, and needs no login.

use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, web};
use entente_domain::refusal::Refusal;
use entente_http::error::{Problem, Reply};

use super::dressed_by;

/// Content security policy of Swagger UI: that of the server's own pages, except that its files bring inline
/// styles and `data:` images.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

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
        // The page's relative links need the trailing slash.
        let page = "<!doctype html><title>Entente API</title><meta http-equiv=\"refresh\" content=\"0; url=/docs/\">";
        return Ok(dressed_by(StatusCode::OK, POLICY).content_type("text/html; charset=utf-8").body(page));
    }
    match utoipa_swagger_ui::serve(file, Arc::clone(&ui)) {
        Ok(Some(file)) => Ok(dressed_by(StatusCode::OK, POLICY)
            .content_type(file.content_type.as_str())
            .body(file.bytes.into_owned())),
        Ok(None) => Err(Refusal::not_found("page").into()),
        Err(e) => Err(Problem::internal(&e.to_string())),
    }
}
