//! Deliveries: the webhook queue, endpoint leases, and the results of attempts. Tables `webhook_bodies`,
//! `webhook_deliveries`, `webhook_attempts`, `webhook_shifts`. `src/background/deliver.rs` sends them; while
//! it does it holds no transaction, only an endpoint lease, which ends by itself when its server dies.
//!
//! One server at a time holds an endpoint's lease, and sends its deliveries one after the other. So first
//! attempts keep the order of the log; failed deliveries are retried on their own schedule and hold nothing
//! up. Deliveries to a broker keep their places instead, and hold up those behind them.

mod endpoint_leases;
mod log;
mod rows;

use std::collections::{HashMap, HashSet};

use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{AttemptId, EndpointId, IntentId, NodeId};
use entente_domain::webhooks::formats::BodyFormat;
use entente_domain::webhooks::retries::{Failure, again_after, given_up, pause};
use entente_domain::webhooks::signing::Secrets;
use entente_domain::webhooks::{DeliveryStatus, DisabledReason, RING};

use crate::channels;
use crate::feed::reader;
use crate::feed::streams::VisibilityFilter;
use crate::log::Record;
use crate::webhooks::endpoints;
use crate::webhooks::endpoints::Stored;
use crate::webhooks::rings;
use crate::{Ctx, Outcome, Tx};

pub use endpoint_leases::Health;
pub(crate) use endpoint_leases::{begin_again, health, hold};
pub use log::{Attempt, Delivery, DeliveryFilter, list, ping, wait};
pub use rows::Queue;
pub(crate) use rows::forget_all;
pub use rows::in_order;
pub use rows::latest;
pub use rows::queue;

/// Seconds that a lease lasts beyond the timeout of one attempt, for the work around it: short, because a
/// dead server keeps its leases that long.
const LEASE_SECONDS: i64 = 10;

/// Seconds until an endpoint's next lease after a failure of this server, not of the receiver.
const STUMBLE_SECONDS: i64 = 5;

/// Maximum number of deliveries waiting for an endpoint, because a receiver that is down would fill the disk.
const BACKLOG: i64 = 100_000;

/// A lease on one endpoint: a row of `webhook_shifts`. By its number `fence`, an earlier holder can record nothing any
/// more.
#[derive(Debug, Clone, Copy)]
pub struct EndpointLease {
    /// The endpoint.
    pub endpoint_id: EndpointId,
    /// The server that holds it.
    node: NodeId,
    /// The lease's fencing token.
    fence: i64,
}

/// A delivery that is due.
#[derive(Debug)]
pub struct Due {
    /// The delivery.
    pub id: i64,
    /// The header `webhook-id`.
    pub webhook_id: String,
    /// The body, in the standard form.
    pub body: String,
    /// The intent whose log has the record, if any.
    pub intent_id: Option<IntentId>,
    /// The trace that it belongs to.
    pub trace_id: Option<String>,
    /// Type of its event.
    pub kind: String,
    /// Where the broker's log ended at its first attempt, if it may have been published.
    pub position: Option<i64>,
    /// Its number at a Kafka broker, if it got one then.
    pub number: Option<Number>,
    /// How often it was asked for again.
    pub replays: u32,
    /// Number of earlier attempts.
    pub attempts: u32,
}

/// Number of a delivery at a Kafka broker, which takes each once and in sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// The producer's id; `None` if the broker no longer takes its numbers.
    pub producer: Option<i64>,
    /// The partition, which stays.
    pub partition: i32,
    /// The sequence number in the partition.
    pub sequence: i32,
}

impl Number {
    /// Returns the partition and the sequence number as one.
    fn packed(self) -> i64 {
        i64::from(self.partition) << 32 | i64::from(self.sequence)
    }

    fn unpacked(producer: Option<i64>, packed: i64) -> Self {
        let low = packed & i64::from(u32::MAX);
        Self {
            producer,
            partition: i32::try_from(packed >> 32).unwrap_or_default(),
            sequence: i32::try_from(low).unwrap_or_default(),
        }
    }
}

/// The beginning of a delivery's publication.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    /// The delivery.
    pub id: i64,
    /// Where the broker's log ends. A place that is stored already stays.
    pub position: i64,
    /// Its number at a Kafka broker.
    pub number: Option<Number>,
}

/// The due deliveries of an endpoint.
#[derive(Debug)]
pub struct Batch {
    /// The URL to send to, or the address of a sink.
    pub url: String,
    /// The form of their bodies.
    pub format: BodyFormat,
    /// The secrets that sign them.
    pub secrets: Secrets,
    /// The deliveries in order.
    pub due: Vec<Due>,
}

/// The result of an attempt.
#[derive(Debug)]
pub struct Attempted {
    /// The delivery.
    pub id: i64,
    /// Number of attempts, including this one.
    pub attempts: u32,
    /// When it was made.
    pub at: Timestamp,
    /// The status of the receiver's answer.
    pub status: Option<u16>,
    /// The error, if it failed.
    pub error: Option<String>,
    /// Its duration in milliseconds.
    pub millis: u32,
    /// The beginning of the answer's body.
    pub response: Option<String>,
    /// How it failed, if it did.
    pub failure: Option<Failure>,
    /// Seconds after which the receiver asks to be retried.
    pub retry_after: Option<u32>,
}

/// How a lease continues after attempts were recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// With the next delivery.
    Continue,
    /// It ends: the endpoint is paused for a while.
    Pause,
    /// It ends: the endpoint is disabled.
    Disable(DisabledReason),
    /// Another server holds it now; deliveries may be sent twice.
    Lost,
}

/// Claims leases on up to `limit` endpoints with due deliveries, longest waiting first.
///
/// # Errors
/// A database error.
pub async fn claim(ctx: &Ctx, node: NodeId, limit: usize) -> Outcome<Vec<EndpointLease>> {
    let now = ctx.now();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let claimed = endpoint_leases::claim(&ctx.pool, node, now, now + lease_time(ctx), limit).await?;
    Ok(claimed.into_iter().map(|(endpoint_id, fence)| EndpointLease { endpoint_id, node, fence }).collect())
}

/// Returns how long a lease on a receiver lasts: the time of one request, and some for the work around it.
#[must_use]
pub fn lease_time(ctx: &Ctx) -> TimeDelta {
    let attempt = i64::try_from(ctx.settings.webhooks.timeout.as_secs()).unwrap_or(i64::MAX);
    TimeDelta::seconds(attempt.saturating_add(LEASE_SECONDS))
}

/// Loads the next deliveries of a lease, and drops those that the endpoint's owner may no longer see; `None`
/// when nothing is due.
///
/// # Errors
/// A database error.
pub async fn load(ctx: &Ctx, lease: &EndpointLease) -> Outcome<Option<Batch>> {
    let now = ctx.now();
    let mut conn = ctx.pool.acquire().await?;
    let Some(stored) = endpoints::find(&mut conn, lease.endpoint_id).await? else { return Ok(None) };
    if !stored.endpoint.live(now) {
        return Ok(None);
    }
    let waiting = rows::due(&mut conn, lease.endpoint_id, now).await?;
    let visibility = endpoints::powers(&mut conn, &stored, now).await?;
    drop(conn);
    let seen = judge(ctx, &stored, visibility, &waiting).await?;
    let (due, lost): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|one| seen.contains(&one.id));
    if !lost.is_empty() {
        let ids: Vec<i64> = lost.iter().map(|one| one.id).collect();
        rows::drop_all(&ctx.pool, &ids, now).await?;
        ctx.metrics.webhook_outcome("dropped", ids.len());
    }
    let due: Vec<Due> = due.into_iter().map(rows::Waiting::due).collect();
    let (url, format) = (stored.endpoint.url.unwrap_or_default(), stored.endpoint.format);
    Ok((!due.is_empty() || !lost.is_empty()).then_some(Batch { url, format, secrets: stored.secrets, due }))
}

/// Returns those of the deliveries that the endpoint's owner may see now.
///
/// A message that was evicted since it was queued is still delivered if the owner may read its channel.
async fn judge(
    ctx: &Ctx,
    stored: &Stored,
    visibility: Option<VisibilityFilter>,
    waiting: &[rows::Waiting],
) -> Outcome<Vec<i64>> {
    let Some(mut visibility) = visibility else { return Ok(Vec::new()) };
    let told: Vec<(IntentId, i64)> = waiting.iter().filter_map(rows::Waiting::told).collect();
    let records: HashMap<(IntentId, i64), Record> = reader::at(ctx, &told).await?;
    let rings = current_rings(ctx, stored, &visibility, waiting).await?;
    let mut seen = Vec::new();
    for one in waiting {
        let Some(told) = one.told() else {
            if one.kind != RING || rings.contains(&one.webhook_id) {
                seen.push(one.id);
            }
            continue;
        };
        let sees = match records.get(&told) {
            Some(record) => stored.endpoint.wants(&one.kind) && visibility.sees(ctx, record).await?,
            None => sees_channel(ctx, &mut visibility, told.0, one).await?,
        };
        if sees {
            seen.push(one.id);
        }
    }
    Ok(seen)
}

/// Returns the ids of those rings of an inbox that its agent should still hear.
async fn current_rings(
    ctx: &Ctx,
    stored: &Stored,
    visibility: &VisibilityFilter,
    waiting: &[rows::Waiting],
) -> Outcome<HashSet<String>> {
    let bodies: Vec<&str> =
        waiting.iter().filter(|one| one.kind == RING).map(|one| one.body.as_str()).collect();
    if bodies.is_empty() || !stored.endpoint.hears_rings() {
        return Ok(HashSet::new());
    }
    let mut conn = ctx.pool.acquire().await?;
    rings::current(&mut conn, &visibility.caller, &bodies, ctx.now()).await
}

async fn sees_channel(
    ctx: &Ctx,
    visibility: &mut VisibilityFilter,
    intent: IntentId,
    one: &rows::Waiting,
) -> Outcome<bool> {
    let Some(channel) = one.channel_id else { return Ok(false) };
    if !visibility.reads(ctx, intent).await? {
        return Ok(false);
    }
    let mut conn = ctx.pool.acquire().await?;
    let found = channels::load_all(&mut conn, &[channel.into()]).await?;
    Ok(found.first().is_some_and(|channel| channel.admits(&visibility.caller.agent)))
}

/// A transaction that has locked an endpoint's lease.
struct LeaseTx {
    tx: Tx,
    health: Health,
    now: Timestamp,
}

impl LeaseTx {
    /// Locks the lease; `None` if another server holds it now.
    async fn lock(ctx: &Ctx, lease: &EndpointLease) -> Outcome<Option<Self>> {
        let now = ctx.now();
        let mut tx = ctx.begin(&[]).await?;
        let health = endpoint_leases::lock(&mut tx, lease).await?;
        Ok(health.map(|health| Self { tx, health, now }))
    }

    /// Commits and extends the lease; returns true.
    async fn prolong(mut self, ctx: &Ctx, lease: &EndpointLease) -> Outcome<bool> {
        let until = self.now + lease_time(ctx);
        endpoint_leases::prolong(&mut self.tx, lease, &self.health, until).await?;
        self.tx.commit().await?;
        Ok(true)
    }
}

/// Notes where a broker's log ends before deliveries are published there for the first time, and extends the lease; false if
/// another server holds it now.
///
/// Nothing is published before this is committed. So whoever holds the next lease knows which deliveries may have arrived, and
/// behind which place: this server may die, or freeze and go on later.
///
/// # Errors
/// A database error.
pub async fn begin(ctx: &Ctx, lease: &EndpointLease, begun: &[Begun]) -> Outcome<bool> {
    let Some(mut held) = LeaseTx::lock(ctx, lease).await? else { return Ok(false) };
    rows::save_positions(&mut held.tx, begun).await?;
    held.prolong(ctx, lease).await
}

/// Notes that deliveries are not at their broker before these places, and extends the lease; false if another server holds it now.
///
/// So a long search keeps its lease, and whoever goes on with it does not begin anew.
///
/// # Errors
/// A database error.
pub async fn advance(ctx: &Ctx, lease: &EndpointLease, positions: &[(i64, i64)]) -> Outcome<bool> {
    let Some(mut held) = LeaseTx::lock(ctx, lease).await? else { return Ok(false) };
    rows::advance_positions(&mut held.tx, positions).await?;
    held.prolong(ctx, lease).await
}

/// Takes the numbers from deliveries of which the broker has none and takes none; false if another server holds the lease now.
///
/// # Errors
/// A database error.
pub async fn discard_numbers(ctx: &Ctx, lease: &EndpointLease, ids: &[i64]) -> Outcome<bool> {
    let Some(mut held) = LeaseTx::lock(ctx, lease).await? else { return Ok(false) };
    rows::discard_numbers(&mut held.tx, ids).await?;
    held.prolong(ctx, lease).await
}

/// Records the results of attempts, in order, and extends the lease.
///
/// # Errors
/// A database error.
pub async fn record(ctx: &Ctx, lease: &EndpointLease, made: &[Attempted]) -> Outcome<Next> {
    let now = ctx.now();
    let mut tx = ctx.begin(&[]).await?;
    let Some(mut health) = endpoint_leases::lock(&mut tx, lease).await? else { return Ok(Next::Lost) };
    let mut next = Next::Continue;
    let mut changes = Vec::with_capacity(made.len());
    for one in made {
        let chance = u64::try_from(ctx.chance.bits() & u128::from(u64::MAX)).unwrap_or(0);
        let wait = one.failure.and_then(|how| again_after(one.attempts, how, one.retry_after, chance));
        let millis = |wait: u64| TimeDelta::milliseconds(i64::try_from(wait).unwrap_or(i64::MAX));
        let (status, again) = match (one.failure, wait) {
            (None, _) => (DeliveryStatus::Delivered, None),
            (Some(how), _) if how.keeps_place() => (DeliveryStatus::Waiting, None),
            (Some(_), Some(wait)) => (DeliveryStatus::Waiting, Some(now + millis(wait))),
            (Some(_), None) => (DeliveryStatus::Failed, None),
        };
        // An attempt that keeps its place is none of the schedule, by which a server of the release before would go on.
        let kept = one.failure.is_some_and(Failure::keeps_place);
        let attempts = if kept { one.attempts.saturating_sub(1) } else { one.attempts };
        changes.push(rows::Change { id: one.id, attempts, status, again });
        match one.failure {
            None => health.succeeded(one.at),
            Some(how) => {
                health.failed(one.at, one.error.clone());
                let rest = pause(health.failures, how, one.retry_after);
                if rest > 0 {
                    health.paused_until = Some(now + TimeDelta::seconds(i64::from(rest)));
                    next = Next::Pause;
                }
                if how.gone() {
                    next = Next::Disable(DisabledReason::Gone);
                } else if health.failing_since.is_some_and(|since| given_up(since, now)) {
                    next = Next::Disable(DisabledReason::Failing);
                }
            }
        }
    }
    let mint = |at| AttemptId::mint(at, &*ctx.chance);
    rows::change(&mut tx, &changes, now).await?;
    rows::insert_attempts(&mut tx, made, mint).await?;
    endpoint_leases::prolong(&mut tx, lease, &health, now + lease_time(ctx)).await?;
    if next == Next::Pause && rows::waits_more_than(&mut tx, lease.endpoint_id, BACKLOG).await? {
        next = Next::Disable(DisabledReason::Backlog);
    }
    tx.commit().await?;
    for change in &changes {
        let outcome =
            if change.status == DeliveryStatus::Waiting { "retried" } else { change.status.as_str() };
        ctx.metrics.webhook_outcome(outcome, 1);
    }
    Ok(next)
}

/// Releases a lease.
///
/// The endpoint's next lease is due with its next delivery and after its pause; after a failure of this
/// server only after a delay, because it may fail again.
///
/// # Errors
/// A database error.
pub async fn end(ctx: &Ctx, lease: &EndpointLease, failed: bool) -> Outcome<()> {
    let mut tx = ctx.begin(&[]).await?;
    // Locked before the queue is read: a concurrent operation that queues more sets the due time after this
    // one.
    if endpoint_leases::lock(&mut tx, lease).await?.is_some() {
        let now = ctx.now();
        let live = endpoints::find(&mut tx, lease.endpoint_id).await?;
        let live = live.is_some_and(|stored| stored.endpoint.live(now));
        let from = if failed { now + TimeDelta::seconds(STUMBLE_SECONDS) } else { now };
        endpoint_leases::give_back(&mut tx, lease, live, from).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Deletes deliveries past their retention, endpoints that ended that long ago, and the rest of removed
/// endpoints: up to `limit` of each; returns their number.
///
/// # Errors
/// A database error.
pub async fn tidy(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let mut conn = ctx.pool.acquire().await?;
    ctx.metrics.webhook_waiting.set(rows::waiting(&mut conn, BACKLOG).await?);
    drop(conn);
    let retired = endpoints::retire(ctx, limit).await?;
    Ok(retired + rows::forget_finished(ctx, limit).await? + endpoints::sweep_removed(ctx, limit).await?)
}
