//! Effects of time on credentials in vaults: their ends are announced, and secrets under an old key are sealed with
//! the new one.

use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{IntentId, ToolCredentialId};
use entente_domain::log::events::Kind;
use entente_kernel::due::run_each;
use entente_kernel::{IntentTx, Outcome};

use super::{event_draft, find, open, rows, seal};
use crate::Ctx;
use crate::tools::vaults;

/// Announces credentials that have expired, and returns their number; they are invalid since that very instant.
///
/// # Errors
/// Returns database errors.
pub async fn expire_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    if !rows::due(&mut *ctx.pool.acquire().await?, ctx.now()).await? {
        return Ok(0);
    }
    let mut work = IntentTx::unattended(ctx, IntentId::SYSTEM).await?;
    let ended = rows::end(work.conn(), ctx.now(), limit).await?;
    for credential in &ended {
        work.record(event_draft(Kind::ToolCredentialExpired, credential, SYSTEM));
    }
    work.commit().await?;
    Ok(ended.len() as u64)
}

/// Seals secrets under old keys with the current key, so that the old ones can be dropped; returns their number.
///
/// A secret that cannot be opened stays as it is, and does not stop the others.
///
/// # Errors
/// Returns database errors.
pub async fn seal_anew(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let keys = &ctx.state.vaults.keys;
    let retired = keys.retired();
    if retired.is_empty() || !keys.seals() {
        return Ok(0);
    }
    let due = rows::under_keys(&mut *ctx.pool.acquire().await?, &retired, limit).await?;
    run_each(due.into_iter().map(|id| one(ctx, id))).await
}

async fn one(ctx: &Ctx, id: ToolCredentialId) -> Outcome<u64> {
    let Some(seen) = find(&mut *ctx.pool.acquire().await?, id).await? else { return Ok(0) };
    let mut tx = ctx.begin_locked(vec![vaults::lock_key(seen.vault_id)]).await?;
    let Some(credential) = find(&mut tx, id).await?.filter(|there| there.revoked_at.is_none()) else {
        return Ok(0);
    };
    let secret = open(ctx, &mut tx, &credential).await?;
    let sealed = seal(ctx, &credential, &secret)?;
    rows::save_secret(&mut tx, id, sealed.as_ref()).await?;
    tx.commit().await?;
    Ok(1)
}
