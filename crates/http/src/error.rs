//! Errors on the wire: maps each refusal to its HTTP status and writes the common error body (problem+json with the
//! members that existing clients read, OI-3.5).

use std::fmt;

use actix_web::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::http::{Method, StatusCode, header};
use actix_web::{HttpResponse, ResponseError};
use entente_domain::aee::envelopes::receipt::Receipt;
use entente_domain::arcp::faults::Fault;
use entente_domain::identity::keys::Dialect;
use entente_domain::refusal::valid_choice::{INVALID_CHOICE, ValidChoice, ValidChoices};
use entente_domain::refusal::violation::Violation;
use entente_domain::refusal::{Code, FieldError, Refusal};
use entente_kernel::AppError;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::lease::LeaseBody;

/// Retry delay in seconds when the database is unavailable.
const UNAVAILABLE_RETRY_SECONDS: u64 = 1;

/// A failure to report to the client.
#[derive(Debug)]
pub struct Problem {
    refusal: Box<Refusal>,
    /// Seconds after which a retry may succeed.
    pub retry_after: Option<u64>,
    /// The methods that the path supports, for a 405.
    pub allow: Option<String>,
    /// The URL of the metadata by which OAuth begins, for a 401 (RFC 9728 §5.1).
    pub resource_metadata: Option<String>,
}

/// The result of a request handler.
pub type Reply = Result<HttpResponse, Problem>;

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.refusal.code.wire(), self.refusal.message)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let retry_after = refusal.retry_after_seconds.map(u64::from);
        Self { refusal: Box::new(refusal), retry_after, allow: None, resource_metadata: None }
    }
}

impl From<AppError> for Problem {
    fn from(error: AppError) -> Self {
        match error {
            AppError::Refused(refusal) => refusal.into(),
            AppError::Unavailable(why) => {
                tracing::warn!(error = %why, "a request could not be served for now");
                let refusal = Refusal::new(
                    Code::Unavailable,
                    "The database cannot be reached or the server is stopping. Try again shortly; with an \
                     Idempotency-Key a retry is never done twice.",
                );
                Self { retry_after: Some(UNAVAILABLE_RETRY_SECONDS), ..refusal.into() }
            }
            AppError::RolledBack { state, why } => {
                tracing::warn!(state, error = %why, "a request was rolled back");
                let message = "Somebody else holds what this is about, or the database took too long. Nothing was done. Try \
                               again shortly.";
                Self { retry_after: Some(1), ..Refusal::new(Code::Unavailable, message).into() }
            }
            AppError::Overtaken => {
                let message =
                    "The rules for this are changing right now, and nothing was done. Send it again.";
                Self { retry_after: Some(1), ..Refusal::new(Code::Unavailable, message).into() }
            }
            AppError::Inconsistent(why) => Self::internal(&why),
            AppError::Database(e) => Self::internal(&e.to_string()),
        }
    }
}

impl Problem {
    /// Reports a defect: logs its cause here and gives the client only the request id to report.
    pub fn internal(why: &str) -> Self {
        tracing::error!(error = why, "a request failed");
        Refusal::new(
            Code::Internal,
            "Something went wrong inside the server. Report the request_id to its operator, who finds it in the log.",
        )
        .into()
    }

    /// Returns the code of the refusal.
    #[must_use]
    pub fn code(&self) -> Code {
        self.refusal.code
    }

    /// Whether the refusal names this body member with this kind of fault.
    #[must_use]
    pub fn is_about(&self, member: &str, kind: &str) -> bool {
        let named =
            |error: &FieldError| error.kind == kind && error.loc.last().is_some_and(|last| last == member);
        self.refusal.errors.iter().any(named)
    }

    /// Returns the error body for a failure that is part of a reply.
    #[must_use]
    pub fn body(&self) -> ProblemBody {
        ProblemBody::new(&self.refusal, status(self.refusal.code), "", Dialect::Standard)
    }

    /// Returns the response, with the request's id and with times in the client's dialect.
    #[must_use]
    pub fn response(&self, request_id: &str, dialect: Dialect, family: Family) -> HttpResponse {
        let status = status(self.refusal.code);
        let mut body = ProblemBody::new(&self.refusal, status, request_id, dialect);
        if family == Family::Jobs {
            body.code = job_code(self.refusal.code);
            body.retryable = Some(retryable(self.refusal.code));
        }
        let mut response = HttpResponse::build(status);
        response.insert_header((CONTENT_TYPE, HeaderValue::from_static("application/problem+json")));
        if let Some(seconds) = self.retry_after {
            response.insert_header((RETRY_AFTER, seconds));
        }
        if let Some(allow) = &self.allow {
            response.insert_header((header::ALLOW, allow.as_str()));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.insert_header((WWW_AUTHENTICATE, self.challenge()));
        }
        // The body consists of strings and numbers, so it always serialises.
        response.body(serde_json::to_vec(&body).unwrap_or_default())
    }
}

impl Problem {
    /// Returns the challenge of a 401. The host of the URL is the client's own text; one that is no header is left out.
    fn challenge(&self) -> HeaderValue {
        let url = self.resource_metadata.as_ref().filter(|url| !url.contains(['"', '\\']));
        url.and_then(|url| {
            HeaderValue::from_str(&format!("Bearer realm=\"entente\", resource_metadata=\"{url}\"")).ok()
        })
        .unwrap_or_else(|| HeaderValue::from_static("Bearer realm=\"entente\""))
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        status(self.refusal.code)
    }

    fn error_response(&self) -> HttpResponse {
        // `middleware` writes it again, with the request's id.
        self.response("", Dialect::Standard, Family::Entente)
    }
}

/// Returns the HTTP status of a refusal.
#[must_use]
pub fn status(code: Code) -> StatusCode {
    match code {
        // The SDK raises its `ValidationError` only for 400, and treats a dependency cycle as one (OI-3.5.1).
        Code::InvalidJson | Code::IfMatchRequired | Code::DependencyCircle => StatusCode::BAD_REQUEST,
        Code::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        Code::PreconditionRequired | Code::EpochRequired => StatusCode::PRECONDITION_REQUIRED,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::ScopeMissing
        | Code::MayNotActAs
        | Code::Forbidden
        | Code::AccessClosed
        | Code::NotAMember
        | Code::PermissionDenied
        | Code::LeaseExpired
        | Code::BudgetExhausted
        | Code::BadSignature
        | Code::FromMismatch
        | Code::IntentNotAllowed
        | Code::SignatureRequired
        | Code::GovernanceViolation
        | Code::Stopped
        | Code::StorageFull
        | Code::NotThePrincipal => StatusCode::FORBIDDEN,
        Code::NotFound | Code::JobNotFound | Code::UnknownRecipient => StatusCode::NOT_FOUND,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::Gone | Code::ResumeWindowExpired => StatusCode::GONE,
        Code::VersionConflict
        | Code::DuplicateName
        | Code::AlreadyRegistered
        | Code::AlreadyExists
        | Code::ClaimConflict
        | Code::IdentityExists
        | Code::ChannelClosed
        | Code::MessageExpired
        | Code::IntentResolved
        | Code::LeaseHeld
        | Code::LeaseEnded
        | Code::IdempotencyMismatch
        | Code::DuplicateKey
        | Code::DuplicateId
        | Code::TaskClosed
        | Code::Cancelled
        | Code::ClaimLost
        | Code::JobEnded
        | Code::NoResult
        | Code::DeliberationRequired
        | Code::SameQuestion
        | Code::DigestMismatch
        | Code::MomentNotOpen
        | Code::CircumstancesChanged
        | Code::AlreadyDecided
        | Code::StaleEpoch
        | Code::LoopStopped
        | Code::InvalidTransition => StatusCode::CONFLICT,
        Code::TooLarge | Code::ResultTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::RateLimited | Code::TooManyStreams | Code::LoopSlowed => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        // All other codes mean that the request could be read but is not valid.
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

/// The vocabulary of an error's `code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// This API's own codes.
    Entente,
    /// ARCP's codes (§12), for the job resources (ARCP-W-11).
    Jobs,
}

impl Family {
    /// Returns the family that a method and path belong to.
    #[must_use]
    pub fn of(method: &Method, path: &str) -> Self {
        let rest = path.strip_prefix("/api/v1/").or_else(|| path.strip_prefix("/v1/"));
        let mut parts = rest.unwrap_or_default().split('/');
        match (parts.next(), parts.next(), parts.next()) {
            // Credentials of jobs are listed and retried; the other credentials are those of vaults (RFC-0014).
            (Some("credentials"), None, _) if method == Method::GET => Self::Jobs,
            (Some("jobs" | "workers" | "arcp"), _, _) | (Some("credentials"), Some(_), Some("retry")) => {
                Self::Jobs
            }
            _ => Self::Entente,
        }
    }
}

/// Returns the ARCP form of a code; codes that ARCP lacks, or that only REST uses, get our own (ARCP-W-3.9).
fn job_code(code: Code) -> &'static str {
    match code {
        Code::NotFound => "NOT_FOUND",
        Code::MethodNotAllowed => "METHOD_NOT_ALLOWED",
        Code::RateLimited => "RATE_LIMITED",
        Code::TooManyStreams => "TOO_MANY_STREAMS",
        Code::RequestTimeout => "REQUEST_TIMEOUT",
        Code::Unavailable => "UNAVAILABLE",
        Code::ClaimLost
        | Code::ClaimConflict
        | Code::JobEnded
        | Code::LeaseEnded
        | Code::NoResult
        | Code::StaleEpoch
        | Code::EpochRequired => code.wire(),
        code => Fault::from(code).wire(),
    }
}

/// Returns every code used by the job resources, for the documentation.
#[must_use]
pub fn job_words() -> Vec<&'static str> {
    let mut words: Vec<&'static str> = Code::ALL.iter().map(|code| job_code(*code)).collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// Whether the same request may be sent again unchanged.
fn retryable(code: Code) -> bool {
    match code {
        Code::RateLimited
        | Code::LoopSlowed
        | Code::RequestTimeout
        | Code::TooManyStreams
        | Code::Unavailable
        | Code::NoResult => true,
        code => Fault::from(code).retryable(),
    }
}

/// The description of an error: a sentence, the list of faults in a body of the wrong shape, a governance violation or
/// a wrong choice, as clients of the reference server read it (OI-3.5.2).
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Detail {
    /// A sentence.
    Sentence(String),
    /// The faulty members.
    Faults(Vec<FieldError>),
    /// A governance violation.
    Governance(GovernanceDetail),
    /// An answer that is none of the question's choices.
    Choice(ChoiceDetail),
}

/// A governance violation (RFC-0013), as clients of the reference server read it.
#[derive(Debug, Serialize, ToSchema)]
pub struct GovernanceDetail {
    /// Always `governance_violation`.
    #[schema(example = "governance_violation")]
    pub error: &'static str,
    /// The violated rule, with its details.
    #[serde(flatten)]
    pub violation: Violation,
    /// The description as a sentence.
    pub message: String,
}

/// An answer that is none of the question's choices (RFC-0025 §8), as clients of the reference server read it.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChoiceDetail {
    /// Always `invalid_choice`.
    #[schema(example = "invalid_choice")]
    pub error: &'static str,
    /// The description as a sentence.
    pub message: String,
    /// The choices that the question takes.
    pub valid_choices: Vec<ValidChoice>,
}

/// The body of every error: the members of RFC 9457 and those that existing clients read.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "type": "urn:entente:problem:not_found",
    "title": "It does not exist, or the caller may not know that it does.",
    "status": 404,
    "detail": "No such channel, or it is not visible to you. Check the id and who you act as.",
    "code": "not_found",
    "message": "No such channel, or it is not visible to you. Check the id and who you act as.",
    "errors": [],
    "request_id": "req_00c0ffee00c0ffee"
}))]
pub struct ProblemBody {
    /// `urn:entente:problem:` followed by the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The meaning of the code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The description of this occurrence.
    pub detail: Detail,
    /// The code, from a closed list.
    #[schema(value_type = Code)]
    pub code: &'static str,
    /// A sentence that describes the error and the next step.
    pub message: String,
    /// The faulty members of the body.
    pub errors: Vec<FieldError>,
    /// The request's id, which the server's log also has; empty within a batch.
    pub request_id: String,
    /// On the job resources: whether the same request may be sent again unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// On a version conflict: the current version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_version: Option<i64>,
    /// On `lease_held`: the conflicting lease. Clients recognise a lease conflict by this member's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing_lease: Option<LeaseBody>,
    /// On an answer that is none of a question's choices (RFC-0025 §8): the values that it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = json!(["approve", "deny"]))]
    pub valid_choices: Option<Vec<String>>,
    /// On `duplicate_id` for an identical envelope: the first receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Receipt>)]
    pub receipt: Option<Box<RawValue>>,
}

impl ProblemBody {
    fn new(refusal: &Refusal, status: StatusCode, request_id: &str, dialect: Dialect) -> Self {
        let detail = if let Some(violation) = refusal.violation.as_deref() {
            let (violation, message) = (violation.clone(), refusal.message.clone());
            Detail::Governance(GovernanceDetail {
                error: Code::GovernanceViolation.wire(),
                violation,
                message,
            })
        } else if let Some(choices) = refusal.valid_choices.as_deref() {
            let (message, valid_choices) = (refusal.message.clone(), choices.0.clone());
            Detail::Choice(ChoiceDetail { error: INVALID_CHOICE, message, valid_choices })
        } else if refusal.code == Code::InvalidRequest && !refusal.errors.is_empty() {
            Detail::Faults(refusal.errors.clone())
        } else {
            Detail::Sentence(refusal.message.clone())
        };
        let values = |choices: &ValidChoices| -> Vec<String> {
            choices.0.iter().map(|one| one.value.clone()).collect()
        };
        Self {
            kind: format!("urn:entente:problem:{}", refusal.code.wire()),
            title: refusal.code.meaning().to_owned(),
            status: status.as_u16(),
            detail,
            code: refusal.code.wire(),
            retryable: None,
            message: refusal.message.clone(),
            errors: refusal.errors.clone(),
            request_id: request_id.to_owned(),
            current_version: refusal.current_version,
            existing_lease: refusal.existing_lease.as_ref().map(|lease| LeaseBody::held(lease, dialect)),
            valid_choices: refusal.valid_choices.as_deref().map(values),
            receipt: refusal.receipt.clone().and_then(|text| RawValue::from_string(text.into_string()).ok()),
        }
    }
}
