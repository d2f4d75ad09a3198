//! Detection of keys that changed on other servers.

use std::collections::HashMap;

use crate::{Ctx, Outcome};

/// Drops the keys that changed since the last call, on any server, from the cache.
///
/// Runs every few hundred milliseconds, and at once after a change on this server.
///
/// # Errors
/// The database query fails.
pub async fn refresh(ctx: &Ctx) -> Outcome<()> {
    let rows = sqlx::query!(
        "-- keys::refresh
         SELECT public_id, changed_seq FROM keys WHERE changed_seq > $1 ORDER BY changed_seq LIMIT 10000",
        ctx.grants.seen()
    )
    .fetch_all(&ctx.pool)
    .await?;
    let Some(last) = rows.last().map(|row| row.changed_seq) else { return Ok(()) };
    let changed: HashMap<_, _> = rows.into_iter().map(|row| (row.public_id, row.changed_seq)).collect();
    // In this order, so that a concurrent verification can tell that its key may have changed.
    ctx.grants.set_seen(last);
    ctx.grants.forget(&changed);
    Ok(())
}
