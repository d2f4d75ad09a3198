//! What time does to moments: they lapse, are put before a second person, are withdrawn with their job, and their contents are
//! taken out. All but the last is true for who reads it the instant it is due; here it is written down and told. Nothing is
//! ever approved by time.

use entente_core::events::Kind;
use entente_core::ids::MomentId;
use entente_core::principals::HOUSE;
use serde_json::json;

use super::{Turn, due_at, line_of, rows};
use crate::app::rounds::round;
use crate::app::{Ctx, Outcome};

/// Does what is due of up to `limit` moments; answers with how much that was.
///
/// # Errors
/// The database.
pub async fn pass_time(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let due = rows::due(&ctx.pool, ctx.now(), limit).await?;
    round(due.into_iter().map(|id| pass(ctx, id))).await
}

async fn pass(ctx: &Ctx, id: MomentId) -> Outcome<u64> {
    let mut conn = ctx.pool.acquire().await?;
    let Some(found) = rows::load(&mut conn, id).await? else { return Ok(0) };
    drop(conn);
    let mut turn = Turn::begin(ctx, None, &[line_of(&found.moment)], Vec::new()).await?;
    // Looked at again under the lock: another server may have been faster.
    let Some(kept) = rows::load(&mut turn.tx, id).await? else { return Ok(0) };
    let before = kept.stored;
    let mut kept = turn.pass(ctx, kept).await?;
    if let Some(moment) = kept.moment.escalate(turn.now) {
        kept.moment = moment;
        turn.record(ctx, Kind::MomentEscalated, HOUSE, &kept.moment, &json!({}));
        turn.save(ctx, &mut kept).await?;
    }
    turn.scrub(ctx, &mut kept).await?;
    let done = kept.stored != before;
    if !done {
        // What is kept was written with other settings: it is looked at again when it is really due.
        rows::put_off(&mut turn.tx, id, due_at(&kept.moment, &ctx.settings.moments)).await?;
    }
    turn.conclude(ctx).await?;
    Ok(u64::from(done))
}
