//! Logins of people: password rules, one-time links and the lifetimes of the keys they yield. The server hashes and
//! stores passwords (`crates/kernel/src/identity/people.rs`); a login yields a [`crate::identity::keys::Key`].

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::canonical::{Digest, sha256};
use crate::identity::keys::Scope;
use crate::identity::principals::PrincipalKind;
use crate::ids::Chance;
use crate::limits::TITLE_BYTES;
use crate::refusal::{Code, Refusal};

/// Label of a browser's key.
pub const BROWSER: &str = "browser";
/// Label of a terminal's key.
pub const TERMINAL: &str = "terminal";
/// Label of the key of a person's own program.
pub const PROGRAM: &str = "program";
/// Lifetime of a browser login, in seconds: a working day.
pub const BROWSER_SECONDS: u32 = 12 * 3_600;
/// Lifetime of a terminal login, in seconds: long enough for a decision or two, because every program of the same
/// user can read the file that holds the key.
pub const TERMINAL_SECONDS: u32 = 600;
/// Lifetime of the key of a person's own program, in seconds: 90 days. It is stored in a file; a login renews it.
pub const PROGRAM_SECONDS: u32 = 90 * 24 * 3_600;
/// Default lifetime of an unopened one-time link, in seconds: until the next morning.
pub const LINK_SECONDS: u32 = 24 * 3_600;
/// Maximum lifetime of an unopened one-time link, in seconds: one week.
pub const LINK_SECONDS_MAX: u32 = 7 * 24 * 3_600;
/// Minimum length of a password, in characters: length determines the cost of guessing, so there are no other rules.
pub const PASSWORD_CHARS: usize = 12;
/// Maximum length of a password, in bytes: a sentence, not a document to hash.
pub const PASSWORD_BYTES: usize = 1_024;

/// Checks a new password.
///
/// # Errors
/// [`Code::InvalidRequest`]: too short or too long.
pub fn check_password(password: &str) -> Result<(), Refusal> {
    let refused =
        |kind, message: String| Err(Refusal::field(Code::InvalidRequest, "password", kind, message));
    if password.chars().count() < PASSWORD_CHARS {
        return refused(
            "too_short",
            format!(
                "The password has fewer than {PASSWORD_CHARS} characters. Take a longer one: a few words do."
            ),
        );
    }
    if password.len() > PASSWORD_BYTES {
        return refused("too_long", format!("The password has more than {PASSWORD_BYTES} bytes."));
    }
    Ok(())
}

/// Checks the target of a link: it must be a path of this server.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check_path(path: &str) -> Result<(), Refusal> {
    // Browsers treat `//host` and `/\host` as another server.
    let local = path.starts_with('/')
        && !path[1..].starts_with(['/', '\\'])
        && path.len() <= TITLE_BYTES
        && path.bytes().all(|byte| byte.is_ascii_graphic());
    if local {
        return Ok(());
    }
    let message = "`leads_to` must be a path of this server, such as `/inbox`.";
    Err(Refusal::field(Code::InvalidRequest, "leads_to", "value", message))
}

/// Requires that a principal of kind `by` may create a key, password or link for one of kind `whom`.
///
/// An agent may not for a person, regardless of scopes, nor for a service that could in turn: it could otherwise
/// resolve people's decisions.
///
/// # Errors
/// [`Code::MayNotActAs`].
pub fn may_let_in(by: PrincipalKind, whom: PrincipalKind, scopes: Option<&[Scope]>) -> Result<(), Refusal> {
    let administers = scopes.is_some_and(|scopes| scopes.contains(&Scope::Admin));
    if by != PrincipalKind::Agent
        || whom == PrincipalKind::Agent
        || (whom == PrincipalKind::Service && !administers)
    {
        return Ok(());
    }
    Err(Refusal::new(
        Code::MayNotActAs,
        "An agent's key makes no key, password or link for a person, nor a service's key with the scope `admin`: decisions of \
         people are theirs. Use the key of a service or of a person.",
    ))
}

/// Requires that a person's key does not use the label of a login's key.
///
/// The label shows how a decision was made, and keys with these labels expire automatically.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check_label(whose: PrincipalKind, label: Option<&str>) -> Result<(), Refusal> {
    match label {
        Some(label @ (BROWSER | TERMINAL | PROGRAM)) if whose == PrincipalKind::Human => {
            let message = format!("Only a login makes keys with the label `{label}`. Choose another.");
            Err(Refusal::field(Code::InvalidRequest, "label", "value", message))
        }
        _ => Ok(()),
    }
}

/// Secret of a one-time link, without `Debug` and `Display`, so that it cannot be printed by accident.
pub struct Ticket(String);

impl Ticket {
    /// Mints a ticket of 256 random bits.
    #[must_use]
    pub fn mint(chance: &dyn Chance) -> Self {
        let bits = [chance.bits(), chance.bits()].map(u128::to_be_bytes).concat();
        Self(URL_SAFE_NO_PAD.encode(bits))
    }

    /// Returns the digest of a presented ticket, as it is stored; `None` if the form is invalid.
    #[must_use]
    pub fn digest_of(text: &str) -> Option<Digest> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        (bytes.len() == 32).then(|| sha256(text))
    }

    /// Returns the digest, as it is stored.
    #[must_use]
    pub fn digest(&self) -> Digest {
        sha256(&self.0)
    }

    /// Returns the path of the link, to be shown once.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/l/{}", self.0)
    }
}

/// Returns the CSRF token for forms of the holder of this key: only a reader of the form knows it, and it is useless
/// with another key.
#[must_use]
pub fn form_token(key: &str) -> String {
    mac(key).map(|mac| URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())).unwrap_or_default()
}

/// Returns whether a form's token matches this key.
#[must_use]
pub fn is_form_token(key: &str, token: &str) -> bool {
    let given = URL_SAFE_NO_PAD.decode(token);
    given.is_ok_and(|given| mac(key).is_some_and(|mac| mac.verify_slice(&given).is_ok()))
}

fn mac(key: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok()?;
    mac.update(b"entente form");
    Some(mac)
}
