//! The style sheet, the script and the logo: files embedded in the binary, without external resources or a
//! build step. A URL with the current version may be cached forever; without a version the browser
//! revalidates each time.

use std::sync::LazyLock;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use entente_http::documents;

use super::dressed;

/// `Cache-Control` of a URL with the current version: another content has another URL.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// Digits of the digest in a version.
const VERSION_DIGITS: usize = 12;

/// An embedded file.
pub struct Asset {
    content: &'static [u8],
    kind: &'static str,
    tag: String,
}

impl Asset {
    fn new(content: &'static [u8], kind: &'static str) -> Self {
        Self { content, kind, tag: documents::tag(content) }
    }

    /// Returns the version of the file, a digest of its content.
    pub fn version(&self) -> &str {
        self.tag.trim_matches('"').get(..VERSION_DIGITS).unwrap_or_default()
    }
}

/// Style sheet.
pub static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new(include_bytes!("../../../../assets/entente.css"), "text/css; charset=utf-8"));
/// Script, an ES module.
pub static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(include_bytes!("../../../../assets/entente.js"), "text/javascript; charset=utf-8")
});
/// Service worker that shows push messages.
static PUSH: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(include_bytes!("../../../../assets/push.js"), "text/javascript; charset=utf-8")
});
/// Logo.
static MARK: LazyLock<Asset> =
    LazyLock::new(|| Asset::new(include_bytes!("../../../../assets/mark.svg"), "image/svg+xml"));

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/assets/entente.css", web::get().to(style));
    config.route("/assets/entente.js", web::get().to(script));
    config.route("/assets/mark.svg", web::get().to(mark));
    // At the root, because a service worker governs the paths beside and below its own.
    config.route("/push.js", web::get().to(push));
    config.route("/favicon.ico", web::get().to(mark));
}

async fn style(request: HttpRequest) -> HttpResponse {
    serve(&request, &STYLE)
}

async fn script(request: HttpRequest) -> HttpResponse {
    serve(&request, &SCRIPT)
}

async fn push(request: HttpRequest) -> HttpResponse {
    serve(&request, &PUSH)
}

async fn mark(request: HttpRequest) -> HttpResponse {
    serve(&request, &MARK)
}

fn serve(request: &HttpRequest, file: &'static Asset) -> HttpResponse {
    let named = request.query_string() == format!("v={}", file.version());
    let kept = if named { FOR_EVER } else { documents::PUBLIC };
    documents::document(dressed(StatusCode::OK), file.kind, kept, &file.tag, file.content)
}
