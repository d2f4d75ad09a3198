//! Pages of jobs: a search with counts, and one job with its worker, costs, signals, events and children. A person cancels a job,
//! runs it again or resolves it here, as far as their key allows. The API has more (`crates/arcp-api`).

use actix_web::http::StatusCode;
use actix_web::web;
use askama::Template;
use entente_arcp::jobs;
use entente_arcp::jobs::{Beside, Canceller, JobSearch, Node, RerunAsk, Signal, Stored, Tried};
use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::ask::no_job;
use entente_domain::arcp::jobs::reruns::Version;
use entente_domain::arcp::jobs::wire::ErrorPayload;
use entente_domain::arcp::jobs::{Job, JobStatus, labels};
use entente_domain::arcp::versions::AgentRef;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, JobId, SessionId};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{AppError, Caller, Outcome};
use serde::Deserialize;

use super::guard::{Form, PageError, PageResult, Visitor, concluded};
use super::records::{agent_path, from_time, until_time};
use super::shell::{Place, Shell};
use super::words::{When, long, shortened};
use super::{page, see};
use crate::ApiState;

/// Jobs of a page, and jobs shown of a tree.
const STEP: u32 = 50;
const TREE: u32 = 200;
/// Signals and events shown of a job: the last ones.
const SIGNALS: u32 = 50;
const EVENTS: i64 = 30;
/// Attempts shown of a job: the last ones.
const ATTEMPTS: usize = 50;
/// Bytes of events read at once, and characters shown of one.
const EVENT_BYTES: i64 = 128 * 1024;
const SHORT: usize = 300;
/// Maximum indentation; deeper jobs are shown at this level.
const DEEPEST: i32 = 6;

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/jobs", web::get().to(list))
        .route("/jobs/{id}", web::get().to(show))
        .route("/jobs/{id}/cancel", web::post().to(cancel))
        .route("/jobs/{id}/rerun", web::post().to(rerun))
        .route("/jobs/{id}/resolve", web::post().to(resolve));
}

/// The conditions of a search, as the form has them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Asked {
    status: String,
    agent: String,
    principal: String,
    label: String,
    trace_id: String,
    error_code: String,
    dead_letter: String,
    from: String,
    until: String,
    cursor: String,
}

impl Asked {
    /// Reads the conditions; empty fields are none.
    fn search(&self) -> Result<JobSearch, Refusal> {
        let wrong =
            |what: &str| Refusal::new(Code::InvalidParameter, format!("{what} Nothing was searched."));
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let status = given(&self.status)
            .map(|text| JobStatus::parse(&text).ok_or_else(|| wrong("That is no status of a job.")));
        let agent = given(&self.agent).map(|text| {
            AgentRef::parse(&text).ok_or_else(|| wrong("The agent must be `name` or `name@version`."))
        });
        let label = given(&self.label)
            .map(|text| labels::parse(&text).ok_or_else(|| wrong("The label must be `key=value`.")));
        let code = given(&self.error_code).map(|text| {
            Fault::parse(&text).ok_or_else(|| wrong("That is no error code of ARCP, such as TIMEOUT."))
        });
        Ok(JobSearch {
            statuses: status.transpose()?.into_iter().collect(),
            agent: agent.transpose()?,
            principal: given(&self.principal),
            labels: label.transpose()?.into_iter().collect(),
            trace: given(&self.trace_id).map(|text| text.to_ascii_lowercase()),
            error_code: code.transpose()?,
            dead_letter: given(&self.dead_letter).map(|word| word == "open"),
            created_after: from_time(&self.from)?,
            created_before: until_time(&self.until)?,
            limit: STEP,
            cursor: given(&self.cursor),
            ..JobSearch::default()
        })
    }
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    shell: Shell,
    everything: bool,
    asked: Asked,
    statuses: Vec<&'static str>,
    /// Why nothing was searched.
    fault: Option<String>,
    counts: String,
    rows: Vec<JobLine>,
    next: Option<String>,
}

/// A job in the list.
struct JobLine {
    id: JobId,
    agent: String,
    principal: String,
    status: &'static str,
    /// Error code of a failed job.
    code: Option<String>,
    is_dead_letter: bool,
    labels: String,
    at: When,
}

async fn list(api: web::Data<ApiState>, visitor: Visitor, asked: web::Query<Asked>) -> PageResult {
    let (ctx, caller) = (&api.ctx.arcp, &visitor.caller);
    let asked = asked.into_inner();
    let mut shown = JobsPage {
        shell: Shell::of(&visitor, "Jobs", Place::Jobs),
        everything: caller.has(Scope::Admin),
        statuses: JobStatus::ALL.iter().map(|status| status.as_str()).collect(),
        fault: None,
        counts: String::new(),
        rows: Vec::new(),
        next: None,
        asked: asked.clone(),
    };
    let found = match asked.search() {
        Ok(search) => found(ctx, caller, &search).await,
        Err(refusal) => Err(refusal.into()),
    };
    match found {
        Ok((rows, next, counts)) => (shown.rows, shown.next, shown.counts) = (rows, next, counts),
        Err(AppError::Refused(refusal)) if refusal.code != Code::ScopeMissing => {
            shown.fault = Some(refusal.message);
            return Ok(page(StatusCode::UNPROCESSABLE_ENTITY, &shown));
        }
        Err(failure) => return Err(failure.into()),
    }
    Ok(page(StatusCode::OK, &shown))
}

type Found = (Vec<JobLine>, Option<String>, String);

async fn found(ctx: &entente_arcp::Ctx, caller: &Caller, search: &JobSearch) -> Outcome<Found> {
    let (jobs, next) = jobs::search(ctx, caller, search).await?;
    let mut besides = jobs::beside(ctx, caller, &jobs).await?;
    let counts = jobs::count(ctx, caller, search).await?;
    let now = ctx.now();
    let rows = jobs.iter().map(|job| row(job, besides.remove(&job.id).unwrap_or_default(), now)).collect();
    let numbers: Vec<String> = counts
        .by_status
        .iter()
        .map(|(status, count)| format!("{count} {}", spoken(status.as_str())))
        .collect();
    let more = if counts.is_complete { "" } else { "at least " };
    let counts = if numbers.is_empty() { String::new() } else { format!("{more}{}", numbers.join(", ")) };
    Ok((rows, next, counts))
}

fn spoken(word: &str) -> String {
    word.replace('_', " ")
}

fn row(job: &Job, beside: Beside, now: Timestamp) -> JobLine {
    let labels: Vec<String> = beside.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    JobLine {
        id: job.id,
        agent: job.agent.clone(),
        principal: job.principal.clone(),
        status: job.status.as_str(),
        is_dead_letter: beside.failure.as_ref().is_some_and(|failure| failure.is_open),
        code: beside.failure.map(|failure| failure.code),
        labels: labels.join(" "),
        at: When::new(job.ended_at.unwrap_or(job.created_at), now),
    }
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    shell: Shell,
    job: JobLine,
    /// Why an action was refused.
    fault: Option<String>,
    created: When,
    facts: Vec<(&'static str, String)>,
    /// The job that it runs again, and those that run it again.
    rerun_of: Option<JobId>,
    reruns: Vec<JobId>,
    parent: Option<JobId>,
    intent: Option<IntentId>,
    /// Paths of the pages of its agent and its submitter.
    agent_page: String,
    principal_page: String,
    message: Option<String>,
    /// Whether the visitor may act on the job, and how.
    may: May,
    /// Key of the button that runs the job again: pressed twice, it makes one job.
    key: String,
    tree: Vec<Leaf>,
    tree_note: String,
    attempts: Vec<AttemptRow>,
    signals: Vec<SignalRow>,
    events: Vec<EventRow>,
    /// Number before which there are earlier events.
    earlier: Option<i64>,
}

/// The actions that a visitor may take on a job.
struct May {
    cancel: bool,
    rerun: bool,
    resolve: bool,
}

/// A job in the tree.
struct Leaf {
    depth: i32,
    id: JobId,
    agent: String,
    status: &'static str,
    cost: String,
}

struct AttemptRow {
    attempt: u32,
    worker: String,
    outcome: String,
    /// When it ended, or began while it runs.
    at: When,
    error: Option<String>,
    /// When the next attempt could begin.
    next: Option<When>,
}

struct SignalRow {
    seq: i64,
    name: String,
    sender: String,
    at: When,
    is_acknowledged: bool,
}

struct EventRow {
    seq: i64,
    kind: String,
    at: When,
    text: String,
}

fn job_id(text: &str) -> Result<JobId, PageError> {
    text.parse().map_err(|_no_id| no_job().into())
}

/// The part of a job's events that is shown.
#[derive(Deserialize)]
struct Part {
    /// Number of the event before which it ends.
    before: Option<i64>,
}

async fn show(
    api: web::Data<ApiState>,
    visitor: Visitor,
    path: web::Path<String>,
    part: web::Query<Part>,
) -> PageResult {
    let id = job_id(&path)?;
    Ok(page(StatusCode::OK, &load(&api, &visitor, id, part.before, None).await?))
}

/// Loads a job's page, with the reason why an action was refused.
async fn load(
    api: &ApiState,
    visitor: &Visitor,
    id: JobId,
    before: Option<i64>,
    fault: Option<String>,
) -> Result<JobPage, PageError> {
    let (ctx, caller) = (&api.ctx.arcp, &visitor.caller);
    let found = jobs::describe(ctx, caller, id).await?;
    let job = &found.job;
    let now = ctx.now();
    let tree = jobs::tree(ctx, caller, id, TREE).await?;
    let after = (found.beside.signals.sent - i64::from(SIGNALS)).max(0);
    let end = before.map_or(job.last_seq, |seq| seq.saturating_sub(1).min(job.last_seq));
    let last = end.saturating_sub(EVENTS).max(0);
    let attempts = jobs::history(ctx, caller, id).await?.attempts;
    let signals = jobs::sent(ctx, caller, id, after, SIGNALS).await?;
    let (_, events) =
        jobs::events(ctx, caller, id, last, u32::try_from(EVENTS).unwrap_or(1), EVENT_BYTES).await?;
    let error: Option<ErrorPayload> =
        found.terminal.as_ref().and_then(|end| serde_json::from_str(&end.body).ok());
    let own = job.principal == caller.agent;
    let acts = caller.has(Scope::JobsWrite) && (own || caller.has(Scope::Admin));
    let over = job.status.is_terminal();
    let whole = if tree.is_complete { "" } else { " or more" };
    Ok(JobPage {
        shell: Shell::of(visitor, format!("Job of {}", job.agent), Place::Jobs)
            .at(before.map_or_else(|| format!("/jobs/{id}"), |seq| format!("/jobs/{id}?before={seq}")))
            .live("/dashboard/stream"),
        fault,
        created: When::new(job.created_at, now),
        facts: facts(&found, now),
        rerun_of: found.beside.links.rerun_of,
        reruns: found.beside.links.reruns.clone(),
        parent: job.parent_id,
        intent: job.intent_id,
        agent_page: agent_path(job.agent.split('@').next().unwrap_or_default()),
        principal_page: agent_path(&job.principal),
        message: error.map(|error| error.message),
        may: May {
            cancel: acts && !over && (caller.has(Scope::Admin) || !job.counted),
            rerun: acts && over && job.parent_id.is_none(),
            resolve: acts && found.beside.failure.as_ref().is_some_and(|failure| failure.is_open),
        },
        key: format!("page-{:032x}", ctx.chance.bits()),
        tree_note: format!("{}{whole}", super::words::count(tree.count, "job")),
        tree: if tree.count > 1 { tree.nodes.into_iter().map(leaf).collect() } else { Vec::new() },
        attempts: attempts.into_iter().rev().take(ATTEMPTS).map(|tried| attempt_row(tried, now)).collect(),
        signals: signals.into_iter().map(|signal| signal_row(signal, now)).collect(),
        events: events
            .into_iter()
            .filter(|event| event.job_seq <= end)
            .map(|event| event_row(event, now))
            .collect(),
        earlier: (last > 0).then_some(last + 1),
        job: row(job, found.beside, now),
    })
}

/// Returns what is known of a job, by name.
fn facts(found: &jobs::Description, now: Timestamp) -> Vec<(&'static str, String)> {
    let job = &found.job;
    let ahead = |at: Timestamp| When::new(at, now).near;
    let mut facts = vec![("Attempt", job.attempt.to_string())];
    if let Some(holding) = &found.holding {
        let worker = holding.worker.clone().unwrap_or_else(|| holding.worker_id.to_string());
        facts.push(("Worker", format!("{worker}, since {} s", (now - holding.since).num_seconds().max(0))));
        let beat = holding.heartbeat_at.map(|at| format!("{} ago", long((now - at).num_seconds().max(0))));
        facts.push(("Last heartbeat", beat.unwrap_or_else(|| "the worker has left".to_owned())));
    }
    if let Some(asked) = job.cancel.as_ref().filter(|_| !job.status.is_terminal()) {
        facts.push(("To stop", format!("{}, ends {} at the latest", asked.reason, ahead(asked.due_at))));
    }
    let open = |at: Option<Timestamp>| at.filter(|_| !job.status.is_terminal());
    facts.extend(open(job.deadline).map(|at| ("Times out", ahead(at))));
    facts.extend(open(job.expires_at).map(|at| ("Authority ends", ahead(at))));
    let spent = amounts(&found.beside.cost);
    if !spent.is_empty() {
        facts.push(("Spent itself", spent));
    }
    let left = amounts(&found.remaining);
    if !left.is_empty() {
        facts.push(("Budget left", left));
    }
    if let Some(failure) = found.beside.failure.as_ref().filter(|failure| failure.resolved_at.is_some()) {
        let note = failure.note.as_deref().unwrap_or("without a note");
        facts
            .push(("Resolved", format!("by {}: {note}", failure.resolved_by.as_deref().unwrap_or("nobody"))));
    }
    facts.push(("Trace", job.trace_id.clone()));
    facts
}

fn amounts(budget: &Budget) -> String {
    let each: Vec<String> =
        budget.0.iter().map(|(currency, amount)| format!("{amount} {currency}")).collect();
    each.join(", ")
}

fn leaf(node: Node) -> Leaf {
    let (own, total) = (amounts(&node.cost), amounts(&node.total));
    let cost = if own == total { own } else { format!("{total} with its children") };
    Leaf {
        depth: node.depth.min(DEEPEST),
        id: node.job_id,
        agent: node.agent,
        status: node.status.as_str(),
        cost,
    }
}

fn attempt_row(tried: Tried, now: Timestamp) -> AttemptRow {
    AttemptRow {
        attempt: tried.attempt,
        worker: tried.worker.unwrap_or_else(|| tried.worker_id.to_string()),
        outcome: spoken(tried.outcome.as_str()),
        at: When::new(tried.ended_at.unwrap_or(tried.claimed_at), now),
        error: tried.error.map(|(code, message)| format!("{}: {message}", code.wire())),
        next: tried.next_at.map(|at| When::new(at, now)),
    }
}

fn signal_row(signal: Signal, now: Timestamp) -> SignalRow {
    SignalRow {
        seq: signal.seq,
        name: signal.name,
        sender: signal.sender,
        at: When::new(signal.sent_at, now),
        is_acknowledged: signal.acked_at.is_some(),
    }
}

fn event_row(event: Stored, now: Timestamp) -> EventRow {
    let text = shortened(&event.body, SHORT);
    EventRow {
        seq: event.job_seq,
        kind: event.kind.unwrap_or(event.type_),
        at: When::new(event.ts, now),
        text,
    }
}

/// Redirects to a job's page; after a refusal, renders the page with the reason.
async fn conclude(api: &ApiState, visitor: &Visitor, id: JobId, done: Outcome<JobId>) -> PageResult {
    let refused = match concluded(done)? {
        Ok(shown) => return Ok(see(&format!("/jobs/{shown}")).finish()),
        Err(refused) => refused,
    };
    // A refused action reveals nothing: reading the job requires access to it.
    Ok(page(refused.status, &load(api, visitor, id, None, Some(refused.message)).await?))
}

#[derive(Deserialize)]
struct CancelForm {
    grace_sec: Option<String>,
}

async fn cancel(api: web::Data<ApiState>, path: web::Path<String>, form: Form<CancelForm>) -> PageResult {
    let id = job_id(&path)?;
    let (ctx, caller) = (&api.ctx.arcp, &form.visitor.caller);
    let job = jobs::describe(ctx, caller, id).await?.job;
    let own = !job.counted && job.principal == caller.agent;
    let by = match (own, caller.has(Scope::Admin)) {
        (true, _) => Canceller::Session(job.session_id),
        (false, true) => Canceller::Operator,
        // No session has the nil id: the operation decides how it is refused.
        (false, false) => Canceller::Session(SessionId::from(uuid::Uuid::nil())),
    };
    let said = form.fields.grace_sec.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let done = match said.map(str::parse::<i64>).transpose() {
        Ok(grace) => {
            let reason = Some(format!("Cancelled by {} on the page.", caller.agent));
            jobs::cancel(ctx, caller, id, by, reason, grace).await.map(|job| job.id)
        }
        Err(_no_number) => {
            let message = "The time to stop must be a number of seconds. Nothing was cancelled.";
            Err(Refusal::new(Code::InvalidParameter, message).into())
        }
    };
    conclude(&api, &form.visitor, id, done).await
}

#[derive(Deserialize)]
struct RerunForm {
    key: String,
    version: Option<String>,
}

async fn rerun(api: web::Data<ApiState>, path: web::Path<String>, form: Form<RerunForm>) -> PageResult {
    let id = job_id(&path)?;
    let is_default = form.fields.version.as_deref() == Some("default");
    let version = if is_default { Version::Default } else { Version::Same };
    let ask = RerunAsk { version, key: Some(form.fields.key) };
    let done = jobs::rerun(&api.arcp.job_writer, &form.visitor.caller, id, &ask).await;
    conclude(&api, &form.visitor, id, done.map(|submitted| submitted.job.id)).await
}

#[derive(Deserialize)]
struct ResolveForm {
    note: Option<String>,
}

async fn resolve(api: web::Data<ApiState>, path: web::Path<String>, form: Form<ResolveForm>) -> PageResult {
    let id = job_id(&path)?;
    let note = form.fields.note.map(|note| note.trim().to_owned()).filter(|note| !note.is_empty());
    let done = jobs::resolve(&api.ctx.arcp, &form.visitor.caller, id, note).await;
    conclude(&api, &form.visitor, id, done.map(|_failure| id)).await
}
