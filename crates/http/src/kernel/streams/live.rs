//! Writes a stream of the feed (of intents, channels, portfolios and agents) as server-sent events: greeting,
//! frames, a comment during silence, and the end. Streams of other records are written by `http/live.rs`.
//!
//! A slow reader misses nothing, because the rest comes from the database; a client that accepts no data at all is cut off
//! after `ENTENTE_WRITE_SECONDS` (`runtime/src/sockets.rs`, set for each connection by `src/startup/listening.rs`).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header::{HeaderName, HeaderValue};
use bytes::{Bytes, BytesMut};
use entente_kernel::StreamPermit;
use entente_kernel::feed::streams::{End, Stream};
use entente_kernel::feed::{Family, ResumeToken, Wire};
use entente_runtime::metrics::StreamLabels;
use futures_util::stream;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::HttpState;
use crate::frames::{encode, show};
use crate::live::{RETRY_MILLIS, broken, event_stream};

/// Time for a stream's last bytes to be sent before the connection breaks.
const PARTING: Duration = Duration::from_millis(100);

/// Comment sent on a silent stream.
const PING: Bytes = Bytes::from_static(b": ping\n\n");

/// How long a stream waits while the database cannot be read; then it breaks, so that its client reconnects,
/// possibly to another server.
const PATIENCE: Duration = Duration::from_secs(30);

/// Header of a stream that resumes before events that retention has deleted: the id up to which some are missing.
const DELETED_UNTIL: HeaderName = HeaderName::from_static("entente-deleted-until");

/// Headers of a channel's stream that resumes after messages that were evicted or have expired: how many, and the numbers of the
/// oldest and the newest message. With `Entente-Truncated: true` the number is the most that it can be.
const MISSED: HeaderName = HeaderName::from_static("entente-missed");
const TRUNCATED: HeaderName = HeaderName::from_static("entente-truncated");
const OLDEST: HeaderName = HeaderName::from_static("entente-oldest");
const NEWEST: HeaderName = HeaderName::from_static("entente-newest");

/// Pause between attempts to read.
const AGAIN: Duration = Duration::from_millis(250);

/// Records after which a client of the SDK is told where it is: a page of the reader, which a stream that resumes reads
/// with one step.
const PASSED: u64 = 256;

/// How a stream tells a client where it is after records that it was not shown (OI-11.7.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keepalive {
    /// An id without data, which the standard requires clients to store.
    Id,
    /// An event of its own, because the SDK stores the ids of events only.
    Event,
    /// An event that the SDK's agents know and skip: without intent and scope nothing was released.
    OfAgents,
}

impl Keepalive {
    /// Returns the usual one of a family of paths.
    pub(super) fn of(family: Family) -> Self {
        match family {
            Family::Reference => Self::Id,
            Family::Sdk => Self::Event,
        }
    }

    fn event(self) -> Option<&'static str> {
        match self {
            Self::Id => None,
            Self::Event => Some("event: keepalive\ndata: {}"),
            Self::OfAgents => Some(
                r#"event: LEASE_RELEASED
data: {"intent_id":null,"scope":null,"keepalive":true}"#,
            ),
        }
    }
}

enum Phase {
    Greeting,
    Following,
    Parting,
}

pub(super) struct Live {
    api: Arc<HttpState>,
    stream: Stream,
    wire: Wire,
    keepalive: Keepalive,
    kind: &'static str,
    phase: Phase,
    /// The last id that was written.
    written: Option<ResumeToken>,
    /// Earliest time of the next delivery.
    rested_at: Instant,
    /// Times of the first and last failed read of a database outage.
    outage: Option<(Instant, Instant)>,
    _permit: StreamPermit,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.api.ctx.metrics.streams.get_or_create(&StreamLabels { kind: self.kind }).dec();
    }
}

impl Live {
    /// Creates a stream that has not sent its greeting.
    pub(super) fn new(
        api: Arc<HttpState>,
        stream: Stream,
        wire: Wire,
        keepalive: Keepalive,
        kind: &'static str,
        permit: StreamPermit,
    ) -> Self {
        let (phase, rested_at) = (Phase::Greeting, Instant::now());
        Self {
            api,
            stream,
            wire,
            keepalive,
            kind,
            phase,
            written: None,
            rested_at,
            outage: None,
            _permit: permit,
        }
    }

    pub(super) fn response(self) -> HttpResponse {
        let deleted = self.stream.deleted().and_then(|until| HeaderValue::try_from(show(until)).ok());
        let missed = self.stream.missed_before();
        let mut response = event_stream(stream::try_unfold(self, |mut live| async move {
            live.next().await.map(|bytes| Some((bytes, live)))
        }));
        if let Some(until) = deleted {
            response.headers_mut().insert(DELETED_UNTIL, until);
        }
        if let Some(missed) = missed {
            let headers = response.headers_mut();
            headers.insert(MISSED, HeaderValue::from(missed.count));
            headers.insert(OLDEST, HeaderValue::from(missed.oldest));
            headers.insert(NEWEST, HeaderValue::from(missed.newest));
            if missed.is_truncated {
                headers.insert(TRUNCATED, HeaderValue::from_static("true"));
            }
        }
        response
    }

    /// Returns the next bytes to write.
    async fn next(&mut self) -> Result<Bytes, io::Error> {
        match self.phase {
            Phase::Greeting => {
                self.phase = Phase::Following;
                // Clients store the id of a frame without data too, so one that loses the connection before
                // the first frame resumes from here and not from the time of its reconnection.
                let from = self.stream.mark();
                self.written = Some(from);
                let from = show(from);
                return Ok(Bytes::from(format!(": following\nretry: {RETRY_MILLIS}\nid: {from}\n\n")));
            }
            Phase::Parting => {
                // Breaking the connection discards bytes that have not been sent yet.
                sleep(PARTING).await;
                return Err(broken());
            }
            Phase::Following => {}
        }
        let api = Arc::clone(&self.api);
        tokio::select! {
            biased;
            () = api.draining.cancelled() => {
                self.phase = Phase::Parting;
                Ok(Bytes::from(format!(": the server is stopping; reconnect\nretry: {RETRY_MILLIS}\n\n")))
            }
            bytes = self.deliver() => bytes,
        }
    }

    /// Returns whether the stream continues after a failed read: during a short database outage, waiting
    /// loses nothing.
    fn outlasts(&mut self, end: &End) -> bool {
        if !matches!(end, End::Failed(failure) if failure.is_passing()) {
            return false;
        }
        let now = Instant::now();
        // Failures further apart than two comments belong to different outages.
        let same = self.outage.filter(|(_, last)| now.duration_since(*last) < 2 * self.api.limits.ping);
        let began = same.map_or(now, |(began, _)| began);
        self.outage = Some((began, now));
        now.duration_since(began) < PATIENCE
    }

    /// Writes notices of missed records as comments, which every client skips (OI-11.3) and those that care read.
    fn missed(&mut self) -> BytesMut {
        let mut text = BytesMut::new();
        for missed in self.stream.take_missed() {
            let said = json!({
                "channel_id": missed.channel_id, "missed": missed.count, "truncated": missed.is_truncated,
                "oldest": missed.oldest, "newest": missed.newest,
            });
            text.extend_from_slice(format!(": missed {said}\n\n").as_bytes());
        }
        text
    }

    /// Returns the comment for a silent stream, with the position that was reached meanwhile: a client that resumes
    /// from there does not read the records again that it was not shown.
    fn ping(&mut self) -> Bytes {
        let mut text = self.missed();
        let place = self.stream.place();
        if self.written == Some(place) {
            text.extend_from_slice(&PING);
            return text.freeze();
        }
        self.written = Some(place);
        let id = show(place);
        let said = match self.keepalive.event() {
            Some(event) if self.stream.has_passed(PASSED) => format!("id: {id}\n{event}\n\n"),
            _ => format!(": ping\nid: {id}\n\n"),
        };
        text.extend_from_slice(said.as_bytes());
        text.freeze()
    }

    /// Returns the next frames, or a comment if there are none for a while.
    async fn deliver(&mut self) -> Result<Bytes, io::Error> {
        sleep_until(self.rested_at).await;
        let api = Arc::clone(&self.api);
        let ctx = &api.ctx;
        let until = Instant::now() + api.limits.ping;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let frames = match timeout(left, self.stream.next(ctx)).await {
                Ok(Ok(frames)) => frames,
                Ok(Err(end)) if self.outlasts(&end) => {
                    sleep_until(until.min(Instant::now() + AGAIN)).await;
                    if Instant::now() < until {
                        continue;
                    }
                    return Ok(self.ping());
                }
                Ok(Err(end)) => {
                    tracing::debug!(reason = %end, "a stream ended");
                    return Err(broken());
                }
                Err(_silence) => {
                    self.stream.check_key(ctx).map_err(|_ended| broken())?;
                    return Ok(self.ping());
                }
            };
            let mut text = self.missed();
            let wire = self.wire;
            for frame in &frames {
                text.extend_from_slice(
                    &frame.encoded(wire, |frame| encode(frame, wire, ctx.settings.strict)),
                );
            }
            if !text.is_empty() {
                self.written = frames.last().map(|frame| frame.mark);
                let now = Instant::now();
                let rest = api.pace.rest(now.into_std().duration_since(api.started));
                self.rested_at = now + rest;
                return Ok(text.freeze());
            }
        }
    }
}
