//! Dead letters, and a job's other records beside its own row.

use std::collections::BTreeMap;

use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::jobs::ask::no_job;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::limits::TEXT_BYTES;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, IntentTx, Outcome};
use serde_json::json;

use crate::Ctx;
use crate::jobs::reading::{observable, sees};
use crate::jobs::records::failures::Failure;
use crate::jobs::records::reruns::Links;
use crate::jobs::records::signals::Marks;
use crate::jobs::records::{Beside, costs, failures, labels, reruns};
use crate::jobs::rows;

/// Returns the records beside the rows of those jobs that the caller may see all of.
///
/// # Errors
/// The database query fails.
pub async fn beside(ctx: &Ctx, caller: &Caller, jobs: &[Job]) -> Outcome<BTreeMap<JobId, Beside>> {
    let ids: Vec<JobId> = jobs.iter().filter(|job| sees(ctx, caller, job)).map(|job| job.id).collect();
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut conn = ctx.pool.acquire().await?;
    let mut labels = labels::load(&mut conn, &ids).await?;
    let mut failures = failures::load(&mut conn, &ids).await?;
    let mut sources = reruns::sources(&mut conn, &ids).await?;
    let mut costs = costs::load(&mut conn, &ids).await?;
    let each = ids.into_iter().map(|id| {
        let beside = Beside {
            labels: labels.remove(&id).unwrap_or_default(),
            failure: failures.remove(&id),
            links: Links { rerun_of: sources.remove(&id), reruns: Vec::new() },
            cost: costs.remove(&id).unwrap_or_default(),
            signals: Marks::default(),
        };
        (id, beside)
    });
    Ok(each.collect())
}

/// Resolves a dead letter: somebody has looked after the failed job. Resolving it again changes nothing.
///
/// # Errors
/// There is no such job, or it is no dead letter; the note is too long.
pub async fn resolve(ctx: &Ctx, caller: &Caller, id: JobId, note: Option<String>) -> Outcome<Failure> {
    caller.require(Scope::JobsWrite)?;
    if note.as_ref().is_some_and(|note| note.len() > TEXT_BYTES) {
        let message = "`note` has more than 16 KiB.";
        return Err(Refusal::field(Code::InvalidRequest, "note", "too_long", message).into());
    }
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let job = rows::load(work.conn(), &[id]).await?.pop();
    let job = job.filter(|job| observable(ctx, caller, job)).ok_or_else(no_job)?;
    if job.principal != caller.agent && !caller.has(Scope::Admin) {
        let message = "Only the submitter of a job or an operator resolves it.";
        return Err(Refusal::new(Code::PermissionDenied, message).into());
    }
    let now = work.now();
    let done = failures::resolve(work.conn(), id, &caller.agent, note.as_deref(), now).await?;
    let failure = failures::load(work.conn(), &[id]).await?.remove(&id);
    let failure = failure.filter(|failure| failure.resolved_at.is_some()).ok_or_else(|| {
        let message = format!(
            "{id} is no dead letter: it has not failed, or was cancelled, or it failed before there were any."
        );
        Refusal::new(Code::Unprocessable, message)
    })?;
    if done && job.principal != caller.agent {
        let payload = json!({ "job_id": id, "principal": job.principal, "note": note });
        work.record(Draft::of(Kind::JobResolved, &caller.agent, payload));
    }
    work.commit().await?;
    Ok(failure)
}
