//! Jobs of a stopped subject: the running ones are told to end, with the grace time of a cancellation (ARCP §7.4), and
//! their credentials are revoked at once (§9.8.2). Pending jobs stay, and no worker gets them.

use entente_domain::arcp::jobs::{Cancel, JobStatus};
use entente_domain::ids::{IntentId, JobId, KeyId};
use entente_domain::stops::Stop;
use entente_domain::subjects::SubjectKind;
use entente_kernel::{Outcome, stops};
use sqlx::PgConnection;
use uuid::Uuid;

use super::locked::LockedJobs;
use super::rows;
use crate::Ctx;
use crate::credentials;

/// Number of jobs told in one transaction.
const BATCH: i64 = 100;

/// Time during which another server may still give out work, because it does not know of a stop yet.
const UNAWARE: chrono::TimeDelta = chrono::TimeDelta::seconds(3);

/// Tells running jobs of all new stops to end; returns how many.
///
/// # Errors
/// A database error.
pub async fn tell(ctx: &Ctx) -> Outcome<u64> {
    let open = stops::to_tell(&mut *ctx.pool.acquire().await?).await?;
    let mut told = 0;
    for stop in open {
        loop {
            let ids = running(&mut *ctx.pool.acquire().await?, &stop).await?;
            if ids.is_empty() {
                break;
            }
            told += end(ctx, &stop, &ids).await?;
        }
        if ctx.now() - stop.created_at > UNAWARE {
            stops::told(&mut *ctx.pool.acquire().await?, stop.id, ctx.now()).await?;
        }
    }
    Ok(told)
}

async fn end(ctx: &Ctx, stop: &Stop, ids: &[JobId]) -> Outcome<u64> {
    let intents = rows::intents(&mut *ctx.pool.acquire().await?, ids).await?;
    let mut tx = ctx.begin(&intents).await?;
    let now = ctx.now();
    let mut locked = LockedJobs::take(&mut tx, ids, &intents, now).await?;
    let due_at = now + ctx.state.jobs.cancel_grace;
    let reason = format!("Stopped: {}", stop.reason);
    let mut told = Vec::new();
    for id in ids {
        let Ok(mut change) = locked.change(*id) else { continue };
        if change.job().status != JobStatus::Running || change.job().cancel.is_some() {
            continue;
        }
        change.job_mut().cancel = Some(Cancel { reason: reason.clone(), due_at });
        locked.apply(change);
        told.push(*id);
    }
    credentials::end_of_jobs(&mut tx, &told, now).await?;
    locked.conclude(ctx, tx).await?;
    ctx.state.provisioners.ring();
    Ok(u64::try_from(told.len()).unwrap_or(u64::MAX))
}

/// Running jobs of a subject that were not told to end.
async fn running(conn: &mut PgConnection, stop: &Stop) -> Outcome<Vec<JobId>> {
    let scope = &stop.scope;
    let id = match scope.kind {
        SubjectKind::Intent => scope.name.parse::<IntentId>().ok().map(IntentId::uuid),
        SubjectKind::Key => scope.name.parse::<KeyId>().ok().map(KeyId::uuid),
        _ => None,
    };
    let ids: Vec<Uuid> = sqlx::query_scalar!(
        "-- job_clock::running_of
         SELECT c.job_id FROM job_clock c JOIN jobs j ON j.id = c.job_id
         WHERE c.due_at IS NOT NULL AND c.status = 'running' AND c.cancel_due_at IS NULL
           AND CASE $1
               WHEN 'system' THEN true
               WHEN 'principal' THEN coalesce(j.owner, j.principal) = $2
               WHEN 'agent' THEN split_part(j.agent, '@', 1) = $2 OR j.principal = $2 OR j.owner = $2
               WHEN 'team' THEN EXISTS (SELECT 1 FROM team_members m
                                        WHERE m.team = $2 AND m.principal_id = coalesce(j.owner, j.principal))
               WHEN 'intent' THEN j.intent_id = $3
               WHEN 'key' THEN j.key_id = $3 END
         ORDER BY c.job_id LIMIT $4",
        scope.kind.as_str(),
        scope.name,
        id,
        BATCH
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(JobId::from).collect())
}
