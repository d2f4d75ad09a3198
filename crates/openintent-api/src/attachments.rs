//! Endpoints for attachments (RFC-0005). The SDK's two clients and the reference server name the same members
//! differently: all names are accepted and returned (OI-15.34).

use actix_web::{HttpRequest, HttpResponse, delete, get, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{AttachmentId, IntentId};
use entente_domain::openintent::attachments::{Attachment, AttachmentAsk};
use entente_http::body::{Body, IdempotencyKey, id};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_openintent::attachments;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(add).service(remove);
}

/// A file attached to an intent by reference.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attachment)]
struct AttachmentBody {
    /// The attachment's id.
    id: AttachmentId,
    /// The intent.
    intent_id: IntentId,
    /// The file's name.
    #[schema(example = "report.pdf")]
    filename: String,
    /// The file's media type.
    #[schema(example = "application/pdf")]
    mime_type: String,
    /// Same as `mime_type`, under another name.
    content_type: String,
    /// The size in bytes, as declared by the uploader.
    size: u64,
    /// Same as `size`, under another name.
    size_bytes: u64,
    /// The file's URL. The server never fetches it.
    #[schema(example = "https://files.example/report.pdf")]
    storage_url: String,
    /// Same as `storage_url`, under another name.
    url: String,
    /// The file's digest, as declared by the uploader; not checked.
    content_hash: Option<String>,
    /// Client-defined metadata.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// The agent that added the attachment.
    uploaded_by: String,
    /// Same as `uploaded_by`, under the reference server's name.
    created_by: String,
    /// When it was added.
    created_at: WireTime,
    /// Same as `created_at`, under the SDK's name.
    #[serde(rename = "createdAt")]
    created_at_too: WireTime,
}

impl AttachmentBody {
    fn new(made: Attachment, dialect: Dialect) -> Self {
        let created_at = WireTime::new(made.created_at, dialect);
        Self {
            id: made.id,
            intent_id: made.intent_id,
            filename: made.filename,
            content_type: made.mime_type.clone(),
            mime_type: made.mime_type,
            size: made.size,
            size_bytes: made.size,
            url: made.storage_url.clone(),
            storage_url: made.storage_url,
            content_hash: made.content_hash,
            metadata: made.metadata,
            created_by: made.uploaded_by.clone(),
            uploaded_by: made.uploaded_by,
            created_at,
            created_at_too: created_at,
        }
    }
}

/// A file to attach.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewAttachment)]
#[schema(example = json!({ "filename": "report.pdf", "mime_type": "application/pdf", "size": 48_211,
    "storage_url": "https://files.example/report.pdf" }))]
struct AddBody {
    /// The file's name, without a path.
    filename: String,
    /// The media type; defaults to `application/octet-stream`. Also accepted as `content_type`.
    #[serde(alias = "content_type", alias = "mimeType")]
    mime_type: Option<String>,
    /// The size in bytes. Also accepted as `size_bytes`.
    #[serde(alias = "size_bytes")]
    size: Option<u64>,
    /// The file's URL, with the scheme `https`, `http`, `s3`, `gs` or `az`. Also accepted as `url`.
    #[serde(alias = "url", alias = "storageUrl")]
    storage_url: String,
    /// The file's digest, such as `sha256:` and hexadecimal digits.
    #[serde(alias = "hash", alias = "checksum")]
    content_hash: Option<String>,
    /// Client-defined metadata.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// Attach a file to an intent
///
/// By reference: the server stores the URL and neither fetches nor checks the file.
#[utoipa::path(operation_id = "add_attachment", tag = "ledgers", request_body = AddBody, params(IdempotencyKey),
    responses((status = 200, description = "The attachment", body = AttachmentBody)))]
#[post("/intents/{intent_id}/attachments")]
async fn add(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<AddBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let ask = AttachmentAsk {
        filename: said.filename,
        mime_type: said.mime_type.filter(|text| !text.is_empty()),
        size: said.size,
        storage_url: said.storage_url,
        content_hash: said.content_hash,
        metadata: said.metadata.unwrap_or_default(),
    };
    let made = attachments::add(&api.ctx, &asker.caller, intent_id, ask, once.as_ref()).await?;
    ok(&AttachmentBody::new(made, asker.dialect))
}

/// List an intent's attachments
///
/// Returns all of them, oldest first; an intent has at most 1,000.
#[utoipa::path(operation_id = "list_attachments", tag = "ledgers",
    responses((status = 200, description = "The attachments", body = [AttachmentBody])))]
#[get("/intents/{intent_id}/attachments")]
async fn list(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = attachments::list(&api.ctx, &asker.caller, id("intent", &path)?).await?;
    ok(&found.into_iter().map(|one| AttachmentBody::new(one, asker.dialect)).collect::<Vec<_>>())
}

/// Remove an attachment from an intent
///
/// The file itself is not touched. Allowed to the agent that added it and to admins of the intent.
#[utoipa::path(operation_id = "delete_attachment", tag = "ledgers",
    responses((status = 204, description = "Removed")))]
#[delete("/intents/{intent_id}/attachments/{attachment_id}")]
async fn remove(api: web::Data<ApiState>, asker: Asker, path: web::Path<(String, String)>) -> Reply {
    let attachment: AttachmentId = id("attachment", &path.1)?;
    attachments::remove(&api.ctx, &asker.caller, id("intent", &path.0)?, attachment).await?;
    Ok(HttpResponse::NoContent().finish())
}
