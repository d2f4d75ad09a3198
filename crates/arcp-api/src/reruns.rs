//! Endpoints for jobs that are over: counts of a search, dead letters, running jobs again (beyond ARCP).

use std::collections::BTreeMap;

use actix_web::{HttpRequest, get, post, web};
use entente_arcp::jobs;
use entente_arcp::jobs::{Again, JobSearch, RerunAsk};
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::reruns::{AGAIN, Version};
use entente_domain::arcp::jobs::wire::Accepted;
use entente_domain::arcp::jobs::{JobStatus, labels};
use entente_domain::arcp::versions::AgentRef;
use entente_domain::clock;
use entente_domain::ids::JobId;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, OptionalBody, Query};
use entente_http::caller::Asker;
use entente_http::error::{Problem, Reply};
use entente_http::routes::Routes;
use entente_http::{created, ok};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ApiState;
use crate::jobs::{FailureBody, job_id, searched};

/// Default number of jobs that one request runs again.
const STEP: u32 = 50;

pub(crate) fn routes(config: &mut Routes<'_>) {
    // A fixed path comes before the one with a parameter.
    config.service(count).service(rerun_found).service(rerun).service(resolve);
}

/// The number of jobs that a search finds.
#[derive(Debug, Serialize, ToSchema)]
struct JobCounts {
    /// The number by status.
    by_status: BTreeMap<&'static str, i64>,
    /// The number of all.
    total: i64,
    /// Whether all were counted: of more than 100,000 candidates the newest are, and the numbers are lower bounds.
    complete: bool,
}

/// Count jobs
///
/// Counts the jobs that `GET /jobs` with the same conditions lists, by status.
#[utoipa::path(operation_id = "count_jobs", tag = "jobs",
    params(("status" = Option<String>, Query, description = "Only jobs in this status; several are separated by commas"),
           ("agent" = Option<String>, Query, description = "Only jobs of this agent: `name` or `name@version`"),
           ("principal" = Option<String>, Query, description = "Only jobs that this agent submitted"),
           ("label" = Option<Vec<String>>, Query, description = "Only jobs with this label: `key=value`; repeatable"),
           ("parent_job_id" = Option<String>, Query, description = "Only jobs that this one delegated"),
           ("trace_id" = Option<String>, Query, description = "Only jobs of this trace"),
           ("error_code" = Option<String>, Query, description = "Only jobs that ended with this error code (ARCP §12)"),
           ("dead_letter" = Option<String>, Query, description = "Only dead letters: `open` or `resolved` ones"),
           ("created_after" = Option<String>, Query, description = "Only jobs accepted after this time, RFC 3339"),
           ("created_before" = Option<String>, Query, description = "Only jobs accepted before this time, RFC 3339")),
    responses((status = 200, description = "The numbers", body = JobCounts)))]
#[get("/jobs/counts")]
async fn count(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let search = searched(&query, 1, 1)?;
    let counts = jobs::count(&api.ctx, &asker.caller, &search).await?;
    let by_status: BTreeMap<&str, i64> =
        counts.by_status.into_iter().map(|(status, count)| (status.as_str(), count)).collect();
    ok(&JobCounts { total: by_status.values().sum(), by_status, complete: counts.is_complete })
}

/// How a job is run again.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = JobRerun, example = json!({ "idempotency_key": "again-1" }))]
struct RerunBody {
    /// Under the same key the job is run again once; the same as the header `Idempotency-Key`.
    idempotency_key: Option<String>,
    /// Whether today's default version of the agent runs it, rather than the version that ran it.
    #[serde(default)]
    default_version: bool,
}

impl RerunBody {
    fn ask(self, request: &HttpRequest) -> Result<RerunAsk, Problem> {
        let key = key(request, self.idempotency_key)?;
        Ok(RerunAsk { version: version(self.default_version), key })
    }
}

fn version(is_default: bool) -> Version {
    if is_default { Version::Default } else { Version::Same }
}

/// Returns the key of a request, from its header or its body.
fn key(request: &HttpRequest, said: Option<String>) -> Result<Option<String>, Refusal> {
    let Some(header) = request.headers().get("idempotency-key") else { return Ok(said) };
    let header = header.to_str().unwrap_or_default().to_owned();
    if said.is_some_and(|said| said != header) {
        let message = "The header `Idempotency-Key` and `idempotency_key` differ. Send one of them.";
        return Err(Refusal::field(Code::InvalidRequest, "idempotency_key", "value", message));
    }
    Ok(Some(header))
}

/// Run a job again
///
/// Submits an ended job again for its submitter: the same agent and version, input, authority, intent and labels; the times of its
/// lease and its run begin anew. The new job has `rerun_of`, and a dead letter is resolved by it. Allowed for the submitter and for
/// keys with the scope `admin`. A delegated job is not run again, because its parent's budget paid for it.
#[utoipa::path(operation_id = "rerun_job", tag = "jobs", request_body = Option<RerunBody>,
    params(("Idempotency-Key" = Option<String>, Header, description = "Same as `idempotency_key` in the body")),
    responses((status = 201, description = "The new job", body = Accepted), (status = 200, description = "The job that the same request made before", body = Accepted)))]
#[post("/jobs/{job_id}/rerun")]
async fn rerun(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<RerunBody>,
) -> Reply {
    let ask = body.0.value.ask(&request)?;
    let submitted = jobs::rerun(&api.job_writer, &asker.caller, job_id(&path)?, &ask).await?;
    // The session cancels the job, and the credentials are its submitter's.
    let own = submitted.job.principal == asker.caller.agent;
    let session_id = own.then_some(submitted.job.session_id);
    let credentials = if own { submitted.accepted.credentials } else { Vec::new() };
    let accepted = Accepted { session_id, credentials, ..submitted.accepted };
    if submitted.repeated { ok(&accepted) } else { created(&accepted) }
}

/// A search for jobs to run again. A job fulfils all conditions.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = JobRerunSearch, example = json!({ "error_code": "TIMEOUT", "agent": "echo", "dry_run": true }))]
struct RerunFoundBody {
    /// Only jobs in these statuses, all of them final; defaults to `error` and `timed_out`.
    #[serde(default)]
    status: Vec<JobStatus>,
    /// Only jobs of this agent: `name` or `name@version`.
    agent: Option<String>,
    /// Only jobs that this agent submitted.
    principal: Option<String>,
    /// Only jobs with these labels.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Only jobs of this trace.
    trace_id: Option<String>,
    /// Only jobs that ended with this error code (ARCP §12).
    error_code: Option<String>,
    /// Only open dead letters, or only resolved ones.
    dead_letter: Option<Letter>,
    /// Only jobs accepted after this time, RFC 3339.
    created_after: Option<String>,
    /// Only jobs accepted before this time, RFC 3339.
    created_before: Option<String>,
    /// Maximum number of jobs that this request runs again: 1 to 200; defaults to 50.
    limit: Option<u32>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Under the same key each job is run again once, however often the request is sent; required unless `dry_run` is set.
    idempotency_key: Option<String>,
    /// Whether today's default versions of the agents run the jobs.
    #[serde(default)]
    default_version: bool,
    /// Only list the jobs that would be run again.
    #[serde(default)]
    dry_run: bool,
}

/// The state of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DeadLetterState)]
enum Letter {
    /// Nobody has resolved it.
    Open,
    /// Somebody has resolved it, or run the job again.
    Resolved,
}

impl RerunFoundBody {
    fn search(&self) -> Result<JobSearch, Refusal> {
        let wrong = |member: &str, what: &str| {
            Refusal::field(Code::InvalidRequest, member, "value", format!("`{member}` must be {what}."))
        };
        let time = |member: &str, said: &Option<String>| {
            let read = |text: &String| clock::parse(text).ok_or_else(|| wrong(member, "an RFC 3339 time"));
            said.as_ref().map(read).transpose()
        };
        labels::check(&self.labels)?;
        let agent = self
            .agent
            .as_ref()
            .map(|text| AgentRef::parse(text).ok_or_else(|| wrong("agent", "`name` or `name@version`")));
        let code = self
            .error_code
            .as_ref()
            .map(|text| Fault::parse(text).ok_or_else(|| wrong("error_code", "an error code of ARCP §12")));
        Ok(JobSearch {
            statuses: self.status.clone(),
            agent: agent.transpose()?,
            principal: self.principal.clone(),
            labels: self.labels.clone().into_iter().collect(),
            parent: None,
            trace: self.trace_id.as_ref().map(|id| id.to_ascii_lowercase()),
            error_code: code.transpose()?,
            dead_letter: self.dead_letter.map(|letter| letter == Letter::Open),
            created_after: time("created_after", &self.created_after)?,
            created_before: time("created_before", &self.created_before)?,
            limit: self.limit.unwrap_or(STEP).min(AGAIN + 1),
            cursor: self.cursor.clone(),
        })
    }
}

/// A job that runs another one again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobRerunItem)]
struct RerunItem {
    /// The job that is run again.
    rerun_of: JobId,
    /// The new job.
    job_id: JobId,
    /// Whether the same request made it before.
    repeated: bool,
}

/// A job that cannot be run again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobRerunRefusal)]
struct RefusedItem {
    /// The job.
    job_id: JobId,
    /// Error code.
    code: Code,
    /// The reason, and the next step.
    message: String,
}

/// The jobs of one page that are run again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobReruns)]
struct RerunsBody {
    /// Number of jobs that the search finds on all pages.
    found: i64,
    /// Whether all of them were counted; otherwise `found` is a lower bound.
    complete: bool,
    /// Whether nothing was run again.
    dry_run: bool,
    /// The jobs of this page that are run again, or would be.
    selected: Vec<JobId>,
    /// The new jobs; empty for a dry run.
    reruns: Vec<RerunItem>,
    /// Jobs of this page that another request has run again already; they are left out.
    skipped: Vec<JobId>,
    /// Jobs of this page that cannot be run again.
    refused: Vec<RefusedItem>,
    /// Cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

impl RerunsBody {
    fn new(again: Again, dry_run: bool) -> Self {
        let item =
            |one: jobs::Rerun| RerunItem { rerun_of: one.source, job_id: one.job_id, repeated: one.repeated };
        let refused = again.refused.into_iter().map(|(job_id, refusal)| RefusedItem {
            job_id,
            code: refusal.code,
            message: refusal.message,
        });
        Self {
            found: again.found,
            complete: again.is_complete,
            dry_run,
            selected: again.selected,
            reruns: again.reruns.into_iter().map(item).collect(),
            skipped: again.skipped,
            refused: refused.collect(),
            next_cursor: again.next_cursor,
        }
    }
}

/// Run all jobs of a search again
///
/// Runs one page of the jobs that a search finds again, as `POST /jobs/{job_id}/rerun` does; `next_cursor` goes on. Jobs that
/// another request has run again are left out, so nothing runs twice. The same request again makes no further jobs.
#[utoipa::path(operation_id = "rerun_jobs", tag = "jobs", request_body = RerunFoundBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Same as `idempotency_key` in the body")),
    responses((status = 200, description = "The jobs of this page", body = RerunsBody)))]
#[post("/jobs/rerun")]
async fn rerun_found(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    body: Body<RerunFoundBody>,
) -> Reply {
    let said = body.value;
    let search = said.search()?;
    let ask = RerunAsk { version: version(said.default_version), key: key(&request, said.idempotency_key)? };
    let again = jobs::rerun_found(&api.job_writer, &asker.caller, search, &ask, said.dry_run).await?;
    ok(&RerunsBody::new(again, said.dry_run))
}

/// A note on a dead letter.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = JobResolution, example = json!({ "note": "The customer was told." }))]
struct ResolveBody {
    /// Note for people on how it was resolved.
    note: Option<String>,
}

/// Resolve a dead letter
///
/// Says that somebody has looked after a failed job, which then leaves the list of open dead letters. Resolving it again changes
/// nothing. Allowed for the submitter and for keys with the scope `admin`.
#[utoipa::path(operation_id = "resolve_job", tag = "jobs", request_body = Option<ResolveBody>,
    responses((status = 200, description = "The failure, resolved", body = FailureBody)))]
#[post("/jobs/{job_id}/resolve")]
async fn resolve(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<ResolveBody>,
) -> Reply {
    let failure = jobs::resolve(&api.ctx, &asker.caller, job_id(&path)?, body.0.value.note).await?;
    ok(&FailureBody::from(failure))
}
