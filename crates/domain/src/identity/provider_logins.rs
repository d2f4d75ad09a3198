//! Logins at a provider that have begun. Their state travels: sealed through the provider, bound to the browser by a cookie.
//! Nothing is stored until a login succeeds, and it may end on another server than it began on.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::canonical::{Digest, sha256};
use crate::clock::{Timestamp, plus_seconds};
use crate::ids::{Chance, KeyId};
use crate::slips::Slip;

/// Seconds within which a login ends after it began.
pub const LOGIN_SECONDS: u32 = 600;

/// A login that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderLogin {
    /// Random id.
    id: String,
    /// Page to show after the login.
    pub next: String,
    /// Key of the login that the browser had when this one began, which ends with it. The browser withholds that key when
    /// the provider leads back.
    pub replaces: Option<KeyId>,
    /// Time by which it must end.
    pub until: Timestamp,
}

impl ProviderLogin {
    /// Begins a login that leads to the page `next` and replaces the browser's key.
    #[must_use]
    pub fn begin(chance: &dyn Chance, next: &str, replaces: Option<KeyId>, now: Timestamp) -> Self {
        let id = URL_SAFE_NO_PAD.encode(chance.bits().to_be_bytes());
        Self { id, next: next.to_owned(), replaces, until: plus_seconds(now, LOGIN_SECONDS) }
    }

    /// Returns the parameter `state` that the provider hands back; `None` only for an invalid secret.
    #[must_use]
    pub fn state(&self, secret: &[u8], browser: &str) -> Option<String> {
        let replaced = self.replaces.map_or_else(|| "-".to_owned(), |key| key.to_string());
        let about = format!("{} {replaced} {}", self.id, self.next);
        Slip { whose: owner(browser), about, until: self.until }.seal(secret)
    }

    /// Opens a `state` that came back; `None` if no server of this database sealed it for this browser, or it is too late.
    #[must_use]
    pub fn open(state: &str, secret: &[u8], browser: &str, now: Timestamp) -> Option<Self> {
        let slip = Slip::open(state, secret, &owner(browser), now)?;
        let (id, rest) = slip.about.split_once(' ')?;
        let (replaced, next) = rest.split_once(' ')?;
        Some(Self {
            id: id.to_owned(),
            next: next.to_owned(),
            replaces: replaced.parse().ok(),
            until: slip.until,
        })
    }

    /// Returns the nonce that the provider puts into the ID token.
    #[must_use]
    pub fn nonce(&self, secret: &[u8], browser: &str) -> String {
        self.derived(secret, browser, "nonce")
    }

    /// Returns the verifier of PKCE (RFC 7636), without which the provider's code is worth nothing.
    #[must_use]
    pub fn verifier(&self, secret: &[u8], browser: &str) -> String {
        self.derived(secret, browser, "verifier")
    }

    /// Returns the digest under which a login is remembered that has succeeded.
    #[must_use]
    pub fn digest(&self) -> Digest {
        sha256(&self.id)
    }

    /// Returns 256 bits that only a server of this database can compute, and only with the browser's cookie.
    fn derived(&self, secret: &[u8], browser: &str, purpose: &str) -> String {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return String::new() };
        for part in ["provider login", purpose, &self.id, browser] {
            mac.update(part.as_bytes());
            mac.update(b"\0");
        }
        URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    }
}

/// Mints the secret that a cookie binds to a browser: 256 random bits.
#[must_use]
pub fn mint_browser(chance: &dyn Chance) -> String {
    URL_SAFE_NO_PAD.encode([chance.bits(), chance.bits()].map(u128::to_be_bytes).concat())
}

/// Returns whether a cookie's value has the form of such a secret.
#[must_use]
pub fn is_browser(text: &str) -> bool {
    URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == 32)
}

/// Returns the name of a browser in a `state`, which does not give its secret away.
fn owner(browser: &str) -> String {
    URL_SAFE_NO_PAD.encode(sha256(format!("browser of a login\0{browser}")))
}
