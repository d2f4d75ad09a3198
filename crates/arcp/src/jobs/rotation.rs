//! Rotation of a job's credential (ARCP §9.8.2): the worker supplies a new value or has the provisioner make
//! one. The event carries no value; the submitter's session reads it through `credentials::reveal`, and the
//! old value is revoked.

use entente_domain::arcp::credentials::{ROTATED, rotated};
use entente_domain::arcp::jobs::ask::no_job;
use entente_domain::arcp::jobs::wire::Credential;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{CredentialId, JobId};
use entente_kernel::{Caller, Outcome};

use super::claim_tokens::token_digest;
use super::locked::LockedJobs;
use super::reading::conceal;
use super::rows;
use crate::Ctx;
use crate::credentials;
use crate::credentials::Rotation;

/// A rotated credential.
#[derive(Debug)]
pub struct Rotated {
    /// The credential with its new value.
    pub credential: Credential,
    /// Number of the rotation's event.
    pub last_seq: i64,
}

/// Replaces a credential's value by `value`, or by a new one of its provisioner.
///
/// # Errors
/// The claim is lost; the job has no such credential; the value is unusable; the provisioner fails.
pub async fn rotate(
    ctx: &Ctx,
    caller: &Caller,
    id: JobId,
    token: &str,
    credential: CredentialId,
    value: Option<String>,
) -> Outcome<Rotated> {
    caller.require(Scope::JobsWork)?;
    ctx.stops.objection(caller, &caller.agent, None).map_or(Ok(()), Err)?;
    let done = rotate_held(ctx, id, token, credential, value).await;
    conceal(ctx, caller, id, done).await
}

async fn rotate_held(
    ctx: &Ctx,
    id: JobId,
    token: &str,
    credential: CredentialId,
    value: Option<String>,
) -> Outcome<Rotated> {
    let mut conn = ctx.pool.acquire().await?;
    let job = rows::load(&mut conn, &[id]).await?.pop().ok_or_else(no_job)?;
    job.hold(&token_digest(token), ctx.now())?;
    let prior = credentials::prior(ctx, &mut conn, &job, credential).await?;
    drop(conn);
    let rotation = credentials::renew(ctx, &job, prior, value).await?;
    match put(ctx, id, token, credential, &rotation).await {
        Ok(done) => Ok(done),
        Err(failure) => {
            rotation.revoke_unused(ctx).await?;
            Err(failure)
        }
    }
}

async fn put(
    ctx: &Ctx,
    id: JobId,
    token: &str,
    credential: CredentialId,
    rotation: &Rotation,
) -> Outcome<Rotated> {
    let (mut tx, mut locked) = LockedJobs::begin(ctx, id).await?;
    let mut change = locked.change(id)?;
    change.job().hold(&token_digest(token), change.now())?;
    let credential_shown = credentials::turn_over(&mut tx, rotation, change.job(), change.now()).await?;
    change.say("status", &rotated(credential));
    let last_seq = change.job().last_seq;
    locked.apply(change);
    locked.conclude(ctx, tx).await?;
    ctx.state.provisioners.ring();
    tracing::debug!(job = %id, credential.id = %credential, "{ROTATED}");
    Ok(Rotated { credential: credential_shown, last_seq })
}
