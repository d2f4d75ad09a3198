//! Verification of incoming webhooks (RFC-0017 §4.3). Sender and server share the secret; comparisons take constant
//! time, over the body as received.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::canonical::sha256;
use crate::clock::Timestamp;
use crate::ids::Chance;
use crate::limits::NAME_BYTES;
use crate::refusal::{Code, Refusal};
use crate::webhooks::signing::{Scheme, Secret};

/// Maximum difference between a webhook's own time and the server's in either direction, in seconds (Standard Webhooks).
pub const WINDOW_SECONDS: i64 = 300;

/// Length of a free-form secret chosen by a client, in bytes.
const OWN_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Proof that a sender knows the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = TriggerVerify)]
pub enum Verify {
    /// A signature by Standard Webhooks 1.0: `webhook-id`, `webhook-timestamp`, `webhook-signature`.
    #[default]
    Signature,
    /// A signature in GitHub's form: `X-Hub-Signature-256`, with `X-GitHub-Delivery` for the id.
    Github,
    /// No signature: an unguessable token at the end of the URL.
    Token,
}

/// An incoming request, as far as verification needs it.
#[derive(Clone, Copy)]
pub struct HookRequest<'a> {
    /// Returns a header's text, by its lower-case name.
    pub header: &'a dyn Fn(&str) -> Option<String>,
    /// Token at the end of the URL.
    pub token: Option<&'a str>,
    /// Body as received.
    pub body: &'a [u8],
    /// Current time.
    pub now: Timestamp,
}

/// Parses a secret that a client chose: `whsec_…`, or free-form text, which GitHub's scheme always uses verbatim.
///
/// # Errors
/// [`Code::InvalidRequest`]; the refusal does not repeat it.
pub fn given(text: &str, verify: Verify) -> Result<Secret, Refusal> {
    if text.starts_with("whsec_") && verify != Verify::Github {
        return Secret::given(text, Scheme::V1);
    }
    if OWN_BYTES.contains(&text.len()) {
        return Ok(Secret::Shared(text.as_bytes().to_vec()));
    }
    let message = "`condition.secret` must have 24 to 64 bytes, or be `whsec_` and base64. Leave it out to get a fresh one.";
    Err(Refusal::field(Code::InvalidRequest, "condition", "secret", message))
}

/// Mints a secret.
#[must_use]
pub fn fresh(verify: Verify, chance: &dyn Chance) -> Secret {
    let secret = Secret::mint(Scheme::V1, chance);
    if verify == Verify::Github { Secret::Shared(secret.reveal().into_bytes()) } else { secret }
}

/// Returns the secret in the form for its sender.
#[must_use]
pub fn told(verify: Verify, secret: &Secret) -> String {
    match (verify, secret) {
        (Verify::Github, Secret::Shared(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => secret.reveal(),
    }
}

/// Returns the URL token of an unsigned trigger, derived from its secret, so that a new secret changes the URL.
#[must_use]
pub fn token(secret: &Secret) -> String {
    let text = format!("trigger token\0{}", secret.reveal());
    crate::canonical::hex(&sha256(text))
}

/// Verifies that the sender knows the secret and the request is not a replay; `None` if not.
///
/// Otherwise returns the delivery's id, if it has one: a repeated delivery gets the same response.
#[must_use]
#[expect(clippy::option_option, reason = "not let in, let in without an id, and with one, are three things")]
pub fn admitted(verify: Verify, secret: &Secret, knock: HookRequest<'_>) -> Option<Option<String>> {
    let named = |name: &str| {
        let id = (knock.header)(name)?;
        (!id.is_empty() && id.len() <= NAME_BYTES && id.bytes().all(|b| b.is_ascii_graphic())).then_some(id)
    };
    match verify {
        Verify::Signature => {
            let id = named("webhook-id")?;
            let sent_at: i64 = (knock.header)("webhook-timestamp")?.parse().ok()?;
            let fresh = (knock.now.timestamp().checked_sub(sent_at)?).abs() <= WINDOW_SECONDS;
            let signed = [format!("{id}.{sent_at}.").as_bytes(), knock.body].concat();
            let header = (knock.header)("webhook-signature")?;
            let mut offered = header.split(' ').filter_map(|one| one.strip_prefix("v1,"));
            let fits = offered.any(|one| STANDARD.decode(one).is_ok_and(|mac| is_mac(secret, &signed, &mac)));
            (fresh && fits).then_some(Some(id))
        }
        Verify::Github => {
            let header = (knock.header)("x-hub-signature-256")?;
            let bytes = unhex(header.strip_prefix("sha256=")?)?;
            is_mac(secret, knock.body, &bytes).then(|| named("x-github-delivery"))
        }
        Verify::Token => {
            // Compares digests: the time until they differ reveals nothing about the tokens.
            let right = sha256(token(secret)) == sha256(knock.token?);
            right.then(|| named("webhook-id").or_else(|| named("idempotency-key")))
        }
    }
}

fn is_mac(secret: &Secret, signed: &[u8], offered: &[u8]) -> bool {
    let Secret::Shared(key) = secret else { return false };
    // HMAC accepts keys of any length.
    Hmac::<Sha256>::new_from_slice(key).is_ok_and(|mut mac| {
        mac.update(signed);
        mac.verify_slice(offered).is_ok()
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() == 64)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
