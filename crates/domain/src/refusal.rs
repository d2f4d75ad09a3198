//! Refusals: the closed list of error codes, and the details of a refusal.
//!
//! A refusal states the fault, its reason and the next step. It names no type of the protocols, so that each of them can
//! refuse. It does not know HTTP statuses; `crates/http/src/error.rs` maps codes to statuses.

pub mod held_lease;
pub mod spelling;
pub mod valid_choice;
pub mod violation;

use serde::Serialize;

use crate::refusal::held_lease::HeldLease;
use crate::refusal::valid_choice::ValidChoices;
use crate::refusal::violation::Violation;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $wire:tt;)+) => {
        /// Reason of a refusal: the `code` member of every error body.
        ///
        /// The list is closed; clients may switch on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, utoipa::ToSchema)]
        pub enum Code {
            $($(#[doc = $doc])+ #[serde(rename = $wire)] $name,)+
        }

        impl Code {
            /// All codes, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns the code as it appears in an error body.
            #[must_use]
            pub fn wire(self) -> &'static str {
                match self { $(Self::$name => $wire,)+ }
            }

            /// Returns the description of the code: its doc comment, which is also the `title` of error bodies.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

codes! {
    /// The body is not JSON.
    InvalidJson = "invalid_json";
    /// The body is JSON of the wrong shape: a member is missing, has the wrong type or an unknown value.
    InvalidRequest = "invalid_request";
    /// A parameter of the path, the query or a header cannot be read.
    InvalidParameter = "invalid_parameter";
    /// The request needs `If-Match` with the version that was last read.
    IfMatchRequired = "if_match_required";
    /// A task or a plan can only be changed with `If-Match`: send the version that was last read.
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
    /// The signature was not made with the required key (RFC-0018).
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
    /// It already exists: a principal, or another key under this name.
    AlreadyExists = "already_exists";
    /// Another agent has the task, or a later claim exists than the one named; take another task.
    ClaimConflict = "claim_conflict";
    /// The agent already has an active Ed25519 key; rotate or revoke it (RFC-0018).
    IdentityExists = "identity_exists";
    /// The channel is closed; nothing can be sent there any more.
    ChannelClosed = "channel_closed";
    /// The message has expired; it can be neither read nor answered.
    MessageExpired = "message_expired";
    /// The intent is completed or abandoned.
    IntentResolved = "intent_resolved";
    /// A lease on this scope, or on one that overlaps it, is held (RFC-0003); `existing_lease` names holder and expiry.
    LeaseHeld = "lease_held";
    /// The lease has ended; acquire a new one (RFC-0003).
    LeaseEnded = "lease_ended";
    /// The idempotency key was used with another request.
    IdempotencyMismatch = "idempotency_mismatch";
    /// The body did not arrive in time; nothing was changed, send it again.
    RequestTimeout = "request_timeout";
    /// The body or one of its parts exceeds its limit.
    TooLarge = "too_large";
    /// The JSON is nested too deeply.
    TooDeep = "too_deep";
    /// The text has a character that cannot be stored (NUL).
    NulCharacter = "nul_character";
    /// The value is well-formed but invalid in this context.
    Unprocessable = "unprocessable";
    /// `expires_at` lies in the past.
    AlreadyExpired = "already_expired";
    /// A response must answer a request of the same channel (RFC-0021 §2.3).
    NotARequest = "not_a_request";
    /// The proof on an event or a message was not made with its actor's key (RFC-0018).
    BadProof = "bad_proof";
    /// The message has no recipient: no agent holds the role on this channel.
    NoRecipient = "no_recipient";
    /// The intent would depend on itself, directly or through others (RFC-0002); leave out that dependency.
    DependencyCircle = "dependency_circle";
    /// The state machine has no such transition (RFC-0001 with the strict setting, RFC-0012).
    InvalidTransition = "invalid_transition";
    /// The lease does not cover the operation, or the caller may not perform it (ARCP §9.3).
    PermissionDenied = "PERMISSION_DENIED";
    /// A child asked for more than its parent has (ARCP §9.4).
    LeaseSubsetViolation = "LEASE_SUBSET_VIOLATION";
    /// The job does not exist, or is not visible to the caller.
    JobNotFound = "JOB_NOT_FOUND";
    /// The job's idempotency key was used for another job (ARCP §7.2).
    DuplicateKey = "DUPLICATE_KEY";
    /// No agent of this name runs jobs.
    AgentNotAvailable = "AGENT_NOT_AVAILABLE";
    /// The agent has no such version.
    AgentVersionNotAvailable = "AGENT_VERSION_NOT_AVAILABLE";
    /// The job was cancelled and may not do anything further.
    Cancelled = "CANCELLED";
    /// The job's lease has expired (ARCP §9.5).
    LeaseExpired = "LEASE_EXPIRED";
    /// A budget has too little left: the job's (ARCP §9.6), or one that it shares with others.
    BudgetExhausted = "BUDGET_EXHAUSTED";
    /// The missed events are no longer kept, or the token is not the latest one (ARCP §6.3).
    ResumeWindowExpired = "RESUME_WINDOW_EXPIRED";
    /// The worker's claim on the job has expired or was given back. Drop the job.
    ClaimLost = "CLAIM_LOST";
    /// The job is over.
    JobEnded = "JOB_ENDED";
    /// The job has no result, or none yet.
    NoResult = "NO_RESULT";
    /// A streamed result, or one of its chunks, is over its limit (ARCP §14).
    ResultTooLarge = "RESULT_TOO_LARGE";
    /// The envelope violates a MUST of AEE; `errors` lists every fault (AEE §6).
    InvalidEnvelope = "invalid_envelope";
    /// The envelope's `v` is not "1" (AEE §6.5).
    UnsupportedVersion = "unsupported_version";
    /// A log line of five members was sent as an envelope; send it to the logs (AEE §7.2).
    Mve5NotRoutable = "mve5_not_routable";
    /// The envelope was written too long ago, or ahead of the server's clock (AEE §11.1).
    OutsideWindow = "outside_window";
    /// An envelope with this id was accepted before; `receipt` is the first one's if both are equal (AEE §11.1).
    DuplicateId = "duplicate_id";
    /// The result or error does not fit the task that it names (AEE §6.3).
    ReplyMismatch = "reply_mismatch";
    /// The task has already ended, or its deadline has passed (AEE §4).
    TaskClosed = "task_closed";
    /// The envelope has a signature of a kind that cannot be verified here (AEE §11.2).
    SigUnverifiable = "sig_unverifiable";
    /// Envelopes must be signed here (AEE §11.2).
    SignatureRequired = "signature_required";
    /// The key may not send as the entity in `from` (AEE §11.5).
    FromMismatch = "from_mismatch";
    /// The recipient in `to` is not known here (AEE §5).
    UnknownRecipient = "unknown_recipient";
    /// The intent belongs to the protocol's reserved namespace (AEE §9.2).
    ReservedNamespace = "reserved_namespace";
    /// A policy forbids envelopes with this intent between these two entities (AEE §11.5).
    IntentNotAllowed = "intent_not_allowed";
    /// The payload violates the intent's schema, which is enforced (AEE §6.4).
    PayloadInvalid = "payload_invalid";
    /// A reference's hash does not match the envelope that it names (AEE §10.2).
    ReferenceHashMismatch = "reference_hash_mismatch";
    /// The binding moment is malformed; `errors` lists every fault with its location (binding moment §4, §5).
    InvalidMoment = "invalid_moment";
    /// The principal refused a question of this agent, and its objection is not answered yet (binding moment §6.2).
    DeliberationRequired = "deliberation_required";
    /// The principal refused this same question (binding moment §6.2), or it already waits for an answer.
    SameQuestion = "same_question";
    /// The digest does not match the question: it is not the one that was shown, read it again.
    DigestMismatch = "digest_mismatch";
    /// The moment can no longer be answered; the message states the reason.
    MomentNotOpen = "moment_not_open";
    /// Only the person asked may answer, with a key of their own (binding moment §11.4).
    NotThePrincipal = "not_the_principal";
    /// The question does not take an answer of this kind (binding moment §5.8).
    HatchClosed = "hatch_closed";
    /// The question depends on a state of the job or the intent that has changed.
    CircumstancesChanged = "circumstances_changed";
    /// The intent's governance policy does not allow it; `detail` names the violated rule (RFC-0013).
    GovernanceViolation = "governance_violation";
    /// The approval or escalation is already decided; the message states how.
    AlreadyDecided = "already_decided";
    /// What the request is about was stopped; the message names the stop and its reason.
    Stopped = "stopped";
    /// The agent has a later session than the one that the request names; this process must stop writing for it.
    StaleEpoch = "stale_epoch";
    /// Writes of this agent, or on this intent, have to name the epoch of the agent's session (`Entente-Epoch`).
    EpochRequired = "epoch_required";
    /// The agent was in a loop of messages that is stopped; it may go on when somebody sends it something new.
    LoopStopped = "loop_stopped";
    /// The agent is in a loop or a storm of messages and sends slowly for now; wait as long as `Retry-After` says.
    LoopSlowed = "loop_slowed";
    /// Too many requests with this key; wait as long as `Retry-After` says.
    RateLimited = "rate_limited";
    /// What the principal, or its team, stores has reached the quota of stored bytes; the message says whose, and what to do.
    StorageFull = "storage_full";
    /// Too many open streams or waiting requests with this key.
    TooManyStreams = "too_many_streams";
    /// The database cannot be reached, or the server is stopping; repeat after `Retry-After`.
    Unavailable = "unavailable";
    /// A defect of the server; the request id finds it in the log.
    Internal = "internal";
}

/// One fault in a body: its location, its kind, and the expected value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "ShownError")]
pub struct FieldError {
    /// Kind of fault, a stable term such as `missing` or `too_long`.
    pub kind: String,
    /// Location: `["body", "payload"]`.
    pub loc: Vec<String>,
    /// Description of the fault and of the expected value.
    pub msg: String,
}

/// A fault in a request; gives its location in two forms, because clients read one or the other.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = FieldError)]
struct ShownError {
    /// Kind of fault, a stable term such as `missing` or `too_long`.
    #[serde(rename = "type")]
    #[schema(example = "missing")]
    kind: String,
    /// Location: `["body", "payload"]`.
    #[schema(example = json!(["body", "payload"]))]
    loc: Vec<String>,
    /// Location in the body, as a JSON Pointer (RFC 6901); absent for faults elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "/payload")]
    pointer: Option<String>,
    /// Description of the fault and of the expected value.
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

/// A refusal: a code for programs, a message for people, and the locations of the faults in the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Error code.
    pub code: Code,
    /// Description, reason and next step: one or two sentences.
    ///
    /// The message of a 409 must not contain the text "lease" unless it concerns a lease, not even inside another
    /// word: a client matches it (OI-3.5.3).
    pub message: String,
    /// Invalid members, if the body is at fault.
    pub errors: Vec<FieldError>,
    /// Current version, on a [`Code::VersionConflict`].
    pub current_version: Option<i64>,
    /// Conflicting lease, on a [`Code::LeaseHeld`].
    pub existing_lease: Option<Box<HeldLease>>,
    /// Seconds after which a retry makes sense, on a [`Code::RateLimited`] by the domain rules.
    pub retry_after_seconds: Option<u32>,
    /// The first receipt as JSON text, on a [`Code::DuplicateId`] of the same envelope.
    pub receipt: Option<Box<str>>,
    /// Details of the violation, on a [`Code::GovernanceViolation`].
    pub violation: Option<Box<Violation>>,
    /// The choices of the question, on an answer that is none of them (RFC-0025 §8).
    pub valid_choices: Option<Box<ValidChoices>>,
}

impl Refusal {
    /// Creates a refusal with a code and a message.
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
            valid_choices: None,
        }
    }

    /// Creates a refusal of one member of the body.
    pub fn field(code: Code, member: &str, kind: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let errors = vec![FieldError {
            kind: kind.to_owned(),
            loc: vec!["body".to_owned(), member.to_owned()],
            msg: message.clone(),
        }];
        Self { errors, ..Self::new(code, message) }
    }

    /// Says that the refusal is about an item of the body's list `member`.
    #[must_use]
    pub fn of_item(mut self, member: &str, index: usize) -> Self {
        for error in
            self.errors.iter_mut().filter(|error| error.loc.first().is_some_and(|place| place == "body"))
        {
            error.loc.splice(1..1, [member.to_owned(), index.to_string()]);
        }
        self.message = format!("`{member}` at place {index}: {}", self.message);
        self
    }

    /// Creates a "not found" refusal: the same for missing items and for items the caller may not know of.
    #[must_use]
    pub fn not_found(noun: &str) -> Self {
        Self::new(
            Code::NotFound,
            format!("No such {noun}, or it is not visible to you. Check the id and who you act as."),
        )
    }

    /// Creates the refusal of a change against an outdated version.
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
