//! Writes outgoing frames (ARCP §5, ARCP-W-3): one pen per session, which knows the session's dialect. `machine.rs`
//! decides when to send a frame; the payloads of jobs are in `jobs/wire.rs`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::dialects::Dialect;
use super::envelope::VERSION;
use super::features::{Feature, Features};
use super::{Delivery, Moment, What, legacy};
use crate::arcp::faults::Fault;
use crate::arcp::jobs::wire::{Accepted, Described, Listed};
use crate::clock::rfc3339;
use crate::ids::{JobId, MessageId, SessionId};

/// Maximum length of a refusal's message in characters: it may quote client input, which can be long.
const MESSAGE: usize = 500;

/// Content of a welcome.
#[derive(Debug, Clone)]
pub struct Welcome {
    /// Version of the server.
    pub version: &'static str,
    /// Token to resume with.
    pub resume_token: String,
    /// Time for which the session can be resumed.
    pub resume_window: Duration,
    /// Heartbeat interval; `None` if heartbeats were not negotiated.
    pub heartbeat: Option<Duration>,
    /// Features of both sides.
    pub features: Features,
    /// Agents that run jobs, each an object with its name, versions and default.
    pub agents: Vec<Value>,
}

/// Writes a session's frames.
#[derive(Debug)]
pub struct FrameWriter {
    /// Session id; included in every frame, also before the welcome (ARCP-W-3.3).
    pub session_id: SessionId,
    /// Dialect of the client.
    pub dialect: Dialect,
    frames: u32,
    /// Requests that submitted the jobs: the older protocol names them with the job's end.
    begun: HashMap<JobId, String>,
}

/// Envelope around a payload.
#[derive(Default)]
struct Head<'a> {
    word: &'static str,
    job_id: Option<JobId>,
    trace_id: Option<&'a str>,
    event_seq: Option<i64>,
    /// Answered request, in the older protocol.
    correlation: Option<&'a str>,
}

fn of(word: &'static str) -> Head<'static> {
    Head { word, ..Head::default() }
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_never| "{}".to_owned())
}

impl FrameWriter {
    /// Creates a pen for a session.
    #[must_use]
    pub fn new(session_id: SessionId, dialect: Dialect) -> Self {
        Self { session_id, dialect, frames: 0, begun: HashMap::new() }
    }

    fn is_legacy(&self) -> bool {
        self.dialect == Dialect::Legacy
    }

    /// Writes a frame.
    ///
    /// Texts in the head are ids and fixed names that need no escaping, except for those chosen by a client.
    fn frame(&mut self, moment: Moment<'_>, head: &Head<'_>, payload: &str) -> String {
        self.frames = self.frames.wrapping_add(1);
        let id = MessageId::mint(moment.now, self.frames, moment.chance);
        let mut frame = String::with_capacity(payload.len() + 256);
        let _infallible = write!(
            frame,
            r#"{{"arcp":"{VERSION}","id":"{id}","type":"{}","session_id":"{}""#,
            head.word, self.session_id
        );
        if self.is_legacy() {
            let _infallible = write!(frame, r#","timestamp":"{}""#, rfc3339(moment.now));
        }
        if let Some(request) = head.correlation.filter(|_| self.is_legacy()) {
            let _infallible = write!(frame, r#","correlation_id":{}"#, text(&request));
        }
        if let Some(job_id) = head.job_id {
            let _infallible = write!(frame, r#","job_id":"{job_id}""#);
        }
        if let Some(trace_id) = head.trace_id {
            let _infallible = write!(frame, r#","trace_id":{}"#, text(&trace_id));
        }
        if let Some(seq) = head.event_seq {
            let _infallible = write!(frame, r#","event_seq":{seq}"#);
        }
        let _infallible = write!(frame, r#","payload":{payload}}}"#);
        frame
    }

    /// Writes a `session.welcome`.
    ///
    /// Agents that would make the frame too large are left out: they can be listed over REST.
    pub fn welcome(&mut self, moment: Moment<'_>, request: &str, said: Welcome, most: usize) -> String {
        let Welcome { version, resume_token, resume_window, heartbeat, features, mut agents } = said;
        if self.is_legacy() {
            let payload = json!({
                "session_id": self.session_id, "runtime": { "kind": "entente", "version": version }, "capabilities": {},
            });
            let head = Head { correlation: Some(request), ..of("session.accepted") };
            return self.frame(moment, &head, &text(&payload));
        }
        while text(&agents).len() > most / 2 {
            agents.truncate(agents.len() / 2);
        }
        let mut payload = json!({
            "runtime": { "name": "entente", "version": version },
            "session_id": self.session_id,
            "accepted_at": rfc3339(moment.now),
            "resume_token": resume_token,
            "resume_window_sec": resume_window.as_secs().max(1),
            "capabilities": { "encodings": ["json"], "features": features.names(), "agents": agents },
        });
        if let Some(interval) = heartbeat {
            payload["heartbeat_interval_sec"] = interval.as_secs().max(1).into();
        }
        self.frame(moment, &of("session.welcome"), &text(&payload))
    }

    /// Writes a refusal: `session.error`, which every client understands as the answer to its request (ARCP-W-4.2.1).
    pub fn error(
        &mut self,
        moment: Moment<'_>,
        request: Option<&str>,
        job_id: Option<JobId>,
        fault: Fault,
        message: &str,
    ) -> String {
        let message = if message.is_empty() { fault.wire() } else { message };
        let message = &*match message.char_indices().nth(MESSAGE) {
            Some((end, _)) => Cow::Owned(format!("{}…", message.get(..end).unwrap_or_default())),
            None => Cow::Borrowed(message),
        };
        if self.is_legacy() {
            let word = if fault == Fault::Unauthenticated { "session.unauthenticated" } else { "nack" };
            let payload = json!({ "code": legacy::code(fault), "message": message });
            let head = Head { correlation: request, ..of(word) };
            return self.frame(moment, &head, &text(&payload));
        }
        let mut payload = Map::new();
        payload.insert("code".to_owned(), fault.wire().into());
        payload.insert("message".to_owned(), message.into());
        payload.insert("retryable".to_owned(), fault.retryable().into());
        if let Some(request) = request {
            payload.insert("request_id".to_owned(), request.into());
        }
        if let Some(job_id) = job_id {
            payload.insert("job_id".to_owned(), job_id.to_string().into());
        }
        let head = Head { job_id, ..of("session.error") };
        self.frame(moment, &head, &text(&payload))
    }

    /// Writes a `session.ping`; the pong returns its nonce.
    pub fn ping(&mut self, moment: Moment<'_>, nonce: &str) -> String {
        let payload = json!({ "nonce": nonce, "sent_at": rfc3339(moment.now) });
        self.frame(moment, &of("session.ping"), &text(&payload))
    }

    /// Writes a `session.pong`.
    pub fn pong(&mut self, moment: Moment<'_>, nonce: &str) -> String {
        let payload = json!({ "ping_nonce": nonce, "received_at": rfc3339(moment.now) });
        self.frame(moment, &of("session.pong"), &text(&payload))
    }

    /// Writes a `session.closed`.
    pub fn closed(&mut self, moment: Moment<'_>, request: &str) -> String {
        let head = Head { correlation: Some(request), ..of("session.closed") };
        self.frame(moment, &head, "{}")
    }

    /// Writes a `session.jobs`.
    pub fn jobs(&mut self, moment: Moment<'_>, request: &str, jobs: &[Listed], next: Option<&str>) -> String {
        let payload = json!({ "request_id": request, "jobs": jobs, "next_cursor": next });
        self.frame(moment, &of("session.jobs"), &text(&payload))
    }

    /// Writes a `job.accepted` to the submitting session, with credentials if it negotiated them (ARCP-W-9.4).
    pub fn accepted(
        &mut self,
        moment: Moment<'_>,
        request: &str,
        accepted: &Accepted,
        features: Features,
    ) -> String {
        let head = Head {
            job_id: Some(accepted.job_id),
            trace_id: Some(&accepted.trace_id),
            correlation: Some(request),
            ..of("job.accepted")
        };
        if self.is_legacy() {
            self.begun.insert(accepted.job_id, request.to_owned());
            let payload = json!({ "job_id": accepted.job_id });
            return self.frame(moment, &head, &text(&payload));
        }
        let Some(mut payload) = self.told(accepted) else {
            return self.error(moment, Some(request), Some(accepted.job_id), Fault::InternalError, "");
        };
        if !features.has(Feature::ProvisionedCredentials) {
            payload.remove("credentials");
        }
        payload.insert("request_id".to_owned(), request.into());
        self.frame(moment, &head, &text(&payload))
    }

    /// Writes a `job.accepted` for a job the session did not submit: a child delegated by one of its own jobs (ARCP §10).
    ///
    /// It answers no request. `None` in the older protocol, and for the Python SDK: it takes an acceptance without a
    /// request for the answer to the oldest pending submit, or else drops it.
    pub fn delegated(&mut self, moment: Moment<'_>, child: &Accepted) -> Option<String> {
        if self.is_legacy() || self.dialect == Dialect::Python {
            return None;
        }
        let mut payload = self.told(child)?;
        payload.remove("credentials");
        let head = Head { job_id: Some(child.job_id), trace_id: Some(&child.trace_id), ..of("job.accepted") };
        Some(self.frame(moment, &head, &text(&payload)))
    }

    /// Returns the payload for an accepted job, in the client's dialect.
    fn told(&self, accepted: &Accepted) -> Option<Map<String, Value>> {
        let Ok(Value::Object(mut payload)) = serde_json::to_value(accepted) else { return None };
        // A client that repeats a submit must not learn the session of the first submission (ARCP-W-13.8).
        payload.remove("session_id");
        self.dialect.accepted(&mut payload);
        Some(payload)
    }

    /// Writes a `job.subscribed`.
    pub fn subscribed(
        &mut self,
        moment: Moment<'_>,
        request: &str,
        job: &Described,
        from: i64,
        replayed: bool,
    ) -> String {
        let head = Head { job_id: Some(job.job_id), trace_id: Some(&job.trace_id), ..of("job.subscribed") };
        let Ok(Value::Object(mut payload)) = serde_json::to_value(job) else {
            return self.error(moment, Some(request), Some(job.job_id), Fault::InternalError, "");
        };
        payload.insert("request_id".to_owned(), request.into());
        payload.insert("subscribed_from".to_owned(), from.into());
        payload.insert("replayed".to_owned(), replayed.into());
        self.frame(moment, &head, &text(&payload))
    }

    /// Writes a `job.cancelled`: the job will stop.
    pub fn cancelled(
        &mut self,
        moment: Moment<'_>,
        request: &str,
        job_id: JobId,
        trace_id: &str,
        reason: Option<&str>,
    ) -> String {
        let word = if self.is_legacy() { "cancel.accepted" } else { "job.cancelled" };
        let head =
            Head { job_id: Some(job_id), trace_id: Some(trace_id), correlation: Some(request), ..of(word) };
        let reason = reason.unwrap_or("cancelled by its client");
        let payload = json!({ "job_id": job_id, "reason": reason, "request_id": request });
        self.frame(moment, &head, &text(&payload))
    }

    /// Writes an event or the end of a job under its number in the session; `None` if the client's dialect has no such frame.
    pub fn delivery(&mut self, moment: Moment<'_>, event: &Delivery, seq: i64) -> Option<String> {
        if self.is_legacy() {
            if matches!(event.what, What::Event(_)) {
                return None;
            }
            let (word, payload) = legacy::end(event.job_id, &event.body)?;
            let request = self.begun.remove(&event.job_id);
            let head = Head { job_id: Some(event.job_id), correlation: request.as_deref(), ..of(word) };
            return Some(self.frame(moment, &head, &text(&payload)));
        }
        let payload: Cow<'_, str> = match &event.what {
            What::Event(kind) => {
                let (kind, ts) = (text(kind), rfc3339(event.ts));
                Cow::Owned(format!(r#"{{"kind":{kind},"ts":"{ts}","body":{}}}"#, event.body))
            }
            What::Result | What::Error => {
                self.dialect.end(&event.body).map_or(Cow::Borrowed(event.body.as_str()), Cow::Owned)
            }
        };
        let head = Head {
            word: event.what.wire(),
            job_id: Some(event.job_id),
            trace_id: Some(&event.trace_id),
            event_seq: Some(seq),
            correlation: None,
        };
        Some(self.frame(moment, &head, &payload))
    }
}
