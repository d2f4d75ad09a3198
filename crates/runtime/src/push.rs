//! Push messages to browsers: their encryption (RFC 8291) and the server's signature for push services (RFC 8292), with ring.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};

/// Largest payload in bytes: push services take messages of 4,096 bytes (RFC 8291 §4), with 103 of overhead.
pub const PAYLOAD_BYTES: usize = 3_900;

/// Record size in the header of a message: larger than any message, which is one record.
const RECORD_BYTES: u32 = 4_096;

/// Why a key or a message cannot be used.
type Fault = &'static str;

/// The server's key pair of P-256.
pub struct PushKey {
    pair: EcdsaKeyPair,
    public: String,
}

impl PushKey {
    /// Makes a key pair, in the form of PKCS #8.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn generate() -> Result<Vec<u8>, Fault> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        made.map(|document| document.as_ref().to_vec()).map_err(|_unspecified| "it cannot be made")
    }

    /// Reads a key pair.
    ///
    /// # Errors
    /// It is none.
    pub fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, Fault> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &SystemRandom::new());
        let pair = pair.map_err(|_rejected| "it is no key pair of P-256")?;
        let public = BASE64_URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
        Ok(Self { pair, public })
    }

    /// Returns the public key in base64url: `applicationServerKey` of a browser's subscription.
    #[must_use]
    pub fn public(&self) -> &str {
        &self.public
    }

    /// Returns the header `Authorization` for a push service (RFC 8292 §3).
    ///
    /// `audience` is the origin of the push service, `subject` a URL by which its operator reaches this server's, `expires` a
    /// time in seconds since 1970, at most a day ahead.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn authorization(&self, audience: &str, subject: &str, expires: i64) -> Result<String, Fault> {
        let encoded = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let claims =
            format!(r#"{{"aud":"{}","exp":{expires},"sub":"{}"}}"#, quoted(audience), quoted(subject));
        let signed = format!("{}.{}", encoded(r#"{"typ":"JWT","alg":"ES256"}"#), encoded(&claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(|_unspecified| "it cannot sign")?;
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature.as_ref());
        Ok(format!("vapid t={signed}.{signature}, k={}", self.public))
    }
}

/// Length of key material.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derived<const N: usize>(prk: &Prk, info: &[&[u8]]) -> Result<[u8; N], Fault> {
    let mut out = [0; N];
    let filled = prk.expand(info, Length(N)).and_then(|okm| okm.fill(&mut out));
    filled.map(|()| out).map_err(|_unspecified| "no key can be derived")
}

/// Encrypts a payload for a browser, in the content coding `aes128gcm` (RFC 8188): `key` is its public key, `secret` the
/// authentication secret of its subscription.
///
/// # Errors
/// The payload is too long; the key is no point of the curve; the system has no randomness.
pub fn encrypt(payload: &[u8], key: &[u8; 65], secret: &[u8; 16]) -> Result<Vec<u8>, Fault> {
    if payload.len() > PAYLOAD_BYTES {
        return Err("the message is too long");
    }
    let random = SystemRandom::new();
    let mut salt = [0; 16];
    let no_chance = |_unspecified| "the system has no randomness";
    random.fill(&mut salt).map_err(no_chance)?;
    let own = EphemeralPrivateKey::generate(&ECDH_P256, &random).map_err(no_chance)?;
    let own_public = own.compute_public_key().map_err(no_chance)?;
    // RFC 8291 §3.4.
    let shared = agree_ephemeral(own, &UnparsedPublicKey::new(&ECDH_P256, key), |shared| {
        let prk = Salt::new(HKDF_SHA256, secret).extract(shared);
        derived::<32>(&prk, &[b"WebPush: info\0", key, own_public.as_ref()])
    });
    let input = shared.map_err(|_unspecified| "the browser's key is no point of the curve")??;
    let prk = Salt::new(HKDF_SHA256, &salt).extract(&input);
    let content_key: [u8; 16] = derived(&prk, &[b"Content-Encoding: aes128gcm\0"])?;
    let nonce: [u8; 12] = derived(&prk, &[b"Content-Encoding: nonce\0"])?;
    let sealing =
        UnboundKey::new(&AES_128_GCM, &content_key).map_err(|_unspecified| "no key can be derived")?;
    let mut sealed = payload.to_vec();
    // The delimiter of the last record (RFC 8188 §2).
    sealed.push(2);
    LessSafeKey::new(sealing)
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut sealed)
        .map_err(|_unspecified| "the message cannot be sealed")?;
    let public = own_public.as_ref();
    let mut message = Vec::with_capacity(21 + public.len() + sealed.len());
    message.extend_from_slice(&salt);
    message.extend_from_slice(&RECORD_BYTES.to_be_bytes());
    message.extend(u8::try_from(public.len()));
    message.extend_from_slice(public);
    message.extend_from_slice(&sealed);
    Ok(message)
}
