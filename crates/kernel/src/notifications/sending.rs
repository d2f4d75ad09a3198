//! The work of the sender (`src/background/notify.rs`): claims contact points that are due, asks which items still wait
//! for their people, and records the outcome of a message. No transaction is open while a message is sent; a lease ends
//! by itself when its server dies, so a message may be sent twice, and is never lost.

use std::collections::HashMap;
use std::time::Duration;

use chrono::TimeDelta;
use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{IntentId, NodeId};
use entente_domain::log::events::Kind;
use entente_domain::notifications::forms::WaitingItem;
use entente_domain::notifications::{ContactKind, REMINDERS, Reason, SPACING_SECONDS, Topic};
use entente_domain::webhooks::retries::{Failed, again_after, given_up, pause};

use super::contact_points::event_draft;
use super::queue::{self, Change, Due};
use super::rings;
use super::rows::{self, Contact};
use crate::{Ctx, IntentTx, Outcome};
pub use rows::ContactLease;

/// Longest time that sending one message takes.
pub const SENDING: Duration = Duration::from_secs(20);

/// Seconds that a lease lasts beyond that, for the work around it.
const LEASE_SECONDS: i64 = 10;

/// Seconds until the next lease after a failure of this server.
const STUMBLE_SECONDS: i64 = 5;

/// Days for which finished notifications are kept.
const KEPT_DAYS: i64 = 7;

/// Content of a message to one contact point.
#[derive(Debug)]
pub enum Batch {
    /// Things that wait.
    Waiting {
        /// The things.
        items: Vec<WaitingItem>,
        /// Whether the person was told of all of them before.
        is_reminder: bool,
    },
    /// The code that confirms the address.
    Confirmation(String),
    /// A message to try the contact point.
    Test,
}

/// A message to send.
#[derive(Debug)]
pub struct Outgoing {
    /// To whom.
    pub contact: Contact,
    /// Its content.
    pub batch: Batch,
    /// Name of the message that is the same in every attempt, for receivers that drop repetitions.
    pub id: String,
    due: Vec<Due>,
}

/// Claims leases on up to `limit` contact points of these kinds with something to send, longest due first.
///
/// # Errors
/// A database error.
pub async fn claim(
    ctx: &Ctx,
    node: NodeId,
    kinds: &[ContactKind],
    limit: usize,
) -> Outcome<Vec<ContactLease>> {
    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
    let lasting = TimeDelta::from_std(SENDING).unwrap_or_default() + TimeDelta::seconds(LEASE_SECONDS);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    rows::claim(&ctx.pool, node, &kinds, ctx.now(), lasting, limit).await
}

/// Loads the next message of a lease: everything due that still waits for the person. Items that no longer wait are
/// dropped, and those that quiet hours hold back become due at their end. `None` if there is nothing to send, or the
/// contact point is switched off.
///
/// # Errors
/// A database error.
pub async fn load(ctx: &Ctx, lease: &ContactLease) -> Outcome<Option<Outgoing>> {
    let now = ctx.now();
    let mut conn = ctx.pool.acquire().await?;
    let Some(contact) = rows::find(&mut conn, lease.id).await? else { return Ok(None) };
    let due = queue::due(&mut conn, lease.id, now).await?;
    drop(conn);
    if let Some(first) = due.iter().find(|one| one.occasion().is_none()) {
        return Ok(Some(about_itself(contact, first)));
    }
    if !contact.is_told() {
        // It was switched off after this was queued, and is told once it is switched on again.
        return Ok(None);
    }
    let mut items = Vec::new();
    let (mut sent, mut changes) = (Vec::new(), Vec::new());
    let still = waiting(ctx, &contact.person, &due).await?;
    for one in due {
        let quiet = contact.settings.quiet_until(one.agent.as_deref(), now);
        let item = one.topic().and_then(|topic| still.get(&(topic, one.subject.clone())).cloned());
        let keeps = |status, again| Change { id: one.id, attempts: one.attempts, status, again };
        match (item, quiet) {
            (Some(_), Some(end)) => changes.push(keeps("waiting", Some(end))),
            (Some(item), None) => {
                items.push(item);
                sent.push(one);
            }
            (None, _) => changes.push(keeps("dropped", None)),
        }
    }
    if !changes.is_empty() {
        let mut conn = ctx.pool.acquire().await?;
        queue::change(&mut conn, &changes, now).await?;
    }
    if items.is_empty() {
        return Ok(None);
    }
    let is_reminder = sent.iter().all(|one| one.step > 0);
    let id = id_of(&contact, sent.first());
    Ok(Some(Outgoing { contact, batch: Batch::Waiting { items, is_reminder }, id, due: sent }))
}

/// Returns the message about the contact point itself.
fn about_itself(contact: Contact, due: &Due) -> Outgoing {
    let batch = match due.reason {
        Reason::Confirmation => Batch::Confirmation(due.subject.clone()),
        Reason::Test | Reason::Topic(_) => Batch::Test,
    };
    let id = id_of(&contact, Some(due));
    Outgoing { contact, batch, id, due: vec![due.clone()] }
}

fn id_of(contact: &Contact, first: Option<&Due>) -> String {
    format!("{}.{}", contact.id, first.map_or(0, |one| one.id))
}

/// Asks the protocols which of these things still wait for the person; returns them by topic and id.
async fn waiting(ctx: &Ctx, person: &str, due: &[Due]) -> Outcome<HashMap<(Topic, String), WaitingItem>> {
    let mut found = HashMap::new();
    for topic in Topic::ALL {
        let subjects: Vec<String> =
            due.iter().filter(|one| one.topic() == Some(topic)).map(|one| one.subject.clone()).collect();
        if subjects.is_empty() {
            continue;
        }
        let items = if topic == Topic::Inbox {
            rings::items(ctx, person, &subjects).await?
        } else {
            ctx.hooks.waiting(ctx, person, topic, &subjects).await?
        };
        found.extend(items.into_iter().map(|(subject, item)| ((topic, subject), item)));
    }
    Ok(found)
}

/// Records that a message was taken, and queues the reminders of its items.
///
/// # Errors
/// A database error.
pub async fn sent(ctx: &Ctx, lease: &ContactLease, outgoing: &Outgoing) -> Outcome<()> {
    let now = ctx.now();
    let mut tx = ctx.begin(&[]).await?;
    let Some(mut contact) = rows::lock(&mut tx, lease).await? else { return Ok(tx.rollback().await?) };
    let done = |one: &Due| Change { id: one.id, attempts: one.attempts + 1, status: "sent", again: None };
    queue::change(&mut tx, &outgoing.due.iter().map(done).collect::<Vec<_>>(), now).await?;
    let mut reminders = Vec::new();
    for one in &outgoing.due {
        let Some(occasion) = one.occasion().filter(|_| one.step < REMINDERS) else { continue };
        if let Some(at) = contact.settings.reminded(occasion, now) {
            reminders.push(queue::New::of_occasion(contact.id, occasion, &one.subject, one.step + 1, at));
        }
    }
    // Waiting items are told right after the message that confirms or tries the contact point.
    let is_about_itself = outgoing.due.iter().all(|one| one.topic().is_none());
    let health = &mut contact.health;
    (health.failures, health.failing_since, health.last_sent_at) = (0, None, Some(now));
    if !is_about_itself {
        health.rests_until = Some(plus_seconds(now, SPACING_SECONDS));
    }
    rows::save_health(&mut tx, &contact).await?;
    if !reminders.is_empty() {
        queue::insert(&mut tx, &reminders, now).await?;
    }
    tx.commit().await?;
    ctx.metrics.notification(contact.address.kind.as_str(), "sent");
    Ok(())
}

/// Records that a message was not taken: it is tried again on its schedule, or given up; a receiver that is gone, or that has
/// failed for days, is disabled.
///
/// # Errors
/// A database error.
pub async fn failed(ctx: &Ctx, lease: &ContactLease, outgoing: &Outgoing, how: Failed) -> Outcome<()> {
    let Failed { failure, error, retry_after } = how;
    let mut work = IntentTx::unattended(ctx, IntentId::SYSTEM).await?;
    let now = work.now();
    let Some(mut contact) = rows::lock(work.conn(), lease).await? else { return work.commit().await };
    let changes: Vec<Change> = outgoing
        .due
        .iter()
        .map(|one| {
            let attempts = one.attempts + 1;
            let chance = u64::try_from(ctx.chance.bits() & u128::from(u64::MAX)).unwrap_or(0);
            let wait = again_after(attempts, failure, retry_after, chance);
            let again =
                wait.map(|millis| now + TimeDelta::milliseconds(i64::try_from(millis).unwrap_or(i64::MAX)));
            Change { id: one.id, attempts, status: if again.is_some() { "waiting" } else { "failed" }, again }
        })
        .collect();
    queue::change(work.conn(), &changes, now).await?;
    let health = &mut contact.health;
    health.failures = health.failures.saturating_add(1);
    let since = *health.failing_since.get_or_insert(now);
    (health.last_error, health.last_error_at) = (Some(error), Some(now));
    let rest = pause(health.failures, failure, retry_after);
    health.rests_until = (rest > 0).then(|| plus_seconds(now, rest)).or(health.rests_until);
    let reason = if failure.gone() { Some("gone") } else { given_up(since, now).then_some("failing") };
    if let Some(reason) = reason {
        contact.disabled = Some((now, reason.to_owned()));
        work.record(event_draft(Kind::ContactDisabled, &contact, SYSTEM));
        tracing::warn!(contact.id = %contact.id, reason, "a contact point is no longer told");
    }
    rows::save_health(work.conn(), &contact).await?;
    work.commit().await?;
    let is_over = changes.iter().all(|one| one.again.is_none());
    ctx.metrics.notification(contact.address.kind.as_str(), if is_over { "failed" } else { "retried" });
    Ok(())
}

/// Releases a lease; after a failure of this server the next one is due only after a delay.
///
/// # Errors
/// A database error.
pub async fn end(ctx: &Ctx, lease: &ContactLease, has_stumbled: bool) -> Outcome<()> {
    let now = ctx.now();
    let from = if has_stumbled { now + TimeDelta::seconds(STUMBLE_SECONDS) } else { now };
    let mut tx = ctx.begin(&[]).await?;
    // Locked before the queue is read: a concurrent operation that queues more sets the due time after this one.
    let _locked = rows::lock(&mut tx, lease).await?;
    rows::give_back(&mut tx, lease, from).await?;
    tx.commit().await?;
    Ok(())
}

/// Deletes up to `limit` notifications that ended long ago, and removed contact points with theirs; returns their number.
///
/// # Errors
/// A database error.
pub async fn tidy(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let now = ctx.now();
    let mut tx = ctx.begin(&[]).await?;
    let finished = queue::forget(&mut tx, now - TimeDelta::days(KEPT_DAYS), limit).await?;
    let before: Timestamp = now - TimeDelta::seconds(super::contact_points::COUNTED_SECONDS);
    let removed = rows::removed(&mut tx, before, limit).await?;
    let mut gone = 0;
    if !removed.is_empty() {
        queue::forget_all(&mut tx, &removed, limit).await?;
        gone = rows::forget(&mut tx, &removed).await?;
    }
    tx.commit().await?;
    Ok(finished + gone)
}
