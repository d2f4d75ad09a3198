//! Documents the failures that handlers do not declare: those of the middleware (authentication, rate limits,
//! request bodies), and those that any write can cause. All failures share one format, except those of job
//! resources, whose codes are ARCP's (§12).

use actix_web::http::Method;
use entente_domain::refusal::Code;
use entente_http::error::{Family, ProblemBody, job_words, status};
use utoipa::openapi::path::{Operation, Parameter, PathItem};
use utoipa::openapi::schema::{Schema, Type};
use utoipa::openapi::{
    ContentBuilder, ObjectBuilder, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};

/// Media type of every failure (RFC 9457).
const PROBLEM: &str = "application/problem+json";
/// Schema name of failures on job resources.
const JOB_PROBLEM: &str = "JobProblemBody";

/// Adds its possible failures to every operation.
pub(super) fn explain(document: &mut OpenApi) {
    let schemas = &mut document.components.get_or_insert_default().schemas;
    schemas.insert(ProblemBody::name().into_owned(), <ProblemBody as PartialSchema>::schema());
    schemas.insert(JOB_PROBLEM.to_owned(), of_jobs());
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            let form = match Family::of(&method, path) {
                Family::Jobs => JOB_PROBLEM.into(),
                Family::Entente => ProblemBody::name(),
            };
            operation.responses.responses.values_mut().for_each(|response| reform(response, &form));
            for code in codes(path, &method, operation) {
                let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(&*form))).build();
                let response = ResponseBuilder::new()
                    .description(format!("For example `{}`: {}", code.wire(), code.meaning()))
                    .content(PROBLEM, content)
                    .build();
                let status = status(code).as_u16().to_string();
                operation.responses.responses.entry(status).or_insert(response.into());
            }
        }
    }
}

/// Returns the operations of a path, each with its method.
pub(super) fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let each = [
        (Method::GET, &mut item.get),
        (Method::POST, &mut item.post),
        (Method::PUT, &mut item.put),
        (Method::PATCH, &mut item.patch),
        (Method::DELETE, &mut item.delete),
    ];
    each.into_iter().filter_map(|(method, operation)| operation.as_mut().map(|operation| (method, operation)))
}

/// Returns the schema of [`ProblemBody`] with ARCP's codes, and with `retryable` always present.
fn of_jobs() -> RefOr<Schema> {
    let mut form = <ProblemBody as PartialSchema>::schema();
    if let RefOr::T(Schema::Object(object)) = &mut form {
        let code = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("The error code: ARCP's (§12), or one of this API's own where ARCP has none."))
            .enum_values(Some(job_words()))
            .build();
        object.properties.insert("code".to_owned(), code.into());
        object.required.push("retryable".to_owned());
        if let Some(example) = object.example.as_mut().and_then(serde_json::Value::as_object_mut) {
            example.insert("code".to_owned(), "NOT_FOUND".into());
            example.insert("retryable".to_owned(), false.into());
        }
    }
    form
}

/// Changes the media type and schema of a declared failure to the common ones.
fn reform(response: &mut RefOr<Response>, form: &str) {
    let RefOr::T(response) = response else { return };
    let problem = Ref::from_schema_name(ProblemBody::name());
    let is_problem = |schema: &Option<RefOr<Schema>>| matches!(schema, Some(RefOr::Ref(known)) if known.ref_location == problem.ref_location);
    let found = response
        .content
        .iter()
        .find(|(_, content)| matches!(content, RefOr::T(content) if is_problem(&content.schema)));
    if let Some(media) = found.map(|(media, _)| media.clone()) {
        response.content.shift_remove(&media);
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(form))).build();
        response.content.insert(PROBLEM.to_owned(), content.into());
    }
}

/// Returns the codes, one for each status, with which the middleware may refuse a request, and those that any
/// write may cause.
fn codes(path: &str, method: &Method, operation: &Operation) -> Vec<Code> {
    if !path.starts_with("/api/") && !path.starts_with("/.well-known/") {
        return Vec::new();
    }
    let mut codes = vec![Code::RateLimited, Code::Unavailable, Code::Internal];
    // `security(())` means that no key is required.
    let keyed = operation.security.is_none();
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    let has_body = operation.request_body.is_some();
    if keyed {
        codes.extend([Code::Unauthenticated, Code::ScopeMissing]);
    }
    if keyed || has_body || !parameters.is_empty() {
        codes.push(Code::InvalidParameter);
    }
    if has_body {
        codes.extend([Code::RequestTimeout, Code::InvalidJson, Code::TooLarge]);
    }
    let writes = keyed && *method != Method::GET;
    // A parameter or a body can name a resource that does not exist.
    if writes || !parameters.is_empty() {
        codes.push(Code::NotFound);
    }
    if writes {
        codes.push(Code::IdempotencyMismatch);
    }
    // Handlers that require `If-Match` declare the status for its absence; where it is optional, only its form can fail.
    let optional = |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(header) if header.name == "If-Match" && header.required == Required::False);
    if parameters.iter().any(optional) {
        codes.push(Code::PreconditionRequired);
    }
    if writes {
        codes.push(Code::EpochRequired);
    }
    codes
}
