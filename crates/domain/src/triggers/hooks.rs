//! Whether a webhook that comes in is what it says (RFC-0017 §4.3). The secret is known to the sender and the server; what
//! is compared is compared in constant time, over the body as it came.

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
use crate::signing::{Scheme, Secret};

/// Seconds by which a webhook's own time may differ from the server's, either way (Standard Webhooks).
pub const WINDOW_SECONDS: i64 = 300;

/// Bytes of a secret that a client chose in words of its own.
const OWN_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// How a sender shows that it knows the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = TriggerVerify)]
pub enum Verify {
    /// It signs, as Standard Webhooks 1.0 has it: `webhook-id`, `webhook-timestamp`, `webhook-signature`.
    #[default]
    Signature,
    /// It signs as GitHub does: `X-Hub-Signature-256`, and `X-GitHub-Delivery` for the id.
    Github,
    /// It cannot sign: what nobody can guess stands at the end of its URL.
    Token,
}

/// What came in, as far as it matters here.
#[derive(Clone, Copy)]
pub struct Knock<'a> {
    /// A header's text, by its name in small letters.
    pub header: &'a dyn Fn(&str) -> Option<String>,
    /// What stands at the end of the URL.
    pub token: Option<&'a str>,
    /// The body as it came.
    pub body: &'a [u8],
    /// The time.
    pub now: Timestamp,
}

/// Reads a secret that a client chose: `whsec_…`, or words of its own. Who signs like GitHub signs with the words as they are.
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

/// A fresh secret.
#[must_use]
pub fn fresh(verify: Verify, chance: &dyn Chance) -> Secret {
    let secret = Secret::mint(Scheme::V1, chance);
    if verify == Verify::Github { Secret::Shared(secret.reveal().into_bytes()) } else { secret }
}

/// The secret as its sender has to be told it.
#[must_use]
pub fn told(verify: Verify, secret: &Secret) -> String {
    match (verify, secret) {
        (Verify::Github, Secret::Shared(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => secret.reveal(),
    }
}

/// What stands at the end of the URL of a trigger that is not signed to: made of its secret, so that another secret is
/// another URL.
#[must_use]
pub fn token(secret: &Secret) -> String {
    let text = format!("trigger token\0{}", secret.reveal());
    crate::canonical::hex(&sha256(text))
}

/// Whether the sender knows the secret, and is not somebody who heard it a while ago; `None` when not. Then the delivery's
/// own id, if it has one: who comes with the same again gets the same answer.
#[must_use]
#[expect(clippy::option_option, reason = "not let in, let in without an id, and with one, are three things")]
pub fn admitted(verify: Verify, secret: &Secret, knock: Knock<'_>) -> Option<Option<String>> {
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
            // Digests are compared: how far two of them agree says nothing of what they are made of.
            let right = sha256(token(secret)) == sha256(knock.token?);
            right.then(|| named("webhook-id").or_else(|| named("idempotency-key")))
        }
    }
}

fn is_mac(secret: &Secret, signed: &[u8], offered: &[u8]) -> bool {
    let Secret::Shared(key) = secret else { return false };
    // HMAC takes keys of any length.
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
