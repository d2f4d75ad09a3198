//! Reports of workers on their jobs (ARCP §8, §9): events, results, errors. Each carries its claim token and
//! is stored as a whole or not at all. `writer.rs` is the entry for workers.

use std::collections::HashSet;

use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::chunks;
use entente_domain::arcp::chunks::{CHUNK_BYTES, ChunkFault};
use entente_domain::arcp::credentials::redact;
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::ends::End;
use entente_domain::arcp::jobs::events;
use entente_domain::arcp::jobs::events::{Kind, Meaning};
use entente_domain::arcp::jobs::wire::ResultPayload;
use entente_domain::arcp::jobs::{Ending, JobStatus, ended_by};
use entente_domain::canonical::Digest;
use entente_domain::clock::{self, Timestamp};
use entente_domain::ids::JobId;
use entente_domain::limits::NAME_BYTES;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, Outcome};
use serde_json::value::RawValue;

use super::attempts::checkpoints;
use super::claim_tokens::token_digest;
use super::locked::{JobChange, LockedJobs};

mod calls;
use crate::Ctx;
pub(super) use calls::CallBounds;

/// An event as sent by a worker.
#[derive(Debug, Clone)]
pub struct EventAsk {
    /// Kind of the event.
    pub kind: String,
    /// Time of the event; defaults to now.
    pub ts: Option<String>,
    /// Body of the event.
    pub body: Box<RawValue>,
    /// Idempotency key: an event sent twice is stored once.
    pub event_key: Option<String>,
}

/// A validated event.
#[derive(Debug, Clone)]
pub(super) struct Checked {
    kind: String,
    ts: Option<Timestamp>,
    body: String,
    pub event_key: Option<String>,
    meaning: Meaning,
}

impl Checked {
    /// Appends the event as it was sent.
    pub fn append(&self, change: &mut JobChange) {
        let ts = self.ts.unwrap_or(change.now());
        change.append(&self.kind, ts, self.body.clone(), self.event_key.clone());
    }
}

/// A submitted report.
#[derive(Debug, Clone)]
pub(super) struct Report {
    pub job_id: JobId,
    token: Digest,
    what: What,
    /// The stop of the worker, which its tool calls are refused for.
    stopped: Option<Refusal>,
}

#[derive(Debug, Clone)]
enum What {
    /// Events, and the progress to store with them.
    Events(Vec<Checked>, Option<String>),
    /// The end, and the digest of the report.
    End(End, Digest),
}

impl Report {
    /// Checks the events of a job.
    pub fn of_events(job_id: JobId, token: &str, events: Vec<EventAsk>) -> Result<Self, Refusal> {
        Self::with_checkpoint(job_id, token, events, None)
    }

    /// Checks the events of a job and the progress that is stored with them.
    pub fn with_checkpoint(
        job_id: JobId,
        token: &str,
        events: Vec<EventAsk>,
        checkpoint: Option<&RawValue>,
    ) -> Result<Self, Refusal> {
        if events.len() > events::EVENTS {
            let message = format!("`events` has more than {} items. Send fewer at once.", events::EVENTS);
            return Err(Refusal::field(Code::InvalidRequest, "events", "too_long", message));
        }
        let checked = events.into_iter().enumerate().map(|(index, event)| check(index, event));
        let checkpoint = checkpoint.map(checkpoints::check).transpose()?;
        let what = What::Events(checked.collect::<Result<_, _>>()?, checkpoint);
        Ok(Self { job_id, token: token_digest(token), what, stopped: None })
    }

    /// Checks the end of a job.
    pub fn of_end(job_id: JobId, token: &str, end: End) -> Result<Self, Refusal> {
        if let End::Result { result: Some(result), .. } = &end
            && result.get().len() > CHUNK_BYTES
        {
            let message = format!(
                "`result` has more than {CHUNK_BYTES} bytes, more than a client takes in one frame. Stream it: \
                 `result_chunk` events, then `result_id`."
            );
            return Err(Refusal::field(Code::TooLarge, "result", "too_long", message));
        }
        if let End::Error { code, .. } = &end {
            fault(code)?;
        }
        let digest = end.digest().map_err(|e| {
            let message = format!("The report cannot be read: {e}. Send it as JSON.");
            Refusal::new(Code::InvalidRequest, message)
        })?;
        let what = What::End(end, digest);
        Ok(Self { job_id, token: token_digest(token), what, stopped: None })
    }

    /// Notes the worker's stop: a stop of its principal or key holds for its tool calls as well as one of the job.
    pub fn by(self, ctx: &Ctx, caller: &Caller) -> Self {
        Self { stopped: ctx.stops.objection(caller, &caller.agent, None), ..self }
    }

    /// Event keys of the report.
    pub fn event_keys(&self) -> impl Iterator<Item = &str> {
        let events = match &self.what {
            What::Events(events, _) => events.as_slice(),
            What::End(..) => &[],
        };
        events.iter().filter_map(|event| event.event_key.as_deref())
    }

    /// Whether the report says that a tool is called.
    fn calls_tools(&self) -> bool {
        let What::Events(events, _) = &self.what else { return false };
        events.iter().any(|event| matches!(event.meaning, Meaning::ToolCall { .. }))
    }
}

/// Status that a report would give the job.
fn outcome(end: &End) -> Result<JobStatus, Refusal> {
    match end {
        End::Result { .. } => Ok(JobStatus::Success),
        End::Error { code, .. } => fault(code).map(ended_by),
    }
}

/// A reported operation that the job may not perform.
#[derive(Debug, Clone)]
pub struct Denied {
    /// Index of the event in the request.
    pub index: usize,
    /// Id of the call.
    pub call_id: Option<String>,
    /// Reason.
    pub refusal: Refusal,
}

/// A child that a reported `delegate` event created.
#[derive(Debug, Clone)]
pub struct Child {
    /// Index of the event in the request.
    pub index: usize,
    /// Name of the delegation.
    pub delegate_id: String,
    /// The child job.
    pub job_id: JobId,
}

/// Response to a report.
#[derive(Debug, Clone, Default)]
pub struct Reported {
    /// Number of the job's last event.
    pub last_seq: i64,
    /// Remaining budget of the job.
    pub budget: Budget,
    /// Time by which the job has to stop, if it was cancelled.
    pub cancel_due_at: Option<Timestamp>,
    /// Whether the job's lease has expired, which ends the job.
    pub lease_expired: bool,
    /// Operations that the job may not perform.
    pub denied: Vec<Denied>,
    /// Children that the job's `delegate` events created.
    pub children: Vec<Child>,
    /// When the next attempt at the job may begin, if the report was a failure that is retried.
    pub next_attempt_at: Option<Timestamp>,
}

impl Reported {
    /// Adds the response to the next part of the same request.
    pub(super) fn then(mut self, next: Self) -> Self {
        self.denied.extend(next.denied);
        self.children.extend(next.children);
        Self { denied: self.denied, children: self.children, ..next }
    }

    /// Whether a denial ended the job, so that nothing can follow it (§9.5).
    pub(super) fn is_over(&self) -> bool {
        self.denied.iter().any(|denied| denied.refusal.code == Code::LeaseExpired)
    }
}

fn fault(code: &str) -> Result<Fault, Refusal> {
    Fault::parse(code).ok_or_else(|| {
        let known: Vec<&str> = Fault::ALL.iter().map(|fault| fault.wire()).collect();
        let message = format!("`{code}` is no code of ARCP §12. Use one of {}.", known.join(", "));
        Refusal::field(Code::InvalidRequest, "code", "enum", message)
    })
}

/// Checks the `index`th event of a request.
pub(super) fn check(index: usize, event: EventAsk) -> Result<Checked, Refusal> {
    let wrong = |member: &str, what: &str| {
        let message = format!(
            "`{member}` of the event at place {index} is wrong: {what}. Nothing of the request was kept."
        );
        Refusal::field(Code::InvalidRequest, member, "value", message)
    };
    let kind = Kind::parse(&event.kind)
        .ok_or_else(|| wrong("kind", "use one of ARCP §8.2, or `x-vendor.<vendor>.<kind>`"))?;
    let ts = match &event.ts {
        None => None,
        Some(said) => Some(
            clock::parse(said)
                .ok_or_else(|| wrong("ts", "must be RFC 3339, such as 2026-11-21T08:00:00Z"))?,
        ),
    };
    if event.event_key.as_ref().is_some_and(|key| key.is_empty() || key.len() > NAME_BYTES) {
        return Err(wrong("event_key", "must have 1 to 200 bytes"));
    }
    let meaning = events::check(index, kind, &event.body)?;
    // No credential's value enters the log, whichever event carries it (§14).
    let body = redact(&event.kind, event.body.get()).unwrap_or_else(|| event.body.get().to_owned());
    Ok(Checked { kind: event.kind, ts, body, event_key: event.event_key, meaning })
}

/// Judges a report on a locked job, which stays as it is; returns the change to apply and the response.
pub(super) fn judge(
    locked: &LockedJobs,
    report: &Report,
    known: &HashSet<(JobId, String)>,
    bounds: &CallBounds,
) -> Outcome<(JobChange, Reported)> {
    let mut change = locked.change(report.job_id)?;
    let mut denied = Vec::new();
    match &report.what {
        What::Events(events, checkpoint) => {
            change.job().hold(&report.token, change.now())?;
            denied = keep(&mut change, report, events, &Judges { known, bounds })?;
            if let Some(checkpoint) = checkpoint {
                change.checkpoint(checkpoint.clone());
            }
        }
        What::End(end, digest) => {
            let ending = change.job().end(&report.token, digest, outcome(end)?, change.now())?;
            if ending == Ending::First {
                // A claim's token is drawn at random, and with it the jitter.
                let chance = u64::from_be_bytes(report.token.first_chunk().copied().unwrap_or_default());
                if finish(&mut change, end, digest, chance)? {
                    change.job_mut().ended_by = Some(*digest);
                }
            }
        }
    }
    let reported = told(&change, denied);
    Ok((change, reported))
}

/// Response to a report, from the job as changed so far.
pub(super) fn told(change: &JobChange, denied: Vec<Denied>) -> Reported {
    let job = change.job();
    Reported {
        last_seq: job.last_seq,
        budget: change.remaining(),
        cancel_due_at: job.cancel.as_ref().map(|cancel| cancel.due_at),
        lease_expired: job.lease_expired(change.now()),
        denied,
        children: Vec::new(),
        next_attempt_at: (job.status == JobStatus::Pending).then(|| job.not_before.unwrap_or(change.now())),
    }
}

/// Facts by which the events of a report are judged.
struct Judges<'a> {
    /// Event keys that are stored already.
    known: &'a HashSet<(JobId, String)>,
    bounds: &'a CallBounds,
}

fn keep(
    change: &mut JobChange,
    report: &Report,
    events: &[Checked],
    judges: &Judges<'_>,
) -> Outcome<Vec<Denied>> {
    let id = change.job().id;
    let mut denied = Vec::new();
    let mut kept: HashSet<&str> = HashSet::new();
    for (index, event) in events.iter().enumerate() {
        if let Some(key) = &event.event_key
            && (judges.known.contains(&(id, key.clone())) || !kept.insert(key))
        {
            continue;
        }
        let mut body = event.body.clone();
        if let Some(chunk) = event.meaning.chunk() {
            let job = change.job_mut();
            if job.abandoned.iter().any(|old| old == chunk.result_id) {
                let message = "This result_id was begun by an earlier attempt. Stream under the result_id of your claim.";
                return Err(Refusal::field(Code::InvalidRequest, "result_id", "used", message).into());
            }
            let streamed = chunks::take(job.streamed.as_ref(), chunk).map_err(|fault| chunk_fault(&fault))?;
            if streamed.encoding != chunk.encoding {
                // Followers refuse a stream with two encodings (ARCP-W-5.3).
                body = events::encoded_as(&body, streamed.encoding)?;
            }
            job.streamed = Some(streamed);
        }
        let ts = event.ts.unwrap_or(change.now());
        change.append(&event.kind, ts, body, event.event_key.clone());
        let (judged, call_id) = match &event.meaning {
            Meaning::Cost { currency, amount, reservation } => {
                change.charge(currency, *amount, reservation.as_deref())?;
                continue;
            }
            Meaning::ToolCall { tool, call_id, operation } => {
                (judges.bounds.judge(change, report, tool, operation.as_ref()), call_id)
            }
            Meaning::Delegate { agent, call_id } => (change.may("agent.delegate", agent), call_id),
            Meaning::Plain | Meaning::Chunk { .. } => continue,
        };
        let Err(refusal) = judged else { continue };
        change.refuse(call_id.as_deref(), &refusal)?;
        let over = refusal.code == Code::LeaseExpired;
        denied.push(Denied { index, call_id: call_id.clone(), refusal });
        if over {
            break;
        }
    }
    Ok(denied)
}

/// Ends a job, or begins to wait for the next attempt; returns whether it ended.
fn finish(change: &mut JobChange, end: &End, report: &Digest, chance: u64) -> Outcome<bool> {
    let job = change.job();
    if let Some(cancel) = &job.cancel {
        // The submitter was told of the cancellation, so the job ends as cancelled whatever the report says
        // (§7.4).
        let reason = cancel.reason.clone();
        return change.fail(Fault::Cancelled, &reason, None, None).map(|()| true);
    }
    match end {
        End::Error { code, message, retryable, details } => {
            let fault = fault(code)?;
            if change.retry(fault, message, *retryable, report, chance) {
                return Ok(false);
            }
            change.fail(fault, message, *retryable, details.clone())?;
        }
        End::Result { result, result_id, result_size, summary } => {
            if result.is_some() && result_id.is_some() {
                return Err(chunk_fault(&ChunkFault::Mixed).into());
            }
            chunks::end(job.streamed.as_ref(), result_id.as_deref(), *result_size)
                .map_err(|fault| chunk_fault(&fault))?;
            let size = job.streamed.as_ref().map(|streamed| streamed.bytes);
            let inline = result.clone().or_else(|| result_id.is_none().then(null).flatten());
            change.finish(ResultPayload {
                final_status: JobStatus::Success,
                result: inline,
                result_id: result_id.clone(),
                result_size: size,
                summary: summary.clone(),
                completed_at: String::new(),
            })?;
        }
    }
    Ok(true)
}

/// An empty result is sent as `null`: clients look for the member.
fn null() -> Option<Box<RawValue>> {
    RawValue::from_string("null".to_owned()).ok()
}

fn chunk_fault(fault: &ChunkFault) -> Refusal {
    let code = if *fault == ChunkFault::TooLarge { Code::ResultTooLarge } else { Code::InvalidRequest };
    Refusal::new(code, format!("The result cannot be taken so: {fault}. Nothing of the request was kept."))
}
