//! Attachments (RFC-0005): references to files that belong to an intent.
//!
//! The server stores a file's location and its owner's description. It never fetches a file, so that clients
//! cannot use it to reach hosts that only the server can reach.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::ids::{AttachmentId, IntentId};
use crate::limits::{ATTACHMENTS, FILE_BYTES, FILE_NAME_BYTES, NAME_BYTES, URL_BYTES};
use crate::metadata;
use crate::refusal::{Code, Refusal};

/// Schemes allowed for a file's location: those that mean the same on every machine.
///
/// `file:` does not: it would open a file of the reader's own machine. `data:` would be the file itself, and
/// scripts are not locations.
pub const SCHEMES: [&str; 5] = ["https", "http", "s3", "gs", "az"];

/// The media type of a file without a declared type.
pub const UNKNOWN_TYPE: &str = "application/octet-stream";

/// A file attached to an intent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// The attachment's id.
    pub id: AttachmentId,
    /// The intent.
    pub intent_id: IntentId,
    /// The file's name.
    pub filename: String,
    /// The media type: `type/subtype`.
    pub mime_type: String,
    /// The size in bytes, as declared by the owner.
    pub size: u64,
    /// The file's location.
    pub storage_url: String,
    /// The file's digest as declared by the owner; not checked, because the file is not read.
    pub content_hash: Option<String>,
    /// An object defined by the client.
    pub metadata: Map<String, Value>,
    /// The principal that added it.
    pub uploaded_by: String,
    /// When it was added.
    pub created_at: Timestamp,
}

/// Input for a new attachment.
#[derive(Debug, Clone, Default)]
pub struct AttachmentAsk {
    /// The file's name.
    pub filename: String,
    /// The media type; defaults to [`UNKNOWN_TYPE`].
    pub mime_type: Option<String>,
    /// The size in bytes; defaults to 0.
    pub size: Option<u64>,
    /// The file's location.
    pub storage_url: String,
    /// The file's digest.
    pub content_hash: Option<String>,
    /// An object defined by the client.
    pub metadata: Map<String, Value>,
}

/// Adds a file to an intent that already has `there` files.
///
/// # Errors
/// A name that contains a path, an invalid media type or location (its scheme is not in [`SCHEMES`], or it
/// has credentials), a member over its limit, or too many files.
pub fn add(
    ask: AttachmentAsk,
    there: usize,
    intent_id: IntentId,
    by: &str,
    id: AttachmentId,
    now: Timestamp,
) -> Result<Attachment, Refusal> {
    if there >= ATTACHMENTS {
        let message = format!("The intent has {there} attachments, as many as it may. Delete some first.");
        return Err(Refusal::new(Code::TooLarge, message));
    }
    check_filename(&ask.filename)?;
    let mime_type = ask.mime_type.unwrap_or_else(|| UNKNOWN_TYPE.to_owned());
    check_type(&mime_type)?;
    let size = ask.size.unwrap_or(0);
    if size > FILE_BYTES {
        let message = format!("`size` must be 0 to {FILE_BYTES} bytes.");
        return Err(Refusal::field(Code::InvalidRequest, "size", "range", message));
    }
    check_url(&ask.storage_url)?;
    if let Some(hash) = &ask.content_hash {
        metadata::check_label("content_hash", hash, NAME_BYTES)?;
    }
    metadata::check("metadata", &ask.metadata)?;
    Ok(Attachment {
        id,
        intent_id,
        filename: ask.filename,
        mime_type,
        size,
        storage_url: ask.storage_url,
        content_hash: ask.content_hash,
        metadata: ask.metadata,
        uploaded_by: by.to_owned(),
        created_at: now,
    })
}

/// Refuses paths, so that saving the file under its name writes nothing elsewhere.
fn check_filename(name: &str) -> Result<(), Refusal> {
    metadata::check_label("filename", name, FILE_NAME_BYTES)?;
    if name.contains(['/', '\\']) || name == "." || name == ".." {
        let message =
            "`filename` must be the name of a file without a path. Folders belong into `storage_url`.";
        return Err(Refusal::field(Code::InvalidRequest, "filename", "path", message));
    }
    Ok(())
}

fn check_type(mime_type: &str) -> Result<(), Refusal> {
    metadata::check_label("mime_type", mime_type, NAME_BYTES)?;
    let (kind, rest) = mime_type.split_once('/').unwrap_or((mime_type, ""));
    let subtype = rest.split(';').next().unwrap_or_default().trim_end();
    let token = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    if token(kind) && token(subtype) {
        return Ok(());
    }
    let message = "`mime_type` must be a media type such as `application/pdf`.";
    Err(Refusal::field(Code::InvalidRequest, "mime_type", "media_type", message))
}

fn check_url(url: &str) -> Result<(), Refusal> {
    let refused = |kind: &str, message: String| {
        Err(Refusal::field(Code::InvalidRequest, "storage_url", kind, format!("`storage_url` {message}")))
    };
    if url.len() > URL_BYTES {
        return refused("too_long", format!("has {} bytes, at most {URL_BYTES} are allowed.", url.len()));
    }
    if url.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        return refused("url", "has a blank or a control character. Escape it (`%20`).".to_owned());
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return refused("url", format!("must be a URL that begins with {}.", listed()));
    };
    if !SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return refused(
            "scheme",
            format!("must begin with {}. Others do not lead to the same file from everywhere.", listed()),
        );
    }
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    if authority.is_empty() {
        return refused("url", format!("names no host or bucket behind `{scheme}://`."));
    }
    if authority.contains('@') {
        return refused(
            "credentials",
            "has a user or a password in it, which every reader of the intent would see. Leave them out."
                .to_owned(),
        );
    }
    Ok(())
}

fn listed() -> String {
    SCHEMES.map(|scheme| format!("`{scheme}://`")).join(", ")
}
