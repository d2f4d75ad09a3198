//! A2A 0.3, for clients from before 1.0: other names of members, the same tasks. `rpc.rs` has its methods.
//!
//! Requests are turned into those of 1.0 and objects into those of 0.3: each has its `kind`, a part is `text`, `file` or `data`,
//! states and roles are small words, and a response is the object itself.

use entente_domain::a2a::artifacts::Artifact;
use entente_domain::a2a::errors::Failure;
use entente_domain::a2a::messages::{Message, Part, Role};
use entente_domain::a2a::progress::Update;
use entente_domain::a2a::requests::{Configuration, SendRequest, TaskQuery};
use entente_domain::a2a::tasks::{Status, Task, TaskState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::pushes::no_legacy;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct LegacyPart {
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<LegacyFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<RawValue>>,
}

impl From<LegacyPart> for Part {
    fn from(part: LegacyPart) -> Self {
        let file = part.file.unwrap_or(LegacyFile { bytes: None, uri: None, mime_type: None, name: None });
        Self {
            text: part.text,
            raw: file.bytes,
            url: file.uri,
            data: part.data,
            metadata: part.metadata,
            filename: file.name,
            media_type: file.mime_type,
        }
    }
}

impl From<Part> for LegacyPart {
    fn from(part: Part) -> Self {
        let is_file = part.raw.is_some() || part.url.is_some();
        let kind = match (&part.text, is_file) {
            (Some(_), _) => "text",
            (None, true) => "file",
            (None, false) => "data",
        };
        let file = is_file.then_some(LegacyFile {
            bytes: part.raw,
            uri: part.url,
            mime_type: part.media_type,
            name: part.filename,
        });
        // In 0.3 structured data is an object.
        let object = |data: Box<RawValue>| {
            if data.get().starts_with('{') {
                return data;
            }
            RawValue::from_string(format!("{{\"value\":{}}}", data.get())).unwrap_or(data)
        };
        Self {
            kind: kind.to_owned(),
            text: part.text,
            file,
            data: part.data.map(object),
            metadata: part.metadata,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyMessage {
    #[serde(default)]
    kind: String,
    message_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    role: String,
    parts: Vec<LegacyPart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extensions: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reference_task_ids: Option<Vec<String>>,
}

impl LegacyMessage {
    fn current(self) -> Message {
        Message {
            message_id: self.message_id,
            context_id: self.context_id,
            task_id: self.task_id,
            role: if self.role == "user" { Role::User } else { Role::Agent },
            parts: self.parts.into_iter().map(Part::from).collect(),
            metadata: self.metadata,
            extensions: self.extensions.unwrap_or_default(),
            reference_task_ids: self.reference_task_ids.unwrap_or_default(),
        }
    }

    fn of(message: Message) -> Self {
        let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
        Self {
            kind: "message".to_owned(),
            message_id: message.message_id,
            context_id: message.context_id,
            task_id: message.task_id,
            role: if message.role == Role::User { "user" } else { "agent" }.to_owned(),
            parts: message.parts.into_iter().map(LegacyPart::from).collect(),
            metadata: message.metadata,
            extensions: some(message.extensions),
            reference_task_ids: some(message.reference_task_ids),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyConfiguration {
    #[serde(default)]
    accepted_output_modes: Option<Vec<String>>,
    #[serde(default)]
    history_length: Option<i64>,
    #[serde(default)]
    blocking: Option<bool>,
    #[serde(default)]
    push_notification_config: Option<Box<RawValue>>,
}

/// A request to send a message.
#[derive(Deserialize)]
pub(crate) struct LegacySend {
    message: LegacyMessage,
    #[serde(default)]
    configuration: Option<LegacyConfiguration>,
    #[serde(default)]
    metadata: Option<Box<RawValue>>,
}

impl LegacySend {
    /// Returns the request of 1.0.
    ///
    /// # Errors
    /// It asks for push notifications.
    pub fn current(self) -> Result<SendRequest, Failure> {
        let said = self.configuration.unwrap_or_default();
        if said.push_notification_config.is_some() {
            return Err(no_legacy());
        }
        Ok(SendRequest {
            message: self.message.current(),
            configuration: Some(Configuration {
                accepted_output_modes: said.accepted_output_modes,
                task_push_notification_config: None,
                // 0 was no limit.
                history_length: said.history_length.filter(|length| *length != 0),
                return_immediately: said.blocking.map(|waits| !waits),
            }),
            metadata: self.metadata,
        })
    }
}

#[derive(Serialize)]
struct LegacyStatus {
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<LegacyMessage>,
    timestamp: String,
}

impl LegacyStatus {
    fn of(status: Status) -> Self {
        let Status { state, message, timestamp } = status;
        Self { state: word(state), message: message.map(LegacyMessage::of), timestamp }
    }
}

/// The word of a state, such as `input-required`.
fn word(state: TaskState) -> String {
    let named = TaskState::ALL.into_iter().find(|(known, _)| *known == state).map_or("", |(_, name)| name);
    named.trim_start_matches("TASK_STATE_").to_ascii_lowercase().replace('_', "-")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LegacyArtifact {
    artifact_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    parts: Vec<LegacyPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<RawValue>>,
}

impl LegacyArtifact {
    fn of(artifact: Artifact) -> Self {
        Self {
            artifact_id: artifact.artifact_id,
            name: artifact.name,
            description: artifact.description,
            parts: artifact.parts.into_iter().map(LegacyPart::from).collect(),
            metadata: artifact.metadata,
        }
    }
}

/// An object of 0.3.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
enum LegacyObject {
    Task {
        id: String,
        context_id: String,
        status: LegacyStatus,
        artifacts: Vec<LegacyArtifact>,
        history: Vec<LegacyMessage>,
        metadata: Value,
    },
    StatusUpdate {
        task_id: String,
        context_id: String,
        status: LegacyStatus,
        r#final: bool,
    },
    ArtifactUpdate {
        task_id: String,
        context_id: String,
        artifact: LegacyArtifact,
        append: bool,
        last_chunk: bool,
    },
}

/// Writes a task.
pub(crate) fn task(task: Task) -> Result<Box<RawValue>, serde_json::Error> {
    let object = LegacyObject::Task {
        id: task.id,
        context_id: task.context_id,
        status: LegacyStatus::of(task.status),
        artifacts: task.artifacts.unwrap_or_default().into_iter().map(LegacyArtifact::of).collect(),
        history: task.history.into_iter().map(LegacyMessage::of).collect(),
        metadata: task.metadata,
    };
    serde_json::value::to_raw_value(&object)
}

/// Writes an update; `is_last` says that the stream ends with it.
pub(crate) fn update(update: Update, is_last: bool) -> Result<Box<RawValue>, serde_json::Error> {
    let object = match update {
        Update::StatusUpdate(update) => LegacyObject::StatusUpdate {
            task_id: update.task_id,
            context_id: update.context_id,
            status: LegacyStatus::of(update.status),
            r#final: is_last,
        },
        Update::ArtifactUpdate(update) => LegacyObject::ArtifactUpdate {
            task_id: update.task_id,
            context_id: update.context_id,
            artifact: LegacyArtifact::of(update.artifact),
            append: update.append,
            last_chunk: update.last_chunk,
        },
    };
    serde_json::value::to_raw_value(&object)
}

/// Returns a request for a task as one of 1.0: 0 was no limit of its history.
pub(crate) fn queried(query: TaskQuery) -> TaskQuery {
    let history_length = query.history_length.filter(|length| *length != 0);
    TaskQuery { history_length, ..query }
}
