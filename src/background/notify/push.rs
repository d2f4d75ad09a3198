//! Requests to push services (RFC 8030): encrypted for the browser, and signed by the server.

use entente_domain::canonical::{hex, sha256};
use entente_domain::clock::Timestamp;
use entente_domain::notifications::forms::Message;
use entente_domain::notifications::{Address, PushKeys};
use entente_runtime::push::{PAYLOAD_BYTES, PushKey, encrypt};
use url::Url;

/// Seconds for which a push service keeps a message for a browser that is offline: a day.
const TTL_SECONDS: u32 = 24 * 3_600;

/// Seconds for which the server's signature is valid: half of the maximum of RFC 8292 §2.
const SIGNED_SECONDS: i64 = 12 * 3_600;

/// A request to a push service.
pub(super) struct PushRequest {
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// Builds the request for one subscription; `base` is this server's URL, by which the service reaches its operator.
pub(super) fn request(
    key: &PushKey,
    address: &Address,
    id: &str,
    message: &Message<'_>,
    base: &str,
    now: Timestamp,
) -> Result<PushRequest, String> {
    let keys = address.push_keys.as_ref().and_then(PushKeys::bytes);
    let (browser, secret) = keys.ok_or("its keys are those of no push subscription")?;
    let service = Url::parse(&address.text).map_err(|fault| fault.to_string())?;
    let payload = message.push().to_string();
    // Titles and bodies are short, so this never cuts anything.
    let payload = payload.as_bytes().get(..payload.len().min(PAYLOAD_BYTES)).unwrap_or_default();
    let body = encrypt(payload, &browser, &secret).map_err(str::to_owned)?;
    let expires = now.timestamp() + SIGNED_SECONDS;
    let authorization =
        key.authorization(&service.origin().ascii_serialization(), base, expires).map_err(str::to_owned)?;
    let urgency = if message.is_urgent() { "high" } else { "normal" };
    let headers = vec![
        ("authorization", authorization),
        ("content-encoding", "aes128gcm".to_owned()),
        ("content-type", "application/octet-stream".to_owned()),
        ("ttl", TTL_SECONDS.to_string()),
        ("urgency", urgency.to_owned()),
        ("topic", topic(id)),
    ];
    Ok(PushRequest { headers, body })
}

/// Returns the name by which a repeated message replaces the one before (RFC 8030 §5.4): 32 characters of base64url.
fn topic(id: &str) -> String {
    let mut digest = hex(&sha256(id));
    digest.truncate(32);
    digest
}
