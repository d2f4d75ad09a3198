//! What time does to inboxes: entries that nobody has seen ring again, and old entries and readers go.

use chrono::TimeDelta;
use entente_domain::inbox::{KEPT_SECONDS, RINGS};

use super::{follower, readers, rows};
use crate::wakeups::WakeKey;
use crate::{Ctx, Outcome};

/// Rings up to `limit` entries that are due: whoever waits for the inbox is woken. Returns their number.
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
        return Ok(0);
    }
    let mut agents: Vec<String> = due.iter().map(|one| one.agent.clone()).collect();
    agents.sort_unstable();
    agents.dedup();
    let names: Vec<&str> = agents.iter().map(String::as_str).collect();
    let inboxes = rows::lock(&mut tx, &names).await?;
    let rung: Vec<_> = due
        .into_iter()
        .map(|one| {
            let next = inboxes
                .get(&one.agent)
                .filter(|_| one.rings + 1 < RINGS)
                .map(|inbox| inbox.settings.rings_at(now, one.breaks_through));
            (one, next)
        })
        .collect();
    rows::ring(&mut tx, &rung).await?;
    tx.commit().await?;
    agents.into_iter().for_each(|agent| ctx.feed.wake(WakeKey::AgentInbox(agent)));
    Ok(u64::try_from(rung.len()).unwrap_or(u64::MAX))
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
