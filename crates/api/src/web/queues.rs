//! The page of queues: for each agent that the visitor owns, and for admins each agent, the numbers of its pending and
//! running jobs, buttons that pause, drain and open its queue, and forms of its limits; for admins also the limits of
//! principals.

use actix_web::http::StatusCode;
use actix_web::web;
use askama::Template;
use entente_arcp::limits::{JobLimit, LimitScope};
use entente_arcp::queues::State;
use entente_arcp::{limits, queues};
use entente_domain::arcp::jobs::limits::Limits;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::Outcome;
use serde::Deserialize;

use super::guard::{Form, PageResult, Visitor, concluded};
use super::shell::{Place, Shell};
use super::words::When;
use super::{page, see};
use crate::ApiState;

/// Agents of a page.
const SHOWN: usize = 100;

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/queues", web::get().to(show))
        .route("/queues", web::post().to(change))
        .route("/queues/limits", web::post().to(limit));
}

#[derive(Template)]
#[template(path = "queues.html")]
struct QueuesPage {
    shell: Shell,
    is_admin: bool,
    /// Why the last action was refused.
    fault: Option<String>,
    queues: Vec<QueueRow>,
    /// Number of agents that are left out.
    others: usize,
    /// Limits of principals, and of agents that are not listed.
    limits: Vec<LimitRow>,
    /// Input of the form of another limit, if it was refused.
    other: LimitForm,
}

struct QueueRow {
    agent: String,
    state: &'static str,
    is_open: bool,
    reason: Option<String>,
    /// Who changed it last, and when.
    changed: Option<(String, When)>,
    pending: i64,
    running: i64,
    limit: Option<String>,
    /// The form of its limits; none for a version, which has no limits of its own.
    form: Option<LimitForm>,
    /// Whether the form was refused.
    is_refused: bool,
}

struct LimitRow {
    subject: String,
    running: i64,
    limit: String,
    form: LimitForm,
}

/// Limits as their form has them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct LimitForm {
    /// `agent` or `principal`.
    scope: String,
    name: String,
    max_running: String,
    max_starts: String,
    per_sec: String,
    max_priority: String,
    /// `set` or `remove`.
    verb: String,
}

impl LimitForm {
    fn of(limit: &JobLimit) -> Self {
        let Limits { max_running, max_starts, per_sec, max_priority } = limit.limits;
        let text = |said: Option<i64>| said.map(|said| said.to_string()).unwrap_or_default();
        Self {
            scope: limit.scope.clone(),
            name: limit.name.clone(),
            max_running: text(max_running),
            max_starts: text(max_starts),
            per_sec: text(per_sec),
            max_priority: text(max_priority),
            verb: String::new(),
        }
    }

    fn of_agent(name: &str) -> Self {
        Self { scope: LimitScope::Agent.as_str().to_owned(), name: name.to_owned(), ..Self::default() }
    }

    fn is_about(&self, other: &Self) -> bool {
        self.scope == other.scope && self.name.trim() == other.name
    }

    /// Reads the scope.
    fn scope(&self) -> Result<LimitScope, Refusal> {
        let all = [LimitScope::Agent, LimitScope::Principal];
        all.into_iter().find(|one| one.as_str() == self.scope).ok_or_else(|| {
            let message = "Limits are of an agent or of a principal. Nothing was changed.";
            Refusal::new(Code::InvalidParameter, message)
        })
    }

    /// Reads the numbers; an empty field is no limit.
    fn limits(&self) -> Result<Limits, Refusal> {
        let number = |what: &str, text: &str| {
            let said = Some(text.trim()).filter(|text| !text.is_empty()).map(str::parse::<i64>);
            said.transpose().map_err(|_no_number| {
                let message =
                    format!("{what} must be a whole number, or empty for no limit. Nothing was changed.");
                Refusal::new(Code::InvalidParameter, message)
            })
        };
        Ok(Limits {
            max_running: number("The number of jobs at once", &self.max_running)?,
            max_starts: number("The number of starts", &self.max_starts)?,
            per_sec: number("The number of seconds", &self.per_sec)?,
            max_priority: number("The highest priority", &self.max_priority)?,
        })
    }
}

/// Returns limits in words.
pub fn limit_words(limits: &Limits) -> String {
    let running = limits.max_running.map(|most| format!("at most {most} at once"));
    let at_most = if running.is_some() { "" } else { "at most " };
    let starts = limits.max_starts.zip(limits.per_sec);
    let starts = starts.map(|(most, seconds)| format!("{at_most}{most} started within {seconds} s"));
    let priority = limits.max_priority.map(|most| format!("priority {most} or less"));
    running.into_iter().chain(starts).chain(priority).collect::<Vec<_>>().join(", ")
}

fn queue_row(
    queue: queues::Queue,
    limit: Option<&JobLimit>,
    refused: &LimitForm,
    now: Timestamp,
) -> QueueRow {
    let form = limit.map_or_else(|| LimitForm::of_agent(&queue.agent), LimitForm::of);
    let is_refused = refused.is_about(&form);
    let form = if is_refused { refused.clone() } else { form };
    QueueRow {
        state: queue.state.as_str(),
        is_open: queue.state == State::Open,
        reason: queue.reason,
        changed: queue.changed_by.zip(queue.changed_at.map(|at| When::new(at, now))),
        pending: queue.pending,
        running: queue.running,
        limit: limit.map(|limit| limit_words(&limit.limits)),
        form: (!queue.agent.contains('@')).then_some(form),
        is_refused,
        agent: queue.agent,
    }
}

async fn load(
    api: &ApiState,
    visitor: &Visitor,
    fault: Option<String>,
    refused: LimitForm,
) -> Outcome<QueuesPage> {
    let (ctx, caller) = (&api.ctx.arcp, &visitor.caller);
    let (is_admin, now) = (caller.has(Scope::Admin), ctx.now());
    let (queues, others) = queues::list(ctx, caller, SHOWN).await?;
    let mut limits = limits::list(ctx, caller).await?;
    let mut rows = Vec::new();
    for queue in queues {
        let at = limits.iter().position(|limit| limit.scope == "agent" && limit.name == queue.agent);
        let limit = at.map(|at| limits.remove(at));
        rows.push(queue_row(queue, limit.as_ref(), &refused, now));
    }
    let row = |limit: JobLimit| LimitRow {
        limit: limit_words(&limit.limits),
        running: limit.running,
        subject: format!("{} {}", limit.scope, limit.name),
        form: LimitForm::of(&limit),
    };
    let is_listed = rows.iter().any(|row| row.is_refused);
    Ok(QueuesPage {
        shell: Shell::of(visitor, "Queues", Place::Jobs).at("/queues"),
        is_admin,
        fault,
        queues: rows,
        others,
        limits: limits.into_iter().map(row).collect(),
        other: if is_listed { LimitForm::default() } else { refused },
    })
}

async fn show(api: web::Data<ApiState>, visitor: Visitor) -> PageResult {
    Ok(page(StatusCode::OK, &load(&api, &visitor, None, LimitForm::default()).await?))
}

#[derive(Deserialize)]
struct ChangeForm {
    agent: String,
    state: String,
    reason: Option<String>,
}

async fn change(api: web::Data<ApiState>, form: Form<ChangeForm>) -> PageResult {
    let ChangeForm { agent, state, reason } = form.fields;
    let (ctx, caller) = (&api.ctx.arcp, &form.visitor.caller);
    let reason = reason.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let changed = async {
        let state =
            [State::Open, State::Paused, State::Draining].into_iter().find(|one| one.as_str() == state);
        let state = state.ok_or_else(|| {
            Refusal::new(Code::InvalidParameter, "A queue is open, paused or draining. Nothing was changed.")
        })?;
        queues::change(ctx, caller, agent.trim(), state, reason).await
    };
    let done = changed.await.map(|_queue| ());
    conclude(&api, &form.visitor, done, LimitForm::default()).await
}

/// Redirects to the page; after a refusal, renders it with the reason and the limits that were typed.
async fn conclude(api: &ApiState, visitor: &Visitor, done: Outcome<()>, said: LimitForm) -> PageResult {
    match concluded(done)? {
        Ok(()) => Ok(see("/queues").finish()),
        Err(refused) => Ok(page(refused.status, &load(api, visitor, Some(refused.message), said).await?)),
    }
}

async fn limit(api: web::Data<ApiState>, form: Form<LimitForm>) -> PageResult {
    let said = form.fields;
    let (ctx, caller) = (&api.ctx.arcp, &form.visitor.caller);
    let changed = async {
        let (scope, name) = (said.scope()?, said.name.trim());
        match said.verb.as_str() {
            "set" => limits::set(ctx, caller, scope, name, said.limits()?).await,
            "remove" => limits::remove(ctx, caller, scope, name).await,
            _ => {
                let message = "Limits are set or removed. Nothing was changed.";
                Err(Refusal::new(Code::InvalidParameter, message).into())
            }
        }
    };
    let done = changed.await;
    conclude(&api, &form.visitor, done, said).await
}
