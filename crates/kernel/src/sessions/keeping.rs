//! What happens to a session while it is connected, when it is left, and when its time is over.

use chrono::TimeDelta;
use entente_domain::ids::SessionId;

use super::{Entered, follows, frames, rows, until};
use crate::{Ctx, Outcome};

/// How long a session counts as connected after its server was last heard of.
const GONE: TimeDelta = TimeDelta::hours(1);

/// Notes that a session is still connected, and whether its client was heard of on this connection. False when this connection is no longer the session's.
///
/// # Errors
/// The database.
pub async fn keep(ctx: &Ctx, entered: &Entered, heard: bool) -> Outcome<bool> {
    let mut conn = ctx.pool.acquire().await?;
    rows::move_on(&mut conn, entered.id, entered.connection, true, heard, until(ctx, ctx.now())).await
}

/// Notes that a session was left, by its client or by its connection: its window begins.
///
/// # Errors
/// The database.
pub async fn leave(ctx: &Ctx, id: SessionId, connection: i64) -> Outcome<()> {
    let mut conn = ctx.pool.acquire().await?;
    let end = ctx.now() + ctx.settings.sessions.resume_window;
    rows::move_on(&mut conn, id, connection, false, false, end).await?;
    Ok(())
}

/// Notes what a client has processed (§6.5). What it has is not kept for a resume any more.
///
/// # Errors
/// The database.
pub async fn acked(ctx: &Ctx, id: SessionId, connection: i64, seq: i64) -> Outcome<()> {
    let mut tx = ctx.pool.begin().await?;
    if let Some(acked) = rows::ack(&mut tx, id, connection, seq).await? {
        frames::free(&mut tx, id, acked).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Whether nothing would be missed if the session were closed: it has no job under way and follows none.
///
/// # Errors
/// The database.
pub async fn is_idle(ctx: &Ctx, id: SessionId) -> Outcome<bool> {
    let mut conn = ctx.pool.acquire().await?;
    Ok(!rows::has_open_job(&mut conn, id).await? && !follows::any(&mut conn, id).await?)
}

/// Forgets sessions whose window is over. One with a job under way stays: its events are still counted.
///
/// # Errors
/// The database.
pub async fn forget(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let mut tx = ctx.pool.begin().await?;
    let now = ctx.now();
    let gone = rows::delete(&mut tx, now, now - GONE, limit).await?;
    if !gone.is_empty() {
        frames::delete(&mut tx, &gone).await?;
        follows::delete(&mut tx, &gone).await?;
    }
    tx.commit().await?;
    Ok(gone.len() as u64)
}
