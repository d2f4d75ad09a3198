//! The page of one job, with its worker, attempts, costs, signals, events and children. A person sends it a signal, cancels it, runs
//! it again or resolves it here, as far as their key allows.

use actix_web::http::StatusCode;
use actix_web::web;
use askama::Template;
use entente_arcp::jobs;
use entente_arcp::jobs::{Canceller, History, Node, RerunAsk, Signal, Stored, Tried};
use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::jobs::ask::no_job;
use entente_domain::arcp::jobs::reruns::Version;
use entente_domain::arcp::jobs::signals::SignalAsk;
use entente_domain::arcp::jobs::wire::ErrorPayload;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::Outcome;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{JobLine, row, spoken};
use crate::ApiState;
use crate::web::guard::{Form, PageError, PageResult, Visitor, concluded};
use crate::web::queues::limit_words;
use crate::web::records::agent_path;
use crate::web::shell::{Place, Shell};
use crate::web::words::{When, count, long, shortened};
use crate::web::{page, see};

/// Jobs shown of a tree.
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

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/jobs/{id}", web::get().to(show))
        .route("/jobs/{id}/signal", web::post().to(signal))
        .route("/jobs/{id}/cancel", web::post().to(cancel))
        .route("/jobs/{id}/rerun", web::post().to(rerun))
        .route("/jobs/{id}/resolve", web::post().to(resolve));
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
    /// Key of the forms that run the job again and send it a signal: pressed twice, they do it once.
    key: String,
    /// Input of the refused form.
    said: Said,
    tree: Vec<Leaf>,
    tree_note: String,
    attempts: Vec<AttemptRow>,
    signals: Vec<SignalRow>,
    /// Whether there are earlier signals.
    signals_note: Option<String>,
    events: Vec<EventRow>,
    /// Number before which there are earlier events.
    earlier: Option<i64>,
}

/// Input of a refused form, kept so that no typed text is lost.
#[derive(Default)]
struct Said {
    name: String,
    payload: String,
    grace: String,
    note: String,
}

/// The actions that a visitor may take on a job.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each of them may be allowed or not, apart from the others"
)]
struct May {
    signal: bool,
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
    payload: Option<String>,
    /// When a worker acknowledged it, and in which attempt.
    acknowledged: Option<(When, String)>,
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
    Ok(page(StatusCode::OK, &load(&api, &visitor, id, part.before, None, Said::default()).await?))
}

/// Loads a job's page, with the reason why an action was refused, and the input of its form.
async fn load(
    api: &ApiState,
    visitor: &Visitor,
    id: JobId,
    before: Option<i64>,
    fault: Option<String>,
    said: Said,
) -> Result<JobPage, PageError> {
    let (ctx, caller) = (&api.ctx.arcp, &visitor.caller);
    let found = jobs::describe(ctx, caller, id).await?;
    let job = &found.job;
    let now = ctx.now();
    let tree = jobs::tree(ctx, caller, id, TREE).await?;
    let sent = found.beside.signals.sent;
    let after = (sent - i64::from(SIGNALS)).max(0);
    let end = before.map_or(job.last_seq, |seq| seq.saturating_sub(1).min(job.last_seq));
    let last = end.saturating_sub(EVENTS).max(0);
    let history = jobs::history(ctx, caller, id).await?;
    let signals = jobs::sent(ctx, caller, id, after, SIGNALS).await?;
    let (_, events) =
        jobs::events(ctx, caller, id, last, u32::try_from(EVENTS).unwrap_or(1), EVENT_BYTES).await?;
    let error: Option<ErrorPayload> =
        found.terminal.as_ref().and_then(|end| serde_json::from_str(&end.body).ok());
    let whole = if tree.is_complete { "" } else { " or more" };
    Ok(JobPage {
        shell: Shell::of(visitor, format!("Job of {}", job.agent), Place::Jobs)
            .at(before.map_or_else(|| format!("/jobs/{id}"), |seq| format!("/jobs/{id}?before={seq}")))
            .live("/dashboard/stream"),
        fault,
        said,
        created: When::new(job.created_at, now),
        facts: facts(&found, &history, now),
        rerun_of: found.beside.links.rerun_of,
        reruns: found.beside.links.reruns.clone(),
        parent: job.parent_id,
        intent: job.intent_id,
        agent_page: agent_path(job.agent.split('@').next().unwrap_or_default()),
        principal_page: agent_path(&job.principal),
        message: error.map(|error| error.message),
        may: may(&found, visitor),
        key: format!("page-{:032x}", ctx.chance.bits()),
        tree_note: format!("{}{whole}", count(tree.count, "job")),
        tree: if tree.count > 1 { tree.nodes.into_iter().map(leaf).collect() } else { Vec::new() },
        attempts: history
            .attempts
            .into_iter()
            .rev()
            .take(ATTEMPTS)
            .map(|one| attempt_row(one, now))
            .collect(),
        signals_note: (after > 0)
            .then(|| format!("The last {SIGNALS} of {sent}; `entente job signals` lists all of them.")),
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

/// Returns the actions that the visitor may take on a job.
fn may(found: &jobs::Description, visitor: &Visitor) -> May {
    let (job, caller) = (&found.job, &visitor.caller);
    let own = job.principal == caller.agent;
    let acts = caller.has(Scope::JobsWrite) && (own || caller.has(Scope::Admin));
    let over = job.status.is_terminal();
    May {
        signal: acts && !over,
        cancel: acts && !over && (caller.has(Scope::Admin) || !job.counted),
        rerun: acts && over && job.parent_id.is_none(),
        resolve: acts && found.beside.failure.as_ref().is_some_and(|failure| failure.is_open),
    }
}

/// Returns the facts about a job, by name.
fn facts(found: &jobs::Description, history: &History, now: Timestamp) -> Vec<(&'static str, String)> {
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
    facts.extend(open(job.not_before).map(|at| ("Not claimed before", ahead(at))));
    facts.extend(history.checkpoint.map(|one| {
        let text = format!("of attempt {}, {} bytes, {}", one.attempt, one.bytes, ahead(one.saved_at));
        ("Checkpoint", text)
    }));
    facts.extend(waiting(job));
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

/// Returns the facts that decide when a job starts, and again.
fn waiting(job: &Job) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if job.priority.get() != 0 {
        facts.push(("Priority", job.priority.get().to_string()));
    }
    if let Some(concurrency) = &job.concurrency {
        facts.push(("Concurrency", format!("{}: {}", concurrency.key, limit_words(&concurrency.limits()))));
    }
    if let Some(retry) = &job.retry {
        facts.push(("Failures", format!("{} of {} that may happen", job.failures, retry.max_attempts)));
    }
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
        payload: signal.payload.map(|text| shortened(&text, SHORT)),
        acknowledged: signal.acked_at.map(|at| {
            let attempt = signal.acked_in.map(|attempt| format!("in attempt {attempt}, "));
            (When::new(at, now), attempt.unwrap_or_default())
        }),
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
async fn conclude(
    api: &ApiState,
    visitor: &Visitor,
    id: JobId,
    done: Outcome<JobId>,
    said: Said,
) -> PageResult {
    let refused = match concluded(done)? {
        Ok(shown) => return Ok(see(&format!("/jobs/{shown}")).finish()),
        Err(refused) => refused,
    };
    // A refused action reveals nothing: reading the job requires access to it.
    Ok(page(refused.status, &load(api, visitor, id, None, Some(refused.message), said).await?))
}

#[derive(Deserialize)]
struct SignalForm {
    name: String,
    #[serde(default)]
    payload: String,
    key: String,
}

async fn signal(api: web::Data<ApiState>, path: web::Path<String>, form: Form<SignalForm>) -> PageResult {
    let id = job_id(&path)?;
    let SignalForm { name, payload, key } = form.fields;
    let sent = async {
        let text = Some(payload.trim()).filter(|text| !text.is_empty());
        let json = text.map(serde_json::from_str::<Box<RawValue>>).transpose().map_err(|e| {
            let message = format!(
                "The payload is no JSON: {e}. Put a text in quotes, such as \"yes\". Nothing was sent."
            );
            Refusal::field(Code::InvalidRequest, "payload", "json", message)
        })?;
        let ask = SignalAsk { name: name.trim().to_owned(), payload: json, key: Some(key) };
        jobs::send(&api.ctx.arcp, &form.visitor.caller, id, ask).await
    };
    let done = sent.await.map(|_signal| id);
    conclude(&api, &form.visitor, id, done, Said { name, payload, ..Said::default() }).await
}

#[derive(Deserialize)]
struct CancelForm {
    grace_sec: Option<String>,
}

async fn cancel(api: web::Data<ApiState>, path: web::Path<String>, form: Form<CancelForm>) -> PageResult {
    let id = job_id(&path)?;
    let (ctx, caller) = (&api.ctx.arcp, &form.visitor.caller);
    let job = jobs::describe(ctx, caller, id).await?.job;
    let by = Canceller::of(caller, &job);
    let grace = form.fields.grace_sec.unwrap_or_default();
    let said = Some(grace.trim()).filter(|text| !text.is_empty());
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
    conclude(&api, &form.visitor, id, done, Said { grace, ..Said::default() }).await
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
    conclude(&api, &form.visitor, id, done.map(|submitted| submitted.job.id), Said::default()).await
}

#[derive(Deserialize)]
struct ResolveForm {
    note: Option<String>,
}

async fn resolve(api: web::Data<ApiState>, path: web::Path<String>, form: Form<ResolveForm>) -> PageResult {
    let id = job_id(&path)?;
    let typed = form.fields.note.unwrap_or_default();
    let note = Some(typed.trim().to_owned()).filter(|note| !note.is_empty());
    let done = jobs::resolve(&api.ctx.arcp, &form.visitor.caller, id, note).await;
    let said = Said { note: typed, ..Said::default() };
    conclude(&api, &form.visitor, id, done.map(|_failure| id), said).await
}
