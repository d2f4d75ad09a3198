//! Routes of suspensions (RFC-0025): an intent waits for a person's answer.

use actix_web::{HttpRequest, get, post, web};
use entente_domain::ids::{IntentId, MomentId};
use entente_domain::keys::Dialect;
use entente_domain::limits::PAGE;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::suspensions::{FallbackPolicy, ResponseType, SuspensionState};
use entente_kernel::suspensions::{self, Said, Shown, Whom};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::body::{Body, Query, id, once_of, one};
use super::caller::Asker;
use super::error::{ProblemBody, Reply};
use super::wire::WireTime;
use super::{Doors, created, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(suspend).service(respond).service(list);
}

/// One of the answers that may be chosen.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = NewSuspensionChoice)]
struct ChoiceBody {
    /// What the asker gets.
    #[schema(example = "approve")]
    value: String,
    /// What the person reads; the value when nothing is said.
    #[schema(example = "Approve the refund")]
    label: Option<String>,
    /// What more there is to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// `primary` for the one that the asker recommends.
    #[serde(skip_serializing_if = "Option::is_none")]
    style: Option<String>,
    /// The asker's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// A question to suspend an intent with.
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
    /// What kind of answer is expected; `choice` when nothing is said.
    #[serde(default)]
    response_type: ResponseType,
    /// The answers that may be chosen; a confirmation without any has yes and no.
    #[serde(default)]
    choices: Vec<ChoiceBody>,
    /// What helps to decide: shown to the person as findings.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    context: Map<String, Value>,
    /// Where the asker would have it delivered; the asker's own word.
    channel_hint: Option<String>,
    /// For how many seconds it stands; for ever when nothing is said.
    #[schema(value_type = Option<u32>)]
    timeout_seconds: Option<Value>,
    /// What follows then; `fail` when nothing is said.
    #[serde(default)]
    fallback_policy: FallbackPolicy,
    /// With what.
    fallback_value: Option<Value>,
    /// How the person is to be reached again (RFC-0026), as the SDK has it.
    #[schema(value_type = Option<Object>)]
    retry_policy: Option<Map<String, Value>>,
    /// How sure the asker is, 0 to 1.
    #[serde(alias = "confidence")]
    confidence_at_suspension: Option<f64>,
    /// Why the asker asks: the SDK's engagement decision.
    #[schema(value_type = Option<Object>)]
    decision_record: Option<Map<String, Value>>,
    /// The person who is asked; else the intent's creator or first admin who is a person, else whom the operator has named.
    principal_id: Option<String>,
    /// A second person, asked when nobody has answered in time.
    escalate_to: Option<String>,
    /// After how many seconds.
    escalate_after: Option<u32>,
    /// The refused question whose place this one takes (binding moment §6.2).
    supersedes: Option<String>,
    /// How the objection to that one was answered.
    objection_response: Option<String>,
}

impl SuspendBody {
    /// The record as the SDK writes it, and whom it is for.
    fn parts(self) -> Result<(Map<String, Value>, Whom), Refusal> {
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
        let whom = Whom {
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

/// A question that an intent waits with, or has waited with.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Suspension)]
struct SuspensionBody {
    /// Its id, to be named with an answer.
    id: String,
    /// The same, as an answer names it.
    suspension_id: String,
    /// The intent.
    intent_id: IntentId,
    /// Its number among the intent's questions, from 1: where a list goes on.
    n: i64,
    /// Who asks.
    asked_by: String,
    /// What has become of it.
    state: SuspensionState,
    /// The same, in the SDK's words; null while it waits.
    resolution: Option<SuspensionState>,
    /// The binding moment by which a person is asked.
    moment_id: Option<MomentId>,
    /// Why nobody is: `nobody_to_ask`, `key_asks_nobody`, or the code of the refusal. Then a person who administers the intent answers.
    unasked: Option<String>,
    /// What follows when nobody answers in time.
    fallback_policy: FallbackPolicy,
    /// When it was asked.
    suspended_at: WireTime,
    /// When the fallback counts.
    expires_at: Option<WireTime>,
    /// When it was over.
    ended_at: Option<WireTime>,
    /// Who answered.
    responded_by: Option<String>,
    /// Why it was called off: `refused` and `refused_before`, `withdrawn`, `called_off`, `status_changed`.
    reason: Option<String>,
    /// The question and what came of it, as the intent's state has it under `_suspension`; null when a later one stands there.
    #[schema(value_type = Option<Object>)]
    record: Option<Map<String, Value>>,
}

impl SuspensionBody {
    fn new(shown: Shown, now: entente_domain::clock::Timestamp, dialect: Dialect) -> Self {
        let Shown { suspension: one, record } = shown;
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
/// Until a person has answered, the time is over, or somebody gives it another status. The question becomes a binding moment
/// before that person; the answer goes into the intent's state under `_suspension`, where the SDK looks for it.
#[utoipa::path(operation_id = "suspend_intent", tag = "suspensions", request_body = SuspendBody,
    params(("intent_id" = String, Path, description = "The intent"),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 201, description = "The question", body = SuspensionBody),
              (status = 409, description = "`invalid_transition` when it waits already; `same_question`, `deliberation_required`", body = ProblemBody)))]
#[post("/intents/{intent_id}/suspend")]
async fn suspend(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<SuspendBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let (record, whom) = body.value.parts()?;
    let ctx = &doors.ctx;
    let made = suspensions::suspend(ctx, &asker.caller, intent_id, record, whom, once.as_ref()).await?;
    created(&SuspensionBody::new(made, ctx.now(), asker.dialect))
}

/// An answer.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SuspensionAnswer)]
#[schema(example = json!({ "suspension_id": "susp_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "value": "yes" }))]
struct RespondBody {
    /// The question that is answered.
    suspension_id: Option<String>,
    /// The answer: one of the choices, words, or an object.
    #[serde(default)]
    value: Value,
    /// Who answers: nobody but the person whose key this is.
    responded_by: Option<String>,
    /// What else the surface says.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// The digest of the binding moment, for who has read that.
    envelope_digest: Option<String>,
}

/// An answer that counts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SuspensionAnswered)]
struct RespondedBody {
    /// The intent.
    intent_id: IntentId,
    /// The question.
    suspension_id: String,
    /// What has become of it.
    resolution: SuspensionState,
    /// The answer.
    value: Value,
    /// The label of the choice that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    choice_label: Option<String>,
    /// What more there is to say of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    choice_description: Option<String>,
    /// Who answered.
    responded_by: Option<String>,
    /// When.
    responded_at: WireTime,
}

/// Answer the question that an intent waits with
///
/// Only a person answers, with a login or a key of their own. Where one is asked, only that one: that closes the binding moment. Where
/// nobody could be, a person who administers the intent, or whom the operator has named for such questions, and who does not ask. The same
/// answer again is a retry.
#[utoipa::path(operation_id = "respond_to_suspension", tag = "suspensions", request_body = RespondBody,
    params(("intent_id" = String, Path, description = "The intent"),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 200, description = "The answer", body = RespondedBody),
              (status = 403, description = "`not_the_principal`", body = ProblemBody),
              (status = 409, description = "`invalid_transition`: it does not wait with this question", body = ProblemBody)))]
#[post("/intents/{intent_id}/suspend/respond")]
async fn respond(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<RespondBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    // Of an answer no hash is kept: a short one could be guessed.
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
    let said =
        Said { suspension_id, value: body.value, metadata: body.metadata, digest: body.envelope_digest };
    let done = suspensions::respond(&doors.ctx, &asker.caller, intent_id, said, once.as_ref()).await?;
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
    /// The questions, the newest first.
    suspensions: Vec<SuspensionBody>,
}

/// List the questions that an intent waits and has waited with
#[utoipa::path(operation_id = "list_suspensions", tag = "suspensions",
    params(("intent_id" = String, Path, description = "The intent"),
           ("before" = Option<i64>, Query, description = "Only older ones: the last `n` of the previous page"),
           ("limit" = Option<u32>, Query, description = "At most this many, 1 to 1,000; 50 when nothing is said", maximum = 1000)),
    responses((status = 200, description = "The questions", body = SuspensionList)))]
#[get("/intents/{intent_id}/suspensions")]
async fn list(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let before = query.parsed("before", "a number", |text| text.parse().ok())?;
    let limit = query.limit(50.min(PAGE))?;
    let found = suspensions::list(&doors.ctx, &asker.caller, intent_id, before, limit).await?;
    let now = doors.ctx.now();
    let suspensions = found.into_iter().map(|one| SuspensionBody::new(one, now, asker.dialect)).collect();
    ok(&SuspensionList { suspensions })
}
