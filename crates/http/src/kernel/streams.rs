//! Routes of event streams: server-sent events on both families of paths (OI-11).
//!
//! A stream never ends cleanly: deployed clients reconnect immediately and forever after a clean end, but
//! pause after a broken connection. For the same reason, a refused subscription is delayed before its
//! response.

mod live;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_web::{HttpRequest, get, web};
use entente_domain::cursors::Since;
use entente_domain::log::event_types::EventTypes;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::feed::streams::{Stream, Subject};
use entente_kernel::feed::{Family, ResumeToken, Wire};
use entente_runtime::metrics::StreamLabels;
use tokio::time::sleep;

use crate::HttpState;
use crate::body::{EventTypesParam, LastEventId, LastEventIdQuery, Query, SinceParam, id};
use crate::caller::{Asker, state_of};
use crate::error::{Problem, Reply};
use crate::frames::parse_resume_token;
use crate::head::is_head;
use crate::kernel::streams::live::{Keepalive, Live};
use crate::live::last_event_id;
use crate::routes::Routes;

/// Share of a core budgeted for one delivery to a stream (a wake-up and a write).
const DELIVERY: Duration = Duration::from_micros(60);
/// Longest rest between two deliveries to one stream, which a person still perceives as immediate.
const REST_MAX: Duration = Duration::from_millis(120);

/// Spaces deliveries to streams, so that together they use only part of a core and leave the rest to senders.
///
/// After a delivery a stream rests until the others have had their share, then receives its whole backlog at
/// once. With few deliveries there is no rest, and a silent stream receives its next delivery immediately.
#[derive(Debug, Default)]
pub struct Pace(AtomicU64);

impl Pace {
    /// Returns how long a stream rests after a delivery at `now`, which counts from the server's start.
    fn rest(&self, now: Duration) -> Duration {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (now, most) = (micros(now), micros(REST_MAX));
        let next = |free: u64| Some((free.max(now) + micros(DELIVERY)).min(now + most));
        let free =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_else(|free| free);
        Duration::from_micros(free.saturating_sub(now))
    }
}

pub(crate) fn routes(config: &mut Routes<'_>) {
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
/// Streams the intent's messages (those that the caller may see), receipts and events. Every frame has an
/// `id:`; `Last-Event-ID` resumes without a gap or a repetition, on any server.
#[utoipa::path(tag = "streams", params(LastEventId, LastEventIdQuery, EventTypesParam),
    responses((status = 200, description = "Server-sent events, such as `event: channel_message`", body = String, content_type = "text/event-stream")))]
#[get("/subscribe/intents/{intent_id}")]
async fn follow_intent(request: HttpRequest, asker: Asked, path: web::Path<String>) -> Reply {
    follow(&request, asker, id("intent", &path).map(Subject::Intent), Family::Reference).await
}

/// Follow an intent (the SDK's path)
///
/// Same as `/subscribe/intents/{intent_id}`, with the SDK's event names (`STATE_CHANGED` and so on).
#[utoipa::path(tag = "streams", params(LastEventId, LastEventIdQuery, EventTypesParam),
    responses((status = 200, description = "Server-sent events", body = String, content_type = "text/event-stream")))]
#[get("/intents/{intent_id}/subscribe")]
async fn follow_intent_sdk(request: HttpRequest, asker: Asked, path: web::Path<String>) -> Reply {
    follow(&request, asker, id("intent", &path).map(Subject::Intent), Family::Sdk).await
}

/// Follow a channel
///
/// A stream that resumes tells how many messages were evicted or expired meanwhile. If that happens to messages of an open stream
/// before they were sent, a comment tells it before the next event: `: missed {"channel_id":…,"missed":3,"truncated":false,"oldest":4,"newest":9}`.
#[utoipa::path(tag = "streams", params(LastEventId, LastEventIdQuery, EventTypesParam, SinceParam),
    responses((status = 200, description = "Server-sent events", body = String, content_type = "text/event-stream",
               headers(("Entente-Missed" = Option<i64>, description = "Number of messages after the position that the channel has evicted, or that have expired unread; absent if there is none"),
                       ("Entente-Truncated" = Option<String>, description = "`true` if `Entente-Missed` is only the most that it can be, because nothing is stored any more from before the position"),
                       ("Entente-Oldest" = Option<i64>, description = "With `Entente-Missed`: number of the oldest message that the channel still has"),
                       ("Entente-Newest" = Option<i64>, description = "With `Entente-Missed`: number of the newest message")))))]
#[get("/subscribe/channels/{channel_id}")]
async fn follow_channel(request: HttpRequest, asker: Asked, path: web::Path<String>) -> Reply {
    follow(&request, asker, id("channel", &path).map(Subject::Channel), Family::Reference).await
}

/// Follow a channel (the SDK's path)
///
/// Same as `/subscribe/channels/{channel_id}`, with the SDK's event names.
#[utoipa::path(tag = "streams", params(LastEventId, LastEventIdQuery, EventTypesParam, SinceParam),
    responses((status = 200, description = "Server-sent events", body = String, content_type = "text/event-stream")))]
#[get("/channels/{channel_id}/subscribe")]
async fn follow_channel_sdk(request: HttpRequest, asker: Asked, path: web::Path<String>) -> Reply {
    follow(&request, asker, id("channel", &path).map(Subject::Channel), Family::Sdk).await
}

/// Follow a portfolio
///
/// Streams the events on those of its intents that the caller can read, as intents are added and removed, and
/// the events of the portfolio itself.
#[utoipa::path(tag = "streams", params(LastEventId, LastEventIdQuery, EventTypesParam),
    responses((status = 200, description = "Server-sent events", body = String, content_type = "text/event-stream")))]
#[get("/subscribe/portfolios/{portfolio_id}")]
async fn follow_portfolio(request: HttpRequest, asker: Asked, path: web::Path<String>) -> Reply {
    follow(&request, asker, id("portfolio", &path).map(Subject::Portfolio), Family::Reference).await
}

/// Follow a portfolio (the SDK's path)
#[utoipa::path(tag = "streams", params(LastEventId, LastEventIdQuery, EventTypesParam),
    responses((status = 200, description = "Server-sent events", body = String, content_type = "text/event-stream")))]
#[get("/portfolios/{portfolio_id}/subscribe")]
async fn follow_portfolio_sdk(request: HttpRequest, asker: Asked, path: web::Path<String>) -> Reply {
    follow(&request, asker, id("portfolio", &path).map(Subject::Portfolio), Family::Sdk).await
}

/// Follow an agent
///
/// Streams the agent's assignments, the intents that it is assigned to, messages to it, and status changes of
/// its own messages. Without `Last-Event-ID` it begins with the agent's open assignments, each as the event that
/// announced it.
#[utoipa::path(tag = "streams",
    params(("agent_id" = String, Path, description = "The agent; the key must be able to act as it"), LastEventId, LastEventIdQuery, EventTypesParam),
    responses((status = 200, description = "Server-sent events", body = String, content_type = "text/event-stream")))]
#[get("/subscribe/agents/{agent_id}")]
async fn follow_agent(request: HttpRequest, asker: Asked, path: web::Path<String>) -> Reply {
    follow(&request, as_agent(&request, asker, &path), Ok(Subject::Agent), Family::Reference).await
}

/// Follow an agent (the SDK's path)
///
/// Same as `/subscribe/agents/{agent_id}`, with the SDK's event names, and by default only with the events that its
/// agents act on: `AGENT_ASSIGNED`, `STATE_CHANGED`, `STATUS_CHANGED` and `LEASE_RELEASED`. `?event_types=*` adds the
/// others.
#[utoipa::path(tag = "streams",
    params(("agent_id" = String, Path, description = "The agent; the key must be able to act as it"), LastEventId, LastEventIdQuery, EventTypesParam),
    responses((status = 200, description = "Server-sent events", body = String, content_type = "text/event-stream")))]
#[get("/agents/{agent_id}/subscribe")]
async fn follow_agent_sdk(request: HttpRequest, asker: Asked, path: web::Path<String>) -> Reply {
    follow(&request, as_agent(&request, asker, &path), Ok(Subject::Agent), Family::Sdk).await
}

/// Follow everything visible to the caller
#[utoipa::path(tag = "streams", params(LastEventId, LastEventIdQuery, EventTypesParam),
    responses((status = 200, description = "Server-sent events", body = String, content_type = "text/event-stream")))]
#[get("/subscribe")]
async fn follow_all(request: HttpRequest, asker: Asked) -> Reply {
    follow(&request, asker, Ok(Subject::All), Family::Reference).await
}

fn as_agent(request: &HttpRequest, asker: Asked, agent: &str) -> Asked {
    let asker = asker?;
    let strict = state_of::<HttpState>(request)?.ctx.settings.strict;
    let agent = asker.caller.speaker("agent_id", Some(agent), strict)?;
    Ok(Asker { caller: asker.caller.acting_as(agent), ..asker })
}

async fn follow(
    request: &HttpRequest,
    asker: Asked,
    subject: Result<Subject, Problem>,
    family: Family,
) -> Reply {
    let api = state_of::<HttpState>(request)?;
    match open(request, api, asker, subject, family).await {
        Ok(live) => Ok(live.response()),
        Err(problem) => {
            // HEAD comes from no client that would repeat it at once.
            if !is_head(request) {
                hold(api).await;
            }
            Err(problem)
        }
    }
}

/// Delays a refusal, unless too many refusals are being delayed already (OI-11.4.2).
async fn hold(api: &HttpState) {
    if let Ok(_place) = api.held.try_acquire() {
        tokio::select! {
            () = sleep(api.limits.refused_subscribe_hold) => {}
            () = api.draining.cancelled() => {}
        }
    }
}

async fn open(
    request: &HttpRequest,
    api: &Arc<HttpState>,
    asker: Asked,
    subject: Result<Subject, Problem>,
    family: Family,
) -> Result<Live, Problem> {
    let asker = asker?;
    let subject = subject?;
    let query = Query::of(request)?;
    // The SDK's agents open this path, and fail on every event that they do not act on (OI-11.5.3).
    let of_agents = subject == Subject::Agent && family == Family::Sdk;
    let types = query.event_types()?;
    let keepalive = if of_agents && types.is_none() { Keepalive::OfAgents } else { Keepalive::of(family) };
    let types = types.unwrap_or_else(|| if of_agents { EventTypes::of_agents() } else { EventTypes::all() });
    let kind = match subject {
        Subject::Intent(_) => "intent",
        Subject::Channel(_) => "channel",
        Subject::Portfolio(_) => "portfolio",
        Subject::Agent => "agent",
        Subject::All => "all",
    };
    let resume = resume_token(request, &query, &subject)?;
    let permit = asker.caller.waits(api.limits.max_streams_per_key)?;
    let stream = Stream::open(&api.ctx, asker.caller, subject, types, resume).await?;
    let api = Arc::clone(api);
    api.ctx.metrics.streams.get_or_create(&StreamLabels { kind }).inc();
    let wire = Wire { family, dialect: asker.dialect };
    Ok(Live::new(api, stream, wire, keepalive, kind, permit))
}

/// Returns the position to resume from: the header, or the query for clients that cannot set headers.
///
/// A channel's stream also begins after a message, like the list of its messages.
fn resume_token(
    request: &HttpRequest,
    query: &Query,
    subject: &Subject,
) -> Result<Option<ResumeToken>, Problem> {
    let given = last_event_id(request).or_else(|| query.text("last_event_id"));
    let Some(text) = given.filter(|text| !text.trim().is_empty()) else {
        let since = query.text("since").filter(|_| matches!(subject, Subject::Channel(_)));
        let Some(since) = since.map(Since::parse).transpose()? else { return Ok(None) };
        return since.number().map(|number| Some(ResumeToken::Message(number))).ok_or_else(|| {
            let message = "A stream begins after a message or a cursor, not at a time. List the messages since that time first.";
            Refusal::new(Code::InvalidParameter, message).into()
        });
    };
    parse_resume_token(text).map(Some).ok_or_else(|| {
        Refusal::new(
            Code::InvalidParameter,
            "`Last-Event-ID` is no id of a frame. Send the last one that you had, or none to begin now.",
        )
        .into()
    })
}
