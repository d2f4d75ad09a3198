//! Running all jobs of a search again: a page that says how many there are and asks first, and one with the result. A
//! press of the button runs one page of them again; the answer has the button of the next.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use askama::Template;
use entente_arcp::jobs;
use entente_arcp::jobs::{Again, JobSearch, RerunAsk};
use entente_domain::arcp::jobs::reruns::{AGAIN, Version};
use entente_domain::identity::keys::Scope;
use entente_domain::ids::JobId;
use entente_domain::refusal::Refusal;
use entente_kernel::Outcome;
use serde::Deserialize;

use super::{Asked, spoken};
use crate::ApiState;
use crate::web::guard::{Form, FormRefusal, PageError, PageResult, Visitor, concluded};
use crate::web::page;
use crate::web::shell::{Place, Shell};
use crate::web::words::count;

/// Jobs that a page names.
const NAMED: usize = 50;

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config.route("/jobs/again", web::get().to(ask)).route("/jobs/again", web::post().to(run));
}

#[derive(Template)]
#[template(path = "again.html")]
struct AgainPage {
    shell: Shell,
    everything: bool,
    asked: Asked,
    /// The conditions of the search, in words.
    conditions: Vec<String>,
    /// Why nothing was run again.
    fault: Option<String>,
    /// Result of the last press, if there was one.
    done: Option<Done>,
    /// Effect of the next press.
    next: Option<Next>,
    /// Key of the button: pressed twice, it runs each job again once.
    key: String,
}

/// Result of a press of the button.
struct Done {
    heading: String,
    /// The jobs that are run again, and the new ones.
    made: Vec<(JobId, JobId)>,
    others: usize,
    skipped: usize,
    refused: Vec<(JobId, String)>,
    others_refused: usize,
}

/// Effect of the next press of the button.
struct Next {
    /// How many jobs the search finds, in words.
    found: String,
    /// How many of them the button runs again.
    count: usize,
    jobs: Vec<JobId>,
    /// Jobs of the page that are run again already.
    skipped: usize,
    refused: Vec<(JobId, String)>,
    others_refused: usize,
    cursor: String,
    /// Whether more follow after the press.
    has_more: bool,
}

/// The form that runs jobs again: the conditions of the search, and the version to run.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RunForm {
    key: String,
    version: String,
    #[serde(flatten)]
    asked: Asked,
}

/// Returns the search of a press: as many jobs as one request runs again.
fn search(asked: &Asked) -> Result<JobSearch, Refusal> {
    Ok(JobSearch { limit: AGAIN, ..asked.search()? })
}

fn conditions(asked: &Asked) -> Vec<String> {
    let Asked { status, agent, principal, label, trace_id, error_code, dead_letter, from, until, cursor: _ } =
        asked;
    let status = if status.trim().is_empty() { "error or timed out".to_owned() } else { spoken(status) };
    let rest = [
        ("dead letters", dead_letter),
        ("agent", agent),
        ("submitter", principal),
        ("label", label),
        ("error code", error_code),
        ("trace", trace_id),
        ("accepted from", from),
        ("accepted until", until),
    ];
    let said = rest.into_iter().filter(|(_, text)| !text.trim().is_empty());
    let rest = said.map(|(name, text)| format!("{name} {}", text.trim()));
    [format!("status {status}")].into_iter().chain(rest).collect()
}

/// Returns the first of the refused jobs, and the number of the others.
fn named(refused: Vec<(JobId, Refusal)>) -> (Vec<(JobId, String)>, usize) {
    let others = refused.len().saturating_sub(NAMED);
    (refused.into_iter().take(NAMED).map(|(id, refusal)| (id, refusal.message)).collect(), others)
}

fn next(again: Again, cursor: String) -> Next {
    let (refused, others_refused) = named(again.refused);
    let whole = if again.is_complete { "" } else { " or more" };
    Next {
        found: format!("{}{whole}", count(usize::try_from(again.found).unwrap_or(0), "job")),
        count: again.selected.len(),
        jobs: again.selected.into_iter().take(NAMED).collect(),
        skipped: again.skipped.len(),
        refused,
        others_refused,
        cursor,
        has_more: again.next_cursor.is_some(),
    }
}

/// Previews a press of the button; a refusal of the search is shown on the page.
async fn look(
    api: &ApiState,
    visitor: &Visitor,
    asked: &Asked,
) -> Result<Result<Next, FormRefusal>, PageError> {
    let found: Outcome<Again> = async {
        let ask = RerunAsk::default();
        jobs::rerun_found(&api.arcp.job_writer, &visitor.caller, search(asked)?, &ask, true).await
    }
    .await;
    Ok(concluded(found)?.map(|again| next(again, asked.cursor.clone())))
}

fn shown(api: &ApiState, visitor: &Visitor, asked: Asked) -> AgainPage {
    AgainPage {
        shell: Shell::of(visitor, "Run jobs again", Place::Jobs),
        everything: visitor.caller.has(Scope::Admin),
        conditions: conditions(&asked),
        asked,
        fault: None,
        done: None,
        next: None,
        key: format!("page-{:032x}", api.ctx.chance.bits()),
    }
}

async fn ask(api: web::Data<ApiState>, visitor: Visitor, asked: web::Query<Asked>) -> PageResult {
    let asked = asked.into_inner();
    let found = look(&api, &visitor, &asked).await?;
    Ok(answer(shown(&api, &visitor, asked), found))
}

/// Renders the page with the effect of the next press, or the reason why there is none.
fn answer(mut shown: AgainPage, found: Result<Next, FormRefusal>) -> HttpResponse {
    let status = match found {
        Ok(next) => {
            shown.next = Some(next);
            StatusCode::OK
        }
        Err(refused) => {
            shown.fault = Some(refused.message);
            refused.status
        }
    };
    page(status, &shown)
}

async fn run(api: web::Data<ApiState>, form: Form<RunForm>) -> PageResult {
    let RunForm { key, version, mut asked } = form.fields;
    let version = if version == "default" { Version::Default } else { Version::Same };
    let caller = &form.visitor.caller;
    let ran: Outcome<Again> = async {
        let ask = RerunAsk { version, key: Some(key.clone()) };
        jobs::rerun_found(&api.arcp.job_writer, caller, search(&asked)?, &ask, false).await
    }
    .await;
    let again = match concluded(ran)? {
        Ok(again) => again,
        Err(refused) => {
            let next = look(&api, &form.visitor, &asked).await?.ok();
            // The key stays: the button repeats the same request.
            let again = shown(&api, &form.visitor, asked);
            let again = AgainPage { key, next, fault: Some(refused.message), ..again };
            return Ok(page(refused.status, &again));
        }
    };
    let cursor = again.next_cursor.clone();
    let done = Some(done(again));
    let Some(cursor) = cursor else {
        let last = AgainPage { done, ..shown(&api, &form.visitor, asked) };
        return Ok(page(StatusCode::OK, &last));
    };
    asked.cursor = cursor;
    let found = look(&api, &form.visitor, &asked).await?;
    Ok(answer(AgainPage { done, ..shown(&api, &form.visitor, asked) }, found))
}

fn done(again: Again) -> Done {
    let (refused, others_refused) = named(again.refused);
    let all = again.reruns.len();
    let verb = if all == 1 { "is" } else { "are" };
    Done {
        heading: format!("{} {verb} run again", count(all, "job")),
        made: again.reruns.iter().take(NAMED).map(|one| (one.source, one.job_id)).collect(),
        others: all.saturating_sub(NAMED),
        skipped: again.skipped.len(),
        refused,
        others_refused,
    }
}
