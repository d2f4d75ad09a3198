//! Time limits for bodies in both directions. A request body must arrive within a time limit, or the request fails. A
//! large response is written in pieces, so that it is held in memory once. Slow readers are cut off: the operating
//! system closes a connection that takes nothing for a while (`runtime/src/sockets.rs`), and this module closes one that takes too
//! little of a large response; a stream of events has only the first limit. Bytes of request bodies are counted for the quotas of
//! the caller's principal.

use std::cell::{Cell, OnceCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::http::Method;
use actix_web::http::header::CONTENT_LENGTH;
use actix_web::{HttpMessage as _, HttpRequest};
use bytes::Bytes;
use entente_domain::limits::{PAGE_BYTES, SMALL_PAGE_BYTES};
use entente_kernel::identity::quotas::Exceeded;
use entente_kernel::{Grant, LargeAnswer, Quotas};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::time::{Instant, timeout_at};

use super::error::Problem;

/// Bytes of a response passed to the connection at once: half of its buffer.
const PIECE: usize = 16 * 1024;

/// Limits the time that the request's body may take to arrive.
///
/// Requests without a body stay as they are. So do GET requests: their bodies are not read, except a WebSocket's, which
/// stays open.
pub fn within(mut request: ServiceRequest, time: Duration) -> ServiceRequest {
    if request.method() == Method::GET {
        return request;
    }
    let payload = request.take_payload();
    let payload = match payload {
        Payload::None => Payload::None,
        payload => {
            let deadline = Instant::now() + time;
            let meter = Meter::until(deadline);
            request.extensions_mut().insert(meter.clone());
            let timed: Pin<Box<dyn Stream<Item = Result<Bytes, PayloadError>>>> =
                Box::pin(timed(payload, meter));
            Payload::Stream { payload: timed }
        }
    };
    request.set_payload(payload);
    request
}

/// Lets the body of this request arrive until `time` from now, because it is large.
pub fn extend(request: &HttpRequest, time: Duration) {
    if let Some(meter) = request.extensions().get::<Meter>() {
        meter.0.deadline.set(Instant::now() + time);
    }
}

fn timed(payload: Payload, meter: Meter) -> impl Stream<Item = Result<Bytes, PayloadError>> {
    stream::unfold(Some(payload), move |payload| {
        let meter = meter.clone();
        async move {
            let mut payload = payload?;
            match timeout_at(meter.0.deadline.get(), payload.next()).await {
                Ok(Some(piece)) => {
                    let piece = piece.and_then(|piece| meter.pass(piece));
                    let goes_on = piece.is_ok();
                    Some((piece, goes_on.then_some(payload)))
                }
                Ok(None) => None,
                Err(_late) => Some((Err(PayloadError::Io(io::ErrorKind::TimedOut.into())), None)),
            }
        }
    })
}

/// Limits the time of a body, and counts one whose length its request does not tell, piece by piece, once the caller is known.
#[derive(Clone)]
struct Meter(Rc<Metered>);

struct Metered {
    /// Until when the body may arrive.
    deadline: Cell<Instant>,
    /// Bytes that came before the caller was known.
    came: Cell<u64>,
    payer: OnceCell<(Arc<Quotas>, Arc<Grant>)>,
}

impl Meter {
    fn until(deadline: Instant) -> Self {
        Self(Rc::new(Metered { deadline: Cell::new(deadline), came: Cell::new(0), payer: OnceCell::new() }))
    }

    /// Lets a piece pass, unless the bytes of the minute are used up.
    fn pass(&self, piece: Bytes) -> Result<Bytes, PayloadError> {
        let bytes = piece.len() as u64;
        let Some((quotas, grant)) = self.0.payer.get() else {
            self.0.came.set(self.0.came.get() + bytes);
            return Ok(piece);
        };
        let taken = quotas.take(grant, bytes);
        let refused =
            |exceeded: Box<Exceeded>| io::Error::new(io::ErrorKind::QuotaExceeded, exceeded.refusal);
        taken.map(|()| piece).map_err(|exceeded| PayloadError::Io(refused(exceeded)))
    }
}

/// Counts the request's body for the quotas of the key's principal: at once if the request tells its length, else as it comes.
///
/// # Errors
/// The bytes of the minute are used up.
pub(crate) fn count(
    request: &HttpRequest,
    most: usize,
    grant: &Arc<Grant>,
    quotas: &Arc<Quotas>,
) -> Result<(), Box<Exceeded>> {
    if !quotas.counts_bytes() {
        return Ok(());
    }
    let Some(meter) = request.extensions().get::<Meter>().cloned() else { return Ok(()) };
    let length =
        request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    // No more than that is read, whatever length is claimed.
    let length = length.map(|length| length.min(most as u64));
    match length {
        Some(0) => Ok(()),
        Some(length) => quotas.take(grant, length),
        None => {
            quotas.take(grant, meter.0.came.get())?;
            let _already_known = meter.0.payer.set((Arc::clone(quotas), Arc::clone(grant)));
            Ok(())
        }
    }
}

/// Counts a large response against its key's limit, unless it is counted already.
///
/// # Errors
/// The key has too many large responses in progress. Only GET requests are refused for this, because they changed
/// nothing.
pub fn hold(response: &mut ServiceResponse<BoxBody>) -> Result<(), Problem> {
    let large = matches!(response.response().body().size(), BodySize::Sized(bytes) if bytes > SMALL_PAGE_BYTES.unsigned_abs());
    if !large || response.request().method() != Method::GET {
        return Ok(());
    }
    let grant = response.request().extensions().get::<Arc<Grant>>().cloned();
    let held = response.response().extensions().contains::<LargeAnswer>();
    if let Some(grant) = grant.filter(|_| !held) {
        let place = grant.other_large_answer()?;
        response.response_mut().extensions_mut().insert(place);
    }
    Ok(())
}

/// Returns the response; a large one is written in pieces, with `time` allowed for each page's worth of bytes.
pub fn unhurried(mut response: ServiceResponse<BoxBody>, time: Duration) -> ServiceResponse<BoxBody> {
    let large = response.response_mut().extensions_mut().remove::<LargeAnswer>();
    response.map_body(|_head, body| match body.try_into_bytes() {
        Ok(bytes) if bytes.len() > PIECE => {
            let pages = bytes.len() / usize::try_from(PAGE_BYTES).unwrap_or(usize::MAX) + 1;
            let deadline = Instant::now() + time.saturating_mul(u32::try_from(pages).unwrap_or(u32::MAX));
            BoxBody::new(LargeBody { bytes, deadline, _large: large })
        }
        Ok(bytes) => BoxBody::new(bytes),
        Err(body) => body,
    })
}

/// The body of a large response, written in pieces.
struct LargeBody {
    bytes: Bytes,
    deadline: Instant,
    /// The key's slot for a large response, held until the last piece is taken.
    _large: Option<LargeAnswer>,
}

impl MessageBody for LargeBody {
    type Error = io::Error;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.bytes.len() as u64)
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        let this = self.get_mut();
        if this.bytes.is_empty() {
            return Poll::Ready(None);
        }
        if Instant::now() > this.deadline {
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        }
        let piece = this.bytes.split_to(PIECE.min(this.bytes.len()));
        Poll::Ready(Some(Ok(piece)))
    }

    fn try_into_bytes(self) -> Result<Bytes, Self> {
        Err(self)
    }
}
