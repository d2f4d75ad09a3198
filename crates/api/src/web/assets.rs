//! The style sheet, the script and the logo: files embedded in the binary, without external resources or a
//! build step. A URL with the current version may be cached forever; without a version the browser
//! revalidates each time.

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use actix_web::{HttpRequest, HttpResponse, web};
use entente_domain::canonical::{hex, sha256};

use super::dressed;

/// Style sheet.
pub const STYLE: &[u8] = include_bytes!("../../../../assets/entente.css");
/// Script, an ES module.
pub const SCRIPT: &[u8] = include_bytes!("../../../../assets/entente.js");
/// Logo.
const MARK: &[u8] = include_bytes!("../../../../assets/mark.svg");

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/assets/entente.css", web::get().to(style));
    config.route("/assets/entente.js", web::get().to(script));
    config.route("/assets/mark.svg", web::get().to(mark));
    config.route("/favicon.ico", web::get().to(mark));
}

/// Returns the version of a file, a digest of its content.
pub fn version(file: &[u8]) -> String {
    hex(&sha256(file))[..12].to_owned()
}

async fn style(request: HttpRequest) -> HttpResponse {
    serve(&request, STYLE, "text/css; charset=utf-8")
}

async fn script(request: HttpRequest) -> HttpResponse {
    serve(&request, SCRIPT, "text/javascript; charset=utf-8")
}

async fn mark(request: HttpRequest) -> HttpResponse {
    serve(&request, MARK, "image/svg+xml")
}

fn serve(request: &HttpRequest, file: &'static [u8], kind: &str) -> HttpResponse {
    let version = version(file);
    let tag = format!("\"{version}\"");
    let named = request.query_string() == format!("v={version}");
    let keep = if named { "public, max-age=31536000, immutable" } else { "public, no-cache" };
    let had = request.headers().get(IF_NONE_MATCH).is_some_and(|given| given == tag.as_str());
    let mut response = dressed(if had { StatusCode::NOT_MODIFIED } else { StatusCode::OK });
    response.insert_header((ETAG, tag)).insert_header((CACHE_CONTROL, keep));
    if had { response.finish() } else { response.content_type(kind).body(file) }
}
