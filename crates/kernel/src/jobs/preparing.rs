//! Jobs that get credentials (ARCP §9.8.2): between their submission and their acceptance they wait for those, outside of any
//! transaction, and nobody sees them. Without their credentials they are not accepted, and leave nothing behind; of those
//! whose server died meanwhile the sweep takes care (`credentials/revoking.rs`).

use std::time::Duration;

use entente_domain::canonical::Digest;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::jobs::Job;
use entente_domain::jobs::wire::Credential;
use entente_domain::refusal::{Code, Refusal};
use tokio::time::{Instant, sleep};

use super::delegation::told;
use super::hold::Hold;
use super::submit::{Submission, Submitted, take_place};
use super::works::Works;
use super::writes;
use crate::credentials::{self, Failed, Made};
use crate::feed::Touch;
use crate::{AppError, Ctx, Outcome};

/// How long a repeated submission waits for the first, and how often it looks: clients wait no longer (contract 2).
const PATIENCE: Duration = Duration::from_secs(4);
const LOOK: Duration = Duration::from_millis(50);

/// Whose child is prepared: the claim under which it was delegated.
pub(super) struct Delegation {
    pub parent: JobId,
    pub token: Digest,
}

/// The same is being accepted at this moment.
pub(super) fn being_prepared() -> Refusal {
    Refusal::new(
        Code::Unavailable,
        "The same job is just being accepted. Ask again shortly: then you get it.",
    )
}

/// Hands a job in, and waits for its credentials if it gets any. Who asks the same while it is being prepared waits with it.
pub(super) async fn submit(works: &Works, submission: Submission) -> Outcome<Submitted> {
    let until = Instant::now() + PATIENCE;
    let submitted = loop {
        match works.hand_in(submission.clone()).await {
            Err(AppError::Refused(refusal)) if refusal == being_prepared() && Instant::now() < until => {
                sleep(LOOK).await;
            }
            done => break done?,
        }
    };
    if submitted.preparing {
        return provide(&works.ctx, submitted.job, None).await;
    }
    if submitted.repeated {
        let mut conn = works.ctx.pool.acquire().await?;
        let before = credentials::as_accepted(&mut conn, submitted.job.id).await?;
        return Ok(submitted.with(before));
    }
    Ok(submitted)
}

/// Has a job's credentials made, and the job accepted with them.
///
/// # Errors
/// They are not to be had; the job it was delegated by is no longer its worker's.
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

/// Accepts the job, if nobody has given it up meanwhile.
async fn keep(
    ctx: &Ctx,
    job: &Job,
    made: &[Made],
    by: Option<Delegation>,
) -> Outcome<Option<Vec<Credential>>> {
    let intents: Vec<IntentId> = job.intent_id.into_iter().collect();
    let parents: Vec<JobId> = by.iter().map(|by| by.parent).collect();
    let mut tx = ctx.begin(&intents).await?;
    let mut hold = Hold::take(&mut tx, &parents, &intents, ctx.now()).await?;
    if let Some(by) = &by {
        hold.job(by.parent)?.hold(&by.token, hold.now())?;
    }
    if !writes::ready(&mut tx, job.id).await? {
        return Ok(None);
    }
    let Some(shown) = credentials::store(&mut tx, made).await? else { return Ok(None) };
    take_place(ctx, &mut tx, &mut hold, job).await?;
    if let Some(by) = &by {
        hold.say(by.parent, "delegate", &told(job));
    }
    hold.conclude(ctx, tx).await?;
    ctx.feed.ring(Touch::Work(job.agent.clone()));
    Ok(Some(shown))
}

/// Takes the job away again, and has taken back what may be out.
async fn give_up(ctx: &Ctx, job: &Job, failed: Failed) -> Outcome<Refusal> {
    let mut tx = ctx.begin(&[]).await?;
    writes::drop_preparing(&mut tx, &[job.id]).await?;
    credentials::lose(&mut tx, &failed.lost, ctx.now()).await?;
    tx.commit().await?;
    ctx.provisioners.ring();
    Ok(failed.refusal)
}
