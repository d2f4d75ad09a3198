//! Routes of jobs' events (ARCP §7.6, §8): pages, and streams of server-sent events. In these resources all numbers are the
//! job's own (contract 11.1).

use std::io;
use std::sync::Arc;

use actix_web::http::header::{ACCEPT, CACHE_CONTROL, HeaderName};
use actix_web::{HttpRequest, HttpResponse, get, web};
use bytes::{Bytes, BytesMut};
use entente_core::ids::{JobId, MessageId};
use entente_core::jobs::{Job, JobStatus};
use entente_core::limits::PAGE;
use entente_core::refusal::{Code, Refusal};
use futures_util::stream;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};
use utoipa::ToSchema;
use utoipa_actix_web::service_config::ServiceConfig;

use super::body::Query;
use super::caller::Asker;
use super::error::Reply;
use super::jobs::job_id;
use super::{Doors, ok};
use crate::app::jobs::{self, Spot, Stored};
use crate::app::{AppError, Caller, StreamPermit};
use crate::feed::{Listener, Touch};
use crate::telemetry::StreamLabels;

/// Milliseconds after which a client should come back when its stream breaks.
const RETRY_MILLIS: u64 = 1_000;
/// Events of a page when nothing is said, and read at once for a stream.
const STEP: u32 = 100;

pub fn routes(config: &mut ServiceConfig<'_>) {
    config.service(events);
}

/// An envelope as the sockets have it, with the job's own numbers.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobEnvelope)]
struct Envelope {
    /// `1.1`.
    arcp: &'static str,
    /// The envelope's id.
    id: MessageId,
    /// `job.event`, `job.result` or `job.error`.
    r#type: String,
    /// The stream, as clients want a session: the job's id under another prefix.
    session_id: String,
    /// The job.
    job_id: JobId,
    /// The trace.
    trace_id: String,
    /// The event's number in the job, from 1.
    event_seq: i64,
    /// What it says.
    #[schema(value_type = Object)]
    payload: Box<RawValue>,
}

impl Envelope {
    fn new(doors: &Doors, session: &str, trace: &str, event: &Stored) -> Result<Self, AppError> {
        let number = u32::try_from(event.job_seq).unwrap_or(u32::MAX);
        Ok(Self {
            arcp: "1.1",
            id: MessageId::mint(event.ts, number, &*doors.ctx.chance),
            r#type: event.type_.clone(),
            session_id: session.to_owned(),
            job_id: event.job_id,
            trace_id: trace.to_owned(),
            event_seq: event.job_seq,
            payload: event.payload()?,
        })
    }

    fn of(doors: &Doors, job: &Job, event: &Stored) -> Result<Self, AppError> {
        // Clients want one. The submitting session's own would let every observer cancel the job (contract 9, decision 6).
        let session = job.id.to_string().replacen("job_", "sess_", 1);
        Self::new(doors, &session, &job.trace_id, event)
    }
}

/// A page of a job's events.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobEventList)]
struct EventPage {
    /// The job.
    job_id: JobId,
    /// Where it stands.
    status: JobStatus,
    /// The events, the oldest first.
    events: Vec<Envelope>,
    /// The number of the last one on this page: `from_event_seq` of the next.
    last_event_seq: i64,
    /// Whether there are more.
    has_more: bool,
}

/// Follow a job, or read its events
///
/// With `Accept: text/event-stream` a stream: each frame's `id` is the event's number; `Last-Event-ID` or `from_event_seq`
/// resumes after it, without a gap or a repetition, also on another server; it ends after the job's end. Otherwise a page.
#[utoipa::path(operation_id = "job_events", tag = "jobs",
    params(("job_id" = String, Path, description = "The job"),
           ("from_event_seq" = Option<i64>, Query, description = "After this one; from the beginning when nothing is said"),
           ("limit" = Option<u32>, Query, description = "Of a page: 1 to 1,000; 100 when nothing is said"),
           ("Last-Event-ID" = Option<String>, Header, description = "The same as `from_event_seq`")),
    responses((status = 200, description = "A page", body = EventPage)))]
#[get("/jobs/{job_id}/events")]
async fn events(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    query: Query,
) -> Reply {
    let id = job_id(&path)?;
    let last = request.headers().get("last-event-id").and_then(|value| value.to_str().ok());
    let number = |text: &str| text.trim().parse::<i64>().ok().filter(|number| *number >= 0);
    let from = match last.filter(|text| !text.trim().is_empty()) {
        Some(text) => Some(number(text).ok_or_else(|| unreadable("Last-Event-ID"))?),
        None => query.parsed("from_event_seq", "a whole number from 0", number)?,
    };
    let from = from.unwrap_or(0);
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    let limit = query.number("limit", STEP, 1, PAGE)?;
    if accept.contains("text/event-stream") {
        return follow(doors, asker.caller, id, from).await;
    }
    let (job, found) = jobs::events(&doors.ctx, &asker.caller, id, from, limit).await?;
    let last_event_seq = found.last().map_or(from, |event| event.job_seq);
    let events = found.iter().map(|event| Envelope::of(&doors, &job, event)).collect::<Result<_, _>>()?;
    ok(&EventPage {
        job_id: id,
        status: job.status,
        events,
        last_event_seq,
        has_more: last_event_seq < job.last_seq,
    })
}

fn unreadable(name: &str) -> Refusal {
    let message = format!("`{name}` is no id of a frame. Send the last one that you had, or none.");
    Refusal::new(Code::InvalidParameter, message)
}

/// What a stream follows.
enum Subject {
    /// One job, of which this was sent so far.
    Job { job: Box<Job>, after: i64 },
    /// All of the caller's jobs.
    All(Spot),
}

/// A stream that is being written.
struct Live {
    doors: web::Data<Doors>,
    caller: Caller,
    subject: Subject,
    listener: Option<Listener>,
    begun: bool,
    over: bool,
    /// Whether there may be more than was looked at.
    behind: bool,
    _permit: StreamPermit,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.doors.ctx.metrics.streams.get_or_create(&StreamLabels { kind: "job" }).dec();
    }
}

async fn follow(doors: web::Data<Doors>, caller: Caller, id: JobId, after: i64) -> Reply {
    let mut listener = doors.ctx.feed.bells().listener();
    listener.add(Touch::Job(id));
    let (job, _) = jobs::events(&doors.ctx, &caller, id, after, 0).await?;
    respond(doors, caller, Subject::Job { job: Box::new(job), after }, Some(listener))
}

/// Follow all of one's jobs
///
/// One stream over all jobs that the caller submitted. Each frame's `id` is a place in it; `Last-Event-ID` resumes after it.
#[utoipa::path(operation_id = "follow_jobs", tag = "jobs",
    params(("Last-Event-ID" = Option<String>, Header, description = "Resume after this frame")),
    responses((status = 200, description = "Frames", body = String, content_type = "text/event-stream")))]
#[get("/jobs/events")]
pub async fn follow_all(request: HttpRequest, doors: web::Data<Doors>, asker: Asker) -> Reply {
    asker.caller.require(entente_core::keys::Scope::JobsRead)?;
    let last = request.headers().get("last-event-id").and_then(|value| value.to_str().ok());
    let spot = match last.filter(|text| !text.trim().is_empty()) {
        Some(text) => read(text).ok_or_else(|| unreadable("Last-Event-ID"))?,
        None => jobs::start_of_everything(&doors.ctx).await?,
    };
    respond(doors, asker.caller, Subject::All(spot), None)
}

fn show(spot: Spot) -> String {
    format!("{}.{}.{}", spot.xid, spot.job_seq, spot.job_id)
}

fn read(text: &str) -> Option<Spot> {
    let mut parts = text.trim().splitn(3, '.');
    let (xid, job_seq) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(Spot { xid, job_seq, job_id: parts.next()?.parse().ok()? })
}

fn respond(doors: web::Data<Doors>, caller: Caller, subject: Subject, listener: Option<Listener>) -> Reply {
    let permit = caller.grant.open_stream(doors.limits.max_streams_per_key)?;
    doors.ctx.metrics.streams.get_or_create(&StreamLabels { kind: "job" }).inc();
    let live =
        Live { doors, caller, subject, listener, begun: false, over: false, behind: false, _permit: permit };
    let body = stream::unfold(Some(live), |live| async move {
        let mut live = live.filter(|live| !live.over)?;
        match live.next().await {
            Ok(bytes) => Some((Ok(bytes), Some(live))),
            Err(broken) => Some((Err(broken), None)),
        }
    });
    Ok(HttpResponse::Ok()
        .content_type("text/event-stream; charset=utf-8")
        .insert_header((CACHE_CONTROL, "no-cache"))
        .insert_header((HeaderName::from_static("x-accel-buffering"), "no"))
        .streaming(body))
}

/// Breaks the connection: whoever follows comes back with the last id that it has.
fn broken() -> io::Error {
    io::Error::from(io::ErrorKind::ConnectionAborted)
}

impl Live {
    async fn next(&mut self) -> Result<Bytes, io::Error> {
        if !std::mem::replace(&mut self.begun, true) {
            let id = match &self.subject {
                Subject::Job { after, .. } => after.to_string(),
                Subject::All(spot) => show(*spot),
            };
            return Ok(Bytes::from(format!(": following\nretry: {RETRY_MILLIS}\nid: {id}\n\n")));
        }
        let until = Instant::now() + self.doors.limits.ping;
        let draining = self.doors.draining.clone();
        loop {
            let text = self.read().await.map_err(|failure| {
                tracing::debug!(error = %failure, "a stream of jobs ended");
                broken()
            })?;
            if !text.is_empty() || self.over {
                return Ok(text);
            }
            if self.behind {
                // Nothing of it was the caller's; there may be more.
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            tokio::select! {
                biased;
                () = draining.cancelled() => return Err(broken()),
                rung = timeout(left.min(self.patience()), self.rung()) => {
                    if rung.is_err() && Instant::now() >= until {
                        self.caller.require_key(self.doors.ctx.now()).map_err(|_ended| broken())?;
                        return Ok(Bytes::from_static(b": ping\n\n"));
                    }
                }
            }
        }
    }

    /// How long it waits for a bell before it looks by itself. Nothing is rung for a stream over everything.
    fn patience(&self) -> std::time::Duration {
        std::time::Duration::from_millis(if self.listener.is_some() { 60_000 } else { 100 })
    }

    async fn rung(&self) {
        match &self.listener {
            Some(listener) => listener.rung().await,
            None => std::future::pending().await,
        }
    }

    /// What has come since, as frames.
    async fn read(&mut self) -> Result<Bytes, AppError> {
        let doors = Arc::clone(&self.doors);
        let mut text = BytesMut::new();
        match &mut self.subject {
            Subject::Job { job, after } => {
                let (now, found) = jobs::events(&doors.ctx, &self.caller, job.id, *after, STEP).await?;
                // Who comes back with the last number has heard the end.
                self.over = now.status.is_terminal() && *after >= now.last_seq;
                for event in &found {
                    let envelope = Envelope::of(&doors, job, event)?;
                    write(&mut text, &event.job_seq.to_string(), &envelope)?;
                    *after = event.job_seq;
                    self.over = event.is_terminal();
                }
            }
            Subject::All(spot) => {
                let (found, reached) = jobs::everything(&doors.ctx, &self.caller, *spot).await?;
                for (place, event, job) in &found {
                    let envelope = Envelope::of(&doors, job, event)?;
                    write(&mut text, &show(*place), &envelope)?;
                }
                self.behind = *spot != reached;
                *spot = reached;
            }
        }
        Ok(text.freeze())
    }
}

fn write(text: &mut BytesMut, id: &str, envelope: &Envelope) -> Result<(), AppError> {
    let mut data = serde_json::to_vec(envelope)?;
    // A body goes out as it was written, with its line breaks; a line of SSE ends at any of them.
    data.iter_mut().filter(|byte| matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    text.extend_from_slice(format!("id: {id}\nevent: {}\ndata: ", envelope.r#type).as_bytes());
    text.extend_from_slice(&data);
    text.extend_from_slice(b"\n\n");
    Ok(())
}
