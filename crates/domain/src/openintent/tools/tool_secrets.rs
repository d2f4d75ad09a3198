//! The secret part of a vault credential (RFC-0014): its permitted members, and its removal from all output. No
//! `Debug` here shows more than names, and memory is wiped on drop.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::limits::TOOL_SECRET_BYTES;
use crate::openintent::tools::auth_types::AuthType;
use crate::refusal::{Code, Refusal};

/// Replacement for a removed secret.
pub const REDACTED: &str = "[REDACTED]";

/// Members that are sealed wherever a client writes them: in `secret`, or in `metadata` as clients of the reference server do.
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

/// Members that identify but authorise nothing: unrelated texts may contain their values.
const HARMLESS: [&str; 2] = ["client_id", "username"];

/// Fragments of member names that indicate a secret.
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

/// Returns whether a text member with this name is likely to be a secret.
#[must_use]
pub fn telling(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    TELLING.iter().any(|part| plain.contains(part))
}

/// A secret in parts, named by [`MEMBERS`].
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ToolSecret(BTreeMap<String, Zeroizing<String>>);

impl fmt::Debug for ToolSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolSecret({:?})", self.0.keys())
    }
}

fn wrong(member: &str, what: &str) -> Refusal {
    // The message does not repeat the value.
    Refusal::field(Code::InvalidRequest, member, "secret", format!("`{member}` {what}."))
}

impl ToolSecret {
    /// Creates a secret from one text, named after the method; `user:password` for `basic_auth`.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`]; the refusal does not repeat the input.
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

    /// Removes the secret parts from an object and returns them.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] for a part that is not text; the refusal does not repeat it.
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

    /// Adds a part.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`], [`Code::TooLarge`]; the refusal does not repeat it.
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

    /// Merges two secrets; parts of `other` replace those of the same name.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Returns whether it has no parts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a part.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|text| text.as_str())
    }

    /// Returns the first of these parts that exists.
    #[must_use]
    pub fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// Returns the names of its parts, which are not secret.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Returns the bytes to be sealed.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let parts: BTreeMap<&str, &str> =
            self.0.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        // A map of strings always has a JSON form.
        Zeroizing::new(serde_json::to_vec(&parts).unwrap_or_default())
    }

    /// Parses the output of [`Self::to_bytes`]; `None` if it is invalid.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let parts: BTreeMap<String, String> = serde_json::from_slice(bytes).ok()?;
        Some(Self(parts.into_iter().map(|(name, text)| (name, Zeroizing::new(text))).collect()))
    }

    /// Returns a scrubber that removes the secret from other texts.
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

/// Removes secrets from third-party output: a tool may echo its input.
#[derive(Clone, Default)]
pub struct Scrubber(Vec<Zeroizing<String>>);

impl Scrubber {
    /// Adds a secret, both verbatim and as encoded in URLs, headers and JSON.
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
        // Longest first, because one form may contain another.
        self.0.sort_by_key(|form| std::cmp::Reverse(form.len()));
    }

    /// Adds all secrets of another scrubber.
    pub fn adopt(&mut self, other: Self) {
        self.0.extend(other.0);
        self.0.sort_by_key(|form| std::cmp::Reverse(form.len()));
    }

    /// Returns the text without the secrets.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), REDACTED) } else { text }
        })
    }

    /// Returns the JSON value without the secrets, in texts, member names and numbers.
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

/// Returns an object for storage, with the text of members that are secret by their name redacted.
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

/// Requires that no text member has a name that indicates a secret: unsealed members are visible.
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
