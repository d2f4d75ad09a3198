//! `HEAD` on every route that has `GET` (RFC 9110 §9.3.2): the router and the handlers see a GET, and the response
//! loses its body. It is answered at once: no long poll waits for it, no refusal is delayed, no stream opens.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody, None as NoBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{CONTENT_LENGTH, UPGRADE};
use actix_web::{HttpMessage as _, HttpRequest};
use bytes::Bytes;

/// Marks a request that came as `HEAD`.
struct Head;

/// Turns a `HEAD` request into the GET whose headers it asks for.
pub(crate) fn routed(mut request: ServiceRequest) -> ServiceRequest {
    if request.method() == Method::HEAD {
        let head = request.head_mut();
        head.method = Method::GET;
        // Only a GET opens a WebSocket (RFC 6455 §4.1).
        let _removed = head.headers.remove(UPGRADE);
        request.extensions_mut().insert(Head);
    }
    request
}

/// Returns whether the client sent `HEAD`, and so waits for headers only.
#[must_use]
pub fn is_head(request: &HttpRequest) -> bool {
    request.extensions().contains::<Head>()
}

/// Drops the body of a response to `HEAD`, and keeps its length if that is known.
///
/// A stream is dropped unread, which ends its subscription.
pub(crate) fn bodiless(response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    if !is_head(response.request()) {
        return response;
    }
    let stated = response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    response.map_body(|_head, body| {
        let length = match body.size() {
            BodySize::Sized(bytes) => Some(bytes),
            BodySize::Stream => stated,
            BodySize::None => None,
        };
        length.map_or_else(|| BoxBody::new(NoBody::new()), |bytes| BoxBody::new(Omitted(bytes)))
    })
}

/// A body of a known length that is not sent.
struct Omitted(u64);

impl MessageBody for Omitted {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.0)
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        Poll::Ready(None)
    }
}
