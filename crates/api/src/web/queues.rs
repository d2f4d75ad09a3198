//! The page of queues: for each agent that the visitor owns, and for admins each agent, what waits and runs, its limits, and
//! buttons that pause, drain and open its queue.

use actix_web::http::StatusCode;
use actix_web::web;
use askama::Template;
use entente_arcp::limits::JobLimit;
use entente_arcp::queues::State;
use entente_arcp::{limits, queues};
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
    config.route("/queues", web::get().to(show)).route("/queues", web::post().to(change));
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
}

struct LimitRow {
    subject: String,
    running: i64,
    limit: String,
}

fn limit_text(limit: &JobLimit) -> String {
    let running = limit.limits.max_running.map(|most| format!("{most} at once"));
    let starts = limit.limits.max_starts.zip(limit.limits.per_sec);
    let starts = starts.map(|(most, seconds)| format!("{most} started within {seconds} s"));
    running.into_iter().chain(starts).collect::<Vec<_>>().join(", ")
}

fn queue_row(queue: queues::Queue, limit: Option<&JobLimit>, now: Timestamp) -> QueueRow {
    QueueRow {
        state: queue.state.as_str(),
        is_open: queue.state == State::Open,
        reason: queue.reason,
        changed: queue.changed_by.zip(queue.changed_at.map(|at| When::new(at, now))),
        pending: queue.pending,
        running: queue.running,
        limit: limit.map(limit_text),
        agent: queue.agent,
    }
}

async fn load(api: &ApiState, visitor: &Visitor, fault: Option<String>) -> Outcome<QueuesPage> {
    let (ctx, caller) = (&api.ctx.arcp, &visitor.caller);
    let (is_admin, now) = (caller.has(Scope::Admin), ctx.now());
    let (queues, others) = queues::list(ctx, caller, SHOWN).await?;
    let mut limits = limits::list(ctx, caller).await?;
    let mut rows = Vec::new();
    for queue in queues {
        let at = limits.iter().position(|limit| limit.scope == "agent" && limit.name == queue.agent);
        let limit = at.map(|at| limits.swap_remove(at));
        rows.push(queue_row(queue, limit.as_ref(), now));
    }
    let row = |limit: JobLimit| LimitRow {
        limit: limit_text(&limit),
        running: limit.running,
        subject: format!("{} {}", limit.scope, limit.name),
    };
    Ok(QueuesPage {
        shell: Shell::of(visitor, "Queues", Place::Jobs),
        is_admin,
        fault,
        queues: rows,
        others,
        limits: limits.into_iter().map(row).collect(),
    })
}

async fn show(api: web::Data<ApiState>, visitor: Visitor) -> PageResult {
    Ok(page(StatusCode::OK, &load(&api, &visitor, None).await?))
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
    match concluded(changed.await)? {
        Ok(_queue) => Ok(see("/queues").finish()),
        Err(refused) => Ok(page(refused.status, &load(&api, &form.visitor, Some(refused.message)).await?)),
    }
}
