//! The parties to an envelope: its sender, its recipient, and the entities that have it in their mailboxes. Only they
//! may read it.

use entente_domain::identity::keys::Scope;
use entente_kernel::identity::entities::OwnEntities;
use entente_kernel::{Caller, Outcome, not_found};
use sqlx::PgConnection;

use crate::Ctx;
use crate::envelopes::{StoredEnvelope, load};
use crate::mailboxes;

/// Returns an envelope that the caller is a party to.
///
/// # Errors
/// The envelope does not exist, or the caller is no party to it.
pub async fn get(ctx: &Ctx, caller: &Caller, id: &str) -> Outcome<StoredEnvelope> {
    caller.require(Scope::MailRead)?;
    let mut conn = ctx.pool.acquire().await?;
    let kept = load(&mut conn, id).await?.ok_or_else(|| not_found("envelope"))?;
    let holders = mailboxes::holders(&mut conn, id).await?;
    let named = [&kept.sender, &kept.recipient].into_iter().chain(&holders).map(String::as_str);
    let own = OwnEntities::among(&mut conn, caller, named).await?;
    let is_mine = |entity: &str| own.contains(entity);
    let seen = between(is_mine, &kept) || holders.iter().any(|entity| is_mine(entity));
    if seen { Ok(kept) } else { Err(not_found("envelope")) }
}

/// Whether an entity accepted by `is_theirs` is the sender, or the recipient of a delivered envelope.
///
/// Held and redacted envelopes belong to their sender; others are a party to those in their mailbox.
fn between(is_theirs: impl Fn(&str) -> bool, kept: &StoredEnvelope) -> bool {
    is_theirs(&kept.sender) || (kept.is_handed_out() && is_theirs(&kept.recipient))
}

/// Loads an envelope if an entity accepted by `is_theirs` sent it or has it in a mailbox.
pub(crate) async fn seen_by(
    conn: &mut PgConnection,
    is_theirs: impl Fn(&str) -> bool,
    id: &str,
) -> Outcome<Option<StoredEnvelope>> {
    let Some(kept) = load(conn, id).await? else { return Ok(None) };
    if between(&is_theirs, &kept) {
        return Ok(Some(kept));
    }
    let holders = mailboxes::holders(conn, id).await?;
    Ok(holders.iter().any(|entity| is_theirs(entity)).then_some(kept))
}
