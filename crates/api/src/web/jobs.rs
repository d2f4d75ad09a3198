//! Pages of jobs: a search with counts; in `jobs/`, one job, and running all jobs of a search again. The API has more
//! (`crates/arcp-api`).

mod again;
mod one;

use actix_web::http::StatusCode;
use actix_web::web;
use askama::Template;
use entente_arcp::jobs;
use entente_arcp::jobs::{Beside, JobSearch};
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::{Job, JobStatus, labels};
use entente_domain::arcp::versions::AgentRef;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::JobId;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{AppError, Caller, Outcome};
use serde::Deserialize;

use super::guard::{PageResult, Visitor};
use super::page;
use super::records::{from_time, until_time};
use super::shell::{Place, Shell};
use super::words::When;
use crate::ApiState;

/// Jobs of a page.
const STEP: u32 = 50;

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/jobs", web::get().to(list));
    // Before the page of one job, because its path has any id.
    again::routes(config);
    one::routes(config);
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
    /// Whether the visitor may run jobs again.
    may_rerun: bool,
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
        may_rerun: caller.has(Scope::JobsWrite) && caller.has(Scope::JobsRead),
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
