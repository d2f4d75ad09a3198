//! Streams of a task (A2A §3.5.2): the task as it is, then its updates, read from its job's log. The frame that
//! completes an event has its number as `id`, so a client may resume with `Last-Event-ID`, on any server.

use std::sync::Arc;

use actix_web::HttpResponse;
use bytes::BytesMut;
use entente_arcp::jobs;
use entente_domain::a2a::progress::{Happened, Progress, Update};
use entente_domain::a2a::tasks::{Task, TaskState};
use entente_domain::arcp::jobs::JobStatus;
use entente_domain::ids::JobId;
use entente_domain::limits::SMALL_PAGE_BYTES;
use entente_http::live::{Chunk, Source, respond_in};
use entente_kernel::StreamPermit;
use entente_kernel::wakeups::{Listener, WakeKey};
use entente_kernel::{AppError, Caller};
use serde::Serialize;
use serde_json::Value;

use crate::legacy;
use crate::replies::{Failed, TaskBody};
use crate::visits::{Loaded, Visit};

/// Events read at once.
const STEP: u32 = 100;

/// Form of a stream's frames.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// HTTP+JSON: the objects themselves.
    Http,
    /// JSON-RPC: a response to the request with this id.
    Rpc(Value),
    /// The same in A2A 0.3.
    Legacy(Value),
}

/// A response in JSON-RPC.
#[derive(Serialize)]
struct RpcFrame<'a, T> {
    jsonrpc: &'static str,
    id: &'a Value,
    result: T,
}

/// Where a stream begins, and where it ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    /// The event after which it begins; the task's last one if absent.
    pub after: Option<i64>,
    /// The event after which an interruption ends it; none does if absent.
    pub interruptible: Option<i64>,
}

/// A stream of a task.
pub(crate) struct Following {
    ctx: entente_arcp::Ctx,
    id: JobId,
    progress: Progress,
    after: i64,
    task: Option<Task>,
    is_over: bool,
    ends_interrupted: bool,
    form: Form,
}

/// Returns a listener for a job, to be made before the job is read.
pub(crate) fn listener(visit: &Visit, id: JobId) -> Listener {
    let mut listener = visit.api.ctx.feed.wakeups().listener();
    listener.add(WakeKey::Job(id));
    listener
}

impl Following {
    /// Begins to follow a task; `None` of the history is left out.
    pub async fn begin(
        visit: &Visit,
        loaded: &Loaded,
        history: Option<usize>,
        span: Span,
        form: Form,
    ) -> Result<Self, Failed> {
        let task = loaded.task(visit, history, true).await?;
        let last = loaded.conversation.job.last_seq;
        let interrupted = span.interruptible.zip(loaded.interrupted).is_some_and(|(after, seq)| seq > after);
        // A client that resumes has received the earlier events.
        let told = if span.after.is_some_and(|after| after > 0) { TaskState::Working } else { loaded.state };
        Ok(Self {
            ctx: visit.api.ctx.clone(),
            id: loaded.job_id(),
            progress: Progress::new(loaded.id.clone(), loaded.context.clone(), told),
            after: span.after.unwrap_or(last).min(last),
            is_over: (loaded.state.is_terminal() && span.after.is_none()) || interrupted,
            ends_interrupted: span.interruptible.is_some(),
            task: Some(task),
            form,
        })
    }

    /// Returns the stream, which has its place already.
    pub fn response(self, visit: &Visit, listener: Listener, place: StreamPermit) -> HttpResponse {
        let http = Arc::clone(&visit.api.http);
        respond_in(place, http, visit.caller.clone(), self, Some(listener))
    }

    /// Writes a frame; with the number of the event that it completes.
    fn write(&self, text: &mut BytesMut, seq: Option<i64>, body: &impl Serialize) -> Result<(), AppError> {
        let mut data = match &self.form {
            Form::Rpc(id) | Form::Legacy(id) => {
                serde_json::to_vec(&RpcFrame { jsonrpc: "2.0", id, result: body })?
            }
            Form::Http => serde_json::to_vec(body)?,
        };
        // Structured data keeps its line breaks as written, but in SSE any of them ends a line.
        data.iter_mut().filter(|byte| matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        if let Some(seq) = seq {
            text.extend_from_slice(format!("id: {seq}\n").as_bytes());
        }
        text.extend_from_slice(b"data: ");
        text.extend_from_slice(&data);
        text.extend_from_slice(b"\n\n");
        Ok(())
    }

    fn write_all(
        &self,
        text: &mut BytesMut,
        seq: i64,
        updates: Vec<Update>,
        over: bool,
    ) -> Result<(), AppError> {
        let count = updates.len();
        for (index, update) in updates.into_iter().enumerate() {
            let completes = index + 1 == count;
            let place = completes.then_some(seq);
            match &self.form {
                Form::Legacy(_) => self.write(text, place, &legacy::update(update, completes && over)?)?,
                Form::Http | Form::Rpc(_) => self.write(text, place, &update)?,
            }
        }
        Ok(())
    }

    fn write_task(&self, text: &mut BytesMut, task: Task) -> Result<(), AppError> {
        match &self.form {
            Form::Legacy(_) => self.write(text, Some(self.after), &legacy::task(task)?),
            Form::Http | Form::Rpc(_) => self.write(text, Some(self.after), &TaskBody { task }),
        }
    }
}

impl Source for Following {
    const KIND: &'static str = "task";

    fn start(&self) -> String {
        self.after.to_string()
    }

    async fn read(&mut self, caller: &Caller) -> Result<Chunk, AppError> {
        let mut text = BytesMut::new();
        if let Some(task) = self.task.take() {
            self.write_task(&mut text, task)?;
            return Ok(Chunk { text, over: self.is_over, behind: false });
        }
        let (now, found) =
            jobs::events(&self.ctx, caller, self.id, self.after, STEP, SMALL_PAGE_BYTES).await?;
        let mut over = now.status.is_terminal() && self.after >= now.last_seq;
        for event in &found {
            let kind = event.kind.as_deref();
            let happened = Happened { seq: event.job_seq, kind, at: event.ts, body: &event.body };
            let updates = self.progress.updates(&happened);
            over = event.is_terminal() || (self.ends_interrupted && updates.iter().any(Update::interrupts));
            self.write_all(&mut text, event.job_seq, updates, over)?;
            self.after = event.job_seq;
            if over {
                break;
            }
        }
        if found.is_empty() && now.status == JobStatus::Running {
            let since = now.claim.as_ref().map_or(now.created_at, |claim| claim.since);
            let begun = self.progress.begun(since).into_iter().collect();
            self.write_all(&mut text, self.after, begun, false)?;
        }
        // Events that are no updates are passed over at once.
        let behind = text.is_empty() && !found.is_empty();
        Ok(Chunk { text, over, behind })
    }
}
