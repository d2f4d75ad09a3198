//! The operations on tasks (A2A §3.1), the same for both bindings.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse};
use entente_arcp::jobs::{self, Canceller, Origin, Place};
use entente_domain::a2a::errors::{Failure, Fault};
use entente_domain::a2a::requests::{SendRequest, TaskQuery, history};
use entente_domain::a2a::submissions;
use entente_domain::a2a::tasks::{Task, TaskState};
use entente_domain::identity::keys::Scope;
use entente_domain::ids::JobId;
use entente_domain::refusal::Code;
use entente_http::live::{last_event_id, unreadable};
use serde_json::value::RawValue;

use crate::following::{Following, Form, Span, listener};
use crate::pushes;
use crate::replies::Failed;
use crate::visits::{Loaded, Visit};
use crate::waiting::{PATIENCE, settled};

/// Time that the response to a cancellation waits for the worker to stop.
const STOPPING: Duration = Duration::from_secs(3);

/// Sends a message: begins a task, or continues one; returns the task once it is over or interrupted (§3.1.1).
pub(crate) async fn send(visit: &Visit, request: &SendRequest) -> Result<Task, Failed> {
    let said = request.configuration.clone().unwrap_or_default();
    let most = history(said.history_length)?;
    let waits = !said.return_immediately.unwrap_or(false);
    // Asked for first: who may not wait has begun nothing.
    let _place = if waits { Some(visit.caller.waits(visit.api.limits.max_streams_per_key)?) } else { None };
    let (id, after) = deliver(visit, request).await?;
    if waits {
        settled(visit, id, after, PATIENCE).await?;
    }
    visit.load(&id.to_string()).await?.task(visit, most, true).await
}

/// Sends a message, and follows the task (§3.1.2).
pub(crate) async fn stream(visit: &Visit, request: &SendRequest, form: Form) -> Result<HttpResponse, Failed> {
    let said = request.configuration.clone().unwrap_or_default();
    let most = history(said.history_length)?;
    // Asked for first: who may not follow has begun nothing.
    let place = visit.caller.waits(visit.api.limits.max_streams_per_key)?;
    let (id, after) = deliver(visit, request).await?;
    let listener = listener(visit, id);
    let loaded = visit.load(&id.to_string()).await?;
    let span = Span { after: None, interruptible: Some(after) };
    Ok(Following::begin(visit, &loaded, most, span, form).await?.response(visit, listener, place))
}

/// Delivers a message to the agent; returns the task's job, and its last event before the message.
async fn deliver(visit: &Visit, request: &SendRequest) -> Result<(JobId, i64), Failed> {
    // Who may not read the task may not make it either: the response is the task.
    visit.caller.require(Scope::JobsRead)?;
    visit.caller.require(Scope::JobsWrite)?;
    let said = request.configuration.as_ref();
    let receiver = said.and_then(|said| said.task_push_notification_config.clone());
    let receiver = receiver.map(|config| pushes::check(visit, config)).transpose()?;
    let task = request.message.task_id.as_deref().filter(|id| !id.is_empty());
    // Asked for first: who may not have a receiver has said nothing.
    if let Some(config) = &receiver {
        let known = task.and_then(|id| id.parse().ok());
        pushes::require(visit, known, config).await.map_err(|failed| match task {
            Some(task) => failed.about(task),
            None => failed,
        })?;
    }
    let (id, after, place) = if let Some(task) = task {
        resume(visit, task, request).await?
    } else {
        let submit = submissions::job(&visit.agent.to_string(), request)?;
        let submitted = visit.api.job_writer.submit(&visit.caller, submit, Origin::Rest).await?;
        (submitted.job.id, 0, Place::after(0, TaskState::Submitted))
    };
    // A client that gets no response, because the server ended here, sends its message again.
    if let Some(config) = receiver {
        let context = visit.load(&id.to_string()).await?.context;
        pushes::add(visit, id, config, &context, place).await?;
    }
    Ok((id, after))
}

/// Continues a task by a signal to its job; returns the job, its last event before the message, and where a receiver begins. A
/// repeated message is delivered once.
async fn resume(visit: &Visit, task: &str, request: &SendRequest) -> Result<(JobId, i64, Place), Failed> {
    let loaded = visit.load(task).await?;
    let id = loaded.job_id();
    // The state is that after the last event, also if the message was delivered long before.
    let now = Place::after(loaded.conversation.job.last_seq, loaded.state);
    let ask = submissions::signal(&loaded.id, &loaded.context, loaded.conversation.job.last_seq, request)?;
    if let Some(after) = delivered(&loaded, ask.payload.as_deref()) {
        return Ok((id, after, now));
    }
    if loaded.state.is_terminal() {
        return Err(over(&loaded.id, "takes no more messages. Begin another one without `taskId`").into());
    }
    let after = loaded.conversation.job.last_seq;
    match jobs::send(&visit.api.ctx, &visit.caller, id, ask).await.map_err(Failed::from) {
        Ok(_signal) => Ok((id, after, now)),
        // The same message, sent twice at a time: the key is of the message alone.
        Err(failed) if failed.is(Code::IdempotencyMismatch) => Ok((id, after, now)),
        Err(failed) => Err(failed.about(task)),
    }
}

/// Returns the event after which the same message was delivered before; `None` if it was not.
fn delivered(loaded: &Loaded, payload: Option<&RawValue>) -> Option<i64> {
    let plain = |payload: &str| {
        let given = submissions::given(payload)?;
        let after = given.after_event_seq;
        let text = serde_json::to_string(&submissions::Given { after_event_seq: None, ..given }).ok()?;
        Some((text, after.unwrap_or(0)))
    };
    let (asked, _) = plain(payload?.get())?;
    let signals = loaded.conversation.signals.iter().filter(|signal| signal.name == submissions::SIGNAL);
    let mut known = signals.filter_map(|signal| plain(signal.payload.as_deref()?));
    known.find(|(text, _)| *text == asked).map(|(_, after)| after)
}

fn over(task: &str, told: &str) -> Failure {
    Failure::of_task(Fault::UnsupportedOperation, task, &format!("The task is over and {told}."))
}

/// Returns a task (§3.1.3).
pub(crate) async fn get(visit: &Visit, query: &TaskQuery) -> Result<Task, Failed> {
    let most = history(query.history_length)?;
    visit.load(&query.id).await?.task(visit, most, true).await
}

/// Cancels a task, and waits a moment for its worker to stop (§3.1.5).
pub(crate) async fn cancel(visit: &Visit, id: &str) -> Result<Task, Failed> {
    let loaded = visit.load(id).await?;
    let ended =
        || Failure::of_task(Fault::TaskNotCancelable, id, "The task is over, and cannot be cancelled.");
    if loaded.state.is_terminal() {
        return Err(ended().into());
    }
    let job = &loaded.conversation.job;
    let by = Canceller::of(&visit.caller, job);
    let reason = Some("Cancelled by its A2A client.".to_owned());
    match jobs::cancel(&visit.api.ctx, &visit.caller, job.id, by, reason, None).await.map_err(Failed::from) {
        Ok(job) if job.status.is_terminal() => {}
        Ok(job) => {
            let place = visit.caller.waits(visit.api.limits.max_streams_per_key);
            if place.is_ok() {
                settled(visit, job.id, i64::MAX, STOPPING).await?;
            }
        }
        Err(failed) if failed.failure.fault == Fault::UnsupportedOperation => return Err(ended().into()),
        Err(failed) => return Err(failed.about(id)),
    }
    visit.load(id).await?.task(visit, None, true).await
}

/// Follows a task that is not over (§3.1.6); with `Last-Event-ID` also the updates since.
pub(crate) async fn subscribe(
    visit: &Visit,
    request: &HttpRequest,
    id: &str,
    form: Form,
) -> Result<HttpResponse, Failed> {
    let job_id: JobId = id.parse().map_err(|_no_id| Failure::no_task(id))?;
    let number = |text: &str| text.trim().parse::<i64>().ok().filter(|number| *number >= 0);
    let after = last_event_id(request)
        .map(|text| number(text).ok_or_else(|| unreadable("Last-Event-ID")))
        .transpose()?;
    let listener = listener(visit, job_id);
    let loaded = visit.load(id).await?;
    // A client that was cut off while the task ended still gets the rest.
    let is_behind = after.is_some_and(|after| after < loaded.conversation.job.last_seq);
    if loaded.state.is_terminal() && !is_behind {
        return Err(over(id, "nothing follows. Get it with GetTask").into());
    }
    let span = Span { after, interruptible: None };
    let place = visit.caller.waits(visit.api.limits.max_streams_per_key)?;
    Ok(Following::begin(visit, &loaded, None, span, form).await?.response(visit, listener, place))
}
