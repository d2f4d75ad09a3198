//! The secret part of a credential in a vault (RFC-0014): what it may be made of, and how it is kept out of everything that
//! is shown. Nothing here has a `Debug` that tells more than names, and what is dropped is wiped.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::limits::TOOL_SECRET_BYTES;
use crate::refusal::{Code, Refusal};
use crate::tool_credentials::AuthType;

/// What stands in the place of a secret.
pub const REDACTED: &str = "[REDACTED]";

/// The members that are sealed, wherever a client writes them: in `secret`, or in `metadata` as clients of the reference
/// server do.
pub const MEMBERS: [&str; 12] = [
    "access_token",
    "api_key",
    "client_id",
    "client_secret",
    "connection_string",
    "password",
    "refresh_token",
    "secret",
    "signing_secret",
    "token",
    "username",
    "value",
];

/// Those that say who somebody is and open nothing: other texts may well have them in.
const HARMLESS: [&str; 2] = ["client_id", "username"];

/// The parts of names of members that are secrets somewhere.
const TELLING: [&str; 10] = [
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "authorization",
    "privatekey",
    "bearer",
    "cookie",
    "passphrase",
];

/// Whether a member of this name with a text in it is likely to be a secret.
#[must_use]
pub fn telling(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    TELLING.iter().any(|part| plain.contains(part))
}

/// A secret in its parts, by the names of [`MEMBERS`].
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ToolSecret(BTreeMap<String, Zeroizing<String>>);

impl fmt::Debug for ToolSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolSecret({:?})", self.0.keys())
    }
}

fn wrong(member: &str, what: &str) -> Refusal {
    // What it says is not repeated.
    Refusal::field(Code::InvalidRequest, member, "secret", format!("`{member}` {what}."))
}

impl ToolSecret {
    /// A secret that is one text, whose name follows from how it is used; of `basic_auth`, `user:password`.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`]; what was given is not repeated.
    pub fn given(auth_type: AuthType, text: String) -> Result<Self, Refusal> {
        let mut secret = Self::default();
        let name = match auth_type {
            AuthType::ApiKey => "api_key",
            AuthType::BearerToken => "token",
            AuthType::Oauth2Token => "access_token",
            AuthType::ConnectionString => "connection_string",
            AuthType::Custom => "value",
            AuthType::BasicAuth => {
                let text = Zeroizing::new(text);
                let parts = text.split_once(':').ok_or_else(|| wrong("value", "must be `user:password`"))?;
                secret.put("username", parts.0.to_owned())?;
                secret.put("password", parts.1.to_owned())?;
                return Ok(secret);
            }
            AuthType::Oauth2ClientCredentials => {
                return Err(wrong("value", "must be an object with `client_id` and `client_secret`"));
            }
        };
        secret.put(name, text)?;
        Ok(secret)
    }

    /// Takes the secret parts out of an object, which keeps all else.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] for a part that is no text; what it is is not repeated.
    pub fn take(from: &mut Map<String, Value>) -> Result<Self, Refusal> {
        let mut secret = Self::default();
        for name in MEMBERS {
            match from.remove(name) {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) => secret.put(name, text)?,
                Some(_) => return Err(wrong(name, "must be a text")),
            }
        }
        Ok(secret)
    }

    /// Puts a part in.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`], [`Code::TooLarge`]; what it is is not repeated.
    pub fn put(&mut self, name: &str, text: String) -> Result<(), Refusal> {
        let text = Zeroizing::new(text);
        if text.is_empty() {
            return Err(wrong(name, "is empty"));
        }
        if text.len() > TOOL_SECRET_BYTES {
            let message = format!("`{name}` has more than {TOOL_SECRET_BYTES} bytes.");
            return Err(Refusal::field(Code::TooLarge, name, "too_long", message));
        }
        self.0.insert(name.to_owned(), text);
        Ok(())
    }

    /// These parts, with those in place of what they replace.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Whether it has no part at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A part.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|text| text.as_str())
    }

    /// The first of these parts that is there.
    #[must_use]
    pub fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// The names of its parts, which are no secret.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// The bytes that are sealed.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let parts: BTreeMap<&str, &str> =
            self.0.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        // Texts by their names always have a JSON form.
        Zeroizing::new(serde_json::to_vec(&parts).unwrap_or_default())
    }

    /// Reads what [`Self::to_bytes`] wrote; `None` when it is something else.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let parts: BTreeMap<String, String> = serde_json::from_slice(bytes).ok()?;
        Some(Self(parts.into_iter().map(|(name, text)| (name, Zeroizing::new(text))).collect()))
    }

    /// What takes it out of texts of others.
    #[must_use]
    pub fn scrubber(&self) -> Scrubber {
        let mut scrubber = Scrubber::default();
        for (name, text) in &self.0 {
            if !HARMLESS.contains(&name.as_str()) {
                scrubber.add(text);
            }
        }
        if let Some(password) = self.get("password") {
            let user = self.get("username").unwrap_or_default();
            scrubber.add(&STANDARD.encode(format!("{user}:{password}")));
        }
        scrubber
    }
}

/// Takes secrets out of what others say: a tool may repeat what it was sent.
#[derive(Clone, Default)]
pub struct Scrubber(Vec<Zeroizing<String>>);

impl Scrubber {
    /// Has a text taken out, as it is and as it is written in URLs, headers and JSON.
    pub fn add(&mut self, secret: &str) {
        if secret.is_empty() {
            return;
        }
        let in_url: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        let in_path = in_url.replace('+', "%20");
        let in_json = serde_json::to_string(secret).unwrap_or_default();
        let in_json = in_json.trim_start_matches('"').trim_end_matches('"').to_owned();
        for form in [secret.to_owned(), in_url, in_path, in_json, STANDARD.encode(secret)] {
            if !form.is_empty() && !self.0.iter().any(|known| known.as_str() == form) {
                self.0.push(Zeroizing::new(form));
            }
        }
        // The longest first: what stands in another one goes with it.
        self.0.sort_by_key(|form| std::cmp::Reverse(form.len()));
    }

    /// Has all taken out that another takes out.
    pub fn adopt(&mut self, other: Self) {
        self.0.extend(other.0);
        self.0.sort_by_key(|form| std::cmp::Reverse(form.len()));
    }

    /// A text without any of them.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), REDACTED) } else { text }
        })
    }

    /// A JSON value without any of them: not in its texts, not in the names of its members, not in its numbers.
    #[must_use]
    pub fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Number(number) => {
                let text = number.to_string();
                let clean = self.text(&text);
                if clean == text { Value::Number(number) } else { Value::String(clean) }
            }
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.value(item)).collect()),
            Value::Object(members) => Value::Object(
                members.into_iter().map(|(name, value)| (self.text(&name), self.value(value))).collect(),
            ),
            other @ (Value::Null | Value::Bool(_)) => other,
        }
    }
}

/// An object as it is kept of what agents say: without what its names say is secret.
#[must_use]
pub fn redacted(members: Map<String, Value>) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.clone(), hidden(&name, value))).collect()
}

fn hidden(name: &str, value: Value) -> Value {
    match value {
        Value::String(_) if telling(name) => Value::String(REDACTED.to_owned()),
        Value::Array(items) => Value::Array(items.into_iter().map(|item| hidden(name, item)).collect()),
        Value::Object(members) => Value::Object(redacted(members)),
        other => other,
    }
}

/// Requires that no text in an object has a name that says it is a secret: what is not sealed is shown.
///
/// # Errors
/// [`Code::InvalidRequest`], with the name of the first such member.
pub fn check_plain(member: &str, members: &Map<String, Value>) -> Result<(), Refusal> {
    for (name, value) in members {
        let texts = match value {
            Value::String(_) => true,
            Value::Array(items) => items.iter().any(Value::is_string),
            _ => false,
        };
        if texts && telling(name) && !SETTINGS.contains(&name.as_str()) {
            let message = format!(
                "`{member}` has a member `{name}`, which looks like a secret, and is shown to whoever may see the \
                 credential. Put it into `secret` under one of the names that are sealed: {}.",
                MEMBERS.join(", ")
            );
            return Err(Refusal::field(Code::InvalidRequest, member, "secret", message));
        }
        match value {
            Value::Object(inner) => check_plain(member, inner)?,
            Value::Array(items) => {
                items.iter().filter_map(Value::as_object).try_for_each(|inner| check_plain(member, inner))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Members of a connection that only sound like secrets.
const SETTINGS: [&str; 2] = ["token_url", "token_grant_type"];
