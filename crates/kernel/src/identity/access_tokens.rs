//! Access tokens of OAuth: short-lived credentials that stand for a key (RFC 6749 §4.4). A token is the key's public part
//! and an expiry, sealed with a secret that is derived from the servers' signing key. Nothing is stored: any server opens
//! it, and it is worth nothing from the instant that its key is revoked, rotated or expired. It never has more than its
//! key has, shares its limits, stands for no person and makes no credentials. Without `ENTENTE_SIGNING_KEY`, the signing
//! key is in the database, and everybody who can read all of that can make tokens.

use chrono::DateTime;
use entente_domain::canonical::{Digest, sha256};
use entente_domain::clock::Timestamp;
use entente_domain::slips::Slip;

use crate::{Ctx, Grant};

/// Prefix of a token, which no key has.
const PREFIX: &str = "oat_";

/// Owner in the sealed text, which tells tokens from other sealed texts.
const OWNER: &str = "access token";

/// Tokens of a key end at multiples of this many seconds, so that all that are issued in between are the same: a key has
/// at most two tokens at once, however often a client asks.
const WINDOW_SECONDS: i64 = 1_800;

/// An issued token, without `Debug` and `Display`, so that it cannot be printed by accident.
pub struct AccessToken {
    /// The token, to be shown to the client only.
    pub token: String,
    /// Seconds until it expires: 1,800 to 3,600, and no more than its key has left.
    pub seconds: i64,
}

/// Issues a token for a key that was just verified; `None` only if the time is out of range.
#[must_use]
pub fn issue(ctx: &Ctx, grant: &Grant) -> Option<AccessToken> {
    let now = ctx.now();
    let window = now.timestamp().div_euclid(WINDOW_SECONDS) + 2;
    let end = DateTime::from_timestamp(window * WINDOW_SECONDS, 0)?;
    let until = grant.key.expires_at.map_or(end, |expires| expires.min(end));
    let slip = Slip { whose: OWNER.to_owned(), about: grant.key.public_id.clone(), until };
    let token = format!("{PREFIX}{}", slip.seal(&secret(ctx))?);
    Some(AccessToken { token, seconds: (until - now).num_seconds() })
}

/// Whether a presented credential has the form of a token.
pub(crate) fn is_token(presented: &str) -> bool {
    presented.starts_with(PREFIX)
}

/// Opens a token: the public part of its key, and its expiry; `None` if no server of this database issued it, or it has
/// expired.
pub(crate) fn open(ctx: &Ctx, presented: &str) -> Option<(String, Timestamp)> {
    let slip = Slip::open(presented.strip_prefix(PREFIX)?, &secret(ctx), OWNER, ctx.now())?;
    Some((slip.about, slip.until))
}

/// Returns the secret that seals tokens.
fn secret(ctx: &Ctx) -> Digest {
    sha256(ctx.server_keys.signer.sign("entente: access tokens of OAuth").to_bytes())
}
