//! People: how they get in. What a password must be, what a one-time link is, and how long what they open lasts. Hashing
//! and storing is the server's (`src/app/people.rs`); what is opened is a [`crate::keys::Key`].

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::canonical::{Digest, sha256};
use crate::ids::Chance;
use crate::keys::Scope;
use crate::limits::TITLE_BYTES;
use crate::principals::Kind;
use crate::refusal::{Code, Refusal};

/// The label of a browser's key.
pub const BROWSER: &str = "browser";
/// The label of a terminal's key.
pub const TERMINAL: &str = "terminal";
/// The label of the key of a person's own program.
pub const PROGRAM: &str = "program";
/// Seconds that a browser stays logged in: a working day.
pub const BROWSER_SECONDS: u32 = 12 * 3_600;
/// Seconds that a terminal stays logged in: a decision or two. A file that holds such a key can be read by every program of
/// the same user.
pub const TERMINAL_SECONDS: u32 = 600;
/// Seconds that the key of a person's own program is good: 90 days. It stands in a file; who still wants it then logs in again.
pub const PROGRAM_SECONDS: u32 = 90 * 24 * 3_600;
/// Seconds that a one-time link waits to be opened when nothing is said: until the next morning.
pub const LINK_SECONDS: u32 = 24 * 3_600;
/// Seconds that one waits at the most: a week.
pub const LINK_SECONDS_MAX: u32 = 7 * 24 * 3_600;
/// Characters of the shortest password: length is what guessing costs, so nothing else is asked of it.
pub const PASSWORD_CHARS: usize = 12;
/// Bytes of the longest one: a sentence, not a document to hash.
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

/// Where a link may lead: a path of this server and nowhere else.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check_path(path: &str) -> Result<(), Refusal> {
    // Browsers read `//host` and `/\host` as another server.
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

/// Requires that somebody of one kind may make what opens the door for somebody of another: an agent makes nothing for a
/// person, whatever its scopes, nor a service that could. Else it could resolve people's decisions.
///
/// # Errors
/// [`Code::MayNotActAs`].
pub fn may_let_in(by: Kind, whom: Kind, scopes: Option<&[Scope]>) -> Result<(), Refusal> {
    let administers = scopes.is_some_and(|scopes| scopes.contains(&Scope::Admin));
    if by != Kind::Agent || whom == Kind::Agent || (whom == Kind::Service && !administers) {
        return Ok(());
    }
    Err(Refusal::new(
        Code::MayNotActAs,
        "An agent's key makes no key, password or link for a person, nor a service's key with the scope `admin`: decisions of \
         people are theirs. Use the key of a service or of a person.",
    ))
}

/// Requires that a key that is made for somebody of this kind is not called as those that a person's login makes: by its
/// label one sees through what a decision came, and it is they that end by themselves.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check_label(whose: Kind, label: Option<&str>) -> Result<(), Refusal> {
    match label {
        Some(label @ (BROWSER | TERMINAL | PROGRAM)) if whose == Kind::Human => {
            let message = format!("Only a login makes keys with the label `{label}`. Choose another.");
            Err(Refusal::field(Code::InvalidRequest, "label", "value", message))
        }
        _ => Ok(()),
    }
}

/// What stands in a one-time link. It has no `Debug` and no `Display`: nothing can print it by accident.
pub struct Ticket(String);

impl Ticket {
    /// Mints one of 256 bits of chance.
    #[must_use]
    pub fn mint(chance: &dyn Chance) -> Self {
        let bits = [chance.bits(), chance.bits()].map(u128::to_be_bytes).concat();
        Self(URL_SAFE_NO_PAD.encode(bits))
    }

    /// What is kept of a ticket that somebody presents; `None` when its form is wrong.
    #[must_use]
    pub fn digest_of(text: &str) -> Option<Digest> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        (bytes.len() == 32).then(|| sha256(text))
    }

    /// What is kept of it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        sha256(&self.0)
    }

    /// The path of the link, to be shown once.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/l/{}", self.0)
    }
}

/// The token that a form of somebody with this key carries: only who was shown the form can know it, and it is worth nothing
/// with another key.
#[must_use]
pub fn form_token(key: &str) -> String {
    mac(key).map(|mac| URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())).unwrap_or_default()
}

/// Whether a form's token is that of this key.
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
