//! The retention of envelopes: envelopes past it are deleted, with everything that is stored about them.

use entente_kernel::Outcome;

use crate::Ctx;
use crate::{envelopes, exchanges, mailboxes, refutations};

/// Deletes up to `limit` envelopes past their retention with their items and exchanges; returns their number.
///
/// Never deletes one while a replay of its id could be accepted (AEE §11.1): ids that came without a valid
/// `ts` are remembered.
///
/// # Errors
/// A database error.
pub async fn forget(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let Some(before) = ctx.now().checked_sub_signed(ctx.state.settings.memory()) else { return Ok(0) };
    let mut tx = ctx.pool.begin().await?;
    let gone = envelopes::delete(&mut tx, before, limit).await?;
    mailboxes::forget(&mut tx, &gone).await?;
    exchanges::forget(&mut tx, &gone).await?;
    refutations::forget(&mut tx, &gone).await?;
    tx.commit().await?;
    Ok(gone.len() as u64)
}
