//! Rotating a job's credential (ARCP §9.8.2): its worker brings a new value, or has one made. The event that tells of it has no
//! value; the submitter's session is told it (`credentials::reveal`), and the value before is taken back.

use entente_domain::credentials::{ROTATED, rotated};
use entente_domain::ids::{CredentialId, JobId};
use entente_domain::jobs::ask::no_job;
use entente_domain::jobs::wire::Credential;
use entente_domain::keys::Scope;

use super::hold::Hold;
use super::reading::conceal;
use super::reports::token_digest;
use super::rows;
use crate::credentials::{self, Rotation};
use crate::{Caller, Ctx, Outcome};

/// A credential that was rotated.
#[derive(Debug)]
pub struct Rotated {
    /// As it works now.
    pub credential: Credential,
    /// The number of the event that tells of it.
    pub last_seq: i64,
}

/// Replaces the value of a credential: by `value`, or by one that its provisioner makes.
///
/// # Errors
/// The claim is lost; the job has no such credential; the value cannot be used; no new one is to be had.
pub async fn rotate(
    ctx: &Ctx,
    caller: &Caller,
    id: JobId,
    token: &str,
    credential: CredentialId,
    value: Option<String>,
) -> Outcome<Rotated> {
    caller.require(Scope::JobsWork)?;
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
            rotation.undo(ctx).await?;
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
    let (mut tx, mut hold) = Hold::begin(ctx, id).await?;
    hold.job(id)?.hold(&token_digest(token), hold.now())?;
    let job = hold.job(id)?.clone();
    let now = hold.now();
    let credential_shown = credentials::turn_over(&mut tx, rotation, &job, now).await?;
    hold.say(id, "status", &rotated(credential));
    let last_seq = hold.job(id)?.last_seq;
    hold.conclude(ctx, tx).await?;
    ctx.provisioners.ring();
    tracing::debug!(job = %id, credential.id = %credential, "{ROTATED}");
    Ok(Rotated { credential: credential_shown, last_seq })
}
