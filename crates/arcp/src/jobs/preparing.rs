//! Jobs with provisioned credentials (ARCP §9.8.2). Between submission and acceptance they wait for their
//! credentials, invisible and outside any transaction. If provisioning fails, the job is not accepted and
//! leaves nothing behind; if the server dies meanwhile, the sweep cleans up (`credentials/revoking.rs`).

use std::time::Duration;

use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::jobs::wire::Credential;
use entente_domain::canonical::Digest;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::refusal::{Code, Refusal};
use tokio::time::{Instant, sleep};

use super::delegation::event_payload;
use super::locked::LockedJobs;
use super::submit::{Submission, Submitted, take_place};
use super::writer::JobWriter;
use super::writes;
use crate::Ctx;
use crate::credentials;
use crate::credentials::{Failed, Made};
use entente_kernel::feed::WakeKey;
use entente_kernel::{AppError, Outcome};

/// Maximum wait of a repeated submission and its polling interval; clients wait no longer (ARCP-W-2.6).
const PATIENCE: Duration = Duration::from_secs(4);
const LOOK: Duration = Duration::from_millis(50);

/// Parent and claim token under which a child was delegated.
pub(super) struct Delegation {
    pub parent: JobId,
    pub token: Digest,
}

/// Refusal while the same job is being accepted.
pub(super) fn being_prepared() -> Refusal {
    Refusal::new(
        Code::Unavailable,
        "The same job is just being accepted. Ask again shortly: then you get it.",
    )
}

/// Submits a job and waits for its credentials, if it gets any; a concurrent repetition waits with it.
pub(super) async fn submit(job_writer: &JobWriter, submission: Submission) -> Outcome<Submitted> {
    let until = Instant::now() + PATIENCE;
    let submitted = loop {
        match job_writer.hand_in(submission.clone()).await {
            Err(AppError::Refused(refusal)) if refusal == being_prepared() && Instant::now() < until => {
                sleep(LOOK).await;
            }
            done => break done?,
        }
    };
    if submitted.preparing {
        return provide(&job_writer.ctx, submitted.job, None).await;
    }
    if submitted.repeated {
        let mut conn = job_writer.ctx.pool.acquire().await?;
        let before = credentials::as_accepted(&mut conn, submitted.job.id).await?;
        return Ok(submitted.with(before));
    }
    Ok(submitted)
}

/// Provisions a job's credentials and accepts the job with them.
///
/// # Errors
/// Provisioning fails; the parent job's claim is lost.
pub(super) async fn provide(ctx: &Ctx, job: Job, by: Option<Delegation>) -> Outcome<Submitted> {
    let mut conn = ctx.pool.acquire().await?;
    let prepared = credentials::waiting(&mut conn, job.id).await?;
    drop(conn);
    let made = match credentials::mint(ctx, &job, prepared).await {
        Ok(made) => made,
        Err(failed) => return Err(give_up(ctx, &job, failed).await?.into()),
    };
    match keep(ctx, &job, &made, by).await {
        Ok(Some(shown)) => Ok(Submitted::new(job, false).with(shown)),
        Ok(None) => Err(give_up(ctx, &job, credentials::refused(made)).await?.into()),
        Err(failure) => {
            give_up(ctx, &job, credentials::refused(made)).await?;
            Err(failure)
        }
    }
}

/// Accepts the job, unless it was given up meanwhile.
async fn keep(
    ctx: &Ctx,
    job: &Job,
    made: &[Made],
    by: Option<Delegation>,
) -> Outcome<Option<Vec<Credential>>> {
    let intents: Vec<IntentId> = job.intent_id.into_iter().collect();
    let parents: Vec<JobId> = by.iter().map(|by| by.parent).collect();
    let mut tx = ctx.begin(&intents).await?;
    let mut locked = LockedJobs::take(&mut tx, &parents, &intents, ctx.now()).await?;
    if let Some(by) = &by {
        locked.job(by.parent)?.hold(&by.token, locked.now())?;
    }
    if !writes::ready(&mut tx, job.id).await? {
        return Ok(None);
    }
    let Some(shown) = credentials::store(&mut tx, made).await? else { return Ok(None) };
    take_place(ctx, &mut tx, &mut locked, job).await?;
    if let Some(by) = &by {
        locked.say(by.parent, "delegate", &event_payload(job));
    }
    locked.conclude(ctx, tx).await?;
    ctx.feed.wake(WakeKey::Work(job.agent.clone()));
    Ok(Some(shown))
}

/// Deletes the job and schedules the revocation of credentials that may have been issued.
async fn give_up(ctx: &Ctx, job: &Job, failed: Failed) -> Outcome<Refusal> {
    let mut tx = ctx.begin(&[]).await?;
    writes::drop_preparing(&mut tx, &[job.id]).await?;
    credentials::lose(&mut tx, &failed.lost, ctx.now()).await?;
    tx.commit().await?;
    ctx.state.provisioners.ring();
    Ok(failed.refusal)
}
