//! Server-sent event streams that read from the database on each notification: of jobs, mailboxes and
//! moments. A [`Source`] supplies the frames. Also the common parts of all streams of the API: the header to resume by,
//! the response, and the error that breaks it.
//!
//! A slow reader misses nothing, because the rest comes from the database; a client that accepts no data at all is cut off
//! after `ENTENTE_WRITE_SECONDS` (`runtime/src/sockets.rs`, set for each connection by `src/startup/listening.rs`).
//!
//! The streams of intents, channels, portfolios and agents, which the feed's rings supply, are in
//! `kernel/streams.rs` and `kernel/streams/live.rs`; the pages' streams, without content, in `web/live.rs`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, HeaderName};
use bytes::{Bytes, BytesMut};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::wakeups::Listener;
use entente_kernel::{AppError, Caller, StreamPermit};
use entente_runtime::metrics::StreamLabels;
use futures_util::stream::{self, Stream};
use serde::Serialize;
use tokio::time::{Instant, timeout};

use super::error::Reply;
use crate::HttpState;

/// Milliseconds after which a client should reconnect when its stream breaks.
pub const RETRY_MILLIS: u64 = 1_000;

/// The result of one read of a source.
pub struct Chunk {
    /// The frames.
    pub text: BytesMut,
    /// Whether the stream has ended for good.
    pub over: bool,
    /// Whether more entries may follow than this read looked at.
    pub behind: bool,
}

/// Supplies a stream's frames.
#[expect(async_fn_in_trait, reason = "a stream runs on its worker's thread; no future of it is sent")]
pub trait Source {
    /// Label of this kind of stream in the metrics.
    const KIND: &'static str;

    /// Returns the id from which a client resumes before it has received a frame.
    fn start(&self) -> String;

    /// Reads the entries since the last call.
    ///
    /// # Errors
    /// The read failed, or the caller lost its access; the stream ends.
    async fn read(&mut self, caller: &Caller) -> Result<Chunk, AppError>;
}

/// Returns the request's `Last-Event-ID`, after which the client resumes; `None` if it is absent or blank.
#[must_use]
pub fn last_event_id(request: &actix_web::HttpRequest) -> Option<&str> {
    let last = request.headers().get("last-event-id").and_then(|value| value.to_str().ok());
    last.filter(|text| !text.trim().is_empty())
}

/// The refusal of an id that no stream has issued.
#[must_use]
pub fn unreadable(name: &str) -> Refusal {
    let message = format!("`{name}` is no id of a frame. Send the last one that you had, or none.");
    Refusal::new(Code::InvalidParameter, message)
}

struct Live<S: Source> {
    api: Arc<HttpState>,
    caller: Caller,
    source: S,
    listener: Option<Listener>,
    begun: bool,
    over: bool,
    _permit: StreamPermit,
}

impl<S: Source> Drop for Live<S> {
    fn drop(&mut self) {
        self.api.ctx.metrics.streams.get_or_create(&StreamLabels { kind: S::KIND }).dec();
    }
}

/// Responds with a stream; without a `listener` the stream polls ten times a second.
///
/// # Errors
/// The key has too many open streams.
pub fn respond<S: Source + 'static>(
    api: Arc<HttpState>,
    caller: Caller,
    source: S,
    listener: Option<Listener>,
) -> Reply {
    let place = caller.waits(api.limits.max_streams_per_key)?;
    Ok(respond_in(place, api, caller, source, listener))
}

/// As [`respond`], with a place that was taken before something was done.
pub fn respond_in<S: Source + 'static>(
    place: StreamPermit,
    api: Arc<HttpState>,
    caller: Caller,
    source: S,
    listener: Option<Listener>,
) -> HttpResponse {
    api.ctx.metrics.streams.get_or_create(&StreamLabels { kind: S::KIND }).inc();
    let live = Live { api, caller, source, listener, begun: false, over: false, _permit: place };
    event_stream(stream::try_unfold(live, |mut live| async move {
        if live.over {
            return Ok(None);
        }
        live.next().await.map(|bytes| Some((bytes, live)))
    }))
}

/// Returns a response of server-sent events; an error in `body` breaks the connection.
pub fn event_stream(body: impl Stream<Item = io::Result<Bytes>> + 'static) -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/event-stream; charset=utf-8")
        .insert_header((CACHE_CONTROL, "no-cache"))
        .insert_header((HeaderName::from_static("x-accel-buffering"), "no"))
        .streaming(body)
}

/// Breaks the connection: the client reconnects with the last id that it received.
#[must_use]
pub fn broken() -> io::Error {
    io::Error::from(io::ErrorKind::ConnectionAborted)
}

impl<S: Source> Live<S> {
    async fn next(&mut self) -> Result<Bytes, io::Error> {
        if !std::mem::replace(&mut self.begun, true) {
            let id = self.source.start();
            return Ok(Bytes::from(format!(": following\nretry: {RETRY_MILLIS}\nid: {id}\n\n")));
        }
        let until = Instant::now() + self.api.limits.ping;
        let draining = self.api.draining.clone();
        let grant = Arc::clone(&self.caller.grant);
        loop {
            // Checked before each delivery: a key that has ended receives nothing more, even if there is a
            // backlog.
            self.caller.require_key(self.api.ctx.now()).map_err(|_ended| broken())?;
            let chunk = self.source.read(&self.caller).await.map_err(|failure| {
                tracing::debug!(error = %failure, kind = S::KIND, "a stream ended");
                broken()
            })?;
            self.over = chunk.over;
            if !chunk.text.is_empty() || self.over {
                return Ok(chunk.text.freeze());
            }
            if chunk.behind {
                // None of the entries read was visible to the caller; there may be more.
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            tokio::select! {
                biased;
                () = draining.cancelled() => return Err(broken()),
                () = grant.voided() => return Err(broken()),
                rung = timeout(left.min(self.patience()), self.rung()) => {
                    if rung.is_err() && Instant::now() >= until {
                        return Ok(Bytes::from_static(b": ping\n\n"));
                    }
                }
            }
        }
    }

    /// Returns how long to wait for a notification before polling; streams over all entries receive no
    /// notifications.
    fn patience(&self) -> Duration {
        Duration::from_millis(if self.listener.is_some() { 60_000 } else { 100 })
    }

    async fn rung(&self) {
        match &self.listener {
            Some(listener) => listener.rung().await,
            None => std::future::pending().await,
        }
    }
}

/// Writes a frame.
///
/// # Errors
/// The body has no JSON form.
pub fn write(text: &mut BytesMut, id: &str, event: &str, body: &impl Serialize) -> Result<(), AppError> {
    let mut data = serde_json::to_vec(body)?;
    // A body keeps its line breaks as written, but in SSE any of them ends a line.
    data.iter_mut().filter(|byte| matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    text.extend_from_slice(format!("id: {id}\nevent: {event}\ndata: ").as_bytes());
    text.extend_from_slice(&data);
    text.extend_from_slice(b"\n\n");
    Ok(())
}
