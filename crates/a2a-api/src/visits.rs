//! A client's request to an agent: who asks, for which agent, and the tasks of the agent as the caller may see them.

use actix_web::{HttpRequest, web};
use entente_arcp::jobs::{self, Conversation, Position, Stored};
use entente_domain::a2a::artifacts::{self, Artifact};
use entente_domain::a2a::errors::{Failure, Fault};
use entente_domain::a2a::messages::{Message, Part, Role};
use entente_domain::a2a::progress::End;
use entente_domain::a2a::submissions::{self, CONTEXT};
use entente_domain::a2a::tasks::{Said, Standing, Status, Task, TaskState, time};
use entente_domain::a2a::{VERSION_HEADER, speaks};
use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::arcp::versions::AgentRef;
use entente_domain::clock::Timestamp;
use entente_domain::ids::JobId;
use entente_domain::refusal::Code;
use entente_http::caller::Asker;
use entente_http::error::Problem;
use entente_http::presence::Presence;
use entente_http::site::host;
use entente_kernel::Caller;
use serde_json::json;
use serde_json::value::RawValue;

use crate::ApiState;
use crate::replies::Failed;

/// Bytes of a streamed result that a task shows; of a longer one it has the URL.
const RESULT_BYTES: usize = 1024 * 1024;

/// A request to an agent by a known caller.
pub(crate) struct Visit {
    pub api: web::Data<ApiState>,
    pub caller: Caller,
    pub agent: AgentRef,
    pub presence: Presence,
    /// URL of this server for the client.
    pub site: String,
}

impl Visit {
    /// Reads who asks for which agent.
    pub fn of(
        request: &HttpRequest,
        api: web::Data<ApiState>,
        asker: Result<Asker, Problem>,
        presence: Presence,
    ) -> Result<Self, Failed> {
        let caller = asker?.caller;
        let agent = agent(request)?;
        let site = api.site.base(host(request), api.limits.encrypted());
        Ok(Self { api, caller, agent, presence, site })
    }

    /// Returns a task of the agent that the caller may see.
    pub async fn load(&self, id: &str) -> Result<Loaded, Failed> {
        let job_id: JobId = id.parse().map_err(|_no_id| Failure::no_task(id))?;
        let found = jobs::conversation(&self.api.ctx, &self.caller, job_id).await;
        let conversation = found.map_err(|error| match Failed::from(error) {
            failed if failed.failure.fault == Fault::TaskNotFound => Failure::no_task(id).into(),
            failed => failed.about(id),
        })?;
        if !self.agent.names(&conversation.job.agent) {
            return Err(Failure::no_task(id).into());
        }
        Ok(Loaded::new(conversation))
    }
}

/// Returns the agent that a request's path names.
pub(crate) fn agent(request: &HttpRequest) -> Result<AgentRef, Failed> {
    let named = request.match_info().get("agent").unwrap_or_default();
    AgentRef::parse(named).ok_or_else(no_agent)
}

/// Failure of a request to an agent that does not exist.
pub(crate) fn no_agent() -> Failed {
    let message = "No such agent. The agents that run jobs: GET /api/v1/arcp/agents.";
    Failure::new(Fault::Refused(Code::AgentNotAvailable), message).into()
}

/// Returns the version that the client speaks: by the header, or by a parameter of the same name.
pub(crate) fn version(request: &HttpRequest) -> Option<String> {
    let header = request.headers().get(VERSION_HEADER).map(|value| value.to_str().unwrap_or("?").to_owned());
    header.or_else(|| {
        let query = web::Query::<Vec<(String, String)>>::from_query(request.query_string()).ok()?;
        let named =
            query.into_inner().into_iter().find(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER));
        named.map(|(_, value)| value)
    })
}

/// Requires that the client speaks 1.0.
pub(crate) fn require_version(request: &HttpRequest) -> Result<(), Failed> {
    let said = version(request);
    if speaks(said.as_deref()) { Ok(()) } else { Err(Failure::version(said.as_deref()).into()) }
}

/// Returns where a job stands: its task's state, since when, and the event by which its worker interrupted it.
pub(crate) fn standing(job: &Job, position: Option<&Position>) -> (TaskState, Timestamp, Option<i64>) {
    let said = position.and_then(|position| position.said.as_ref());
    let said = said.map(|said| Said::read(said.job_seq, said.ts, &said.body));
    let answer = position.and_then(|position| position.signal.as_ref());
    let answer = answer.and_then(|(payload, at)| Some(Answer::of(&submissions::given(payload)?, *at)));
    let failure = position.and_then(|position| position.failure.as_ref());
    let end = failure.and_then(|failure| End::read(&failure.body));
    stand(job, said.as_ref(), answer.as_ref(), end.as_ref())
}

/// The last message of a client to a task.
struct Answer {
    /// The event that it answers.
    after: Option<i64>,
    at: Timestamp,
}

impl Answer {
    fn of(given: &submissions::Given, at: Timestamp) -> Self {
        Self { after: given.after_event_seq, at }
    }
}

fn stand(
    job: &Job,
    said: Option<&Said>,
    answer: Option<&Answer>,
    end: Option<&End>,
) -> (TaskState, Timestamp, Option<i64>) {
    let failure = end.and_then(End::failure);
    let answered = answer.and_then(|answer| answer.after);
    let standing = Standing { status: job.status, attempt: job.attempt, said, answered, failure };
    let state = standing.state();
    if let Some(said) = said.filter(|_| state.is_interrupted()) {
        return (state, said.at, Some(said.seq));
    }
    // At work since the last word of either side, so that no state seems older than the one before it.
    let running = job.claim.as_ref().filter(|_| job.status == JobStatus::Running).map(|claim| {
        let words = said.map(|said| said.at).max(answer.map(|answer| answer.at));
        words.map_or(claim.since, |at| at.max(claim.since))
    });
    (state, job.ended_at.or(running).unwrap_or(job.created_at), None)
}

/// A task as it is read.
pub(crate) struct Loaded {
    pub conversation: Conversation,
    pub id: String,
    pub context: String,
    pub state: TaskState,
    /// Number of the event by which its worker interrupted it.
    pub interrupted: Option<i64>,
    since: Timestamp,
    said: Vec<Said>,
    end: Option<End>,
}

impl Loaded {
    fn new(conversation: Conversation) -> Self {
        let job = &conversation.job;
        let id = job.id.to_string();
        let context = conversation.labels.get(CONTEXT).cloned().unwrap_or_else(|| id.clone());
        let read = |event: &Stored| Said::read(event.job_seq, event.ts, &event.body);
        let said: Vec<Said> = conversation.said.iter().map(read).collect();
        let last = conversation.signals.iter().rev().find(|signal| signal.name == submissions::SIGNAL);
        let answer = last.and_then(|signal| {
            Some(Answer::of(&submissions::given(signal.payload.as_deref()?)?, signal.sent_at))
        });
        let end = conversation.end.as_ref().and_then(|end| End::read(&end.body));
        let (state, since, interrupted) = stand(job, said.last(), answer.as_ref(), end.as_ref());
        Self { conversation, id, context, state, interrupted, since, said, end }
    }

    /// Returns the job's id.
    pub fn job_id(&self) -> JobId {
        self.conversation.job.id
    }

    /// Returns the task, with the last messages of its history, and with its artifacts if they are asked for.
    pub async fn task(&self, visit: &Visit, history: Option<usize>, artifacts: bool) -> Result<Task, Failed> {
        let artifacts = if artifacts { Some(self.artifacts(visit).await?) } else { None };
        let job = &self.conversation.job;
        let mut told = json!({ "agent": job.agent });
        if job.cancel.is_some() && !self.state.is_terminal() {
            told["cancelRequested"] = json!(true);
        }
        Ok(Task {
            id: self.id.clone(),
            context_id: self.context.clone(),
            status: Status { state: self.state, message: self.words(), timestamp: time(self.since) },
            artifacts,
            history: self.history(history),
            metadata: json!({ "entente": told }),
        })
    }

    /// Returns the agent's message about the state.
    fn words(&self) -> Option<Message> {
        match &self.end {
            Some(end) => end.message(&self.context, &self.id),
            None => self.current().and_then(|said| said.message(&self.context, &self.id)),
        }
    }

    /// Returns the worker's last report, unless the client has answered since.
    fn current(&self) -> Option<&Said> {
        let is_running = self.conversation.job.status == JobStatus::Running;
        self.said.last().filter(|said| is_running && (said.state == self.state || self.interrupted.is_some()))
    }

    /// Returns the messages, oldest first, without the message of the status.
    fn history(&self, most: Option<usize>) -> Vec<Message> {
        if most == Some(0) {
            return Vec::new();
        }
        let mut all: Vec<(i64, i64, Message)> = self.first().into_iter().map(|first| (0, 0, first)).collect();
        for signal in self.conversation.signals.iter().filter(|signal| signal.name == submissions::SIGNAL) {
            let Some(given) = signal.payload.as_deref().and_then(submissions::given) else { continue };
            let place = given.after_event_seq.unwrap_or(i64::MAX);
            all.push((place, signal.seq, self.within(given.message)));
        }
        let current = if self.end.is_none() { self.current().map(|said| said.seq) } else { None };
        for said in self.said.iter().filter(|said| Some(said.seq) != current) {
            all.extend(said.message(&self.context, &self.id).map(|message| (said.seq, 0, message)));
        }
        all.sort_by_key(|(place, signal, _)| (*place, *signal));
        let skipped = all.len().saturating_sub(most.unwrap_or(usize::MAX));
        all.into_iter().skip(skipped).map(|(_, _, message)| message).collect()
    }

    /// Returns the first message; of a job that came over another interface, its input.
    fn first(&self) -> Option<Message> {
        let input = self.conversation.input.as_deref()?;
        if let Some(given) = submissions::given(input) {
            return Some(self.within(given.message));
        }
        let raw = RawValue::from_string(input.to_owned()).ok()?;
        let part = serde_json::from_str::<String>(input).map_or_else(|_| Part::data(raw), Part::text);
        let id = format!("{}.input", self.id);
        let message = Message::of_agent(id, &self.context, &self.id, vec![part]);
        Some(Message { role: Role::User, ..message })
    }

    fn within(&self, message: Message) -> Message {
        Message { task_id: Some(self.id.clone()), context_id: Some(self.context.clone()), ..message }
    }

    async fn artifacts(&self, visit: &Visit) -> Result<Vec<Artifact>, Failed> {
        let job = &self.conversation.job;
        let references = self.conversation.references.iter();
        let mut found: Vec<Artifact> =
            references.filter_map(|event| artifacts::of_reference(event.job_seq, &event.body)).collect();
        if let Some(streamed) = &job.streamed {
            let ctx = &visit.api.ctx;
            let bytes = jobs::chunks(ctx, job.id, &streamed.result_id, job.last_seq, RESULT_BYTES).await?;
            let url = format!("{}/api/v1/jobs/{}/result", visit.site, self.id);
            let part = match bytes {
                Some(bytes) if bytes.is_empty() && !streamed.complete => None,
                Some(bytes) => Some(artifacts::of_bytes(streamed.encoding, &bytes)),
                None => self.state.is_terminal().then(|| Part { url: Some(url), ..Part::default() }),
            };
            found.extend(part.map(|part| Artifact::of(&streamed.result_id, vec![part])));
        }
        found.extend(self.end.iter().flat_map(End::artifacts));
        Ok(artifacts::latest(found))
    }
}

/// Writes an object of the protocol; structured data stays as it was written.
pub(crate) fn written(value: &impl serde::Serialize) -> Result<Box<RawValue>, Failed> {
    serde_json::value::to_raw_value(value).map_err(|e| Failed::internal(&e))
}
