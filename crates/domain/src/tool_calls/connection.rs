//! Connections: where a service is and how it is spoken to, as the metadata of a credential says. What requests they come to
//! is the module above.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use super::{paths, wrong};
use crate::limits::{LIST_ITEMS, URL_BYTES};
use crate::principals::check_name;
use crate::refusal::Refusal;
use crate::tool_credentials::AuthType;

/// Milliseconds that a call may take when nothing is said, and at the least and at the most: as the reference server has them.
const TIMEOUT_MILLIS: u32 = 30_000;
/// See [`TIMEOUT_MILLIS`].
const LEAST_MILLIS: u32 = 1_000;
/// See [`TIMEOUT_MILLIS`].
const MOST_MILLIS: u32 = 120_000;

/// Headers that are the server's own, or carry what belongs into the secret.
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

/// Those of them that a secret may stand in.
const OPENING: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];

/// Which kind of request is made.
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
    /// Everything to one address, signed.
    #[serde(rename = "webhook")]
    Webhook,
}

/// Where the parameters of a call go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mapping {
    /// Into a JSON body; with a method that has none, into the query.
    #[default]
    Body,
    /// Into the query.
    Query,
    /// Into the path, where it says `{name}`; those that it does not name go as with [`Self::Body`].
    Path,
}

/// An HTTP method that tools are called with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// `GET`
    #[serde(alias = "get")]
    Get,
    /// `POST`
    #[default]
    #[serde(alias = "post")]
    Post,
    /// `PUT`
    #[serde(alias = "put")]
    Put,
    /// `PATCH`
    #[serde(alias = "patch")]
    Patch,
    /// `DELETE`
    #[serde(alias = "delete")]
    Delete,
}

impl Method {
    /// The method as it is written.
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

/// Where the secret goes.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Placement {
    #[serde(default)]
    pub(super) location: Location,
    pub(super) header_name: Option<String>,
    pub(super) query_param: Option<String>,
    pub(super) header_prefix: Option<String>,
}

/// How a client gets a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TokenGrant {
    ClientCredentials,
    RefreshToken,
}

/// Where a service is and how it is spoken to, as the metadata of a credential says.
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

/// Checks the name of a header that is not one of the server's own.
fn check_header(name: &str) -> Result<(), Refusal> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || name.len() > 100 || !name.bytes().all(token) {
        return Err(wrong("A header of the connection has a name that is none."));
    }
    Ok(())
}

/// Whether a text can stand in a header.
pub(super) fn fits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

impl Connection {
    /// Reads the connection that metadata describes; `None` when it has no `base_url`.
    ///
    /// # Errors
    /// [`crate::refusal::Code::InvalidRequest`] when it describes one that cannot be.
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
            // In some of the server's own headers a secret is where it belongs.
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

    /// Milliseconds that a call may take.
    #[must_use]
    pub fn timeout_millis(&self) -> u32 {
        self.timeout_ms.unwrap_or(TIMEOUT_MILLIS).clamp(LEAST_MILLIS, MOST_MILLIS)
    }

    /// Whether its requests carry a token that is fetched, or may be fetched anew.
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

    /// The addresses that requests go to.
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
