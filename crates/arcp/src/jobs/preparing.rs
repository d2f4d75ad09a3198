//! Jobs with provisioned credentials (ARCP §9.8.2). Between submission and acceptance they wait for their
//! credentials, invisible and outside any transaction. If provisioning fails, the job is not accepted and
//! leaves nothing behind; if the server dies meanwhile, the sweep cleans up ([`tidy_credentials`]).

use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::jobs::wire::Credential;
use entente_domain::canonical::Digest;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::refusal::Refusal;
use entente_kernel::Outcome;
use entente_kernel::wakeups::WakeKey;

use super::acceptance::{Submitted, childless, delegate_event, take_place};
use super::locked::LockedJobs;
use super::{records, rows, writes};
use crate::Ctx;
use crate::credentials;
use crate::credentials::{Failed, Made};

/// Parent and claim token under which a child was delegated.
pub(super) struct Delegation {
    pub parent: JobId,
    pub token: Digest,
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
///
/// The jobs above it are locked and still open: the end of one revokes the credentials of all below it, and must not
/// miss these (§9.8.2).
async fn keep(
    ctx: &Ctx,
    job: &Job,
    made: &[Made],
    by: Option<Delegation>,
) -> Outcome<Option<Vec<Credential>>> {
    let intents: Vec<IntentId> = job.intent_id.into_iter().collect();
    let parents: Vec<JobId> = by.iter().map(|by| by.parent).collect();
    let mut tx = ctx.begin(&intents).await?;
    let line_ended = match job.parent_id {
        Some(parent) => rows::line_ended(&mut tx, parent).await?,
        None => false,
    };
    let mut locked = LockedJobs::take(&mut tx, &parents, &intents, ctx.now()).await?;
    if let Some(by) = &by {
        locked.job(by.parent)?.hold(&by.token, locked.now())?;
    }
    if line_ended {
        return Err(childless().into());
    }
    // It may have been stopped while its credentials were made.
    ctx.stops.require_none(&job.act())?;
    if !writes::ready(&mut tx, job.id).await? {
        return Ok(None);
    }
    let Some(shown) = credentials::store(&mut tx, made).await? else { return Ok(None) };
    records::accepted(&mut tx, &[job.id], locked.now()).await?;
    take_place(ctx, &mut tx, &mut locked, job).await?;
    if let Some(by) = &by {
        let mut parent = locked.change(by.parent)?;
        parent.say("delegate", &delegate_event(job));
        locked.apply(parent);
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

/// Finds credentials whose requester died (with the jobs waiting for them), credentials of jobs that ended, and values
/// that can no longer be asked for; returns their number.
///
/// # Errors
/// A database error.
pub async fn tidy_credentials(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let now = ctx.now();
    let mut tx = ctx.begin(&[]).await?;
    // Jobs before their credentials: a late `store` locks them in the same order.
    let late = credentials::late(&mut tx, now, limit).await?;
    writes::drop_preparing(&mut tx, &late).await?;
    let tidied = credentials::tidy(&mut tx, now, limit).await?;
    tx.commit().await?;
    if tidied.queued > 0 {
        ctx.state.provisioners.ring();
    }
    Ok(tidied.queued + tidied.wiped)
}
