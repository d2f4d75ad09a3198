//! A task's progress (A2A §4.2): the updates that its job's events become, in their order. Each stream of a task has the
//! same ones, wherever it begins.

use serde::Serialize;

use super::artifacts::{self, Artifact};
use super::messages::{Message, Part};
use super::tasks::{Said, Standing, Status, TaskState, time};
use crate::arcp::jobs::JobStatus;
use crate::arcp::jobs::wire::{ErrorPayload, ResultPayload};
use crate::clock::Timestamp;

/// An event of a job.
#[derive(Debug, Clone, Copy)]
pub struct Happened<'a> {
    /// Its number in the job.
    pub seq: i64,
    /// Its kind; `None` for the end.
    pub kind: Option<&'a str>,
    /// When it happened.
    pub at: Timestamp,
    /// Its body, or the end's payload.
    pub body: &'a str,
}

/// A change of a task's status on the wire (§4.2.1).
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpdate {
    /// The task.
    pub task_id: String,
    /// Its context.
    pub context_id: String,
    /// Its status.
    pub status: Status,
}

/// An artifact, or a piece of one, on the wire (§4.2.2).
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactUpdate {
    /// The task.
    pub task_id: String,
    /// Its context.
    pub context_id: String,
    /// The artifact.
    pub artifact: Artifact,
    /// Whether it continues the pieces before.
    pub append: bool,
    /// Whether it is complete.
    pub last_chunk: bool,
}

/// An update of a task on the wire (§3.2.3).
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Update {
    /// Its status.
    StatusUpdate(StatusUpdate),
    /// An artifact.
    ArtifactUpdate(ArtifactUpdate),
}

impl Update {
    /// Whether it is the task's end.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::StatusUpdate(update) if update.status.state.is_terminal())
    }

    /// Whether the task now waits for its client.
    #[must_use]
    pub fn interrupts(&self) -> bool {
        matches!(self, Self::StatusUpdate(update) if update.status.state.is_interrupted())
    }
}

/// The end of a job.
#[derive(Debug, Clone)]
pub enum End {
    /// With a result.
    Result(Box<ResultPayload>),
    /// With a failure.
    Failure(ErrorPayload),
}

impl End {
    /// Reads the payload of an end; `None` if it is none.
    #[must_use]
    pub fn read(payload: &str) -> Option<Self> {
        if let Ok(failure) = serde_json::from_str(payload) {
            return Some(Self::Failure(failure));
        }
        serde_json::from_str(payload).ok().map(Self::Result)
    }

    /// Returns the failure, if it is one.
    #[must_use]
    pub fn failure(&self) -> Option<&ErrorPayload> {
        match self {
            Self::Result(_) => None,
            Self::Failure(failure) => Some(failure),
        }
    }

    /// Returns the job's status.
    #[must_use]
    pub fn status(&self) -> JobStatus {
        match self {
            Self::Result(_) => JobStatus::Success,
            Self::Failure(failure) => failure.final_status,
        }
    }

    /// Returns the end in words as a message; `None` if the worker has said none.
    #[must_use]
    pub fn message(&self, context: &str, task: &str) -> Option<Message> {
        let text = match self {
            Self::Result(result) => result.summary.clone()?,
            Self::Failure(failure) => failure.message.clone(),
        };
        (!text.is_empty())
            .then(|| Message::of_agent(format!("{task}.end"), context, task, vec![Part::text(text)]))
    }

    /// Returns the artifacts of an inline result.
    #[must_use]
    pub fn artifacts(&self) -> Vec<Artifact> {
        match self {
            Self::Result(result) => result.result.as_deref().map_or_else(Vec::new, artifacts::of_result),
            Self::Failure(_) => Vec::new(),
        }
    }
}

/// How far a task's followers have been told of it.
#[derive(Debug, Clone)]
pub struct Progress {
    task: String,
    context: String,
    /// The state that was told last.
    pub told: TaskState,
}

impl Progress {
    /// Begins after a task was shown in this state.
    #[must_use]
    pub fn new(task: String, context: String, told: TaskState) -> Self {
        Self { task, context, told }
    }

    /// Returns the update that a worker has begun, unless it was told.
    pub fn begun(&mut self, at: Timestamp) -> Option<Update> {
        (self.told == TaskState::Submitted).then(|| self.status(TaskState::Working, None, at))
    }

    /// Returns the updates that an event is.
    pub fn updates(&mut self, event: &Happened<'_>) -> Vec<Update> {
        match event.kind {
            None => self.ended(event),
            Some("status") => {
                let said = Said::read(event.seq, event.at, event.body);
                let begun = self.begun(event.at);
                let message = said.message(&self.context, &self.task);
                // Nothing new: the worker has only begun, or says again in no words that it is at work. That it waits again
                // is new: it had an answer meanwhile.
                if message.is_none() && said.state == self.told && !said.state.is_interrupted() {
                    return begun.into_iter().collect();
                }
                let update = self.status(said.state, message, event.at);
                begun.into_iter().chain([update]).collect()
            }
            Some("result_chunk") => {
                let begun = self.begun(event.at);
                let piece = artifacts::of_chunk(event.body)
                    .map(|piece| self.artifact(piece.artifact, piece.append, piece.last));
                begun.into_iter().chain(piece).collect()
            }
            Some("artifact_ref") => {
                let begun = self.begun(event.at);
                let artifact = artifacts::of_reference(event.seq, event.body)
                    .map(|artifact| self.artifact(artifact, false, true));
                begun.into_iter().chain(artifact).collect()
            }
            Some(_) => self.begun(event.at).into_iter().collect(),
        }
    }

    fn ended(&mut self, event: &Happened<'_>) -> Vec<Update> {
        let Some(end) = End::read(event.body) else { return Vec::new() };
        let mut updates = Vec::new();
        if matches!(end, End::Result(_)) {
            updates.extend(self.begun(event.at));
        }
        updates.extend(end.artifacts().into_iter().map(|artifact| self.artifact(artifact, false, true)));
        let standing =
            Standing { status: end.status(), attempt: 1, said: None, answered: None, failure: end.failure() };
        let message = end.message(&self.context, &self.task);
        updates.push(self.status(standing.state(), message, event.at));
        updates
    }

    fn status(&mut self, state: TaskState, message: Option<Message>, at: Timestamp) -> Update {
        self.told = state;
        let status = Status { state, message, timestamp: time(at) };
        Update::StatusUpdate(StatusUpdate {
            task_id: self.task.clone(),
            context_id: self.context.clone(),
            status,
        })
    }

    fn artifact(&self, artifact: Artifact, append: bool, last_chunk: bool) -> Update {
        Update::ArtifactUpdate(ArtifactUpdate {
            task_id: self.task.clone(),
            context_id: self.context.clone(),
            artifact,
            append,
            last_chunk,
        })
    }
}
