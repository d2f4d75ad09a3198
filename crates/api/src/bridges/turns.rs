//! Endpoint that takes a whole turn of an agent in one request, and the bodies that the tool `turn` shares with it.

use std::time::Duration;

use actix_web::{HttpRequest, post, web};
use entente_aee_api::envelopes::AcceptedBody;
use entente_arcp::jobs;
use entente_arcp_api::claims::ClaimedBody;
use entente_arcp_api::reports::ReportedBody;
use entente_arcp_api::turns::{FinishBody, HeartbeatBody, ReportBody, SettlementBody, TurnClaimBody};
use entente_arcp_api::workers::DirectivesBody;
use entente_bridges::turns::{self, AgentTurn, Done, ListedReport, Seen};
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::{Dialect, Scope};
use entente_domain::inbox::Attention;
use entente_domain::limits::WAIT_SECONDS;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, IdempotencyKey};
use entente_http::caller::Asker;
use entente_http::error::{Problem, ProblemBody, Reply};
use entente_http::event::EventBody;
use entente_http::kernel::inbox::{MOST, PageBody, STEP};
use entente_http::message::MessageBody;
use entente_http::ok;
use entente_http::presence::Presence;
use entente_http::routes::Routes;
use entente_kernel::inbox::reading::{self, InboxPage, ReadAsk};
use entente_kernel::inbox::{self, Reader};
use entente_kernel::{AppError, Caller, Outcome};
use entente_openintent_api::events::TurnEventBody;
use entente_openintent_api::messages::turns::{TurnMessageBody, TurnReadBody};
use entente_openintent_api::tasks::TaskBody;
use entente_openintent_api::tasks::turns::TurnTaskBody;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(take);
}

/// Maximum number of items in each list of a turn, which holds the locks of all of their intents.
const ITEMS: usize = 100;

/// Entries of the inbox that the agent has dealt with.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TurnSeen)]
struct SeenBody {
    /// Name of the reader; defaults to `default`.
    reader: Option<String>,
    /// Every entry up to this place: `next_place` of a page.
    place: i64,
}

/// The page of the inbox to read after the turn.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = TurnInbox)]
struct InboxBody {
    /// Name of the reader; defaults to that of `seen`, or `default`.
    reader: Option<String>,
    /// Levels, separated by commas: `wake`, `next`, `digest`; defaults to those that the reader read before, or all.
    attention: Option<String>,
    /// Return the entries of the level `digest` one by one.
    #[serde(default)]
    expand: bool,
    /// Maximum number of entries, 1 to 200; defaults to 50.
    limit: Option<u32>,
    /// Seconds to wait if there are no entries and no job was claimed, up to 120; defaults to 0.
    wait: Option<u32>,
}

/// A turn of an agent; every part is optional.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = Turn, example = json!({
    "seen": { "place": 42 },
    "messages": [{ "channel_id": "chn_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "to": "agent.writer", "payload": { "text": "done" } }],
    "finish": [{ "job_id": "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "claim_token": "ct_…", "result": { "ok": true } }],
    "claim": { "worker_id": "wrk_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" }
}))]
pub(crate) struct TurnBody {
    /// Entries of the agent's inbox to mark as seen.
    seen: Option<SeenBody>,
    /// Up to 100 messages to mark as read.
    #[serde(default)]
    read: Vec<TurnReadBody>,
    /// Up to 100 messages to send, in order.
    #[serde(default)]
    messages: Vec<TurnMessageBody>,
    /// Up to 100 events to append to intents, in order; after the messages.
    #[serde(default)]
    events: Vec<TurnEventBody>,
    /// Up to 100 steps of tasks, in order; after the messages and events.
    #[serde(default)]
    tasks: Vec<TurnTaskBody>,
    /// Up to 100 envelopes to send, in order, each as `POST /aee/envelopes` takes it.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    mail: Vec<Box<RawValue>>,
    /// Up to 100 reservations to settle, in order.
    #[serde(default)]
    settle: Vec<SettlementBody>,
    /// Up to 100 reports of events and progress, in order; after `settle`.
    #[serde(default)]
    report: Vec<ReportBody>,
    /// Up to 100 jobs to end; after everything else about them.
    #[serde(default)]
    finish: Vec<FinishBody>,
    /// Heartbeat of the agent's worker.
    heartbeat: Option<HeartbeatBody>,
    /// Jobs to claim, those that are pending now.
    claim: Option<TurnClaimBody>,
    /// The page of the inbox to read afterwards; without it a page as `GET /agents/{agent_id}/inbox` returns it, if the
    /// key may read it.
    inbox: Option<InboxBody>,
    /// The turn's key, if the header `Idempotency-Key` has none.
    pub(crate) idempotency_key: Option<String>,
}

/// The reader of the inbox.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TurnReader)]
struct ReaderBody {
    /// Its name.
    reader: String,
    /// Place up to which it has marked entries seen.
    place: i64,
}

/// Effects of a turn; the same if it is repeated.
#[derive(Serialize, ToSchema)]
#[schema(as = TurnDone)]
struct DoneBody<'a> {
    /// The reader that has seen entries.
    seen: Option<ReaderBody>,
    /// The sent messages, in order.
    messages: Vec<MessageBody<'a>>,
    /// The appended events, in order.
    events: Vec<EventBody<'a>>,
    /// The tasks after their steps, in order.
    tasks: Vec<TaskBody>,
    /// The receipts of the envelopes, in order.
    mail: Vec<AcceptedBody>,
    /// The responses to `settle`, in order.
    settled: Vec<ReportedBody>,
    /// The responses to `report`, in order.
    reported: Vec<ReportedBody>,
    /// The responses to `finish`, in order.
    finished: Vec<ReportedBody>,
    /// The response to the heartbeat.
    heartbeat: Option<DirectivesBody>,
}

/// A turn that was taken.
#[derive(Serialize, ToSchema)]
#[schema(as = TurnTaken)]
pub(crate) struct TakenBody<'a> {
    /// Its effects; the same if the turn is repeated with its key.
    #[schema(value_type = DoneBody<'a>)]
    done: Box<RawValue>,
    /// The claimed jobs; of a repeated turn those that the worker still holds.
    jobs: Vec<ClaimedBody>,
    /// The agent's inbox; null if the key may not read it, or if it could not be read.
    inbox: Option<PageBody<'a>>,
    /// Why the inbox could not be read, although the turn was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    inbox_error: Option<ProblemBody>,
}

impl TakenBody<'_> {
    /// Returns a sentence about the turn, for a model.
    pub(crate) fn summary(&self) -> String {
        let waiting = self.inbox.as_ref().map_or_else(String::new, |page| format!(", {}", page.summary()));
        format!("The turn was taken; {} job(s) claimed{waiting}.", self.jobs.len())
    }
}

/// A parsed turn.
pub(crate) struct Asked {
    turn: AgentTurn,
    /// Ids in the heartbeat that are none.
    lost: Vec<String>,
    read: Option<ReadAsk>,
    /// How long to wait for entries of the inbox.
    pub(crate) wait: Duration,
}

/// Checks the items of a list, each by itself.
fn each<B, T>(
    list: &'static str,
    items: Vec<B>,
    check: impl Fn(B) -> Result<T, Refusal>,
) -> Result<Vec<T>, Refusal> {
    if items.len() > ITEMS {
        let message = format!("`{list}` has {} items, more than {ITEMS}. Take several turns.", items.len());
        return Err(Refusal::field(Code::InvalidRequest, list, "too_long", message));
    }
    let checked = items.into_iter().enumerate();
    checked.map(|(index, item)| check(item).map_err(|refusal| refusal.of_item(list, index))).collect()
}

impl InboxBody {
    fn ask(self, seen_by: Option<&String>) -> Result<(ReadAsk, Duration), Refusal> {
        let range = |member: &str, most: u32| {
            let message = format!("`{member}` of `inbox` must be a whole number up to {most}.");
            Refusal::field(Code::InvalidRequest, "inbox", "range", message)
        };
        let levels = self.attention.as_deref().map(|said| {
            Attention::parse_list(said).ok_or_else(|| {
                let message = format!("`{said}` are no levels. Name some of `wake`, `next` and `digest`.");
                Refusal::field(Code::InvalidRequest, "inbox", "value", message)
            })
        });
        let limit = self.limit.unwrap_or(STEP);
        if !(1..=MOST).contains(&limit) {
            return Err(range("limit", MOST));
        }
        let wait = self.wait.unwrap_or(0);
        if wait > WAIT_SECONDS {
            return Err(range("wait", WAIT_SECONDS));
        }
        let reader = self.reader.or_else(|| seen_by.cloned());
        let (levels, expand) = (levels.transpose()?, self.expand);
        Ok((ReadAsk { reader, since: None, levels, expand, limit }, Duration::from_secs(wait.into())))
    }
}

impl TurnBody {
    /// Checks the parts of the turn.
    ///
    /// # Errors
    /// A part is invalid; the refusal says which.
    pub(crate) fn ask(
        self,
        caller: &Caller,
        strict: bool,
        once: Option<&Idempotency>,
    ) -> Result<Asked, Refusal> {
        let settled = each("settle", self.settle, SettlementBody::report)?;
        let reported = each("report", self.report, ReportBody::report)?;
        let finished = each("finish", self.finish, FinishBody::report)?;
        let lists = [("settle", settled), ("report", reported), ("finish", finished)];
        let reports = lists.into_iter().flat_map(|(list, reports)| {
            let listed = move |(index, report)| ListedReport { list, index, report };
            reports.into_iter().enumerate().map(listed)
        });
        let (beat, lost) = self.heartbeat.map(HeartbeatBody::ask).transpose()?.unzip();
        let seen_by = self.seen.as_ref().and_then(|seen| seen.reader.as_ref());
        let wants_inbox = self.inbox.is_some() || caller.has(Scope::AgentsRead);
        let (read, wait) = self.inbox.unwrap_or_default().ask(seen_by)?;
        Ok(Asked {
            turn: AgentTurn {
                reports: reports.collect(),
                read: each("read", self.read, |one| one.ids())?,
                messages: each("messages", self.messages, |one| one.draft(caller, strict))?,
                events: each("events", self.events, |one| one.draft(caller, strict))?,
                tasks: each("tasks", self.tasks, TurnTaskBody::step)?,
                mail: each("mail", self.mail, |one| Ok(one.get().as_bytes().to_vec()))?,
                beat,
                claim: self.claim.map(|claim| claim.ask(caller.principal(), once)).transpose()?,
                seen: self.seen.map(|SeenBody { reader, place }| Seen { reader, place }),
            },
            lost: lost.unwrap_or_default(),
            read: wants_inbox.then_some(read),
            wait,
        })
    }
}

/// A taken turn, from which its response is made.
pub(crate) struct Taken {
    done: Box<RawValue>,
    jobs: Vec<jobs::Claimed>,
    page: Option<Result<InboxPage, AppError>>,
}

/// Takes the turn, and reads the inbox. A client that is gone gets no jobs.
///
/// # Errors
/// The first part that is refused: then nothing took effect.
pub(crate) async fn taken(
    api: &ApiState,
    caller: &Caller,
    asked: Asked,
    once: Option<&Idempotency>,
    dialect: Dialect,
    presence: &Presence,
) -> Result<Taken, Problem> {
    let (ctx, Asked { turn, lost, read, wait }) = (&api.ctx, asked);
    if read.is_some() {
        inbox::ensure_open(ctx, caller, &caller.agent).await?;
    }
    let strict = ctx.settings.strict;
    let count = |list: &str| turn.reports.iter().filter(|listed| listed.list == list).count();
    let (settled, reported) = (count("settle"), count("report"));
    let respond = |done| respond(done, settled, reported, lost.clone(), strict, dialect);
    let (done, jobs) = turns::take(ctx, caller, &turn, once, respond).await?;
    if !jobs.is_empty() && presence.is_gone().await {
        if let Some(ask) = &turn.claim {
            jobs::return_unheard(&ctx.arcp, ask, &jobs).await;
        }
        return Err(Presence::refusal());
    }
    let patience = if jobs.is_empty() { wait } else { Duration::ZERO };
    let page = match read {
        Some(ask) => Some(page(api, caller, &ask, patience, presence).await),
        None => None,
    };
    Ok(Taken { done, jobs, page })
}

async fn page(
    api: &ApiState,
    caller: &Caller,
    ask: &ReadAsk,
    patience: Duration,
    presence: &Presence,
) -> Outcome<InboxPage> {
    if !patience.is_zero() {
        let waited = reading::wait(&api.ctx, caller, &caller.agent, ask, patience);
        if let Some(page) = presence.over().run_until_cancelled(waited).await {
            return page;
        }
    }
    reading::read_now(&api.ctx, caller, &caller.agent, ask).await
}

/// Makes the part of the response that is stored; of the reports, so many settle and so many have events, the others end jobs.
fn respond(
    done: Done,
    settled: usize,
    reported: usize,
    lost: Vec<String>,
    strict: bool,
    dialect: Dialect,
) -> Outcome<Box<RawValue>> {
    let heartbeat = done.beat.map(|beat| DirectivesBody::new(beat, lost)).transpose();
    let heartbeat = heartbeat.map_err(|problem| AppError::Inconsistent(problem.body().message.clone()))?;
    let mut reports = done.reported.into_iter().map(ReportedBody::from);
    let settled = reports.by_ref().take(settled).collect();
    let reported = reports.by_ref().take(reported).collect();
    let finished = reports.collect();
    let body = DoneBody {
        seen: done.reader.map(|Reader { name, place, .. }| ReaderBody { reader: name, place }),
        messages: done.messages.iter().map(|message| MessageBody::new(message, strict, dialect)).collect(),
        events: done.events.iter().map(|event| EventBody::new(event, dialect)).collect(),
        tasks: done.tasks.into_iter().map(|task| TaskBody::of(task, dialect)).collect(),
        mail: done.mail.into_iter().map(AcceptedBody::new).collect::<Outcome<_>>()?,
        settled,
        reported,
        finished,
        heartbeat,
    };
    Ok(serde_json::value::to_raw_value(&body)?)
}

impl Taken {
    /// Shapes the response in the client's dialect.
    ///
    /// # Errors
    /// A stored job is no JSON.
    pub(crate) fn body<'a>(
        &'a mut self,
        agent: &'a str,
        strict: bool,
        dialect: Dialect,
    ) -> Result<TakenBody<'a>, Problem> {
        let jobs = std::mem::take(&mut self.jobs).into_iter().map(ClaimedBody::try_from);
        let jobs = jobs.collect::<Result<_, _>>()?;
        let (inbox, inbox_error) = match &self.page {
            None => (None, None),
            Some(Ok(page)) => (Some(PageBody::new(agent, page, strict, dialect)), None),
            Some(Err(failure)) => (None, Some(Problem::from(failure.repeated()).body())),
        };
        Ok(TakenBody { done: self.done.clone(), jobs, inbox, inbox_error })
    }
}

/// Take a turn
///
/// Does in one transaction all that an agent does between two calls of its model: marks entries seen and messages read,
/// sends messages and mail, appends events, works on tasks, settles reservations, reports on its jobs and ends them,
/// keeps its claims and takes new jobs. All of it happens or nothing: if one part is refused, the error says which, and
/// nothing took effect. With an `Idempotency-Key`, a turn whose response was lost can be repeated: it happens once, and
/// the response has the same `done`. The inbox is read after the turn.
#[utoipa::path(operation_id = "take_turn", tag = "agents", request_body = TurnBody, params(IdempotencyKey),
    responses((status = 200, description = "The turn was taken", body = TakenBody),
              (status = 409, description = "`CLAIM_LOST`, `channel_closed`, `idempotency_mismatch`, …: nothing took effect", body = ProblemBody)))]
#[post("/turn")]
async fn take(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    presence: Presence,
    body: Body<TurnBody>,
) -> Reply {
    let (caller, strict) = (&asker.caller, api.ctx.settings.strict);
    let once = body.once_or(&request, body.value.idempotency_key.as_deref())?;
    let asked = body.value.ask(caller, strict, once.as_ref())?;
    let _place =
        if asked.wait.is_zero() { None } else { Some(caller.waits(api.limits.max_streams_per_key)?) };
    let mut taken = taken(&api, caller, asked, once.as_ref(), asker.dialect, &presence).await?;
    ok(&taken.body(&caller.agent, strict, asker.dialect)?)
}
