//! Replaces the value of a credential while its job runs (ARCP §9.8.2). The operation is `jobs/rotation.rs`,
//! which locks the job; this module handles the values. The credential keeps its id; the previous value is
//! revoked like any other.

use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::jobs::wire::Credential;
use entente_domain::clock::Timestamp;
use entente_domain::ids::CredentialId;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::Outcome;
use sqlx::PgConnection;

use super::reading::{self, Current};
use super::{Failed, Lost, Made, Minted, Prepared, VALUE_BYTES, fits, lawful, lose, order, rows, unused};
use crate::Ctx;

/// A value that will replace another.
pub(crate) struct Rotation {
    current: Current,
    generation: u32,
    new: New,
}

enum New {
    /// The worker supplied it.
    Given(String),
    /// The provisioner minted it.
    Made(Box<Made>),
}

/// Loads the value to be replaced.
pub(crate) async fn prior(
    ctx: &Ctx,
    conn: &mut PgConnection,
    job: &Job,
    id: CredentialId,
) -> Outcome<Current> {
    reading::current(ctx, conn, job.id, id).await
}

fn busy() -> Refusal {
    Refusal::new(Code::Unavailable, "Another rotation of this credential is under way. Ask again shortly.")
}

/// Obtains the new value, from the worker or from the provisioner, outside of any transaction.
///
/// # Errors
/// The value is no token, was used before, or may not come from the worker; the provisioner fails.
pub(crate) async fn renew(
    ctx: &Ctx,
    job: &Job,
    current: Current,
    value: Option<String>,
) -> Outcome<Rotation> {
    let generation = current.generations + 1;
    let provisioner = ctx.state.provisioners.named(&current.provisioner).ok_or_else(|| {
        Refusal::new(
            Code::Unavailable,
            "Who made this credential is not configured any more. Ask the operator.",
        )
    })?;
    let new = match value {
        Some(value) => {
            given(ctx, provisioner.upstream.takes_given(), &value).await?;
            New::Given(value)
        }
        None => New::Made(Box::new(made(ctx, job, &current, generation).await?)),
    };
    Ok(Rotation { current, generation, new })
}

async fn given(ctx: &Ctx, takes: bool, value: &str) -> Outcome<()> {
    let wrong = |kind: &str, message: &str| Refusal::field(Code::InvalidRequest, "value", kind, message);
    if !takes {
        let message = "This credential's provisioner takes back only what it made itself. Leave `value` out: it makes a new one.";
        return Err(wrong("given", message).into());
    }
    if !fits(value, VALUE_BYTES) {
        return Err(
            wrong("value", "`value` must be a bearer token: letters without blanks, up to 16 KiB.").into()
        );
    }
    if unused(ctx, [value]).await.is_err() {
        let message =
            "`value` was given to a job before. No value serves two: make a new one at its upstream.";
        return Err(wrong("used", message).into());
    }
    Ok(())
}

async fn made(ctx: &Ctx, job: &Job, current: &Current, generation: u32) -> Outcome<Made> {
    let prepared =
        Prepared { id: current.target.credential_id, generation, provisioner: current.provisioner.clone() };
    let mut conn = ctx.pool.acquire().await?;
    // The remaining budget is smaller than at first, and bounds the new value.
    let left = reading::left(&mut conn, &job.payers).await?;
    if !rows::insert(&mut conn, &prepared, job.id, ctx.now()).await? {
        return Err(busy().into());
    }
    drop(conn);
    let order = order(ctx, job, &prepared, left);
    let answer = match ctx.state.provisioners.named(&current.provisioner) {
        Some(provisioner) => provisioner.upstream.rotate(&order, &current.target).await,
        None => return Err(busy().into()),
    };
    let lost = match answer {
        Err(trouble) => Lost { prepared, minted: None, absent: !trouble.perhaps, error: trouble.why },
        Ok(minted) => match check(ctx, &minted).await {
            Ok(()) => return Ok(Made { prepared, minted }),
            Err(why) => Made { prepared, minted }.unwanted(&why),
        },
    };
    tracing::warn!(credential.id = %lost.prepared.id, job.id = %job.id, error = lost.error, "a credential could not be rotated");
    ctx.metrics.credential_outcome("mint_failed", 1);
    give_up(ctx, &[lost]).await?;
    let message =
        "The credential could not be rotated just now; the one before still works. Ask again shortly.";
    Err(Refusal::new(Code::Unavailable, message).into())
}

async fn check(ctx: &Ctx, minted: &Minted) -> Result<(), String> {
    lawful(minted).map_err(str::to_owned)?;
    unused(ctx, [minted.value.as_str()]).await
}

async fn give_up(ctx: &Ctx, lost: &[Lost]) -> Outcome<()> {
    let mut tx = ctx.begin(&[]).await?;
    lose(&mut tx, lost, ctx.now()).await?;
    tx.commit().await?;
    ctx.state.provisioners.ring();
    Ok(())
}

/// Replaces the previous value in the transaction that records the rotation; returns the credential as shown.
///
/// # Errors
/// Another rotation was faster.
pub(crate) async fn turn_over(
    conn: &mut PgConnection,
    rotation: &Rotation,
    job: &Job,
    now: Timestamp,
) -> Outcome<Credential> {
    let Rotation { current, generation, new } = rotation;
    let (id, before) = (current.target.credential_id, current.target.generation);
    let kept = match new {
        New::Made(made) => rows::store(conn, made).await?,
        New::Given(value) => rows::give(conn, id, before, *generation, value, now).await?,
    };
    if !kept || !rows::replaced(conn, id, before, now).await? {
        return Err(busy().into());
    }
    let live = super::of_job(conn, job.id).await?;
    let shown = live.into_iter().find(|credential| credential.id == id.to_string());
    shown.ok_or_else(|| busy().into())
}

impl Rotation {
    /// Revokes the new value if it was not used.
    ///
    /// # Errors
    /// A database error.
    pub(crate) async fn revoke_unused(self, ctx: &Ctx) -> Outcome<()> {
        let New::Made(made) = self.new else { return Ok(()) };
        let Failed { lost, .. } = super::refused(vec![*made]);
        give_up(ctx, &lost).await
    }
}
