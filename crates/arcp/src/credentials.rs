//! Credentials provisioned for jobs (ARCP §9.8). Table `credentials`, written by `credentials/rows.rs`.
//! Revocation is in `credentials/revoking.rs`, the admin view in `credentials/admin.rs`, rotation while a job
//! runs in `credentials/rotating.rs`; the interface to upstreams is `credentials/provisioners.rs`.
//!
//! A job gets its credentials in this order, so that no value exists unrecorded: [`prepare`] records the
//! requests, in the transaction that creates the job; [`mint`] asks the upstreams, outside of any
//! transaction; [`store`] stores the values, in the transaction in which the job starts to wait for a worker.
//! If a step fails, [`lose`] is called; if the server dies, the sweep finds the leftovers.

mod admin;
mod provisioners;
mod reading;
mod revoking;
mod rotating;
mod rows;

use std::collections::HashMap;

use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::credentials::Bounds;
use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::jobs::wire::Credential;
use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{CredentialId, JobId};
use entente_domain::limits::URL_BYTES;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{AppError, Outcome};
use futures_util::future::join_all;
use sqlx::PgConnection;

use crate::Ctx;

pub use admin::{CredentialFilter, Listed, list, retry};
pub use provisioners::{
    Answer, Minted, Order, Provisioner, ProvisionerError, Provisioners, Target, Upstream,
};
pub(crate) use reading::late;
pub(crate) use revoking::tidy;
pub use revoking::{Due, claim, record};
pub(crate) use rotating::{Rotation, prior, renew, turn_over};

/// Maximum size of a value in bytes; signed tokens have a few thousand.
const VALUE_BYTES: usize = 16 * 1024;

/// A value to be requested; its row exists.
#[derive(Debug)]
pub struct Prepared {
    id: CredentialId,
    generation: u32,
    provisioner: String,
}

/// A value that was minted.
#[derive(Debug)]
pub struct Made {
    prepared: Prepared,
    minted: Minted,
}

/// A value that could not be minted, or is no longer wanted.
#[derive(Debug)]
pub struct Lost {
    prepared: Prepared,
    /// The upstream's answer, if it was minted.
    minted: Option<Minted>,
    /// Whether it certainly was not minted, so that there is nothing to revoke.
    absent: bool,
    error: String,
}

/// A failure of [`mint`]: the job is not accepted, and [`lose`] must be called in the transaction that
/// records this.
#[derive(Debug)]
pub struct Failed {
    /// The refusal for the client.
    pub refusal: Refusal,
    /// The values to revoke, or that were never minted.
    pub lost: Vec<Lost>,
}

/// Whether the feature `provisioned_credentials` is announced to clients (§14).
#[must_use]
pub fn offered(ctx: &Ctx) -> bool {
    ctx.state.provisioners.offered()
}

/// Records the credentials that a new job will get, in the transaction that creates the job; if there are
/// none, the job waits for a worker at once.
///
/// # Errors
/// A database error.
pub async fn prepare(ctx: &Ctx, conn: &mut PgConnection, job: &Job) -> Outcome<Vec<Prepared>> {
    let wanted = ctx.state.provisioners.wanted(job).map(|provisioner| Prepared {
        id: CredentialId::mint(ctx.now(), &*ctx.chance),
        generation: 1,
        provisioner: provisioner.name.clone(),
    });
    let prepared: Vec<Prepared> = wanted.collect();
    for one in &prepared {
        rows::insert(conn, one, job.id, ctx.now()).await?;
    }
    Ok(prepared)
}

/// Whether a job needs credentials.
#[must_use]
pub fn needed(ctx: &Ctx, job: &Job) -> bool {
    ctx.state.provisioners.wanted(job).next().is_some()
}

/// Returns the requests that [`prepare`] recorded for a job.
///
/// # Errors
/// A database error.
pub async fn waiting(conn: &mut PgConnection, job: JobId) -> Outcome<Vec<Prepared>> {
    reading::waiting(conn, job).await
}

/// Requests all recorded values concurrently; never call it inside a transaction, because an upstream may
/// take seconds.
///
/// # Errors
/// Some values were not minted.
pub async fn mint(ctx: &Ctx, job: &Job, prepared: Vec<Prepared>) -> Result<Vec<Made>, Failed> {
    let left = match left(ctx, job).await {
        Ok(left) => left,
        Err(failure) => return Err(nothing_asked(prepared, &failure)),
    };
    let asked = prepared.into_iter().map(|one| ask(ctx, job, one, &left));
    let (mut made, mut lost): (Vec<Made>, Vec<Lost>) = (Vec::new(), Vec::new());
    for answer in join_all(asked).await {
        match answer {
            Ok(one) => made.push(one),
            Err(one) => lost.push(one),
        }
    }
    if lost.is_empty()
        && let Err(failure) = unused(ctx, made.iter().map(|one| one.minted.value.as_str())).await
    {
        lost.extend(made.drain(..).map(|one| one.unwanted(&failure)));
    }
    if lost.is_empty() {
        ctx.metrics.credential_outcome("minted", made.len());
        return Ok(made);
    }
    ctx.metrics.credential_outcome("mint_failed", lost.len());
    for one in &lost {
        tracing::warn!(credential.id = %one.prepared.id, provisioner = one.prepared.provisioner, job.id = %job.id,
            error = one.error, "a credential could not be provisioned");
    }
    lost.extend(made.into_iter().map(|one| one.unwanted("another credential of the job was not to be had")));
    Err(Failed { refusal: not_provisioned(), lost })
}

/// The refusal for a job whose credentials could not be minted; the client may retry (ARCP §12).
fn not_provisioned() -> Refusal {
    Refusal::new(
        Code::Unavailable,
        "The job was not accepted: a credential that it needs could not be provisioned just now. Submit it again shortly.",
    )
}

fn nothing_asked(prepared: Vec<Prepared>, failure: &AppError) -> Failed {
    let error = failure.to_string();
    let lost = prepared.into_iter().map(|one| Lost {
        prepared: one,
        minted: None,
        absent: true,
        error: error.clone(),
    });
    Failed { refusal: not_provisioned(), lost: lost.collect() }
}

impl Made {
    fn unwanted(self, why: &str) -> Lost {
        Lost { prepared: self.prepared, minted: Some(self.minted), absent: false, error: why.to_owned() }
    }

    /// Returns the credential as its job's submitter and worker see it.
    fn shown(&self) -> Credential {
        let Minted { value, endpoint, profile, constraints, .. } = self.minted.clone();
        Credential {
            id: self.prepared.id.to_string(),
            scheme: "bearer".to_owned(),
            value,
            endpoint,
            profile,
            constraints,
        }
    }
}

async fn ask(ctx: &Ctx, job: &Job, prepared: Prepared, left: &Budget) -> Result<Made, Lost> {
    let lost = |prepared, absent, error| Lost { prepared, minted: None, absent, error };
    let Some(provisioner) = ctx.state.provisioners.named(&prepared.provisioner) else {
        return Err(lost(prepared, true, "no provisioner has this name any more".to_owned()));
    };
    let order = order(ctx, job, &prepared, left.clone());
    match provisioner.upstream.mint(&order).await {
        Ok(minted) => match lawful(&minted) {
            Ok(()) => Ok(Made { prepared, minted }),
            Err(why) => Err(Made { prepared, minted }.unwanted(why)),
        },
        Err(trouble) => Err(lost(prepared, !trouble.perhaps, trouble.why)),
    }
}

fn order(ctx: &Ctx, job: &Job, prepared: &Prepared, left: Budget) -> Order {
    Order {
        credential_id: prepared.id,
        generation: prepared.generation,
        job_id: job.id,
        agent: job.agent.clone(),
        principal: job.principal.clone(),
        bounds: Bounds::of(job, left),
        now: ctx.now(),
    }
}

/// Whether a text is valid in an HTTP header.
fn fits(text: &str, most: usize) -> bool {
    !text.is_empty() && text.len() <= most && !text.chars().any(|c| c.is_control() || c.is_whitespace())
}

/// Checks that a value is valid for clients.
fn lawful(minted: &Minted) -> Result<(), &'static str> {
    if !fits(&minted.value, VALUE_BYTES) {
        return Err("what the upstream answered is no bearer token");
    }
    if !fits(&minted.endpoint, URL_BYTES) {
        return Err("what the upstream answered has no endpoint");
    }
    Ok(())
}

/// Returns a job's remaining budget: per currency, the least that it and its ancestors have left.
async fn left(ctx: &Ctx, job: &Job) -> Outcome<Budget> {
    let mut conn = ctx.pool.acquire().await?;
    reading::left(&mut conn, &job.payers).await
}

/// Requires that no value was ever given to a job before (§9.8.2).
async fn unused<'a>(ctx: &Ctx, values: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let mut hashes: Vec<Vec<u8>> = values.into_iter().map(|value| sha256(value).to_vec()).collect();
    let count = hashes.len();
    hashes.sort();
    hashes.dedup();
    let mut conn = ctx.pool.acquire().await.map_err(|e| e.to_string())?;
    let used = reading::used(&mut conn, &hashes).await.map_err(|e| e.to_string())?;
    if used || hashes.len() < count {
        return Err("the upstream answered with a value that it has given out before".to_owned());
    }
    Ok(())
}

/// Stores minted values, in the transaction in which the job starts to wait for a worker, and returns the
/// credentials for `job.accepted`.
///
/// Returns `None` if the job was given up meanwhile because minting took too long. Then roll back, and use
/// [`refused`].
///
/// # Errors
/// A database error.
pub async fn store(conn: &mut PgConnection, made: &[Made]) -> Outcome<Option<Vec<Credential>>> {
    for one in made {
        if !rows::store(conn, one).await? {
            return Ok(None);
        }
    }
    Ok(Some(made.iter().map(Made::shown).collect()))
}

/// Returns the values lost with a job that is not accepted after all.
#[must_use]
pub fn refused(made: Vec<Made>) -> Failed {
    let lost = made.into_iter().map(|one| one.unwanted("the job was not accepted"));
    Failed { refusal: not_provisioned(), lost: lost.collect() }
}

/// Queues these values for revocation where needed, in the transaction that gives up the job; call
/// [`Provisioners::ring`] afterwards.
///
/// # Errors
/// A database error.
pub async fn lose(conn: &mut PgConnection, lost: &[Lost], now: Timestamp) -> Outcome<()> {
    for one in lost {
        rows::lose(conn, one, now).await?;
    }
    Ok(())
}

/// Queues all credentials of these jobs and of the jobs that they delegated for revocation (§9.8.2), in the
/// transaction in which they end for any reason; returns the number of values.
///
/// # Errors
/// A database error.
pub async fn end_of_jobs(conn: &mut PgConnection, jobs: &[JobId], now: Timestamp) -> Outcome<u64> {
    if jobs.is_empty() {
        return Ok(0);
    }
    rows::unneeded(conn, jobs, now).await
}

/// Returns the live credentials of jobs, for their workers.
///
/// # Errors
/// A database error.
pub async fn of_jobs(conn: &mut PgConnection, jobs: &[JobId]) -> Outcome<HashMap<JobId, Vec<Credential>>> {
    let mut found: HashMap<JobId, Vec<Credential>> = HashMap::new();
    for (job, credential) in reading::live(conn, jobs).await? {
        found.entry(job).or_default().push(credential);
    }
    Ok(found)
}

/// Returns the live credentials of one job.
///
/// # Errors
/// A database error.
pub async fn of_job(conn: &mut PgConnection, job: JobId) -> Outcome<Vec<Credential>> {
    Ok(of_jobs(conn, &[job]).await?.remove(&job).unwrap_or_default())
}

/// Returns the credentials of a job as its first `job.accepted` had them, for a repeated submit (§7.2).
///
/// # Errors
/// A database error.
pub async fn as_accepted(conn: &mut PgConnection, job: JobId) -> Outcome<Vec<Credential>> {
    reading::first(conn, job).await
}

/// Returns the value of a live credential, for the submitter's session, which learns of its rotation
/// (§9.8.2).
///
/// # Errors
/// A database error.
pub async fn reveal(conn: &mut PgConnection, job: JobId, id: CredentialId) -> Outcome<Option<String>> {
    reading::value(conn, job, id).await
}
