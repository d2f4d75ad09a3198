//! Routes of streams: server-sent events on both families of paths (contract 11).
//!
//! A stream is never ended cleanly: clients in the field reconnect at once and for ever after a clean end, but wait after
//! a broken one. For the same reason a refused subscription is held for a moment before it is answered.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_web::http::header::{CACHE_CONTROL, HeaderName};
use actix_web::{HttpRequest, HttpResponse, get, web};
use bytes::{Bytes, BytesMut};
use entente_core::ids::{ChannelId, IntentId, PortfolioId};
use entente_core::refusal::{Code, Refusal};
use futures_util::stream;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Doors;
use super::body::{Query, id};
use super::caller::Asker;
use super::error::{Problem, Reply};
use super::frames::{encode, read, show};
use crate::app::StreamPermit;
use crate::app::streams::{Stream, Subject};
use crate::feed::{Family, Mark, Wire};
use crate::http::routes::Routes;
use crate::telemetry::StreamLabels;

/// Milliseconds after which a client should come back when its stream breaks.
const RETRY_MILLIS: u64 = 1_000;

/// Time for a stream's last words to get out before it breaks.
const PARTING: Duration = Duration::from_millis(100);

/// What one delivery to a stream, a wake-up and a write, may take of a core.
const DELIVERY: Duration = Duration::from_micros(60);
/// The longest rest between two deliveries to one stream: what a person still takes for "at once".
const REST_MAX: Duration = Duration::from_millis(120);

/// Spaces deliveries to streams, so that all of them together take no more than a part of a core and senders keep the
/// rest: a stream that was delivered to rests until the others have had their share, and then has all that came
/// meanwhile at once. Without many deliveries there is no rest; a stream that was silent is delivered to at once.
#[derive(Debug, Default)]
pub struct Pace(AtomicU64);

impl Pace {
    /// How long a stream rests that is delivered to at `now`, counted from the server's start.
    fn rest(&self, now: Duration) -> Duration {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (now, most) = (micros(now), micros(REST_MAX));
        let next = |free: u64| Some((free.max(now) + micros(DELIVERY)).min(now + most));
        let free =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_else(|free| free);
        Duration::from_micros(free.saturating_sub(now))
    }
}

pub fn routes(config: &mut Routes<'_>) {
    config
        .service(follow_intent)
        .service(follow_intent_sdk)
        .service(follow_channel)
        .service(follow_channel_sdk)
        .service(follow_portfolio)
        .service(follow_portfolio_sdk)
        .service(follow_agent)
        .service(follow_agent_sdk)
        .service(follow_all);
}

type Asked = Result<Asker, Problem>;

/// Follow an intent
///
/// Its messages (those that the caller may see), receipts and events. `id:` on every frame; `Last-Event-ID` resumes
/// without a gap or a repetition, also on another server.
#[utoipa::path(tag = "streams",
    params(("intent_id" = String, Path, description = "The intent"),
           ("Last-Event-ID" = Option<String>, Header, description = "Resume after this frame")),
    responses((status = 200, description = "Frames such as `event: channel_message`", body = String, content_type = "text/event-stream")))]
#[get("/subscribe/intents/{intent_id}")]
async fn follow_intent(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asked,
    path: web::Path<String>,
) -> Reply {
    let subject = id::<IntentId>("intent", &path).map(Subject::Intent);
    follow(&request, &doors, asker, subject, Family::Reference).await
}

/// Follow an intent (the SDK's path)
///
/// As `/subscribe/intents/{intent_id}`, with the SDK's event names (`STATE_CHANGED` and so on).
#[utoipa::path(tag = "streams",
    params(("intent_id" = String, Path, description = "The intent"),
           ("Last-Event-ID" = Option<String>, Header, description = "Resume after this frame")),
    responses((status = 200, description = "Frames", body = String, content_type = "text/event-stream")))]
#[get("/intents/{intent_id}/subscribe")]
async fn follow_intent_sdk(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asked,
    path: web::Path<String>,
) -> Reply {
    let subject = id::<IntentId>("intent", &path).map(Subject::Intent);
    follow(&request, &doors, asker, subject, Family::Sdk).await
}

/// Follow a channel
#[utoipa::path(tag = "streams",
    params(("channel_id" = String, Path, description = "The channel"),
           ("Last-Event-ID" = Option<String>, Header, description = "Resume after this frame")),
    responses((status = 200, description = "Frames", body = String, content_type = "text/event-stream")))]
#[get("/subscribe/channels/{channel_id}")]
async fn follow_channel(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asked,
    path: web::Path<String>,
) -> Reply {
    let subject = id::<ChannelId>("channel", &path).map(Subject::Channel);
    follow(&request, &doors, asker, subject, Family::Reference).await
}

/// Follow a channel (the SDK's form of the path)
#[utoipa::path(tag = "streams",
    params(("channel_id" = String, Path, description = "The channel"),
           ("Last-Event-ID" = Option<String>, Header, description = "Resume after this frame")),
    responses((status = 200, description = "Frames", body = String, content_type = "text/event-stream")))]
#[get("/channels/{channel_id}/subscribe")]
async fn follow_channel_sdk(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asked,
    path: web::Path<String>,
) -> Reply {
    let subject = id::<ChannelId>("channel", &path).map(Subject::Channel);
    follow(&request, &doors, asker, subject, Family::Sdk).await
}

/// Follow a portfolio
///
/// What happens on its intents, those that the caller can read, as they come and go; and to the portfolio itself.
#[utoipa::path(tag = "streams",
    params(("portfolio_id" = String, Path, description = "The portfolio"),
           ("Last-Event-ID" = Option<String>, Header, description = "Resume after this frame")),
    responses((status = 200, description = "Frames", body = String, content_type = "text/event-stream")))]
#[get("/subscribe/portfolios/{portfolio_id}")]
async fn follow_portfolio(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asked,
    path: web::Path<String>,
) -> Reply {
    let subject = id::<PortfolioId>("portfolio", &path).map(Subject::Portfolio);
    follow(&request, &doors, asker, subject, Family::Reference).await
}

/// Follow a portfolio (the SDK's path)
#[utoipa::path(tag = "streams",
    params(("portfolio_id" = String, Path, description = "The portfolio"),
           ("Last-Event-ID" = Option<String>, Header, description = "Resume after this frame")),
    responses((status = 200, description = "Frames", body = String, content_type = "text/event-stream")))]
#[get("/portfolios/{portfolio_id}/subscribe")]
async fn follow_portfolio_sdk(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asked,
    path: web::Path<String>,
) -> Reply {
    let subject = id::<PortfolioId>("portfolio", &path).map(Subject::Portfolio);
    follow(&request, &doors, asker, subject, Family::Sdk).await
}

/// Follow what concerns an agent
///
/// Its assignments, the intents that it is assigned to, messages for it, and what becomes of its own.
#[utoipa::path(tag = "streams",
    params(("agent_id" = String, Path, description = "The agent; the key must be allowed to act as it"),
           ("Last-Event-ID" = Option<String>, Header, description = "Resume after this frame")),
    responses((status = 200, description = "Frames", body = String, content_type = "text/event-stream")))]
#[get("/subscribe/agents/{agent_id}")]
async fn follow_agent(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asked,
    path: web::Path<String>,
) -> Reply {
    let asker = as_agent(&doors, asker, &path);
    follow(&request, &doors, asker, Ok(Subject::Agent), Family::Reference).await
}

/// Follow what concerns an agent (the SDK's path)
///
/// With the SDK's event names (`AGENT_ASSIGNED` and so on).
#[utoipa::path(tag = "streams",
    params(("agent_id" = String, Path, description = "The agent; the key must be allowed to act as it"),
           ("Last-Event-ID" = Option<String>, Header, description = "Resume after this frame")),
    responses((status = 200, description = "Frames", body = String, content_type = "text/event-stream")))]
#[get("/agents/{agent_id}/subscribe")]
async fn follow_agent_sdk(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asked,
    path: web::Path<String>,
) -> Reply {
    let asker = as_agent(&doors, asker, &path);
    follow(&request, &doors, asker, Ok(Subject::Agent), Family::Sdk).await
}

/// Follow everything that one may see
#[utoipa::path(tag = "streams", params(("Last-Event-ID" = Option<String>, Header, description = "Resume after this frame")),
    responses((status = 200, description = "Frames", body = String, content_type = "text/event-stream")))]
#[get("/subscribe")]
async fn follow_all(request: HttpRequest, doors: web::Data<Doors>, asker: Asked) -> Reply {
    follow(&request, &doors, asker, Ok(Subject::All), Family::Reference).await
}

fn as_agent(doors: &Doors, asker: Asked, agent: &str) -> Asked {
    let asker = asker?;
    let agent = asker.caller.speaker("agent_id", Some(agent), doors.ctx.settings.strict)?;
    Ok(Asker { caller: asker.caller.acting_as(agent), ..asker })
}

async fn follow(
    request: &HttpRequest,
    doors: &web::Data<Doors>,
    asker: Asked,
    subject: Result<Subject, Problem>,
    family: Family,
) -> Reply {
    match open(request, doors, asker, subject, family).await {
        Ok(live) => Ok(live.response()),
        Err(problem) => {
            hold(doors).await;
            Err(problem)
        }
    }
}

/// Waits a moment before a refusal is sent, if not too many are held already (contract 11.4).
async fn hold(doors: &Doors) {
    if let Ok(_place) = doors.held.try_acquire() {
        tokio::select! {
            () = sleep(doors.limits.refused_subscribe_hold) => {}
            () = doors.draining.cancelled() => {}
        }
    }
}

async fn open(
    request: &HttpRequest,
    doors: &web::Data<Doors>,
    asker: Asked,
    subject: Result<Subject, Problem>,
    family: Family,
) -> Result<Live, Problem> {
    let asker = asker?;
    let subject = subject?;
    let kind = match subject {
        Subject::Intent(_) => "intent",
        Subject::Channel(_) => "channel",
        Subject::Portfolio(_) => "portfolio",
        Subject::Agent => "agent",
        Subject::All => "all",
    };
    let resume = mark(request)?;
    let permit = asker.caller.waits(doors.limits.max_streams_per_key)?;
    let stream = Stream::open(&doors.ctx, asker.caller, subject, resume).await?;
    let doors = Arc::clone(doors);
    doors.ctx.metrics.streams.get_or_create(&StreamLabels { kind }).inc();
    let wire = Wire { family, dialect: asker.dialect };
    Ok(Live { doors, stream, wire, kind, phase: Phase::Greeting, rested_at: Instant::now(), _permit: permit })
}

/// Where to resume: the header, or the query for clients that cannot set one.
fn mark(request: &HttpRequest) -> Result<Option<Mark>, Problem> {
    let header =
        request.headers().get("last-event-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let query = || Query::of(request).ok().and_then(|query| query.text("last_event_id").map(str::to_owned));
    let Some(text) = header.or_else(query).filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    read(&text).map(Some).ok_or_else(|| {
        Refusal::new(
            Code::InvalidParameter,
            "`Last-Event-ID` is no id of a frame. Send the last one that you had, or none to begin now.",
        )
        .into()
    })
}

enum Phase {
    Greeting,
    Following,
    Parting,
}

/// A stream that is being written.
struct Live {
    doors: Arc<Doors>,
    stream: Stream,
    wire: Wire,
    kind: &'static str,
    phase: Phase,
    /// When it may be delivered to again.
    rested_at: Instant,
    _permit: StreamPermit,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.doors.ctx.metrics.streams.get_or_create(&StreamLabels { kind: self.kind }).dec();
    }
}

/// Breaks the connection without a clean end.
fn broken() -> io::Error {
    io::Error::from(io::ErrorKind::ConnectionAborted)
}

impl Live {
    fn response(self) -> HttpResponse {
        let body = stream::unfold(Some(self), |live| async move {
            let mut live = live?;
            match live.next().await {
                Ok(bytes) => Some((Ok(bytes), Some(live))),
                Err(broken) => Some((Err(broken), None)),
            }
        });
        HttpResponse::Ok()
            .content_type("text/event-stream; charset=utf-8")
            .insert_header((CACHE_CONTROL, "no-cache"))
            .insert_header((HeaderName::from_static("x-accel-buffering"), "no"))
            .streaming(body)
    }

    /// The next bytes to write.
    async fn next(&mut self) -> Result<Bytes, io::Error> {
        match self.phase {
            Phase::Greeting => {
                self.phase = Phase::Following;
                // The id without data is kept by clients as if it were a frame's: whoever is cut off before the first
                // frame goes on from here, not from whenever it comes back.
                let from = show(self.stream.mark());
                return Ok(Bytes::from(format!(": following\nretry: {RETRY_MILLIS}\nid: {from}\n\n")));
            }
            Phase::Parting => {
                // A connection that breaks takes with it what was not yet sent.
                sleep(PARTING).await;
                return Err(broken());
            }
            Phase::Following => {}
        }
        let doors = Arc::clone(&self.doors);
        tokio::select! {
            biased;
            () = doors.draining.cancelled() => {
                self.phase = Phase::Parting;
                Ok(Bytes::from(format!(": the server is stopping; reconnect\nretry: {RETRY_MILLIS}\n\n")))
            }
            bytes = self.deliver() => bytes,
        }
    }

    /// Frames, or a comment when there are none for a while.
    async fn deliver(&mut self) -> Result<Bytes, io::Error> {
        sleep_until(self.rested_at).await;
        let ctx = &self.doors.ctx;
        let until = Instant::now() + self.doors.limits.ping;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let frames = match timeout(left, self.stream.next(ctx)).await {
                Ok(Ok(frames)) => frames,
                Ok(Err(end)) => {
                    tracing::debug!(reason = %end, "a stream ended");
                    return Err(broken());
                }
                Err(_silence) => {
                    self.stream.check_key(ctx).map_err(|_ended| broken())?;
                    return Ok(Bytes::from_static(b": ping\n\n"));
                }
            };
            let mut text = BytesMut::new();
            let wire = self.wire;
            for frame in &frames {
                text.extend_from_slice(&frame.encoded(wire, |frame| encode(frame, wire)));
            }
            if !text.is_empty() {
                let now = Instant::now();
                let rest = self.doors.pace.rest(now.into_std().duration_since(self.doors.started));
                self.rested_at = now + rest;
                return Ok(text.freeze());
            }
        }
    }
}
