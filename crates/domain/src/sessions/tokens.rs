//! What a client proves itself with: the token of a resume (ARCP §6.3), and tokens that somebody else signs (contract 10).
//! Entente's own keys are `keys.rs`.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::canonical::{Digest, sha256};
use crate::clock::Timestamp;
use crate::ids::Chance;
use crate::principals::check_name;

/// A fresh resume token: 256 bits of chance. Only its digest is kept.
#[must_use]
pub fn mint(chance: &dyn Chance) -> String {
    format!("rt_{:032x}{:032x}", chance.bits(), chance.bits())
}

/// Whether a presented resume token is the one of this digest. The time that it takes says nothing about either.
#[must_use]
pub fn opens(presented: &str, kept: &Digest) -> bool {
    let presented = sha256(presented);
    presented.iter().zip(kept).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// Whom a signed token vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vouched {
    /// The principal.
    pub principal: String,
    /// Until when.
    pub expires_at: Timestamp,
}

/// Reads `principal.exp.sig`: the signature is the hexadecimal HMAC-SHA256 of `principal.exp`, and `exp` counts seconds
/// since 1970. `None` when it is malformed, expired or signed by another secret.
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

/// The 32 bytes of a signature.
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
