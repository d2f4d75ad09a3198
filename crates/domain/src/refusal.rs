//! Refusals: the closed list of codes, and what a refusal tells its reader.
//!
//! A refusal says what happened, why, and what to do next. It knows no HTTP status; the one mapping is
//! `api/src/http/error.rs`.

use serde::Serialize;

use crate::envelopes::receipt::Receipt;
use crate::faults::Fault;
use crate::governance::Violation;
use crate::leases::Lease;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $wire:tt;)+) => {
        /// Why something was refused: the `code` member of every error body. The list is closed; clients may switch on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, utoipa::ToSchema)]
        pub enum Code {
            $($(#[doc = $doc])+ #[serde(rename = $wire)] $name,)+
        }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The code as it stands in an error body.
            #[must_use]
            pub fn wire(self) -> &'static str {
                match self { $(Self::$name => $wire,)+ }
            }

            /// What the code means, for the documentation.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

codes! {
    /// The body is not JSON at all.
    InvalidJson = "invalid_json";
    /// The body is JSON of the wrong shape: a member is missing, has the wrong type or an unknown value.
    InvalidRequest = "invalid_request";
    /// A parameter of the path, the query or a header cannot be read.
    InvalidParameter = "invalid_parameter";
    /// The request needs `If-Match` with the version that was last read.
    IfMatchRequired = "if_match_required";
    /// A task or a plan is changed under `If-Match` only: send the version that was last read.
    PreconditionRequired = "precondition_required";
    /// No API key, or one that is unknown, expired or revoked.
    Unauthenticated = "unauthenticated";
    /// The key lacks the scope for this operation.
    ScopeMissing = "scope_missing";
    /// The key may not act as the agent that the request names.
    MayNotActAs = "may_not_act_as";
    /// The agent's level of access does not allow this.
    Forbidden = "forbidden";
    /// The intent is closed to this agent; access can be requested (RFC-0011).
    AccessClosed = "access_closed";
    /// The channel admits only its members (RFC-0021 §5).
    NotAMember = "not_a_member";
    /// The signature is not one by the key that it has to be by (RFC-0018).
    BadSignature = "bad_signature";
    /// It does not exist, or the caller may not know that it does.
    NotFound = "not_found";
    /// The path exists, the method does not.
    MethodNotAllowed = "method_not_allowed";
    /// The agent was deregistered or is dead; register it again (RFC-0016).
    Gone = "gone";
    /// The version in `If-Match` is no longer the current one; read again and repeat.
    VersionConflict = "version_conflict";
    /// An open channel of this intent has that name.
    DuplicateName = "duplicate_name";
    /// The agent's id belongs to another principal.
    AlreadyRegistered = "already_registered";
    /// It exists already: a principal, or another key under this name.
    AlreadyExists = "already_exists";
    /// Another agent has the task, or a later claim than the one named; take another task.
    ClaimConflict = "claim_conflict";
    /// The agent has an Ed25519 key in force; rotate or revoke it (RFC-0018).
    IdentityExists = "identity_exists";
    /// The channel is closed; nothing can be sent there any more.
    ChannelClosed = "channel_closed";
    /// The message has expired; it can be neither read nor answered.
    MessageExpired = "message_expired";
    /// The intent is completed or abandoned.
    IntentResolved = "intent_resolved";
    /// Somebody holds a lease on this scope, or on one that overlaps it (RFC-0003); `existing_lease` says who and how long.
    LeaseHeld = "lease_held";
    /// The lease has ended; acquire a new one (RFC-0003).
    LeaseEnded = "lease_ended";
    /// The idempotency key was used with another request.
    IdempotencyMismatch = "idempotency_mismatch";
    /// The body did not come in time; nothing was done, send it again.
    RequestTimeout = "request_timeout";
    /// The body or one of its parts is over its limit.
    TooLarge = "too_large";
    /// The JSON is nested too deeply.
    TooDeep = "too_deep";
    /// The text has a character that cannot be stored (NUL).
    NulCharacter = "nul_character";
    /// The value is well-formed and makes no sense here.
    Unprocessable = "unprocessable";
    /// `expires_at` lies in the past.
    AlreadyExpired = "already_expired";
    /// A response must answer a request of the same channel (RFC-0021 §2.3).
    NotARequest = "not_a_request";
    /// The proof on an event or a message is not one by its actor's key (RFC-0018).
    BadProof = "bad_proof";
    /// Nobody would receive the message: no agent holds the role on this channel.
    NoRecipient = "no_recipient";
    /// The intent would wait for itself, directly or through others (RFC-0002); leave out that dependency.
    DependencyCircle = "dependency_circle";
    /// The transition is not one that the state machine has (RFC-0001 with the strict setting, RFC-0012).
    InvalidTransition = "invalid_transition";
    /// The lease does not cover it, or it is not the caller's to do (ARCP §9.3).
    PermissionDenied = "PERMISSION_DENIED";
    /// A child asked for more than its parent has (ARCP §9.4).
    LeaseSubsetViolation = "LEASE_SUBSET_VIOLATION";
    /// There is no such job, or it is not visible to the caller.
    JobNotFound = "JOB_NOT_FOUND";
    /// The job's idempotency key was used for another job (ARCP §7.2).
    DuplicateKey = "DUPLICATE_KEY";
    /// No agent of this name runs jobs.
    AgentNotAvailable = "AGENT_NOT_AVAILABLE";
    /// The agent has no such version.
    AgentVersionNotAvailable = "AGENT_VERSION_NOT_AVAILABLE";
    /// The job was cancelled; nothing is allowed to it any more.
    Cancelled = "CANCELLED";
    /// The job's lease has run out (ARCP §9.5).
    LeaseExpired = "LEASE_EXPIRED";
    /// A counter of the job's budget has too little left (ARCP §9.6).
    BudgetExhausted = "BUDGET_EXHAUSTED";
    /// What was missed is no longer kept, or the token is not the last one (ARCP §6.3).
    ResumeWindowExpired = "RESUME_WINDOW_EXPIRED";
    /// The job is no longer this worker's: its claim ran out or was given back. Drop the job.
    ClaimLost = "CLAIM_LOST";
    /// The job is over.
    JobEnded = "JOB_ENDED";
    /// The job has no result, or none yet.
    NoResult = "NO_RESULT";
    /// A streamed result, or one of its chunks, is over its limit (ARCP §14).
    ResultTooLarge = "RESULT_TOO_LARGE";
    /// The envelope breaks a MUST of AEE; `errors` names every fault (AEE §6).
    InvalidEnvelope = "invalid_envelope";
    /// The envelope's `v` is not "1" (AEE §6.5).
    UnsupportedVersion = "unsupported_version";
    /// A log line of five members was sent as an envelope; send it to the logs (AEE §7.2).
    Mve5NotRoutable = "mve5_not_routable";
    /// The envelope was written too long ago, or ahead of the server's clock (AEE §11.1).
    OutsideWindow = "outside_window";
    /// An envelope with this id was taken in before; `receipt` is the first one's when it was the same (AEE §11.1).
    DuplicateId = "duplicate_id";
    /// The result or error does not fit the task that it names (AEE §6.3).
    ReplyMismatch = "reply_mismatch";
    /// The task has its end already, or its time ran out (AEE §4).
    TaskClosed = "task_closed";
    /// The envelope has a signature of a kind that cannot be verified here (AEE §11.2).
    SigUnverifiable = "sig_unverifiable";
    /// Here envelopes must be signed (AEE §11.2).
    SignatureRequired = "signature_required";
    /// `from` is not an entity that the key may speak for (AEE §11.5).
    FromMismatch = "from_mismatch";
    /// Nobody of the name in `to` is known here (AEE §5).
    UnknownRecipient = "unknown_recipient";
    /// The intent is in the protocol's own namespace (AEE §9.2).
    ReservedNamespace = "reserved_namespace";
    /// A policy lets no envelope on this intent pass between these two (AEE §11.5).
    IntentNotAllowed = "intent_not_allowed";
    /// The payload is not what the intent's schema says, which is enforced (AEE §6.4).
    PayloadInvalid = "payload_invalid";
    /// A reference's hash is not that of the envelope that it names (AEE §10.2).
    ReferenceHashMismatch = "reference_hash_mismatch";
    /// The binding moment is not one that may be asked; `errors` names every fault with its place (binding moment §4, §5).
    InvalidMoment = "invalid_moment";
    /// The principal refused a question of this agent, and its objection is not answered yet (binding moment §6.2).
    DeliberationRequired = "deliberation_required";
    /// The principal refused this very question (binding moment §6.2), or it waits for an answer already.
    SameQuestion = "same_question";
    /// The digest is not that of the question: read it again, it is not the one that was shown.
    DigestMismatch = "digest_mismatch";
    /// The moment can no longer be answered; the message says what became of it.
    MomentNotOpen = "moment_not_open";
    /// Only the person who is asked may answer, with a key of their own (binding moment §11.4).
    NotThePrincipal = "not_the_principal";
    /// The question does not take an answer of this kind (binding moment §5.8).
    HatchClosed = "hatch_closed";
    /// The question was asked for a state of the job or the intent that is no longer so.
    CircumstancesChanged = "circumstances_changed";
    /// The intent's governance policy does not allow it; `detail` says which of its rules (RFC-0013).
    GovernanceViolation = "governance_violation";
    /// It was decided before: an approval, an escalation. The message says how.
    AlreadyDecided = "already_decided";
    /// Too many requests with this key; wait as long as `Retry-After` says.
    RateLimited = "rate_limited";
    /// Too many open streams or waiting requests with this key.
    TooManyStreams = "too_many_streams";
    /// The database cannot be reached, or the server is stopping; repeat after `Retry-After`.
    Unavailable = "unavailable";
    /// A defect of the server; the request id finds it in the log.
    Internal = "internal";
}

impl Code {
    /// The one of ARCP's codes (§12) that says the same: clients of its sockets drop every other (contract 3).
    #[must_use]
    pub fn fault(self) -> Fault {
        match self {
            Self::Unauthenticated => Fault::Unauthenticated,
            Self::ScopeMissing
            | Self::MayNotActAs
            | Self::Forbidden
            | Self::AccessClosed
            | Self::NotAMember
            | Self::TooManyStreams
            | Self::NotThePrincipal
            | Self::GovernanceViolation
            | Self::PermissionDenied => Fault::PermissionDenied,
            Self::NotFound | Self::JobNotFound => Fault::JobNotFound,
            Self::DuplicateKey | Self::IdempotencyMismatch => Fault::DuplicateKey,
            Self::LeaseSubsetViolation => Fault::LeaseSubsetViolation,
            Self::AgentNotAvailable => Fault::AgentNotAvailable,
            Self::AgentVersionNotAvailable => Fault::AgentVersionNotAvailable,
            Self::Cancelled => Fault::Cancelled,
            Self::LeaseExpired => Fault::LeaseExpired,
            Self::BudgetExhausted => Fault::BudgetExhausted,
            Self::ResumeWindowExpired => Fault::ResumeWindowExpired,
            Self::RateLimited
            | Self::RequestTimeout
            | Self::Unavailable
            | Self::Internal
            | Self::ResultTooLarge => Fault::InternalError,
            _ => Fault::InvalidRequest,
        }
    }
}

/// One thing that is wrong in a body: where, what kind of fault, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "ShownError")]
pub struct FieldError {
    /// The kind of fault, a stable word such as `missing` or `too_long`.
    pub kind: String,
    /// Where: `["body", "payload"]`.
    pub loc: Vec<String>,
    /// What is wrong and what would be right.
    pub msg: String,
}

/// A [`FieldError`] as it is written: its place twice, because its readers know one form or the other.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = FieldError)]
struct ShownError {
    /// The kind of fault, a stable word such as `missing` or `too_long`.
    #[serde(rename = "type")]
    #[schema(example = "missing")]
    kind: String,
    /// Where: `["body", "payload"]`.
    #[schema(example = json!(["body", "payload"]))]
    loc: Vec<String>,
    /// Where in the body, as a JSON Pointer (RFC 6901); not there when it is elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "/payload")]
    pointer: Option<String>,
    /// What is wrong and what would be right.
    #[schema(example = "the payload must be a JSON object")]
    msg: String,
}

impl From<FieldError> for ShownError {
    fn from(error: FieldError) -> Self {
        let FieldError { kind, loc, msg } = error;
        let pointer = loc.split_first().filter(|(first, _)| *first == "body").map(|(_, parts)| {
            let parts = parts.iter().map(|part| part.replace('~', "~0").replace('/', "~1"));
            parts.fold(String::new(), |pointer, part| pointer + "/" + &part)
        });
        Self { kind, loc, pointer, msg }
    }
}

impl utoipa::PartialSchema for FieldError {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        ShownError::schema()
    }
}

impl utoipa::ToSchema for FieldError {}

/// A refusal: a code for programs, a message for people, and where in the request the fault lies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Which of the closed list.
    pub code: Code,
    /// What happened, why, and what to do next: one or two sentences. A 409's message must not contain the letters
    /// "lease" unless it is about one, not even inside another word: a client takes them as a sign (contract 3.5).
    pub message: String,
    /// The faulty members, when the body is at fault.
    pub errors: Vec<FieldError>,
    /// The version that is current, on a [`Code::VersionConflict`].
    pub current_version: Option<i64>,
    /// The lease that is in the way, on a [`Code::LeaseHeld`].
    pub existing_lease: Option<Box<Lease>>,
    /// Seconds after which it is worth trying again, on a [`Code::RateLimited`] of the law's own.
    pub retry_after_seconds: Option<u64>,
    /// The first receipt, on a [`Code::DuplicateId`] of the same envelope.
    pub receipt: Option<Box<Receipt>>,
    /// What a policy says no to, on a [`Code::GovernanceViolation`].
    pub violation: Option<Box<Violation>>,
}

impl Refusal {
    /// A refusal with a code and a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            errors: Vec::new(),
            current_version: None,
            existing_lease: None,
            retry_after_seconds: None,
            receipt: None,
            violation: None,
        }
    }

    /// A refusal of one member of the body.
    pub fn field(code: Code, member: &str, kind: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let errors = vec![FieldError {
            kind: kind.to_owned(),
            loc: vec!["body".to_owned(), member.to_owned()],
            msg: message.clone(),
        }];
        Self { errors, ..Self::new(code, message) }
    }

    /// "No such thing", the same for what does not exist and for what the caller may not know of (design §3).
    #[must_use]
    pub fn not_found(noun: &str) -> Self {
        Self::new(
            Code::NotFound,
            format!("No such {noun}, or it is not visible to you. Check the id and who you act as."),
        )
    }

    /// The version that was read is not the current one.
    #[must_use]
    pub fn version_conflict(current: i64) -> Self {
        let mut refusal = Self::new(
            Code::VersionConflict,
            format!(
                "Version conflict: the current version is {current}. Read it again and repeat your change with If-Match: {current}."
            ),
        );
        refusal.current_version = Some(current);
        refusal
    }
}
