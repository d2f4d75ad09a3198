//! Maintenance of a session while it is connected, when its connection ends, and when its resume window is over.

use chrono::TimeDelta;
use entente_domain::ids::SessionId;
use entente_kernel::Outcome;

use super::{Entered, follows, frames, until};
use crate::Ctx;
use crate::session_rows;

/// Time for which a session counts as connected after the last sign of its server.
const GONE: TimeDelta = TimeDelta::hours(1);

/// Records that a session is still connected, and whether its client was heard on this connection.
///
/// Returns false if this connection is no longer the session's current one.
///
/// # Errors
/// Returns database errors.
pub async fn keep(ctx: &Ctx, entered: &Entered, heard: bool) -> Outcome<bool> {
    let mut conn = ctx.pool.acquire().await?;
    session_rows::move_on(&mut conn, entered.id, entered.connection, true, heard, until(ctx, ctx.now())).await
}

/// Records the end of a session's connection, which starts its resume window.
///
/// # Errors
/// Returns database errors.
pub async fn leave(ctx: &Ctx, id: SessionId, connection: i64) -> Outcome<()> {
    let mut conn = ctx.pool.acquire().await?;
    let end = ctx.now() + ctx.state.sessions.resume_window;
    session_rows::move_on(&mut conn, id, connection, false, false, end).await?;
    Ok(())
}

/// Records the last event that a client has acknowledged (§6.5) and deletes the acknowledged frames.
///
/// # Errors
/// Returns database errors.
pub async fn acked(ctx: &Ctx, id: SessionId, connection: i64, seq: i64) -> Outcome<()> {
    let mut tx = ctx.pool.begin().await?;
    if let Some(acked) = session_rows::ack(&mut tx, id, connection, seq).await? {
        frames::free(&mut tx, id, acked).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Returns whether closing the session loses nothing: it has no open job and follows none.
///
/// # Errors
/// Returns database errors.
pub async fn is_idle(ctx: &Ctx, id: SessionId) -> Outcome<bool> {
    let mut conn = ctx.pool.acquire().await?;
    Ok(!session_rows::has_open_job(&mut conn, id).await? && !follows::any(&mut conn, id).await?)
}

/// Deletes sessions whose resume window is over; one with an open job stays, because its events are still numbered.
///
/// # Errors
/// Returns database errors.
pub async fn forget(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let mut tx = ctx.pool.begin().await?;
    let now = ctx.now();
    let gone = session_rows::delete(&mut tx, now, now - GONE, limit).await?;
    if !gone.is_empty() {
        frames::delete(&mut tx, &gone).await?;
        follows::delete(&mut tx, &gone).await?;
    }
    tx.commit().await?;
    Ok(gone.len() as u64)
}
