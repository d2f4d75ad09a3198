//! Revokes credentials (ARCP §9.8.2, §14): due values, results of attempts, and leftovers found by sweeps. A
//! value stays in its row, across restarts and servers, until its upstream confirms the revocation; if that
//! fails for good, the system log and an error report it. `src/background/revoke.rs` makes the requests.

use chrono::TimeDelta;
use entente_domain::arcp::credentials::{State, Transition, again_after, transition, unsettled_until};
use entente_domain::clock::Timestamp;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::log::events::{Draft, Kind};
use entente_kernel::Outcome;
use entente_kernel::log::writer::IntentLog;
use serde_json::json;
use sqlx::PgConnection;

use super::rows::{self, Waiting};
use super::{ProvisionerError, Target, reading};
use crate::Ctx;

/// Seconds that an attempt may take with all its requests; if the server dies, another one tries after that.
const HOLD_SECONDS: i64 = 30;

/// A value to be revoked now.
#[derive(Debug)]
pub struct Due {
    /// The value.
    pub target: Target,
    /// Its provisioner.
    pub provisioner: String,
    /// When it was requested.
    asked_at: Timestamp,
    /// Number of attempts, including this one.
    attempts: u32,
}

impl Due {
    fn new(row: Waiting, now: Timestamp) -> Self {
        let number = |n: i32| u32::try_from(n).unwrap_or(0);
        let target = Target {
            credential_id: row.id.into(),
            generation: number(row.generation),
            job_id: row.job_id.into(),
            given: row.given,
            upstream_id: row.upstream_id,
            value: row.value,
            now,
        };
        Self { target, provisioner: row.provisioner, asked_at: row.asked_at, attempts: number(row.attempts) }
    }
}

/// Claims up to `limit` due values, longest waiting first; several servers share them.
///
/// # Errors
/// A database error.
pub async fn claim(ctx: &Ctx, limit: usize) -> Outcome<Vec<Due>> {
    let now = ctx.now();
    let mut conn = ctx.pool.acquire().await?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let waiting = rows::claim(&mut conn, now, now + TimeDelta::seconds(HOLD_SECONDS), limit).await?;
    Ok(waiting.into_iter().map(|row| Due::new(row, now)).collect())
}

/// The state after an attempt.
struct Next {
    state: State,
    due_at: Option<Timestamp>,
    error: Option<String>,
}

/// Records the result of an attempt.
///
/// # Errors
/// A database error.
pub async fn record(ctx: &Ctx, due: &Due, answer: Result<(), ProvisionerError>) -> Outcome<()> {
    let now = ctx.now();
    let failed = answer.as_ref().err().map(|trouble| trouble.why.clone());
    let mut next = next(ctx, due, answer);
    let stuck = next.state == State::Stuck;
    let mut tx = ctx.begin(if stuck { &[IntentId::SYSTEM] } else { &[] }).await?;
    let (id, generation) = (due.target.credential_id, due.target.generation);
    if next.state == State::Revoked {
        next.due_at = kept_until(ctx, &mut tx, due.target.job_id, generation).await?;
    }
    let error = next.error.as_deref();
    if !rows::attempted(&mut tx, id, generation, due.attempts, next.state, next.due_at, error).await? {
        // An admin retried it meanwhile: that attempt counts.
        return Ok(());
    }
    if stuck {
        let mut log = IntentLog::open(&mut tx, IntentId::SYSTEM, None, now).await?;
        let payload = json!({
            "credential_id": id, "generation": generation, "job_id": due.target.job_id,
            "provisioner": due.provisioner, "attempts": due.attempts, "error": next.error,
        });
        log.record(ctx, Draft::of(Kind::CredentialStuck, SYSTEM, payload));
        log.save(&mut tx).await?;
    }
    tx.commit().await?;
    if stuck {
        ctx.feed.notify_committed(IntentId::SYSTEM);
    }
    tell(ctx, due, next.state, failed.as_deref());
    Ok(())
}

fn next(ctx: &Ctx, due: &Due, answer: Result<(), ProvisionerError>) -> Next {
    let now = ctx.now();
    let known = due.target.value.is_some();
    let after = |turn| transition(State::Revoking, turn).unwrap_or(State::Revoking);
    match answer {
        Ok(()) => match unsettled_until(due.asked_at, known, now) {
            // The request for the value may still be on its way, so it must be revoked once more later.
            Some(settled) => Next { state: State::Revoking, due_at: Some(settled), error: None },
            None => Next { state: after(Transition::TakenBack), due_at: None, error: None },
        },
        Err(trouble) => {
            let bits = ctx.chance.bits().to_le_bytes();
            let chance = bits.first_chunk().map_or(0, |half| u64::from_le_bytes(*half));
            let wait = again_after(due.attempts, trouble.retry_after, chance);
            let due_at =
                wait.map(|wait| now + TimeDelta::milliseconds(i64::try_from(wait).unwrap_or(i64::MAX)));
            let state = if due_at.is_some() { State::Revoking } else { after(Transition::GivenUp) };
            Next { state, due_at, error: Some(trouble.why) }
        }
    }
}

/// Returns until when a revoked value is kept, because a repeated submit gets the first response again
/// (§7.2).
async fn kept_until(
    ctx: &Ctx,
    conn: &mut PgConnection,
    job: JobId,
    generation: u32,
) -> Outcome<Option<Timestamp>> {
    if generation > 1 {
        return Ok(None);
    }
    let keyed = reading::keyed_at(conn, job).await?;
    let window = ctx.settings.idempotency_window;
    Ok(keyed.map(|at| at + window).filter(|end| *end > ctx.now()))
}

fn tell(ctx: &Ctx, due: &Due, state: State, failed: Option<&str>) {
    let (id, provisioner, attempts) = (due.target.credential_id, &due.provisioner, due.attempts);
    match (state, failed) {
        (State::Stuck, why) => {
            ctx.metrics.credential_outcome("stuck", 1);
            tracing::error!(credential.id = %id, provisioner, attempts, error = why, job.id = %due.target.job_id,
                "a credential could not be taken back and may still work; take it back at its upstream, or repair that and \
                 have it retried");
        }
        (_, Some(why)) => {
            ctx.metrics.credential_outcome("revocation_failed", 1);
            tracing::warn!(credential.id = %id, provisioner, attempts, error = why,
                "a credential could not be taken back yet");
        }
        (State::Revoked, None) => ctx.metrics.credential_outcome("revoked", 1),
        (_, None) => {}
    }
}

/// Numbers of values that a sweep has changed.
pub(crate) struct Tidied {
    /// Values that now wait for revocation.
    pub queued: u64,
    /// Values that were cleared.
    pub wiped: u64,
}

/// Finds values whose requester died, values of jobs that ended, and values that can no longer be asked for; call
/// [`Provisioners::ring`](super::Provisioners::ring) after the commit if some wait for revocation.
///
/// # Errors
/// A database error.
pub(crate) async fn tidy(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<Tidied> {
    let overdue = rows::overdue(conn, now, limit).await?;
    let orphaned = rows::orphaned(conn, now, limit).await?;
    let wiped = rows::wipe(conn, now, limit).await?;
    Ok(Tidied { queued: overdue + orphaned, wiped })
}
