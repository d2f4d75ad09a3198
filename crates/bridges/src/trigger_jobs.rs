//! Jobs that triggers submit: a firing's request becomes a job of the trigger's owner, once. Every server looks for them;
//! the request's idempotency key decides between two.

use entente_arcp::jobs::{JobWriter, Origin};
use entente_domain::arcp::jobs::ask::Submit;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{AppError, Outcome};
use entente_openintent::triggers::{self, DueJob};
use futures_util::{StreamExt, stream};

use crate::Ctx;

/// Jobs submitted in one run.
const BATCH: i64 = 50;

/// Why a job of an owner without rights is refused.
const POWERLESS: &str = "No key by which it acts is in force.";

/// Why an old request is given up.
const LATE: &str =
    "It could not be submitted for hours, and a job of it may exist: it is not submitted again.";

/// Jobs submitted at once: one that waits for its credentials holds up few.
const AT_ONCE: usize = 8;

/// Submits the jobs of firings, and returns how many of them are settled. One that fails keeps back no other.
///
/// # Errors
/// The database fails.
pub async fn step(ctx: &Ctx, job_writer: &JobWriter) -> Outcome<u64> {
    let due = triggers::due_jobs(&ctx.openintent, BATCH).await?;
    let submissions = stream::iter(due).map(|one| submit(ctx, job_writer, one)).buffer_unordered(AT_ONCE);
    let results: Vec<Outcome<bool>> = submissions.collect().await;
    results.into_iter().try_fold(0, |done, one| Ok(done + u64::from(one?)))
}

/// Submits the job of a firing; returns whether it is settled.
async fn submit(ctx: &Ctx, job_writer: &JobWriter, due: DueJob) -> Outcome<bool> {
    let refuse = async |why: &str| triggers::job_refused(&ctx.openintent, due.firing_id, why).await;
    let Some(owner) = &due.owner else {
        refuse(POWERLESS).await?;
        return Ok(true);
    };
    if due.late {
        refuse(LATE).await?;
        return Ok(true);
    }
    let submit: Submit = serde_json::from_str(&due.request)?;
    match job_writer.submit(owner, submit, Origin::Rest).await {
        Ok(submitted) => {
            triggers::job_submitted(&ctx.openintent, due.firing_id, submitted.job.id).await?;
            Ok(true)
        }
        // Another server submits the same, or it may succeed later: in a drained queue, or when there is room again.
        Err(AppError::Refused(refusal)) if may_succeed(&refusal) => {
            tracing::debug!(firing.id = %due.firing_id, error = %refusal.message, "a trigger's job waits");
            Ok(false)
        }
        Err(AppError::Refused(refusal)) => {
            refuse(&refusal.message).await?;
            Ok(true)
        }
        Err(failure) => Err(failure),
    }
}

/// Whether the same request may succeed later, without a change of the trigger.
fn may_succeed(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::Unavailable | Code::RateLimited | Code::StorageFull)
        || refusal.retry_after_seconds.is_some()
}
