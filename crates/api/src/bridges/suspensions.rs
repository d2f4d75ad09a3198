//! Routes of suspensions (RFC-0025): an intent waits for a person's answer.

use actix_web::{HttpRequest, get, post, web};
use entente_bridges::suspensions;
use entente_bridges::suspensions::{Addressee, Answer, SuspensionView};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{IntentId, MomentId};
use entente_domain::limits::PAGE;
use entente_domain::openintent::suspensions::{FallbackPolicy, ResponseType, SuspensionState};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, IdempotencyKey, Query, id, once_of, one};
use entente_http::caller::Asker;
use entente_http::error::{ProblemBody, Reply};
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_http::{created, ok};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(suspend).service(respond).service(list);
}

/// An answer to choose from.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = NewSuspensionChoice)]
struct ChoiceBody {
    /// Value returned to the asking agent.
    #[schema(example = "approve")]
    value: String,
    /// Label shown to the person; defaults to the value.
    #[schema(example = "Approve the refund")]
    label: Option<String>,
    /// Description of the choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// `primary` for the choice that the asking agent recommends.
    #[serde(skip_serializing_if = "Option::is_none")]
    style: Option<String>,
    /// Metadata, an object of the client's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// A question that suspends an intent.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewSuspension)]
#[schema(example = json!({
    "question": "Refund order 12345?", "response_type": "confirm", "principal_id": "human.ada",
    "context": { "amount": "499.99 USD" }, "timeout_seconds": 3600, "fallback_policy": "complete_with_fallback",
    "fallback_value": "no",
}))]
struct SuspendBody {
    /// The question.
    question: String,
    /// Expected kind of answer; defaults to `choice`.
    #[serde(default)]
    response_type: ResponseType,
    /// Answers to choose from; a confirmation without choices offers yes and no.
    #[serde(default)]
    choices: Vec<ChoiceBody>,
    /// Context of the question, shown to the person as findings.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    context: Map<String, Value>,
    /// Preferred delivery channel, a free-form word of the client's.
    channel_hint: Option<String>,
    /// Seconds until the question expires; defaults to never.
    #[schema(value_type = Option<u32>)]
    timeout_seconds: Option<Value>,
    /// Fallback when the question expires; defaults to `fail`.
    #[serde(default)]
    fallback_policy: FallbackPolicy,
    /// Value of the fallback.
    fallback_value: Option<Value>,
    /// How to notify the person again (RFC-0026), in the SDK's format.
    #[schema(value_type = Option<Object>)]
    retry_policy: Option<Map<String, Value>>,
    /// Confidence of the asking agent, 0 to 1.
    #[serde(alias = "confidence")]
    confidence_at_suspension: Option<f64>,
    /// Reason for asking: the SDK's engagement decision.
    #[schema(value_type = Option<Object>)]
    decision_record: Option<Map<String, Value>>,
    /// The person to ask; defaults to the intent's creator or first admin who is a person, else the person
    /// named by the operator.
    principal_id: Option<String>,
    /// A second person, asked as well if nobody has answered in time.
    escalate_to: Option<String>,
    /// Seconds until the second person is asked.
    escalate_after: Option<u32>,
    /// The refused question that this one replaces (binding moment §6.2).
    supersedes: Option<String>,
    /// How the objection to the replaced question was addressed.
    objection_response: Option<String>,
}

impl SuspendBody {
    /// Returns the record in the SDK's format, and its addressees.
    fn parts(self) -> Result<(Map<String, Value>, Addressee), Refusal> {
        let second = match (self.escalate_to, self.escalate_after) {
            (Some(to), Some(after)) => Some((to, after)),
            (None, None) => None,
            (to, _) => {
                let member = if to.is_some() { "escalate_after" } else { "escalate_to" };
                let message =
                    "`escalate_to` and `escalate_after` go together: to whom, and after how many seconds.";
                return Err(Refusal::field(Code::InvalidRequest, member, "missing", message));
            }
        };
        let whom = Addressee {
            person: self.principal_id,
            second,
            supersedes: one::<MomentId>("supersedes", self.supersedes)?,
            objection_response: self.objection_response,
        };
        let members = [
            ("question", json!(self.question)),
            ("response_type", json!(self.response_type)),
            ("choices", json!(self.choices)),
            ("context", json!(self.context)),
            ("channel_hint", json!(self.channel_hint)),
            ("timeout_seconds", json!(self.timeout_seconds)),
            ("fallback_policy", json!(self.fallback_policy)),
            ("fallback_value", json!(self.fallback_value)),
            ("retry_policy", json!(self.retry_policy)),
            ("confidence_at_suspension", json!(self.confidence_at_suspension)),
            ("decision_record", json!(self.decision_record)),
        ];
        let said = members.into_iter().filter(|(_, value)| !value.is_null());
        Ok((said.map(|(name, value)| (name.to_owned(), value)).collect(), whom))
    }
}

/// A present or past question of an intent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Suspension)]
struct SuspensionBody {
    /// Suspension id, which an answer must name.
    id: String,
    /// Same as `id`, under the name that an answer uses.
    suspension_id: String,
    /// The intent.
    intent_id: IntentId,
    /// Number of the question within the intent, from 1; the cursor of lists.
    n: i64,
    /// Agent that asked.
    asked_by: String,
    /// State of the question.
    state: SuspensionState,
    /// Same as `state`, in the SDK's terms; null while the question is open.
    resolution: Option<SuspensionState>,
    /// The binding moment through which a person is asked.
    moment_id: Option<MomentId>,
    /// Why no person is asked: `nobody_to_ask`, `key_asks_nobody`, or the code of the refusal; a person with
    /// admin access to the intent may then answer.
    unasked: Option<String>,
    /// Fallback when the question expires unanswered.
    fallback_policy: FallbackPolicy,
    /// When the question was asked.
    suspended_at: WireTime,
    /// When the fallback takes effect.
    expires_at: Option<WireTime>,
    /// When the question ended.
    ended_at: Option<WireTime>,
    /// The answering person.
    responded_by: Option<String>,
    /// Reason for the cancellation: `refused`, `refused_before`, `withdrawn`, `called_off` or
    /// `status_changed`.
    reason: Option<String>,
    /// Question and outcome, as stored in the intent's state under `_suspension`; null once a later question
    /// is stored there.
    #[schema(value_type = Option<Object>)]
    record: Option<Map<String, Value>>,
}

impl SuspensionBody {
    fn new(shown: SuspensionView, now: entente_domain::clock::Timestamp, dialect: Dialect) -> Self {
        let SuspensionView { suspension: one, record } = shown;
        let at = |at| WireTime::new(at, dialect);
        let state = one.state_at(now);
        let ended = one.ended_at.or(one.expires_at.filter(|_| state == SuspensionState::Expired));
        Self {
            suspension_id: one.id.clone(),
            id: one.id,
            intent_id: one.intent_id,
            n: one.n,
            asked_by: one.asked_by,
            state,
            resolution: Some(state).filter(|state| *state != SuspensionState::Open),
            moment_id: one.moment_id,
            unasked: one.unasked,
            fallback_policy: one.fallback,
            suspended_at: at(one.created_at),
            expires_at: one.expires_at.map(at),
            ended_at: ended.map(at),
            responded_by: one.responded_by,
            reason: one.end_reason,
            record,
        }
    }
}

/// Suspend an intent
///
/// The suspension lasts until a person answers, the time limit passes, or the intent's status is changed. The
/// question is put to that person as a binding moment; the answer is stored in the intent's state under
/// `_suspension`, where the SDK looks for it.
#[utoipa::path(operation_id = "suspend_intent", tag = "suspensions", request_body = SuspendBody, params(IdempotencyKey),
    responses((status = 201, description = "The question", body = SuspensionBody),
              (status = 409, description = "`invalid_transition`: the intent is already suspended; `same_question`; `deliberation_required`", body = ProblemBody)))]
#[post("/intents/{intent_id}/suspend")]
async fn suspend(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<SuspendBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let (record, whom) = body.value.parts()?;
    let ctx = &api.ctx;
    let made = suspensions::suspend(ctx, &asker.caller, intent_id, record, whom, once.as_ref()).await?;
    created(&SuspensionBody::new(made, ctx.now(), asker.dialect))
}

/// An answer.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SuspensionAnswer)]
#[schema(example = json!({ "suspension_id": "susp_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "value": "yes" }))]
struct RespondBody {
    /// The question to answer.
    suspension_id: Option<String>,
    /// The answer: one of the choices, text, or an object.
    #[serde(default)]
    value: Value,
    /// Person who answers; only the person that the key belongs to is accepted.
    responded_by: Option<String>,
    /// Further data from the client's user interface.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// Digest of the binding moment, if the person has read it.
    envelope_digest: Option<String>,
}

/// An accepted answer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SuspensionAnswered)]
struct RespondedBody {
    /// The intent.
    intent_id: IntentId,
    /// The question.
    suspension_id: String,
    /// Resulting state of the question.
    resolution: SuspensionState,
    /// The answer.
    value: Value,
    /// Label of the chosen answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    choice_label: Option<String>,
    /// Description of the chosen answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    choice_description: Option<String>,
    /// The answering person.
    responded_by: Option<String>,
    /// When the question was answered.
    responded_at: WireTime,
}

/// Answer an intent's question
///
/// Only a person may answer, with a login or a key of their own. If the question was put to a person, only
/// that person may answer, which closes the binding moment. If nobody could be asked, the intent's admins and
/// the person named by the operator may answer, except the asker. Repeating the same answer is treated as a
/// retry.
#[utoipa::path(operation_id = "respond_to_suspension", tag = "suspensions", request_body = RespondBody, params(IdempotencyKey),
    responses((status = 200, description = "The answer", body = RespondedBody),
              (status = 403, description = "`not_the_principal`", body = ProblemBody),
              (status = 409, description = "`invalid_transition`: the intent is not suspended with this question", body = ProblemBody),
              (status = 422, description = "`invalid_request`; for a value that is no choice, `valid_choices` has those that are", body = ProblemBody)))]
#[post("/intents/{intent_id}/suspend/respond")]
async fn respond(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<RespondBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    // No hash of the answer is stored, because a short one could be guessed.
    let once = once_of(&request)?;
    let body = body.value;
    let named = body.suspension_id.filter(|id| !id.is_empty());
    let suspension_id = named.ok_or_else(|| {
        let message = "`suspension_id` is missing: the `id` of `_suspension` in the intent's state.";
        Refusal::field(Code::InvalidRequest, "suspension_id", "missing", message)
    })?;
    let by = body.responded_by.filter(|name| !name.is_empty());
    if by.is_some_and(|name| name != asker.caller.agent) {
        let message = "`responded_by` names somebody else than this key's own person. Who answers does so with a key of their own; leave \
                       it out.";
        return Err(Refusal::field(Code::NotThePrincipal, "responded_by", "another", message).into());
    }
    let answer =
        Answer { suspension_id, value: body.value, metadata: body.metadata, digest: body.envelope_digest };
    let done = suspensions::respond(&api.ctx, &asker.caller, intent_id, answer, once.as_ref()).await?;
    let (choice_label, choice_description) = done.choice.unzip();
    ok(&RespondedBody {
        intent_id,
        suspension_id: done.suspension.id,
        resolution: done.suspension.state,
        value: done.value,
        choice_label,
        choice_description,
        responded_by: done.suspension.responded_by,
        responded_at: WireTime::new(done.at, asker.dialect),
    })
}

/// The questions of an intent.
#[derive(Debug, Serialize, ToSchema)]
struct SuspensionList {
    /// The questions, newest first.
    suspensions: Vec<SuspensionBody>,
}

/// List an intent's questions
#[utoipa::path(operation_id = "list_suspensions", tag = "suspensions",
    params(("before" = Option<i64>, Query, description = "Only questions older than this one: the last `n` of the previous page"),
           ("limit" = Option<u32>, Query, description = "Page size, 1 to 1,000; defaults to 50", maximum = 1000)),
    responses((status = 200, description = "The questions", body = SuspensionList)))]
#[get("/intents/{intent_id}/suspensions")]
async fn list(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let before = query.parsed("before", "a number", |text| text.parse().ok())?;
    let limit = query.limit(50.min(PAGE))?;
    let found = suspensions::list(&api.ctx, &asker.caller, intent_id, before, limit).await?;
    let now = api.ctx.now();
    let suspensions = found.into_iter().map(|one| SuspensionBody::new(one, now, asker.dialect)).collect();
    ok(&SuspensionList { suspensions })
}
