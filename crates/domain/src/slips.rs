//! Opaque state that a client returns when it repeats a request (`requestState` of MCP): owner, subject and expiry
//! under an HMAC, so that it can neither be forged nor used by somebody else.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::clock::Timestamp;

/// State that the client returns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slip {
    /// Agent that it was issued to.
    pub whose: String,
    /// Subject.
    pub about: String,
    /// Expiry time.
    pub until: Timestamp,
}

fn mac(secret: &[u8], text: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    mac.update(b"slip\0");
    mac.update(text.as_bytes());
    Some(mac)
}

impl Slip {
    /// Encodes the slip for the client: the text, a dot and its HMAC-SHA256; `None` only for an invalid secret.
    #[must_use]
    pub fn seal(&self, secret: &[u8]) -> Option<String> {
        let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).ok()?);
        let tag = URL_SAFE_NO_PAD.encode(mac(secret, &text)?.finalize().into_bytes());
        Some(format!("{text}.{tag}"))
    }

    /// Verifies a returned slip; `None` if it was made with another secret, belongs to somebody else, or has expired.
    #[must_use]
    pub fn open(sealed: &str, secret: &[u8], whose: &str, now: Timestamp) -> Option<Self> {
        let (text, tag) = sealed.split_once('.')?;
        mac(secret, text)?.verify_slice(&URL_SAFE_NO_PAD.decode(tag).ok()?).ok()?;
        let slip: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        (slip.whose == whose && slip.until > now).then_some(slip)
    }
}
