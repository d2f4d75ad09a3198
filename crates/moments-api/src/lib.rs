//! Routes of binding moments: asking a person, deliberating, listing and following. The response format is in
//! `moments/shape.rs`, the actions on a moment in `moments/verbs.rs`.

mod shape;
mod verbs;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpRequest, get, post, web};
use bytes::BytesMut;
use entente_domain::identity::attestations::Attestation;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{IntentId, JobId, MomentId};
use entente_domain::limits::MOMENT_PAGE;
use entente_domain::moments::rates::Rates;
use entente_domain::moments::receipts;
use entente_domain::moments::{MomentAsk, MomentState, ValidWhile};
use entente_domain::refusal::Refusal;
use entente_http::body::{Body, IdempotencyKey, LastEventId, Query, id, once_about, one};
use entente_http::caller::Asker;
use entente_http::error::{Problem, Reply};
use entente_http::live::{Chunk, Source, last_event_id, respond, unreadable, write};
use entente_http::presence::Presence;
use entente_http::routes::Routes;
use entente_http::{HttpState, created, ok};
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{AppError, Caller, not_found};
use entente_moments as moments;
use entente_moments::MomentFilter;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use self::shape::{EmittedBody, MomentBody};

/// Maximum seconds for which a request may wait for a change of a moment.
const WAIT_SECONDS: u32 = 25;

/// Moments read at once for a stream.
const STEP: u32 = 100;

/// State of the handlers; dereferences to the HTTP layer's.
pub struct ApiState {
    /// State of the HTTP layer.
    pub http: Arc<HttpState>,
    /// Context of binding moments' operations.
    pub ctx: entente_moments::Ctx,
}

impl Deref for ApiState {
    type Target = HttpState;

    fn deref(&self) -> &Self::Target {
        &self.http
    }
}

/// Registers the routes.
pub fn routes(config: &mut Routes<'_>) {
    // Fixed paths come before the one with a parameter.
    config.service(emit).service(list).service(inbox).service(follow).service(rates).service(deliberate);
    config.service(get).service(receipt);
    verbs::routes(config);
}

/// Builds the ask common to both bodies, which are two structs because `deny_unknown_fields` does not work with a flattened
/// one.
macro_rules! asked {
    ($said:ident) => {
        MomentAsk {
            principal_id: $said.principal_id,
            job_id: one::<JobId>("job_id", $said.job_id)?,
            intent_id: one::<IntentId>("intent_id", $said.intent_id)?,
            corr: $said.corr,
            hatch_justification: $said.hatch_justification,
            supersedes: one("supersedes", $said.supersedes)?,
            objection_response: $said.objection_response,
            expires_in: $said.expires_in,
            escalate_to: $said.escalate_to,
            escalate_after: $said.escalate_after,
            valid_while: $said.valid_while,
            ..MomentAsk::default()
        }
    };
}

/// A question to a person.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewMoment, example = json!({
    "principal_id": "human.ada",
    "binding_moment": {
        "synopsis": "Ship 1.4 today.", "findings": ["CI is green.", "Two of three reviewers approved."],
        "recommendations": ["Tag v1.4.", "Publish to the registry."], "offer": "Ask for detail on any item.",
        "question": {
            "stem": "When should release 1.4 ship?",
            "options": [{ "label": "Ship now", "reasoning": "All checks pass." },
                        { "label": "Wait a day", "reasoning": "The third reviewer is back tomorrow." }],
            "recommended_idx": 0
        },
        "meta": { "decision_class": "release" }
    },
    "expires_in": 3600
}))]
struct EmitBody {
    /// Agent that asks; defaults to the acting agent.
    agent_id: Option<String>,
    /// The one person who is asked.
    #[serde(alias = "principal")]
    principal_id: String,
    /// The eight slots; if `question.hatches` is omitted, both hatches are open.
    #[schema(value_type = Object)]
    binding_moment: Value,
    /// The job that waits for the answer; it must be one that the caller works on.
    job_id: Option<String>,
    /// The intent that the question concerns; defaults to the job's.
    intent_id: Option<String>,
    /// Correlation id of the caller's choice.
    corr: Option<String>,
    /// Justification for a closed hatch; required if a hatch is closed.
    hatch_justification: Option<String>,
    /// The refused question that this one replaces.
    supersedes: Option<String>,
    /// How the objection to the replaced question was addressed; shown above the question.
    objection_response: Option<String>,
    /// Seconds until the question expires: 60 to 2,592,000; defaults to 86,400; expiry approves nothing.
    expires_in: Option<u32>,
    /// A second person, asked as well if nobody has answered.
    escalate_to: Option<String>,
    /// Seconds until the escalation.
    escalate_after: Option<u32>,
    /// State of the job or intent in which an answer is valid.
    #[serde(default)]
    valid_while: ValidWhile,
    /// Text for clients that cannot display the slots.
    fallback_text: Option<String>,
}

impl EmitBody {
    fn ask(self) -> Result<MomentAsk, Refusal> {
        Ok(MomentAsk { fallback_text: self.fallback_text, ..asked!(self) })
    }
}

/// Ask a person
///
/// The answer arrives through `GET …?wait=`, the stream or a webhook. Weaknesses of the question are listed in `lints`, but
/// it is asked anyway; withdraw it to ask a better one. After a refusal, deliberate first, then set `supersedes` and
/// `objection_response`.
#[utoipa::path(operation_id = "emit_moment", tag = "moments", request_body = EmitBody, params(IdempotencyKey),
    responses((status = 201, description = "The question was asked", body = EmittedBody), (status = 200, description = "The question was already asked", body = EmittedBody)))]
#[post("/moments")]
async fn emit(request: HttpRequest, api: web::Data<ApiState>, asker: Asker, body: Body<EmitBody>) -> Reply {
    let once = body.once(&request)?;
    let mut said = body.value;
    let strict = api.ctx.settings.strict;
    let agent = asker.caller.speaker("agent_id", said.agent_id.as_deref(), strict)?;
    let caller = asker.caller.acting_as(agent);
    let brief = said.binding_moment.take();
    let emitted = moments::emit(&api.ctx, &caller, &brief, said.ask()?, once.as_ref()).await?;
    let body = EmittedBody::new(&emitted, asker.dialect);
    if emitted.repeated { ok(&body) } else { created(&body) }
}

/// A deliberation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDeliberation, example = json!({ "principal_id": "human.ada", "text": "I cannot tell yet whether 1.4 is ready: two findings contradict each other." }))]
struct DeliberateBody {
    /// Agent that deliberates; defaults to the acting agent.
    agent_id: Option<String>,
    /// The person to deliberate with.
    #[serde(alias = "principal")]
    principal_id: String,
    /// The job that waits for the deliberation; it must be one that the caller works on.
    job_id: Option<String>,
    /// The intent that the deliberation concerns; defaults to the job's.
    intent_id: Option<String>,
    /// Correlation id of the caller's choice.
    corr: Option<String>,
    /// The first message.
    text: String,
    // Fields that only a question has are parsed too, so that the domain rules can refuse them with a specific message.
    #[schema(ignore)]
    hatch_justification: Option<String>,
    #[schema(ignore)]
    supersedes: Option<String>,
    #[schema(ignore)]
    objection_response: Option<String>,
    #[schema(ignore)]
    expires_in: Option<u32>,
    #[schema(ignore)]
    escalate_to: Option<String>,
    #[schema(ignore)]
    escalate_after: Option<u32>,
    #[serde(default)]
    #[schema(ignore)]
    valid_while: ValidWhile,
}

impl DeliberateBody {
    fn ask(self) -> Result<MomentAsk, Refusal> {
        Ok(asked!(self))
    }
}

/// Deliberate with a person
///
/// Shares the agent's thinking in place of a question that it cannot commit to yet. It costs nothing and asks nothing.
#[utoipa::path(operation_id = "deliberate", tag = "moments", request_body = DeliberateBody, params(IdempotencyKey),
    responses((status = 201, description = "The deliberation", body = MomentBody),
              (status = 200, description = "The deliberation was already begun", body = MomentBody)))]
#[post("/moments/deliberations")]
async fn deliberate(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    body: Body<DeliberateBody>,
) -> Reply {
    let mut said = body.value;
    let strict = api.ctx.settings.strict;
    let agent = asker.caller.speaker("agent_id", said.agent_id.as_deref(), strict)?;
    let caller = asker.caller.acting_as(agent);
    let text = std::mem::take(&mut said.text);
    let ask = said.ask()?;
    // Only the subject is hashed, not the text: a hash of the first message could be guessed.
    let once = once_about(&request, &ask.begins())?;
    let begun = moments::deliberate(&api.ctx, &caller, ask, &text, once.as_ref()).await?;
    let body = MomentBody::new(&begun.shown, asker.dialect);
    if begun.repeated { ok(&body) } else { created(&body) }
}

/// A page of moments.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MomentList)]
struct ListBody {
    /// The moments.
    moments: Vec<MomentBody>,
    /// Cursor of the next page; null at the end; a short or empty page is not the end.
    next_cursor: Option<MomentId>,
}

/// List moments
///
/// Returns the moments that the caller asked or is asked, newest first; with the scope `admin`, everyone's, without the
/// person's text. Entries carry only the number of messages; get a single moment for their text. Filtered lists are scanned
/// in portions: a page may be short or empty and still have a `next_cursor`. Continue until it is null.
#[utoipa::path(operation_id = "list_moments", tag = "moments",
    params(("state" = Option<MomentState>, Query, description = "Only moments in this state"),
           ("principal" = Option<String>, Query, description = "Only moments addressed to this person"),
           ("agent" = Option<String>, Query, description = "Only moments of this agent"),
           ("class" = Option<String>, Query, description = "Only moments of this decision class"),
           ("job" = Option<String>, Query, description = "Only moments of this job"),
           ("intent" = Option<String>, Query, description = "Only moments of this intent"),
           ("limit" = Option<u32>, Query, description = "Page size, 1 to 100; defaults to 100"),
           ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page")),
    responses((status = 200, description = "The moments", body = ListBody)))]
#[get("/moments")]
async fn list(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let text = |name: &str| query.text(name).map(str::to_owned);
    let filter = MomentFilter {
        state: query.parsed("state", "a state of a moment", MomentState::parse)?,
        principal: text("principal"),
        agent: text("agent"),
        class: text("class"),
        job: query.parsed("job", "a job's id", |text| text.parse().ok())?,
        intent: query.parsed("intent", "an intent's id", |text| text.parse().ok())?,
        limit: limit(&query)?,
        before: query.parsed("cursor", "a cursor of this list", |text| text.parse().ok())?,
    };
    let (found, next_cursor) = moments::list(&api.ctx, &asker.caller, &filter).await?;
    let moments = found.iter().map(|shown| MomentBody::new(shown, asker.dialect)).collect();
    ok(&ListBody { moments, next_cursor })
}

/// List the moments in the caller's inbox
///
/// Returns the open questions and deliberations addressed to the caller as a person, earliest deadline first, without the
/// messages' text.
#[utoipa::path(operation_id = "moments_inbox", tag = "moments",
    params(("limit" = Option<u32>, Query, description = "Page size, 1 to 100; defaults to 100"),
           ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page")),
    responses((status = 200, description = "The moments", body = ListBody)))]
#[get("/moments/inbox")]
async fn inbox(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let after = query.parsed("cursor", "a cursor of this list", |text| text.parse().ok())?;
    let (found, next_cursor) = moments::inbox(&api.ctx, &asker.caller, limit(&query)?, after).await?;
    let moments = found.iter().map(|shown| MomentBody::new(shown, asker.dialect)).collect();
    ok(&ListBody { moments, next_cursor })
}

/// Returns the requested page size.
fn limit(query: &Query) -> Result<u32, Problem> {
    query.number("limit", MOMENT_PAGE, 1, MOMENT_PAGE)
}

/// Quality rates of an agent's questions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MomentRates)]
struct RatedBody {
    /// Agent.
    agent_id: String,
    /// The decision class of the questions; null for all questions.
    decision_class: Option<String>,
    #[serde(flatten)]
    rates: Rates,
}

/// Get the quality rates of agents' questions
///
/// Based on the questions that the caller may see: how often each agent retracts its framing, is refused as a question, or
/// closes hatches. Each rate has a flag that is set when the rate is too high (binding moment §5.9, §11.2, §11.3).
#[utoipa::path(operation_id = "moment_rates", tag = "moments",
    params(("agent" = Option<String>, Query, description = "Only rates of this agent")),
    responses((status = 200, description = "Rates over all questions of each agent, then by decision class", body = Vec<RatedBody>)))]
#[get("/moments/rates")]
async fn rates(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let rated = moments::rates(&api.ctx, &asker.caller, query.text("agent")).await?.into_iter();
    let bodies: Vec<RatedBody> = rated
        .map(|one| RatedBody { agent_id: one.agent_id, decision_class: one.decision_class, rates: one.rates })
        .collect();
    ok(&bodies)
}

fn moment_id(text: &str) -> Result<MomentId, Problem> {
    id("moment", text)
}

/// Get the receipt of an answer
///
/// The server's attestation (DSSE, in-toto) of which answer was given, by whom and when, over the digest of the question that
/// was seen. It has no words of the person. The same answer has the same receipt, as long as the server's key stays.
#[utoipa::path(operation_id = "get_moment_receipt", tag = "moments",
    responses((status = 200, description = "The receipt", body = Attestation),
              (status = 404, description = "There is no such moment, or no answer to it", body = entente_http::error::ProblemBody)))]
#[get("/moments/{moment_id}/receipt")]
async fn receipt(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let shown = moments::get(&api.ctx, &asker.caller, moment_id(&path)?).await?;
    let receipt = receipts::receipt(&shown.moment, &api.ctx.server_keys.signer);
    ok(&receipt.ok_or_else(|| not_found("receipt"))?)
}

/// Get a moment
///
/// With `wait`, responds when the moment changes: it waits while the question is open and has no new message or, with `seen`,
/// while that is its version. A moment that is over for good (`resolved`, `withdrawn`, `expired`, `closed`, and `superseded`
/// once its objection is settled) is returned immediately. A refused question that another one replaced may come back, and is
/// waited for.
#[utoipa::path(operation_id = "get_moment", tag = "moments",
    params(("wait" = Option<u32>, Query, description = "Seconds to wait for a change, up to 25; defaults to 0", maximum = 25),
           ("seen" = Option<i64>, Query, description = "`version` that the client has: waits until it is another")),
    responses((status = 200, description = "The moment", body = MomentBody)))]
#[get("/moments/{moment_id}")]
async fn get(
    api: web::Data<ApiState>,
    asker: Asker,
    presence: Presence,
    path: web::Path<String>,
    query: Query,
) -> Reply {
    let moment_id = moment_id(&path)?;
    let wait = query.wait(WAIT_SECONDS)?;
    let seen = query.parsed("seen", "a version", |text| text.parse().ok())?;
    let (ctx, caller) = (&api.ctx, &asker.caller);
    let shown = if wait == 0 {
        moments::get(ctx, caller, moment_id).await?
    } else {
        let _permit = caller.waits(api.limits.max_streams_per_key)?;
        tokio::select! {
            found = moments::wait(ctx, caller, moment_id, seen, Duration::from_secs(wait.into())) => found?,
            () = presence.over().cancelled() => moments::get(ctx, caller, moment_id).await?,
        }
    };
    ok(&MomentBody::new(&shown, asker.dialect))
}

/// Follow moments
///
/// A stream of server-sent `moment` events. Each carries the current state of a moment that the caller asked or is asked,
/// whenever it changes. `Last-Event-ID` resumes, on any server; of several changes of one moment only the last is sent.
#[utoipa::path(operation_id = "follow_moments", tag = "moments", params(LastEventId),
    responses((status = 200, description = "Server-sent events", body = String, content_type = "text/event-stream")))]
#[get("/moments/stream")]
async fn follow(request: HttpRequest, api: web::Data<ApiState>, asker: Asker) -> Reply {
    let mut listener = api.ctx.feed.wakeups().listener();
    listener.add(WakeKey::Inbox(asker.caller.agent.clone()));
    let after = last_event_id(&request)
        .map(|text| text.trim().parse::<i64>().map_err(|_no_number| unreadable("Last-Event-ID")));
    let after = match after.transpose()? {
        Some(after) => after,
        None => moments::last_change(&api.ctx).await?,
    };
    // Checks access before the stream begins, so that a refusal is an ordinary response.
    moments::changes(&api.ctx, &asker.caller, after, 1).await?;
    let followed = Followed { ctx: api.ctx.clone(), after, dialect: asker.dialect };
    respond(Arc::clone(&api.http), asker.caller, followed, Some(listener))
}

/// Source of a stream of moments.
struct Followed {
    ctx: moments::Ctx,
    after: i64,
    dialect: Dialect,
}

impl Source for Followed {
    const KIND: &'static str = "moments";

    fn start(&self) -> String {
        self.after.to_string()
    }

    async fn read(&mut self, caller: &Caller) -> Result<Chunk, AppError> {
        let found = moments::changes(&self.ctx, caller, self.after, STEP).await?;
        let mut text = BytesMut::new();
        for shown in &found {
            self.after = shown.changed_seq;
            write(&mut text, &self.after.to_string(), "moment", &MomentBody::new(shown, self.dialect))?;
        }
        // Every moment read is sent, so an empty read means that nothing more follows.
        Ok(Chunk { text, over: false, behind: false })
    }
}
