//! Routes of the envelope schema and of payload schemas, under the paths of AEE §9.3.

use std::sync::LazyLock;

use actix_web::{HttpResponse, delete, get, put, web};
use entente_aee::policy::schemas;
use entente_aee::policy::schemas::Published;
use entente_domain::aee::envelopes::EnvelopeType;
use entente_domain::aee::envelopes::schemas::{Strictness, Subject};
use entente_domain::identity::keys::{Dialect, Scope};
use entente_http::body::{Body, Query};
use entente_http::caller::Asker;
use entente_http::documents;
use entente_http::error::{Problem, Reply};
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::ApiState;

/// The envelope schema (AEE §3.1), written from the text of the draft.
const ENVELOPE: &str = include_str!("../../../openapi/aee/aee-v1.schema.json");
/// Its entity tag.
static ENVELOPE_TAG: LazyLock<String> = LazyLock::new(|| documents::tag(ENVELOPE.as_bytes()));

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(envelope).service(get).service(publish).service(withdraw);
}

/// A payload schema.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnvelopeSchema)]
struct SchemaBody {
    /// The intent (purpose) of the envelopes.
    #[schema(example = "ops.backup.check")]
    intent: String,
    /// Envelope type: task, result or error.
    #[serde(rename = "type")]
    kind: EnvelopeType,
    /// Treatment of payloads that do not match.
    policy: Strictness,
    /// Path of the schema relative to `/api/v1/aee/schemas/`.
    #[schema(example = "intents/ops.backup.check.task.schema.json")]
    path: String,
    /// Principal that published the schema; null for the protocol's own.
    updated_by: Option<String>,
    /// When the schema was published.
    updated_at: Option<WireTime>,
}

impl SchemaBody {
    fn new(published: Published, dialect: Dialect) -> Self {
        let path = format!("intents/{}", published.subject.file());
        let (by, at) = published.updated.unzip();
        Self {
            intent: published.subject.purpose,
            kind: published.subject.kind,
            policy: published.strictness,
            path,
            updated_by: by,
            updated_at: at.map(|at| WireTime::new(at, dialect)),
        }
    }
}

/// The schemas.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnvelopeSchemaList)]
struct SchemaList {
    /// The schemas, sorted by intent.
    schemas: Vec<SchemaBody>,
}

fn subject(file: &str) -> Result<Subject, Problem> {
    Ok(Subject::of_file(file).ok_or_else(|| entente_domain::refusal::Refusal::not_found("schema"))?)
}

fn document(tag: &str, text: impl Into<String>) -> HttpResponse {
    documents::document(HttpResponse::Ok(), "application/schema+json", documents::PRIVATE, tag, text.into())
}

/// List the payload schemas
///
/// Returns the published schemas and the protocol's own (AEE §9.2).
#[utoipa::path(operation_id = "list_envelope_schemas", tag = "envelopes",
    responses((status = 200, description = "The schemas", body = SchemaList)))]
#[get("/aee/schemas")]
async fn list(api: web::Data<ApiState>, asker: Asker) -> Reply {
    let found = schemas::list(&api.ctx, &asker.caller).await?;
    ok(&SchemaList { schemas: found.into_iter().map(|one| SchemaBody::new(one, asker.dialect)).collect() })
}

/// Get the envelope schema
///
/// Returns the structural rules of AEE 1 (§3.1) as JSON Schema 2020-12.
#[utoipa::path(operation_id = "get_envelope_schema", tag = "envelopes", responses(
    (status = 200, description = "The schema", body = Object, content_type = "application/schema+json"),
    (status = 304, description = "Unchanged since the version in `If-None-Match`")))]
#[get("/aee/schemas/envelope/aee-v1.schema.json")]
async fn envelope(asker: Asker) -> Reply {
    asker.caller.require(Scope::MailRead)?;
    Ok(document(&ENVELOPE_TAG, ENVELOPE))
}

/// Get a payload schema
///
/// Returned byte for byte as published.
#[utoipa::path(operation_id = "get_payload_schema", tag = "envelopes",
    responses((status = 200, description = "The schema", body = Object, content_type = "application/schema+json"),
              (status = 304, description = "Unchanged since the version in `If-None-Match`")))]
#[get("/aee/schemas/intents/{file}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = schemas::get(&api.ctx, &asker.caller, &subject(&path)?).await?;
    Ok(document(&documents::tag(found.text.as_bytes()), found.text))
}

/// A JSON Schema, stored byte for byte.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct SchemaDocument(Box<RawValue>);

impl utoipa::PartialSchema for SchemaDocument {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        // Fully qualified names, because an import would conflict with the code that the macros generate.
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::Object)
            .description(Some("A JSON Schema (2020-12), stored byte for byte"))
            .examples([serde_json::json!({ "type": "object", "required": ["cluster"] })])
            .build()
            .into()
    }
}

impl ToSchema for SchemaDocument {}

/// Publish a payload schema
///
/// Takes a self-contained JSON Schema 2020-12 document of up to 64 KiB: references may only point into it,
/// and patterns may not use look-around. The first publisher owns the schemas of an intent; an admin may
/// change any. Only an admin may set the policy `enforce`.
#[utoipa::path(operation_id = "publish_payload_schema", tag = "envelopes",
    request_body = SchemaDocument,
    params(("policy" = Option<Strictness>, Query, description = "Treatment of payloads that do not match; defaults to the current policy, or to `warn` for a new schema")),
    responses((status = 200, description = "The published schema", body = SchemaBody),
              (status = 403, description = "`forbidden`: the schema belongs to another principal, or requires the scope `admin`", body = entente_http::error::ProblemBody),
              (status = 422, description = "`unprocessable`: the document is not a valid schema", body = entente_http::error::ProblemBody)))]
#[put("/aee/schemas/intents/{file}")]
async fn publish(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    query: Query,
    body: Body<SchemaDocument>,
) -> Reply {
    let strictness = query.parsed("policy", "one of off, warn, enforce", Strictness::parse)?;
    let text = body.value.0.get().to_owned();
    let done = schemas::publish(&api.ctx, &asker.caller, subject(&path)?, text, strictness).await?;
    ok(&SchemaBody::new(done, asker.dialect))
}

/// Withdraw a payload schema
///
/// Allowed for its publisher and for admins.
#[utoipa::path(operation_id = "withdraw_payload_schema", tag = "envelopes",
    responses((status = 204, description = "Withdrawn")))]
#[delete("/aee/schemas/intents/{file}")]
async fn withdraw(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    schemas::withdraw(&api.ctx, &asker.caller, &subject(&path)?).await?;
    Ok(HttpResponse::NoContent().finish())
}
