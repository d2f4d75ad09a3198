//! Effects of time on moments: expiry, escalation to a second person, withdrawal with the job, scrubbing of
//! contents; and the restoring of a refused question whose successor has ended. All but scrubbing hold for
//! readers as soon as they are due; the sweep records them. Time never approves anything.

use entente_domain::clock::Timestamp;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::MomentId;
use entente_kernel::Outcome;
use entente_kernel::Pool;
use entente_kernel::due::run_each;

use super::{LockSet, MomentTx, due_at, rows};
use crate::Ctx;

/// Applies the due effects to up to `limit` moments and returns the number of changes.
///
/// # Errors
/// The database query fails.
pub async fn expire_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let due = due(&ctx.pool, ctx.now(), limit).await?;
    // Boxed: the future is large and part of every server's background tasks.
    run_each(due.into_iter().map(|id| Box::pin(pass(ctx, id)))).await
}

async fn pass(ctx: &Ctx, id: MomentId) -> Outcome<u64> {
    let mut conn = ctx.pool.acquire().await?;
    let Some(found) = rows::load(&mut conn, id).await? else { return Ok(0) };
    let locks_needed = LockSet::of(&mut conn, &found).await?;
    drop(conn);
    let mut work = MomentTx::begin(ctx, None, locks_needed).await?;
    // Read again under the locks: another server may have been faster.
    let Some(mut kept) = work.current(ctx, id).await? else { return Ok(0) };
    work.scrub(ctx, &mut kept, SYSTEM).await?;
    let done = work.has_changed();
    if !done {
        // The due time was computed under other settings: store the actual one.
        rows::put_off(&mut work.tx, id, due_at(&kept.moment, &ctx.state.settings)).await?;
    }
    work.conclude(ctx).await?;
    Ok(u64::from(done))
}

/// Moments with a due effect of time, of their job's end, or of their successor's end; longest due first, so
/// that none starves.
async fn due(pool: &Pool, now: Timestamp, limit: i64) -> Outcome<Vec<MomentId>> {
    let ids = sqlx::query_scalar!(
        r#"-- moments::due
         SELECT d.id AS "id!" FROM (
             (SELECT id, due_at AS at FROM moments WHERE due_at <= $1 ORDER BY due_at LIMIT $2)
             UNION ALL
             (SELECT m.id, c.ended_at FROM moments m JOIN job_clock c ON c.job_id = m.job_id
              WHERE m.job_id IS NOT NULL AND m.state IN ('open', 'deliberating') AND m.resolution_kind IS NULL
                AND c.ended_at IS NOT NULL ORDER BY c.ended_at LIMIT $2)
             UNION ALL
             (SELECT v.id, n.ended_at FROM moments v JOIN moments n ON n.id = v.superseded_by
              WHERE v.resolution_kind = 'dialogue' AND v.veto_settled_at IS NULL AND v.state = 'superseded'
                AND n.state IN ('withdrawn', 'expired') ORDER BY n.ended_at LIMIT $2)) d
         GROUP BY d.id ORDER BY min(d.at), d.id LIMIT $2"#,
        now,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(ids.into_iter().map(MomentId::from).collect())
}
