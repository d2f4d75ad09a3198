//! Chooses the form of a response: compressed if it is large and the client accepts gzip, and none at all if the
//! client already has the document.
//!
//! Only answers to GET are compressed. Answers that contain a secret (a new key, a credential, a login link, the
//! secret of a subscription) answer a POST, and pages have the token of their forms: the length of a compressed
//! answer would tell an attacker who gets text of their own into it how much of the secret that text repeats
//! (BREACH).

use std::io::{self, Write as _};

use actix_web::body::{BodySize, BoxBody, MessageBody as _};
use actix_web::dev::ServiceResponse;
use actix_web::http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderValue,
    VARY,
};
use actix_web::http::{Method, StatusCode};
use bytes::Bytes;
use entente_kernel::run_blocking;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::documents;

/// Bytes up to which an answer is sent as it is: it fits into one packet, and compressing it gains nothing.
const SMALL: u64 = 1_024;

/// Bytes from which an answer is compressed on another thread, because its own serves other connections too. That
/// many take about half a millisecond.
const LARGE: usize = 64 * 1_024;

/// Chooses the form in which a response is sent.
pub(crate) async fn chosen(mut response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let document = documents::is_document(response.headers());
    let compressed = may_compress(&response, document);
    if compressed {
        // Also where this client gets the original: another one may not.
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    let compressed = compressed && accepts_gzip(response.request().headers());
    if compressed && document {
        documents::weaken(response.headers_mut());
    }
    if document && documents::is_known(response.request().headers(), response.headers()) {
        return documents::not_modified(response);
    }
    if compressed { compress(response).await } else { response }
}

/// Returns whether the response is large, is text, and reveals nothing by its length.
///
/// Streams have no length and stay as they are, and so do parts of something and bytes that are compressed already.
fn may_compress(response: &ServiceResponse<BoxBody>, document: bool) -> bool {
    let headers = response.headers();
    let large = matches!(response.response().body().size(), BodySize::Sized(bytes) if bytes > SMALL);
    large
        && response.request().method() == Method::GET
        && response.status() == StatusCode::OK
        && !headers.contains_key(CONTENT_ENCODING)
        && !headers.contains_key(CONTENT_RANGE)
        && headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| shrinks(kind, document))
}

/// Returns whether content of this media type shrinks and may be compressed; pages only if they are documents, which
/// have no forms.
fn shrinks(kind: &str, document: bool) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind {
        "text/html" => document,
        "text/event-stream" => false,
        "application/javascript" | "application/json" | "application/openmetrics-text" | "image/svg+xml" => {
            true
        }
        kind => kind.starts_with("text/") || kind.ends_with("+json"),
    }
}

/// Returns whether the client accepts gzip, and prefers it at least as much as no compression (RFC 9110 §12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut plain, mut any) = (None, None, None);
    let lines = headers.get_all(ACCEPT_ENCODING).filter_map(|line| line.to_str().ok());
    for item in lines.flat_map(|line| line.split(',')) {
        let mut parts = item.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        // A weight that is no number accepts nothing.
        let weight: f32 = weight.map_or(1.0, |text| text.trim().parse().unwrap_or(0.0));
        match coding.as_str() {
            "gzip" | "x-gzip" => gzip = Some(weight),
            "identity" => plain = Some(weight),
            "*" => any = Some(weight),
            _ => {}
        }
    }
    let gzip = gzip.or(any).unwrap_or(0.0);
    gzip > 0.0 && gzip >= plain.unwrap_or(0.0)
}

/// Compresses the body, if that makes it smaller.
async fn compress(response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let (request, response) = response.into_parts();
    let (mut response, body) = response.into_parts();
    let body = match body.try_into_bytes() {
        Ok(bytes) => match gzipped(&bytes).await.filter(|small| small.len() < bytes.len()) {
            Some(small) => {
                response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                let _stated = response.headers_mut().remove(CONTENT_LENGTH);
                BoxBody::new(Bytes::from(small))
            }
            None => BoxBody::new(bytes),
        },
        Err(body) => body,
    };
    ServiceResponse::new(request, response.set_body(body))
}

async fn gzipped(bytes: &Bytes) -> Option<Vec<u8>> {
    if bytes.len() < LARGE {
        return gzip(bytes).ok();
    }
    let bytes = bytes.clone();
    run_blocking(move || gzip(&bytes)).await.ok()?.ok()
}

/// Compresses at the fastest level: JSON shrinks to about a fifth, and the slower levels gain little more.
fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(lines: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        lines
            .iter()
            .copied()
            .for_each(|line| headers.append(ACCEPT_ENCODING, HeaderValue::from_static(line)));
        accepts_gzip(&headers)
    }

    #[test]
    fn a_client_gets_what_it_prefers() {
        for lines in [
            &["gzip"][..],
            &["GZIP"],
            &["deflate, gzip;q=0.5, br"],
            &["*"],
            &["identity;q=0.5, *;q=0.6"],
            &["br", "x-gzip ; q=0.001"],
            &["gzip;q=1.0, identity;q=1.0"],
            &["identity;q=0, gzip;q=0.2"],
        ] {
            assert!(accepts(lines), "{lines:?}");
        }
        for lines in [
            &[""][..],
            &["br, zstd"],
            &["gzip;q=0"],
            &["gzip;q=0, *"],
            &["*;q=0"],
            &["gzip;q=0.4, identity;q=0.5"],
            &["gzip;q=nonsense"],
            &["gzip;q=nan"],
        ] {
            assert!(!accepts(lines), "{lines:?}");
        }
        assert!(!accepts(&[]));
    }

    #[test]
    fn pages_and_streams_stay_as_they_are() {
        for kind in [
            "application/json",
            "application/schema+json; charset=utf-8",
            "text/css",
            "text/plain",
            "image/svg+xml",
        ] {
            assert!(shrinks(kind, false), "{kind}");
        }
        for kind in [
            "text/html; charset=utf-8",
            "text/event-stream; charset=utf-8",
            "application/octet-stream",
            "image/png",
        ] {
            assert!(!shrinks(kind, false), "{kind}");
        }
        assert!(shrinks("text/html; charset=utf-8", true));
    }
}
