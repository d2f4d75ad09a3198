//! Waiting for a lease: a request with `?wait=` takes a place in the intent's queue, and acquires the lease in its turn. Table
//! `lease_waits`.
//!
//! A place lasts for [`PLACE`] and is renewed while its request waits, so that of a stopped server, or of a killed one,
//! it is free a moment later. The intent's lock orders the acquisitions; the queue decides who may be the next.

use std::time::Duration;

use entente_domain::access::Level;
use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::openintent::leases::queue::{self, LeaseWait};
use entente_domain::openintent::leases::{Lease, LeaseAsk, LeaseScope};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::membership;
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{AppError, Caller, Outcome};
use sqlx::PgConnection;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::rows::{LeasesOfIntent, active_and_waiting};
use super::{acquire, claimant};
use crate::Ctx;

/// Maximum seconds for which a request may wait for a lease.
pub const WAIT_SECONDS: u32 = 25;

/// Seconds for which a place lasts after its request was last seen.
const PLACE: u32 = 10;

/// How often a waiting request renews its place, and looks for changes that no wake-up told it.
const LOOK: Duration = Duration::from_secs(3);

/// Maximum number of places on one intent: each acquisition reads them.
const PLACES: usize = 1_000;

/// Places of others that are past their end, and deleted with each new place.
const LEFT: i64 = 100;

/// Acquires a lease, and waits in the intent's queue while it is held, for up to `wait`; without a wait it takes no place.
///
/// The place is kept for some seconds after the time is up, so a client that asks again continues at its place. A request
/// that is `over`, because its client has gone or the server stops, gives its place up at once.
///
/// # Errors
/// As [`acquire`]; the last refusal if the time is up.
pub async fn acquire_in_turn(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: LeaseAsk,
    once: Option<&Idempotency>,
    wait: Duration,
    over: &CancellationToken,
) -> Outcome<Lease> {
    let until = Instant::now() + wait;
    // Registers before the first look, so that no release in between is missed.
    let mut listener = ctx.feed.wakeups().listener();
    listener.add(WakeKey::Leases(intent_id));
    match acquire(ctx, caller, intent_id, ask.clone(), once).await {
        Err(AppError::Refused(refusal)) if !wait.is_zero() && waits_for(caller, &refusal) => {}
        done => return done,
    }
    let place = Place { ctx, intent_id, caller, ask };
    place.take().await?;
    let mut renewed = Instant::now();
    loop {
        let later = match place.go_on(once).await {
            Ok(Progress::Later(later)) => later,
            Ok(Progress::Acquired(lease)) => return Ok(lease),
            Err(failure) => {
                place.give_up().await;
                return Err(failure);
            }
        };
        if Instant::now() >= until {
            place.leave().await;
            return Err(later.refusal.into());
        }
        let soon = later.next.map_or(LOOK, |at| (at - ctx.now()).to_std().unwrap_or_default().min(LOOK));
        tokio::select! {
            biased;
            () = over.cancelled() => {
                place.give_up().await;
                return Err(later.refusal.into());
            }
            _rung = timeout_at(until.min(Instant::now() + soon), listener.rung()) => {}
        }
        if renewed.elapsed() >= LOOK {
            place.take().await?;
            renewed = Instant::now();
        }
    }
}

/// Whether a refusal passes with time: the scope is another's, or another waits for it.
fn waits_for(caller: &Caller, refusal: &Refusal) -> bool {
    let own = refusal.existing_lease.as_ref().is_some_and(|lease| lease.agent_id == caller.agent);
    refusal.code == Code::LeaseHeld && !own
}

/// Lists the requests that wait for leases on an intent, in their order.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn waiting(ctx: &Ctx, caller: &Caller, intent_id: IntentId) -> Outcome<Vec<LeaseWait>> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    let now = ctx.now();
    membership::require(&mut conn, &caller.agent, intent_id, Level::Read, now).await?;
    Ok(active_and_waiting(&mut conn, intent_id, now).await?.waits)
}

/// Progress of a waiting request.
enum Progress {
    /// Its turn has come.
    Acquired(Lease),
    /// Its turn comes later.
    Later(Later),
}

/// Why a turn comes later.
struct Later {
    /// Refusal for the client if its time is up.
    refusal: Refusal,
    /// When a lease in the way expires at the earliest.
    next: Option<Timestamp>,
}

/// A place in an intent's queue.
struct Place<'a> {
    ctx: &'a Ctx,
    intent_id: IntentId,
    caller: &'a Caller,
    ask: LeaseAsk,
}

impl Place<'_> {
    /// Takes the place, or renews it: a place that has ended begins anew, at the end of the queue.
    async fn take(&self) -> Outcome<()> {
        let now = self.ctx.now();
        let path = LeaseScope::parse(&self.ask.scope)?.to_string();
        let mut conn = self.ctx.pool.writing().await?;
        sqlx::query!(
            "-- lease_waits::take
             WITH gone AS (
                 DELETE FROM lease_waits w USING (
                     SELECT intent_id, agent_id, path FROM lease_waits
                     WHERE until <= $5 AND NOT (intent_id = $1 AND agent_id = $2 AND path = $4)
                     ORDER BY until LIMIT $7 FOR UPDATE SKIP LOCKED) g
                 WHERE w.intent_id = g.intent_id AND w.agent_id = g.agent_id AND w.path = g.path)
             INSERT INTO lease_waits AS w (intent_id, agent_id, scope, path, since, until) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (intent_id, agent_id, path) DO UPDATE SET until = excluded.until, left_at = NULL,
                 number = CASE WHEN w.until > $5 THEN w.number ELSE excluded.number END,
                 since = CASE WHEN w.until > $5 THEN w.since ELSE excluded.since END",
            self.intent_id.uuid(),
            self.caller.agent,
            self.ask.scope,
            path,
            now,
            plus_seconds(now, PLACE),
            LEFT
        )
        .execute(&mut *conn)
        .await?;
        conn.done().await?;
        Ok(())
    }

    /// Acquires the lease if it is this request's turn.
    async fn go_on(&self, once: Option<&Idempotency>) -> Outcome<Progress> {
        if let Some(later) = self.look().await? {
            return Ok(Progress::Later(later));
        }
        match acquire(self.ctx, self.caller, self.intent_id, self.ask.clone(), once).await {
            // Somebody was faster than this look.
            Err(AppError::Refused(refusal)) if waits_for(self.caller, &refusal) => {
                Ok(Progress::Later(Later { refusal, next: None }))
            }
            done => done.map(Progress::Acquired),
        }
    }

    /// Looks, without a lock, why it is not this request's turn.
    async fn look(&self) -> Outcome<Option<Later>> {
        let (now, agent) = (self.ctx.now(), &self.caller.agent);
        self.caller.require_key(now)?;
        let mut conn = self.ctx.pool.acquire().await?;
        let membership = membership::require(&mut conn, agent, self.intent_id, Level::Write, now).await?;
        let LeasesOfIntent { leases: mut held, waits } =
            active_and_waiting(&mut conn, self.intent_id, now).await?;
        drop(conn);
        if waits.len() > PLACES {
            let message =
                format!("{PLACES} requests wait for leases on this intent already. Ask again later.");
            return Err(Refusal::field(Code::TooLarge, "wait", "too_many", message).into());
        }
        held.retain(|lease| lease.in_force(now));
        let claimant = claimant(self.caller, &membership);
        match queue::in_turn(&self.ask, claimant, &held, &waits) {
            Ok(()) => Ok(None),
            Err(refusal) if waits_for(self.caller, &refusal) => {
                Ok(Some(Later { refusal, next: queue::next_expiry(&self.ask, claimant, &held) }))
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Notes that no request waits at the place any more, which is kept for the client to ask again.
    async fn leave(&self) {
        let left = async {
            let path = LeaseScope::parse(&self.ask.scope)?.to_string();
            let mut conn = self.ctx.pool.acquire().await?;
            leave(&mut conn, self.intent_id, &self.caller.agent, &path, self.ctx.now()).await
        };
        if let Err(failure) = left.await {
            tracing::debug!(error = %failure, "a place in a queue for leases looks as if its request waited on");
        }
    }

    /// Gives the place up, and wakes those behind it. If that fails, the place ends by itself.
    async fn give_up(&self) {
        let given_up = async {
            let path = LeaseScope::parse(&self.ask.scope)?.to_string();
            let mut conn = self.ctx.pool.acquire().await?;
            forget(&mut conn, self.intent_id, &self.caller.agent, &path).await
        };
        match given_up.await {
            Ok(true) => self.ctx.feed.wake(WakeKey::Leases(self.intent_id)),
            Ok(false) => {}
            Err(failure) => tracing::debug!(error = %failure, "a place in a queue for leases ends by itself"),
        }
    }
}

async fn leave(
    conn: &mut PgConnection,
    intent_id: IntentId,
    agent: &str,
    path: &str,
    now: Timestamp,
) -> Outcome<()> {
    sqlx::query!(
        "-- lease_waits::leave
         UPDATE lease_waits SET left_at = $4 WHERE intent_id = $1 AND agent_id = $2 AND path = $3",
        intent_id.uuid(),
        agent,
        path,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes a place; returns whether there was one.
pub(super) async fn forget(
    conn: &mut PgConnection,
    intent_id: IntentId,
    agent: &str,
    path: &str,
) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- lease_waits::forget
         DELETE FROM lease_waits WHERE intent_id = $1 AND agent_id = $2 AND path = $3",
        intent_id.uuid(),
        agent,
        path
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}
