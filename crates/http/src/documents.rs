//! Documents: answers that a client may keep, such as the OpenAPI document, a style sheet or a schema. Each has an
//! entity tag made of its content, and a client that already has it is answered 304 (RFC 9110 §13.1.2). All other
//! answers are `no-store` (`middleware.rs`).

use actix_web::body::{BoxBody, MessageBody, None as NoBody};
use actix_web::dev::ServiceResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH,
};
use actix_web::{HttpResponse, HttpResponseBuilder};
use entente_domain::canonical::{hex, sha256};
use serde::Serialize;

use crate::error::{Problem, Reply};

/// `Cache-Control` of a document for everybody: any cache may keep it, and asks whether it is still current.
pub const PUBLIC: &str = "public, no-cache";
/// `Cache-Control` of a document for those with a key: only the client keeps it, and asks whether it is still current.
pub const PRIVATE: &str = "private, no-cache";
/// `Cache-Control` of a document that introduces this server. It is short compared to a key change, during which both
/// keys are trusted.
pub const BRIEF: &str = "public, max-age=300";

/// Bytes of a content's SHA-256 in its entity tag: enough that no two contents share one.
const TAG_BYTES: usize = 16;

/// Returns the entity tag of a content, in quotes.
#[must_use]
pub fn tag(content: &[u8]) -> String {
    let digest = sha256(content);
    format!("\"{}\"", hex(&digest[..TAG_BYTES]))
}

/// Returns a document: `response` with its entity tag, the time it may be kept, and its content.
#[must_use]
pub fn document(
    mut response: HttpResponseBuilder,
    kind: &str,
    kept: &'static str,
    tag: &str,
    content: impl MessageBody + 'static,
) -> HttpResponse {
    response.insert_header((ETAG, tag)).insert_header((CACHE_CONTROL, kept)).content_type(kind).body(content)
}

/// Returns a JSON document that everybody may keep for a few minutes.
///
/// # Errors
/// The value has no JSON form.
pub fn brief(body: &impl Serialize) -> Reply {
    let text = serde_json::to_vec(body).map_err(|e| Problem::internal(&e.to_string()))?;
    let tag = tag(&text);
    Ok(document(HttpResponse::Ok(), "application/json", BRIEF, &tag, text))
}

/// Returns whether these are the headers of a document.
pub(crate) fn is_document(headers: &HeaderMap) -> bool {
    let kept = headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok());
    headers.contains_key(ETAG) && kept.is_some_and(|kept| !kept.contains("no-store"))
}

/// Marks the tag of a compressed document as weak: its bytes are not those of the original.
pub(crate) fn weaken(headers: &mut HeaderMap) {
    let weak = headers.get(ETAG).and_then(|tag| tag.to_str().ok()).map(|tag| format!("W/{tag}"));
    if let Some(Ok(weak)) = weak.map(HeaderValue::try_from) {
        headers.insert(ETAG, weak);
    }
}

/// Returns whether the client has the document already: one of its tags is the document's, strong or weak.
pub(crate) fn is_known(request: &HeaderMap, document: &HeaderMap) -> bool {
    let strong = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let Some(tag) = document.get(ETAG).and_then(|tag| tag.to_str().ok()).map(strong) else { return false };
    let given = request.get_all(IF_NONE_MATCH).filter_map(|value| value.to_str().ok());
    given.flat_map(|list| list.split(',')).any(|one| one.trim() == "*" || strong(one) == tag)
}

/// Turns the response into a 304, which has the document's tag and no content.
pub(crate) fn not_modified(mut response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    *response.response_mut().status_mut() = StatusCode::NOT_MODIFIED;
    for name in [CONTENT_TYPE, CONTENT_LENGTH] {
        let _removed = response.headers_mut().remove(name);
    }
    response.map_body(|_head, _content| BoxBody::new(NoBody::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &actix_web::http::header::HeaderName, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        values
            .iter()
            .copied()
            .for_each(|value| headers.append(name.clone(), HeaderValue::from_static(value)));
        headers
    }

    #[test]
    fn a_tag_is_known_in_any_form_and_place() {
        let document = headers(&ETAG, &["\"abc\""]);
        for given in ["\"abc\"", "W/\"abc\"", "\"x\", W/\"abc\"", " * ", "\"x\",\"abc\""] {
            assert!(is_known(&headers(&IF_NONE_MATCH, &[given]), &document), "{given}");
        }
        assert!(is_known(&headers(&IF_NONE_MATCH, &["\"x\"", "\"abc\""]), &document));
        for given in ["\"ab\"", "abc", "W/\"abcd\"", ""] {
            assert!(!is_known(&headers(&IF_NONE_MATCH, &[given]), &document), "{given}");
        }
        assert!(!is_known(&HeaderMap::new(), &document));
        let mut weak = document;
        weaken(&mut weak);
        assert_eq!(weak.get(ETAG).unwrap(), "W/\"abc\"");
        assert!(is_known(&headers(&IF_NONE_MATCH, &["\"abc\""]), &weak));
    }

    #[test]
    fn only_an_answer_that_may_be_kept_is_a_document() {
        let mut kept = headers(&ETAG, &["\"2\""]);
        assert!(!is_document(&kept), "the version of a resource");
        kept.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        assert!(!is_document(&kept));
        kept.insert(CACHE_CONTROL, HeaderValue::from_static(PUBLIC));
        assert!(is_document(&kept));
        assert!(!is_document(&headers(&CACHE_CONTROL, &[PUBLIC])), "nothing to compare with");
    }
}
