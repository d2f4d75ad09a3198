//! Credentials that are provisioned for jobs (ARCP §9.8). Table `credentials`, written by `credentials/rows.rs`. Taking them
//! back is `credentials/revoking.rs`, what an admin sees of them `credentials/admin.rs`, replacing one while its job runs
//! `credentials/rotating.rs`; who makes them is behind `credentials/provisioners.rs`.
//!
//! How a job comes to its credentials, in this order, so that nothing is out that nobody knows of: [`prepare`] writes down
//! what will be asked for, in the transaction that makes the job; [`mint`] asks, outside of any; [`store`] keeps the answers,
//! in the transaction in which the job begins to wait for a worker. Who fails in between calls [`lose`]; of who dies in
//! between the sweep finds what he left.

mod admin;
mod provisioners;
mod reading;
mod revoking;
mod rotating;
mod rows;

use std::collections::HashMap;

use entente_domain::budgets::Budget;
use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::credentials::Bounds;
use entente_domain::ids::{CredentialId, JobId};
use entente_domain::jobs::Job;
use entente_domain::jobs::wire::Credential;
use entente_domain::limits::URL_BYTES;
use entente_domain::refusal::{Code, Refusal};
use futures_util::future::join_all;
use sqlx::PgConnection;

use super::{AppError, Ctx, Outcome};

pub use admin::{Filter, Listed, list, retry};
pub use provisioners::{Answer, Minted, Order, Provisioner, Provisioners, Target, Trouble, Upstream};
pub use revoking::{Due, claim, record, tidy};
pub(crate) use rotating::{Rotation, prior, renew, turn_over};

/// Bytes of a value: signed tokens have a few thousand.
const VALUE_BYTES: usize = 16 * 1024;

/// One value that will be asked for; its row is there.
#[derive(Debug)]
pub struct Prepared {
    id: CredentialId,
    generation: u32,
    provisioner: String,
}

/// One value that was made.
#[derive(Debug)]
pub struct Made {
    prepared: Prepared,
    minted: Minted,
}

/// One value that was asked for in vain, or that is not wanted any more.
#[derive(Debug)]
pub struct Lost {
    prepared: Prepared,
    /// What is known of it, if it was made.
    minted: Option<Minted>,
    /// Whether it certainly was not made: then there is nothing to take back.
    absent: bool,
    /// Why.
    error: String,
}

/// What [`mint`] could not do. The job is not to be accepted, and [`lose`] is to be called in the transaction that says so.
#[derive(Debug)]
pub struct Failed {
    /// What the client is told.
    pub refusal: Refusal,
    /// What is to be taken back, or was never made.
    pub lost: Vec<Lost>,
}

/// Whether clients may be told of the feature `provisioned_credentials` (§14).
#[must_use]
pub fn offered(ctx: &Ctx) -> bool {
    ctx.provisioners.offered()
}

/// Writes down the credentials that a new job will get, in the transaction that makes the job. Empty: it gets none, and
/// waits for a worker at once.
///
/// # Errors
/// The database.
pub async fn prepare(ctx: &Ctx, conn: &mut PgConnection, job: &Job) -> Outcome<Vec<Prepared>> {
    let wanted = ctx.provisioners.wanted(job).map(|provisioner| Prepared {
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

/// Whether a job is to be given any.
#[must_use]
pub fn needed(ctx: &Ctx, job: &Job) -> bool {
    ctx.provisioners.wanted(job).next().is_some()
}

/// What was written down for a job by [`prepare`].
///
/// # Errors
/// The database.
pub async fn waiting(conn: &mut PgConnection, job: JobId) -> Outcome<Vec<Prepared>> {
    reading::waiting(conn, job).await
}

/// Asks for everything that was written down, all at once. Never inside a transaction: an upstream may take seconds.
///
/// # Errors
/// Not all of it was made.
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

/// What a client is told whose job gets no credential: the same may be tried again (contract 11).
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

    /// As its job's submitter and worker see it.
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
    let Some(provisioner) = ctx.provisioners.named(&prepared.provisioner) else {
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

/// Whether a text can stand in a header.
fn fits(text: &str, most: usize) -> bool {
    !text.is_empty() && text.len() <= most && !text.chars().any(|c| c.is_control() || c.is_whitespace())
}

/// A value that can be shown to clients.
fn lawful(minted: &Minted) -> Result<(), &'static str> {
    if !fits(&minted.value, VALUE_BYTES) {
        return Err("what the upstream answered is no bearer token");
    }
    if !fits(&minted.endpoint, URL_BYTES) {
        return Err("what the upstream answered has no endpoint");
    }
    Ok(())
}

/// What a job may spend at this moment: the least that it and its ancestors have left of each currency.
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

/// Keeps what was made, in the transaction in which the job begins to wait for a worker, and answers with it for
/// `job.accepted`. `None`: it was given up meanwhile, because it took too long. Then the transaction is to be rolled back,
/// and [`refused`] says what is lost.
///
/// # Errors
/// The database.
pub async fn store(conn: &mut PgConnection, made: &[Made]) -> Outcome<Option<Vec<Credential>>> {
    for one in made {
        if !rows::store(conn, one).await? {
            return Ok(None);
        }
    }
    Ok(Some(made.iter().map(Made::shown).collect()))
}

/// What is lost of credentials that were made for a job which is not accepted after all.
#[must_use]
pub fn refused(made: Vec<Made>) -> Failed {
    let lost = made.into_iter().map(|one| one.unwanted("the job was not accepted"));
    Failed { refusal: not_provisioned(), lost: lost.collect() }
}

/// Has taken back what may be out of these; in the transaction that gives the job up. [`Provisioners::ring`] after it.
///
/// # Errors
/// The database.
pub async fn lose(conn: &mut PgConnection, lost: &[Lost], now: Timestamp) -> Outcome<()> {
    for one in lost {
        rows::lose(conn, one, now).await?;
    }
    Ok(())
}

/// Has taken back every credential of these jobs and of those that they delegated (§9.8.2): in the transaction in which they
/// end, whatever ends them. Answers with how many values that are.
///
/// # Errors
/// The database.
pub async fn end_of_jobs(conn: &mut PgConnection, jobs: &[JobId], now: Timestamp) -> Outcome<u64> {
    if jobs.is_empty() {
        return Ok(0);
    }
    rows::unneeded(conn, jobs, now).await
}

/// The credentials of jobs as they work now: for their workers.
///
/// # Errors
/// The database.
pub async fn of_jobs(conn: &mut PgConnection, jobs: &[JobId]) -> Outcome<HashMap<JobId, Vec<Credential>>> {
    let mut found: HashMap<JobId, Vec<Credential>> = HashMap::new();
    for (job, credential) in reading::live(conn, jobs).await? {
        found.entry(job).or_default().push(credential);
    }
    Ok(found)
}

/// The credentials of one job as they work now.
///
/// # Errors
/// The database.
pub async fn of_job(conn: &mut PgConnection, job: JobId) -> Outcome<Vec<Credential>> {
    Ok(of_jobs(conn, &[job]).await?.remove(&job).unwrap_or_default())
}

/// The credentials of a job as its submitter was told of them when it was accepted: for who asks the same again (§7.2).
///
/// # Errors
/// The database.
pub async fn as_accepted(conn: &mut PgConnection, job: JobId) -> Outcome<Vec<Credential>> {
    reading::first(conn, job).await
}

/// The value of a credential that works: for the submitter's session, which is told of its rotation with it (§9.8.2).
///
/// # Errors
/// The database.
pub async fn reveal(conn: &mut PgConnection, job: JobId, id: CredentialId) -> Outcome<Option<String>> {
    reading::value(conn, job, id).await
}
