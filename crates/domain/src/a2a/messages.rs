//! Messages and their parts (A2A §4.1.4, §4.1.6). Structured data and metadata stay as written.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::errors::Failure;
use crate::arcp::jobs::labels::VALUE_BYTES;

/// Maximum number of parts of a message.
pub const PARTS: usize = 200;
/// Maximum bytes of a message's id.
pub const MESSAGE_ID_BYTES: usize = 200;

/// Base64 in both alphabets, with padding or without, as readers of the protocol's JSON form have to accept.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Reads a member whose null is a value.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Reads an object. An array of its members in their order, which the parser would take as well, is none.
///
/// # Errors
/// It is no object, or not of this form.
pub fn object_of<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    read(&Box::<RawValue>::deserialize(deserializer)?)
}

/// As [`object_of`], for a list of objects.
///
/// # Errors
/// As [`object_of`].
pub fn objects_of<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let items = Vec::<Box<RawValue>>::deserialize(deserializer)?;
    items.iter().map(|item| read(item)).collect()
}

fn read<T: DeserializeOwned, E: serde::de::Error>(raw: &RawValue) -> Result<T, E> {
    if !raw.get().starts_with('{') {
        return Err(E::custom("an object is expected"));
    }
    serde_json::from_str(raw.get()).map_err(|e| {
        let told = e.to_string();
        E::custom(told.rsplit_once(" at line ").map_or(told.as_str(), |(told, _)| told))
    })
}

/// A part of a message or an artifact: a text, bytes, a reference or structured data.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// A text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// URL of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Structured data: any JSON.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// Metadata, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<RawValue>>,
    /// Name of the content as a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Media type of the content.
    #[serde(default, alias = "media_type", skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

impl Part {
    /// Creates a text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), media_type: Some("text/plain".to_owned()), ..Self::default() }
    }

    /// Creates a part of structured data.
    #[must_use]
    pub fn data(data: Box<RawValue>) -> Self {
        Self { data: Some(data), media_type: Some("application/json".to_owned()), ..Self::default() }
    }

    /// Checks that the part has one content in its form.
    ///
    /// # Errors
    /// The part is invalid; its media type is none.
    pub fn check(&self, place: &str) -> Result<(), Failure> {
        let contents = [self.text.is_some(), self.raw.is_some(), self.url.is_some(), self.data.is_some()];
        if contents.into_iter().filter(|has| *has).count() != 1 {
            let told = "has to have exactly one of `text`, `raw`, `url` and `data`";
            return Err(Failure::invalid(place, told));
        }
        let is_base64 = |raw: &String| STANDARD.decode(raw).is_ok() || URL_SAFE.decode(raw).is_ok();
        if self.raw.as_ref().is_some_and(|raw| !is_base64(raw)) {
            return Err(Failure::invalid(&format!("{place}.raw"), "is no base64"));
        }
        object(self.metadata.as_deref(), &format!("{place}.metadata"))?;
        let is_type = |text: &String| {
            let has_both =
                text.split_once('/').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty());
            text.is_empty() || (has_both && !text.chars().any(char::is_control))
        };
        if let Some(other) = self.media_type.as_ref().filter(|text| !is_type(text)) {
            return Err(Failure::content_type(other));
        }
        Ok(())
    }
}

/// Requires that a member is an object, if it is there.
///
/// # Errors
/// It is none.
pub fn object(member: Option<&RawValue>, place: &str) -> Result<(), Failure> {
    match member {
        Some(raw) if !raw.get().starts_with('{') => Err(Failure::invalid(place, "has to be an object")),
        _ => Ok(()),
    }
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The client.
    #[serde(rename = "ROLE_USER")]
    User,
    /// The agent.
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

/// A message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Its id, chosen by its author.
    #[serde(alias = "message_id")]
    pub message_id: String,
    /// The context that it belongs to.
    #[serde(default, alias = "context_id", skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// The task that it continues.
    #[serde(default, alias = "task_id", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Its author.
    pub role: Role,
    /// Its content.
    #[serde(default, deserialize_with = "objects_of")]
    pub parts: Vec<Part>,
    /// Metadata, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<RawValue>>,
    /// URIs of the extensions that contributed to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// Tasks that it refers to.
    #[serde(default, alias = "reference_task_ids", skip_serializing_if = "Vec::is_empty")]
    pub reference_task_ids: Vec<String>,
}

impl Message {
    /// Creates a message of the agent.
    #[must_use]
    pub fn of_agent(id: String, context: &str, task: &str, parts: Vec<Part>) -> Self {
        Self {
            message_id: id,
            context_id: Some(context.to_owned()),
            task_id: Some(task.to_owned()),
            role: Role::Agent,
            parts,
            metadata: None,
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        }
    }

    /// Checks a client's message, and drops ids that are empty, which means unset.
    ///
    /// # Errors
    /// A member is invalid.
    pub fn checked(mut self) -> Result<Self, Failure> {
        let is_id = |id: &str, most| !id.is_empty() && id.len() <= most && !id.chars().any(char::is_control);
        self.context_id = self.context_id.filter(|id| !id.is_empty());
        self.task_id = self.task_id.filter(|id| !id.is_empty());
        if !is_id(&self.message_id, MESSAGE_ID_BYTES) {
            let told = format!("has to have 1 to {MESSAGE_ID_BYTES} bytes, none of them a control character");
            return Err(Failure::invalid("message.messageId", &told));
        }
        if self.context_id.as_ref().is_some_and(|id| !is_id(id, VALUE_BYTES)) {
            let told = format!("has to have at most {VALUE_BYTES} bytes, none of them a control character");
            return Err(Failure::invalid("message.contextId", &told));
        }
        if self.role != Role::User {
            return Err(Failure::invalid(
                "message.role",
                "has to be ROLE_USER: agents answer by their tasks",
            ));
        }
        if self.parts.is_empty() || self.parts.len() > PARTS {
            return Err(Failure::invalid("message.parts", &format!("has to have 1 to {PARTS} parts")));
        }
        for (index, part) in self.parts.iter().enumerate() {
            part.check(&format!("message.parts[{index}]"))?;
        }
        object(self.metadata.as_deref(), "message.metadata")?;
        Ok(self)
    }

    /// Returns the texts of the message, a line break between them.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.parts.iter().filter_map(|part| part.text.as_deref()).collect();
        texts.join("\n")
    }
}
