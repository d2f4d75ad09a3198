//! Artifacts (A2A §4.1.9): results of jobs, streamed or whole, and references to the output of a worker.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::messages::{Part, object, objects_of};
use crate::arcp::chunks::Encoding;

/// Id of the artifact that a result without artifacts of its own becomes.
pub const RESULT: &str = "result";

/// An artifact.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Its id, unique in its task.
    #[serde(alias = "artifact_id")]
    pub artifact_id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its content.
    #[serde(deserialize_with = "objects_of")]
    pub parts: Vec<Part>,
    /// Metadata, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<RawValue>>,
    /// URIs of the extensions that contributed to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
}

impl Artifact {
    /// Creates an artifact of parts.
    #[must_use]
    pub fn of(id: &str, parts: Vec<Part>) -> Self {
        Self { artifact_id: id.to_owned(), parts, ..Self::default() }
    }

    fn is_lawful(&self) -> bool {
        !self.artifact_id.is_empty()
            && !self.parts.is_empty()
            && self.parts.iter().all(|part| part.check("").is_ok())
            && object(self.metadata.as_deref(), "").is_ok()
    }
}

#[derive(Deserialize)]
struct Several {
    #[serde(deserialize_with = "objects_of")]
    artifacts: Vec<Artifact>,
}

#[derive(Deserialize)]
struct One {
    #[serde(deserialize_with = "objects_of")]
    parts: Vec<Part>,
}

/// Returns the artifacts of a result: those in its `artifacts`, one of its `parts`, one of its text, or one of structured
/// data. None of null.
#[must_use]
pub fn of_result(result: &RawValue) -> Vec<Artifact> {
    let text = result.get();
    if text == "null" {
        return Vec::new();
    }
    let is_object = text.starts_with('{');
    if is_object
        && let Ok(Several { artifacts }) = serde_json::from_str::<Several>(text)
        && artifacts.iter().all(Artifact::is_lawful)
        && (1..artifacts.len())
            .all(|n| artifacts[..n].iter().all(|one| one.artifact_id != artifacts[n].artifact_id))
    {
        return artifacts;
    }
    if is_object && let Ok(One { parts }) = serde_json::from_str::<One>(text) {
        let artifact = Artifact::of(RESULT, parts);
        if artifact.is_lawful() {
            return vec![artifact];
        }
    }
    let part =
        serde_json::from_str::<String>(text).map_or_else(|_| Part::data(result.to_owned()), Part::text);
    vec![Artifact::of(RESULT, vec![part])]
}

#[derive(Deserialize)]
struct Reference {
    #[serde(default)]
    artifact_id: Option<String>,
    #[serde(default, alias = "url")]
    uri: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default, alias = "description")]
    summary: Option<String>,
    #[serde(default, alias = "content_type")]
    media_type: Option<String>,
}

/// Returns the artifact that an `artifact_ref` event refers to; `None` without a URI.
#[must_use]
pub fn of_reference(seq: i64, body: &str) -> Option<Artifact> {
    let said: Reference = serde_json::from_str(body).ok()?;
    let part = Part { url: Some(said.uri?), media_type: said.media_type, ..Part::default() };
    let id = said.artifact_id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("ref-{seq}"));
    let artifact = Artifact { name: said.name, description: said.summary, ..Artifact::of(&id, vec![part]) };
    artifact.is_lawful().then_some(artifact)
}

/// Returns the artifacts without those that a later one of the same id replaces (§4.2.2: not appended).
#[must_use]
pub fn latest(artifacts: Vec<Artifact>) -> Vec<Artifact> {
    let mut found: Vec<Artifact> = Vec::with_capacity(artifacts.len());
    for artifact in artifacts {
        found.retain(|known| known.artifact_id != artifact.artifact_id);
        found.push(artifact);
    }
    found
}

/// Returns the part of bytes of a streamed result.
#[must_use]
pub fn of_bytes(encoding: Encoding, bytes: &[u8]) -> Part {
    match std::str::from_utf8(bytes) {
        Ok(text) if encoding == Encoding::Utf8 => Part::text(text),
        _ => Part { raw: Some(STANDARD.encode(bytes)), ..Part::default() },
    }
}

/// A piece of a streamed result.
#[derive(Debug, Clone)]
pub struct Piece {
    /// The artifact with this piece.
    pub artifact: Artifact,
    /// Whether it continues the pieces before.
    pub append: bool,
    /// Whether it is the last one.
    pub last: bool,
}

#[derive(Deserialize)]
struct ChunkBody {
    result_id: String,
    chunk_seq: u32,
    data: String,
    encoding: Encoding,
    more: bool,
}

/// Returns the piece that a `result_chunk` event has; `None` if it is none.
#[must_use]
pub fn of_chunk(body: &str) -> Option<Piece> {
    let chunk: ChunkBody = serde_json::from_str(body).ok()?;
    let part = match chunk.encoding {
        Encoding::Utf8 => Part::text(chunk.data),
        Encoding::Base64 => Part { raw: Some(chunk.data), ..Part::default() },
    };
    let artifact = Artifact::of(&chunk.result_id, vec![part]);
    Some(Piece { artifact, append: chunk.chunk_seq > 0, last: !chunk.more })
}
