//! Removes expired subscriptions after the retention period of deliveries. Nothing is sent to them from the
//! instant they expire; until their removal the owner can still list their deliveries.

use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{EndpointId, IntentId};

use super::{find, rows, take_away};
use crate::{Ctx, IntentTx, Outcome};

/// Removes up to `limit` of them; returns their number.
///
/// # Errors
/// A database error.
pub(crate) async fn retire(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let before = ctx.now() - ctx.settings.webhooks.retention;
    let mut conn = ctx.pool.acquire().await?;
    let ended = rows::ended(&mut conn, before, limit).await?;
    drop(conn);
    let mut retired = 0;
    for id in ended {
        let mut work = IntentTx::unattended(ctx, IntentId::SYSTEM).await?;
        // Checked again under the lock: another server may have removed it, or its owner may have extended
        // it.
        let found = find(work.conn(), EndpointId::from(id)).await?;
        let found = found.filter(|stored| stored.endpoint.expires_at.is_some_and(|end| end < before));
        let Some(stored) = found else { continue };
        let (conn, log) = work.parts();
        take_away(conn, ctx, log, &stored.endpoint, SYSTEM).await?;
        work.commit().await?;
        retired += 1;
    }
    Ok(retired)
}
