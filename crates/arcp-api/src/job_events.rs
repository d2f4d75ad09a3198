//! Endpoints for jobs' events (ARCP §7.6, §8): pages, and streams of server-sent events. All event numbers here are the
//! job's own (ARCP-W-11.1.4).

use std::sync::Arc;

use actix_web::http::header::ACCEPT;
use actix_web::{HttpRequest, get, web};
use bytes::BytesMut;
use entente_arcp::jobs::{JobEventPosition, JobEventToken, Stored};
use entente_arcp::{Ctx, jobs};
use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::ids::{JobId, MessageId};
use entente_domain::limits::{PAGE, PAGE_BYTES, SMALL_PAGE_BYTES};
use entente_http::body::{LastEventId, Query};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::live::{Chunk, Source, last_event_id, respond, unreadable, write};
use entente_http::ok;
use entente_http::routes::Routes;
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{AppError, Caller};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::ApiState;
use crate::jobs::job_id;

/// Default page size; also the number of events read at once for a stream.
const STEP: u32 = 100;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(follow_all).service(events);
}

/// An event in an ARCP envelope, numbered per job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobEnvelope)]
struct Envelope {
    /// Always `1.1`.
    arcp: &'static str,
    /// The envelope's id.
    id: MessageId,
    /// `job.event`, `job.result` or `job.error`.
    r#type: String,
    /// A session id for clients that require one: the job's id with the prefix `sess_`.
    session_id: String,
    /// The job.
    job_id: JobId,
    /// The job's trace id.
    trace_id: String,
    /// The event's number in the job, from 1.
    event_seq: i64,
    /// The event's payload.
    #[schema(value_type = Object)]
    payload: Box<RawValue>,
}

impl Envelope {
    fn new(ctx: &Ctx, session: &str, trace: &str, event: &Stored) -> Result<Self, AppError> {
        let number = u32::try_from(event.job_seq).unwrap_or(u32::MAX);
        Ok(Self {
            arcp: "1.1",
            id: MessageId::mint(event.ts, number, &*ctx.chance),
            r#type: event.type_.clone(),
            session_id: session.to_owned(),
            job_id: event.job_id,
            trace_id: trace.to_owned(),
            event_seq: event.job_seq,
            payload: event.payload()?,
        })
    }

    fn of(ctx: &Ctx, job: &Job, event: &Stored) -> Result<Self, AppError> {
        // Clients require a session id. The submitting session's id would let every observer cancel the job (ARCP-W-9.6).
        let session = job.id.to_string().replacen("job_", "sess_", 1);
        Self::new(ctx, &session, &job.trace_id, event)
    }
}

/// A page of a job's events.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobEventList)]
struct EventPage {
    /// The job.
    job_id: JobId,
    /// The job's status.
    status: JobStatus,
    /// The events, oldest first.
    events: Vec<Envelope>,
    /// Number of the last event on this page: `from_event_seq` of the next page.
    last_event_seq: i64,
    /// Whether more events follow.
    has_more: bool,
}

/// Follow a job, or read its events
///
/// With `Accept: text/event-stream`, returns a stream, which ends with the job; otherwise a page. Each frame's `id` is the
/// event's number; `Last-Event-ID` or `from_event_seq` resumes after it, without a gap or a repetition, on any server.
#[utoipa::path(operation_id = "job_events", tag = "jobs",
    params(("from_event_seq" = Option<i64>, Query, description = "Only events after this number; defaults to 0, the beginning"),
           ("limit" = Option<u32>, Query, description = "Page size, 1 to 1,000; defaults to 100; ignored for a stream"),
           ("Last-Event-ID" = Option<String>, Header, description = "Same as `from_event_seq`; takes precedence")),
    responses((status = 200, description = "A page of events", body = EventPage)))]
#[get("/jobs/{job_id}/events")]
async fn events(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    query: Query,
) -> Reply {
    let id = job_id(&path)?;
    let number = |text: &str| text.trim().parse::<i64>().ok().filter(|number| *number >= 0);
    let from = match last_event_id(&request) {
        Some(text) => Some(number(text).ok_or_else(|| unreadable("Last-Event-ID"))?),
        None => query.parsed("from_event_seq", "a whole number from 0", number)?,
    };
    let from = from.unwrap_or(0);
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    let limit = query.number("limit", STEP, 1, PAGE)?;
    if accept.contains("text/event-stream") {
        return follow(api, asker.caller, id, from).await;
    }
    let (job, found) = jobs::events(&api.ctx, &asker.caller, id, from, limit, PAGE_BYTES).await?;
    let last_event_seq = found.last().map_or(from, |event| event.job_seq);
    let events = found.iter().map(|event| Envelope::of(&api.ctx, &job, event)).collect::<Result<_, _>>()?;
    ok(&EventPage {
        job_id: id,
        status: job.status,
        events,
        last_event_seq,
        has_more: last_event_seq < job.last_seq,
    })
}

/// Source of a stream of job events.
struct Followed {
    ctx: Ctx,
    subject: Subject,
}

/// The jobs that a stream follows.
enum Subject {
    /// One job, after the last event sent.
    Job { job: Box<Job>, after: i64 },
    /// All of the caller's jobs.
    All(JobEventPosition),
}

async fn follow(api: web::Data<ApiState>, caller: Caller, id: JobId, after: i64) -> Reply {
    let mut listener = api.ctx.feed.wakeups().listener();
    listener.add(WakeKey::Job(id));
    // The next event says whether the job is still whole.
    let (job, _) = jobs::events(&api.ctx, &caller, id, after, 1, 1).await?;
    let subject = Subject::Job { job: Box::new(job), after };
    respond(Arc::clone(&api.http), caller, Followed { ctx: api.ctx.clone(), subject }, Some(listener))
}

/// Follow all of the caller's jobs
///
/// Streams the events of all jobs that the caller submitted, from now on. `Last-Event-ID` resumes after that frame.
#[utoipa::path(operation_id = "follow_jobs", tag = "jobs", params(LastEventId),
    responses((status = 200, description = "Server-sent events", body = String, content_type = "text/event-stream")))]
#[get("/jobs/events")]
pub async fn follow_all(request: HttpRequest, api: web::Data<ApiState>, asker: Asker) -> Reply {
    asker.caller.require(entente_domain::identity::keys::Scope::JobsRead)?;
    let spot = match last_event_id(&request) {
        Some(text) => {
            let token = read(text).ok_or_else(|| unreadable("Last-Event-ID"))?;
            jobs::resume_everything(&api.ctx, token).await?
        }
        None => jobs::start_of_everything(&api.ctx).await?,
    };
    let followed = Followed { ctx: api.ctx.clone(), subject: Subject::All(spot) };
    respond(Arc::clone(&api.http), asker.caller, followed, None)
}

/// Renders a token as it was sent.
#[must_use]
pub fn show_token(token: JobEventToken) -> String {
    match token {
        JobEventToken::Place(spot) => show(spot),
        JobEventToken::Former { xid, job_id, job_seq } => format!("{xid}.{job_seq}.{job_id}"),
    }
}

/// Renders a position as a frame's `id:`.
#[must_use]
pub fn show(spot: JobEventPosition) -> String {
    format!("{}.{}", spot.global, spot.job_seq)
}

/// Parses a position, or one of the form before, which has three parts; `None` if it is malformed.
#[must_use]
pub fn read(text: &str) -> Option<JobEventToken> {
    let mut parts = text.trim().splitn(3, '.');
    let (first, job_seq) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(match parts.next() {
        None => JobEventToken::Place(JobEventPosition { global: first, job_seq }),
        Some(job) => JobEventToken::Former { xid: first, job_seq, job_id: job.parse().ok()? },
    })
}

impl Source for Followed {
    const KIND: &'static str = "job";

    fn start(&self) -> String {
        match &self.subject {
            Subject::Job { after, .. } => after.to_string(),
            Subject::All(spot) => show(*spot),
        }
    }

    async fn read(&mut self, caller: &Caller) -> Result<Chunk, AppError> {
        let (mut text, mut over, mut behind) = (BytesMut::new(), false, false);
        let ctx = &self.ctx;
        match &mut self.subject {
            Subject::Job { job, after } => {
                // Reads few bytes at a time, because many streams may wait for slow clients.
                let (now, found) = jobs::events(ctx, caller, job.id, *after, STEP, SMALL_PAGE_BYTES).await?;
                // A client that resumes after the last event has already received the end.
                over = now.status.is_terminal() && *after >= now.last_seq;
                for event in &found {
                    let envelope = Envelope::of(ctx, job, event)?;
                    write(&mut text, &event.job_seq.to_string(), &envelope.r#type, &envelope)?;
                    *after = event.job_seq;
                    over = event.is_terminal();
                }
            }
            Subject::All(spot) => {
                let (found, reached) = jobs::everything(ctx, caller, *spot).await?;
                for (place, event, job) in &found {
                    let envelope = Envelope::of(ctx, job, event)?;
                    write(&mut text, &show(*place), &envelope.r#type, &envelope)?;
                }
                behind = *spot != reached;
                *spot = reached;
            }
        }
        Ok(Chunk { text, over, behind })
    }
}
