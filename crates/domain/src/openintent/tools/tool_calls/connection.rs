//! Connections: the address and protocol of a service, as described by a credential's metadata. The module above
//! builds the requests.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use super::{paths, wrong};
use crate::identity::principals::check_name;
use crate::limits::{LIST_ITEMS, URL_BYTES};
use crate::openintent::tools::auth_types::AuthType;
use crate::refusal::Refusal;

/// Default timeout of a call in milliseconds; it and the two limits below are those of the reference server.
const TIMEOUT_MILLIS: u32 = 30_000;
/// Minimum timeout: see [`TIMEOUT_MILLIS`].
const LEAST_MILLIS: u32 = 1_000;
/// Maximum timeout: see [`TIMEOUT_MILLIS`].
const MOST_MILLIS: u32 = 120_000;

/// Headers set by the server, or reserved for the secret.
const RESERVED: [&str; 14] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "keep-alive",
    "authorization",
    "proxy-authorization",
    "cookie",
    "user-agent",
];

/// Reserved headers that may contain a secret.
const OPENING: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];

/// Kind of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Adapter {
    /// One endpoint per tool.
    #[serde(
        rename = "rest",
        alias = "api_key",
        alias = "bearer_token",
        alias = "basic_auth",
        alias = "custom"
    )]
    Rest,
    /// The same, with a token that may have to be fetched.
    #[serde(rename = "oauth2", alias = "oauth2_token", alias = "oauth2_client_credentials")]
    Oauth2,
    /// A single address for all tools, with signed requests.
    #[serde(rename = "webhook")]
    Webhook,
}

/// Target of a call's parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mapping {
    /// JSON body; the query for methods without a body.
    #[default]
    Body,
    /// Query.
    Query,
    /// Placeholders `{name}` in the path; other parameters as with [`Self::Body`].
    Path,
}

/// An HTTP method for tool calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// `GET`.
    #[serde(alias = "get")]
    Get,
    /// `POST`.
    #[default]
    #[serde(alias = "post")]
    Post,
    /// `PUT`.
    #[serde(alias = "put")]
    Put,
    /// `PATCH`.
    #[serde(alias = "patch")]
    Patch,
    /// `DELETE`.
    #[serde(alias = "delete")]
    Delete,
}

impl Method {
    /// Returns the method's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Endpoint {
    pub(super) path: Option<String>,
    #[serde(default)]
    pub(super) method: Method,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) param_mapping: Mapping,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Location {
    #[default]
    Header,
    Query,
}

/// Target of the secret.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Placement {
    #[serde(default)]
    pub(super) location: Location,
    pub(super) header_name: Option<String>,
    pub(super) query_param: Option<String>,
    pub(super) header_prefix: Option<String>,
}

/// OAuth grant that fetches a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TokenGrant {
    ClientCredentials,
    RefreshToken,
}

/// Address and protocol of a service, as described by a credential's metadata.
#[derive(Debug, Clone, Deserialize)]
pub struct Connection {
    pub(super) adapter: Option<Adapter>,
    pub(super) base_url: String,
    #[serde(default)]
    pub(super) endpoints: BTreeMap<String, Endpoint>,
    #[serde(default)]
    pub(super) auth: Placement,
    pub(super) timeout_ms: Option<u32>,
    #[serde(default)]
    pub(super) allowed_hosts: Vec<String>,
    pub(super) token_url: Option<String>,
    pub(super) token_grant_type: Option<TokenGrant>,
    pub(super) token_scope: Option<String>,
}

/// Checks that a header name is a valid token of at most 100 bytes.
fn check_header(name: &str) -> Result<(), Refusal> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || name.len() > 100 || !name.bytes().all(token) {
        return Err(wrong("A header of the connection has a name that is none."));
    }
    Ok(())
}

/// Returns whether a text is a valid header value.
pub(super) fn fits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

impl Connection {
    /// Parses the connection described by metadata; `None` if there is no `base_url`.
    ///
    /// # Errors
    /// [`crate::refusal::Code::InvalidRequest`] if the description is invalid.
    pub fn read(metadata: &Map<String, Value>) -> Result<Option<Self>, Refusal> {
        if metadata.get("base_url").is_none_or(Value::is_null) {
            return Ok(None);
        }
        let read: Self = serde_json::from_value(Value::Object(metadata.clone()))
            .map_err(|e| wrong(format!("`metadata` describes a connection that cannot be: {e}.")))?;
        read.check()?;
        Ok(Some(read))
    }

    fn check(&self) -> Result<(), Refusal> {
        let addresses = [Some(&self.base_url), self.token_url.as_ref()];
        for address in addresses.into_iter().flatten() {
            let url = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            let url = url.filter(|url| {
                url.has_host()
                    && url.username().is_empty()
                    && url.password().is_none()
                    && url.fragment().is_none()
            });
            if url.is_none() || address.len() > URL_BYTES {
                return Err(wrong(
                    "`base_url` and `token_url` must be http:// or https:// URLs without a user, a password or a fragment.",
                ));
            }
        }
        if self.endpoints.len() > LIST_ITEMS || self.allowed_hosts.len() > LIST_ITEMS {
            return Err(wrong(format!("A connection has at most {LIST_ITEMS} endpoints and hosts.")));
        }
        for (tool, endpoint) in &self.endpoints {
            check_name("endpoints", tool)?;
            endpoint.check(tool)?;
        }
        if let Some(name) = &self.auth.header_name {
            check_header(name)?;
            // Some of the server's own headers may contain a secret.
            let taken = RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved));
            if taken && !OPENING.iter().any(|known| name.eq_ignore_ascii_case(known)) {
                return Err(wrong(format!("`auth.header_name` cannot be `{name}`.")));
            }
        }
        if self.auth.header_prefix.as_deref().is_some_and(|prefix| !prefix.is_empty() && !fits(prefix)) {
            return Err(wrong("`auth.header_prefix` cannot stand in a header."));
        }
        Ok(())
    }

    /// Returns the timeout of a call, in milliseconds.
    #[must_use]
    pub fn timeout_millis(&self) -> u32 {
        self.timeout_ms.unwrap_or(TIMEOUT_MILLIS).clamp(LEAST_MILLIS, MOST_MILLIS)
    }

    /// Returns whether requests use a token that is fetched, or may be refreshed.
    pub(super) fn is_oauth(&self, auth_type: AuthType) -> bool {
        match self.adapter {
            Some(Adapter::Oauth2) => true,
            Some(Adapter::Rest | Adapter::Webhook) => false,
            None => matches!(auth_type, AuthType::Oauth2Token | AuthType::Oauth2ClientCredentials),
        }
    }

    pub(super) fn base(&self) -> Result<Url, Refusal> {
        Url::parse(&self.base_url).map_err(|e| wrong(format!("`base_url` is no URL: {e}.")))
    }

    /// Returns the addresses that requests go to.
    #[must_use]
    pub fn addresses(&self) -> Vec<&str> {
        [Some(self.base_url.as_str()), self.token_url.as_deref()].into_iter().flatten().collect()
    }
}

impl Endpoint {
    pub(super) fn usual() -> Self {
        Self { path: None, method: Method::Post, headers: BTreeMap::new(), param_mapping: Mapping::Body }
    }

    fn check(&self, tool: &str) -> Result<(), Refusal> {
        if self.path.as_ref().is_some_and(|path| !paths::lawful(path)) {
            return Err(wrong(format!(
                "The path of the endpoint `{tool}` must begin with one `/`, have no `.` or `..` for a part, and no `#`."
            )));
        }
        if self.headers.len() > LIST_ITEMS {
            return Err(wrong(format!("The endpoint `{tool}` has more than {LIST_ITEMS} headers.")));
        }
        for (name, value) in &self.headers {
            check_header(name)?;
            if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) || !fits(value) {
                return Err(wrong(format!(
                    "The endpoint `{tool}` has a header `{name}`, which is the server's own or cannot be sent. What opens \
                     the service belongs into `secret`."
                )));
            }
        }
        Ok(())
    }
}
