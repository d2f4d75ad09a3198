//! The credential that opened a session: it is stored with the session, so that a client can resume it with the resume
//! token alone while that credential is valid.

use std::sync::Arc;

use entente_domain::arcp::sessions::envelope::Resume;
use entente_domain::arcp::sessions::tokens;
use entente_domain::canonical::Digest;
use entente_domain::clock::rfc3339;
use entente_domain::ids::SessionId;
use entente_kernel::identity::authentication;
use entente_kernel::log::writer::digest;
use entente_kernel::{Caller, Grant, Outcome};

use crate::Ctx;

/// Encodes the credential of a caller: its key, or the end of its token.
pub(super) fn opened_by(caller: &Caller) -> String {
    let key = &caller.grant.key;
    match key.expires_at {
        Some(end) if key.public_id.is_empty() => format!("until:{}", rfc3339(end)),
        _ => format!("key:{}", key.public_id),
    }
}

/// Returns the grant of the principal that opened a session, for a client that presents only a resume token.
///
/// `None` if the principal's credential is no longer valid, or if the token is not the session's.
///
/// # Errors
/// Returns database errors.
pub async fn presented(ctx: &Ctx, said: &Resume) -> Outcome<Option<Arc<Grant>>> {
    let Ok(id) = said.session_id.parse::<SessionId>() else { return Ok(None) };
    let row = sqlx::query!(
        "-- sessions::presented
         SELECT principal, opened_by, token, prior_token FROM sessions WHERE id = $1",
        id.uuid()
    )
    .fetch_optional(&ctx.pool)
    .await?;
    let Some(row) = row else { return Ok(None) };
    // Checked before any work is done for a client without the token.
    let known = [Some(row.token), row.prior_token].into_iter().flatten().map(digest);
    let known = known.collect::<Outcome<Vec<Digest>>>()?;
    if !known.iter().any(|token| tokens::opens(&said.resume_token, token)) {
        return Ok(None);
    }
    match row.opened_by.split_once(':') {
        Some(("key", public_id)) => authentication::of_key(ctx, public_id).await,
        Some(("until", end)) => Ok(authentication::until(ctx, &row.principal, end)),
        _ => Ok(None),
    }
}
