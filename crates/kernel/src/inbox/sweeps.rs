//! Sweeps of inboxes: entries that nobody has seen ring again, and old entries and readers go.

use chrono::TimeDelta;
use entente_domain::inbox::{EntryKind, KEPT_SECONDS, RINGS, Ring};

use super::rows::{DueRing, LockedInbox};
use super::{follower, readers, rows};
use crate::wakeups::WakeKey;
use crate::{Ctx, Outcome, notifications, unknown};

/// Rings up to `limit` entries that are due: whoever waits for the inbox is woken, and its webhooks are told. Returns their
/// number.
///
/// # Errors
/// A database error.
pub async fn ring(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let now = ctx.now();
    let mut tx = ctx.pool.begin().await?;
    // The follower locks the same rows in another order.
    if !follower::try_lock(&mut tx).await? {
        return Ok(0);
    }
    let due = rows::due_rings(&mut tx, now, limit).await?;
    if due.is_empty() {
        tx.rollback().await?;
        return Ok(0);
    }
    let mut agents: Vec<String> = due.iter().map(|one| one.agent.clone()).collect();
    agents.sort_unstable();
    agents.dedup();
    let names: Vec<&str> = agents.iter().map(String::as_str).collect();
    let inboxes = rows::lock(&mut tx, &names).await?;
    let (mut rings, mut rung) = (Vec::new(), Vec::with_capacity(due.len()));
    for one in due {
        let inbox = inboxes.get(&one.agent);
        // The hours may have become quiet after it was armed: then it rings at their end.
        if let Some(inbox) = inbox.filter(|inbox| one.breaks_through || !inbox.settings.is_quiet(now)) {
            rings.push(ring_of(&one, inbox)?);
        }
        let next = inbox
            .filter(|_| one.rings + 1 < RINGS)
            .map(|inbox| inbox.settings.rings_at(now, one.breaks_through));
        rung.push((one, next));
    }
    rows::ring(&mut tx, &rung).await?;
    let is_queued = ctx.webhooks.queue_rings(&mut tx, &rings, now).await?;
    let is_told = notifications::rings::tell(&mut tx, &rings, now).await?;
    tx.commit().await?;
    if is_told {
        ctx.notifications.wake();
    }
    if is_queued {
        ctx.webhooks.wake();
    }
    agents.into_iter().for_each(|agent| ctx.feed.wake(WakeKey::AgentInbox(agent)));
    Ok(u64::try_from(rung.len()).unwrap_or(u64::MAX))
}

/// Returns the ring of an entry, which is one more than before.
fn ring_of(due: &DueRing, inbox: &LockedInbox) -> Outcome<Ring> {
    Ok(Ring {
        agent: due.agent.clone(),
        opened_at: inbox.opened_at,
        place: due.place,
        kind: EntryKind::parse(&due.kind).ok_or_else(|| unknown("kind of entry", &due.kind))?,
        what: due.what.clone(),
        rings: due.rings + 1,
        at: due.at,
    })
}

/// Deletes up to `limit` expired entries, and as many readers that are gone. Returns their number.
///
/// # Errors
/// A database error.
pub async fn tidy(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let now = ctx.now();
    let mut tx = ctx.pool.begin().await?;
    if !follower::try_lock(&mut tx).await? {
        return Ok(0);
    }
    let entries = rows::expire(&mut tx, now, limit).await?;
    let gone = readers::forget(&mut tx, now - TimeDelta::seconds(i64::from(KEPT_SECONDS)), limit).await?;
    tx.commit().await?;
    Ok(entries + gone)
}
