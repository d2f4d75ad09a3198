//! Client credentials: resume tokens (ARCP §6.3), and tokens signed by a third party (ARCP-W-10.12). Entente's own
//! keys are in `keys.rs`.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::canonical::{Digest, sha256};
use crate::clock::Timestamp;
use crate::identity::principals::check_name;
use crate::ids::Chance;

/// Mints a resume token of 256 random bits; only its digest is stored.
#[must_use]
pub fn mint(chance: &dyn Chance) -> String {
    format!("rt_{:032x}{:032x}", chance.bits(), chance.bits())
}

/// Returns whether a resume token matches a digest, in constant time.
#[must_use]
pub fn opens(presented: &str, kept: &Digest) -> bool {
    let presented = sha256(presented);
    presented.iter().zip(kept).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// Principal that a signed token vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vouched {
    /// Principal.
    pub principal: String,
    /// Expiry time.
    pub expires_at: Timestamp,
}

/// Verifies a token `principal.exp.sig`; `None` if it is malformed, expired or signed with another secret.
///
/// The signature is the hexadecimal HMAC-SHA256 of `principal.exp`; `exp` is in seconds since 1970.
#[must_use]
pub fn vouched(token: &str, secret: &str, now: Timestamp) -> Option<Vouched> {
    let (signed, signature) = token.rsplit_once('.')?;
    let (principal, seconds) = signed.rsplit_once('.')?;
    let plain = !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit());
    if secret.is_empty() || !plain || check_name("principal", principal).is_err() {
        return None;
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()?;
    mac.update(signed.as_bytes());
    mac.verify_slice(&bytes(signature)?).ok()?;
    let expires_at = chrono::DateTime::from_timestamp(seconds.parse().ok()?, 0)?;
    (expires_at > now).then(|| Vouched { principal: principal.to_owned(), expires_at })
}

/// Decodes the 32 bytes of a signature.
fn bytes(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}
