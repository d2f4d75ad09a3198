//! Retiring: subscriptions that ended by themselves are removed when they have been ended for as long as deliveries are
//! kept. They were sent nothing since the instant they ended; until then their owner still finds what they were sent.

use entente_domain::ids::{EndpointId, IntentId};
use entente_domain::principals::HOUSE;

use super::{find, rows, take_away};
use crate::lines::Line;
use crate::{Ctx, Outcome};

/// Removes up to `limit` of them; answers with how many.
///
/// # Errors
/// The database.
pub(crate) async fn retire(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let before = ctx.now() - ctx.settings.webhooks.retention;
    let mut conn = ctx.pool.acquire().await?;
    let ended = rows::ended(&mut conn, before, limit).await?;
    drop(conn);
    let mut retired = 0;
    for id in ended {
        let mut tx = ctx.begin(&[IntentId::HOUSE]).await?;
        // Looked at again under the lock: another server was faster, or its owner gave it another end.
        let found = find(&mut tx, EndpointId::from(id)).await?;
        let found = found.filter(|stored| stored.endpoint.expires_at.is_some_and(|end| end < before));
        let Some(stored) = found else { continue };
        let mut line = Line::open(&mut tx, IntentId::HOUSE, None, ctx.now()).await?;
        take_away(&mut tx, ctx, &mut line, &stored.endpoint, HOUSE).await?;
        line.save(&mut tx).await?;
        tx.commit().await?;
        ctx.feed.news(IntentId::HOUSE);
        retired += 1;
    }
    Ok(retired)
}
