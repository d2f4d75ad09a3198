//! Writes a stream of the feed (of intents, channels, portfolios and agents) as server-sent events: greeting,
//! frames, a comment during silence, and the end. Streams of other records are written by `http/live.rs`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use bytes::{Bytes, BytesMut};
use entente_kernel::StreamPermit;
use entente_kernel::feed::Wire;
use entente_kernel::feed::streams::{End, Stream};
use entente_runtime::metrics::StreamLabels;
use futures_util::stream;
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

/// Pause between attempts to read.
const AGAIN: Duration = Duration::from_millis(250);

enum Phase {
    Greeting,
    Following,
    Parting,
}

pub(super) struct Live {
    api: Arc<HttpState>,
    stream: Stream,
    wire: Wire,
    kind: &'static str,
    phase: Phase,
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
        kind: &'static str,
        permit: StreamPermit,
    ) -> Self {
        let (phase, rested_at) = (Phase::Greeting, Instant::now());
        Self { api, stream, wire, kind, phase, rested_at, outage: None, _permit: permit }
    }

    pub(super) fn response(self) -> HttpResponse {
        event_stream(stream::try_unfold(self, |mut live| async move {
            live.next().await.map(|bytes| Some((bytes, live)))
        }))
    }

    /// Returns the next bytes to write.
    async fn next(&mut self) -> Result<Bytes, io::Error> {
        match self.phase {
            Phase::Greeting => {
                self.phase = Phase::Following;
                // Clients store the id of a frame without data too, so one that loses the connection before
                // the first frame resumes from here and not from the time of its reconnection.
                let from = show(self.stream.mark());
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
                    return Ok(PING);
                }
                Ok(Err(end)) => {
                    tracing::debug!(reason = %end, "a stream ended");
                    return Err(broken());
                }
                Err(_silence) => {
                    self.stream.check_key(ctx).map_err(|_ended| broken())?;
                    return Ok(PING);
                }
            };
            let mut text = BytesMut::new();
            let wire = self.wire;
            for frame in &frames {
                text.extend_from_slice(
                    &frame.encoded(wire, |frame| encode(frame, wire, ctx.settings.strict)),
                );
            }
            if !text.is_empty() {
                let now = Instant::now();
                let rest = api.pace.rest(now.into_std().duration_since(api.started));
                self.rested_at = now + rest;
                return Ok(text.freeze());
            }
        }
    }
}
