//! Tool calls (RFC-0014): builds the HTTP request for a tool's name and parameters from a credential's connection. It
//! is sent elsewhere; an agent's input never reaches its host, scheme or headers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Map, Value, json};
use sha2::Sha256;
use url::Url;
use zeroize::Zeroizing;

use crate::clock::Timestamp;
use crate::limits::URL_BYTES;
use crate::openintent::tools::auth_types::AuthType;
use crate::openintent::tools::tool_secrets::ToolSecret;
use crate::refusal::{Code, Refusal};

mod connection;
mod paths;

use crate::openintent::tools::tool_calls::connection::{
    Adapter, Endpoint, Location, Mapping, TokenGrant, fits,
};
pub use crate::openintent::tools::tool_calls::connection::{Connection, Method};

/// A request to be sent; contains secrets and therefore implements no `Debug`.
pub struct Call {
    /// Method.
    pub method: Method,
    /// Target.
    pub url: Url,
    /// Header names and values.
    pub headers: Vec<(String, Zeroizing<String>)>,
    /// Content type and body.
    pub body: Option<(&'static str, Zeroizing<String>)>,
    /// Timeout in milliseconds, including the response.
    pub timeout_millis: u32,
}

impl Call {
    /// Returns the size of the body, in bytes.
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        self.body.as_ref().map_or(0, |(_, body)| body.len())
    }
}

/// A tool invocation with its restrictions.
#[derive(Debug, Clone, Copy)]
pub struct Invoked<'a> {
    /// Tool.
    pub tool: &'a str,
    /// Parameters.
    pub parameters: &'a Map<String, Value>,
    /// Lists of allowed hosts; the called host must be in each of them.
    pub hosts: &'a [Vec<String>],
    /// Time of the invocation.
    pub now: Timestamp,
}

fn wrong(what: impl Into<String>) -> Refusal {
    Refusal::field(Code::InvalidRequest, "metadata", "connection", what)
}

fn not_so(what: impl Into<String>) -> Refusal {
    Refusal::new(Code::Unprocessable, what)
}

/// Returns whether a host is in a list, or a subdomain of a listed one.
fn listed(host: &str, hosts: &[String]) -> bool {
    let plain = |name: &str| name.trim_matches('.').to_ascii_lowercase();
    let host = plain(host);
    hosts.iter().map(|known| plain(known)).any(|known| {
        host == known
            || host.strip_suffix(&known).is_some_and(|rest| !known.is_empty() && rest.ends_with('.'))
    })
}

impl Connection {
    /// Returns whether a token must be fetched first, because the secret has none.
    #[must_use]
    pub fn wants_token(&self, auth_type: AuthType, secret: &ToolSecret) -> bool {
        self.is_oauth(auth_type) && secret.first(&["access_token", "token"]).is_none()
    }

    /// Requires that a secret has the parts that its connection needs, in a form that can be sent.
    ///
    /// # Errors
    /// Names the missing part; never reveals the secret.
    pub fn check_secret(&self, auth_type: AuthType, secret: &ToolSecret) -> Result<(), Refusal> {
        if self.adapter == Some(Adapter::Webhook) {
            return Ok(());
        }
        if self.wants_token(auth_type, secret) {
            return match self.token_request(secret)? {
                Some(_request) => Ok(()),
                None => Err(lacking(
                    "`access_token`, or `client_id`, `client_secret` and a `token_url` in its metadata",
                )),
            };
        }
        self.authorise(auth_type, secret, None, &mut Vec::new(), &mut self.base()?)
    }

    /// Builds the request that fetches a token; `None` if the secret or the connection lacks the necessary parts.
    ///
    /// # Errors
    /// The token URL is invalid.
    pub fn token_request(&self, secret: &ToolSecret) -> Result<Option<Call>, Refusal> {
        let Some(address) = &self.token_url else { return Ok(None) };
        let url = Url::parse(address).map_err(|e| wrong(format!("`token_url` is no URL: {e}.")))?;
        let refresh = secret.get("refresh_token");
        let client = secret.get("client_id").zip(secret.get("client_secret"));
        let grant = self.token_grant_type.unwrap_or(match (client, refresh) {
            (_, Some(_)) => TokenGrant::RefreshToken,
            (_, None) => TokenGrant::ClientCredentials,
        });
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        match (grant, client, refresh) {
            (TokenGrant::ClientCredentials, Some(_), _) => {
                form.append_pair("grant_type", "client_credentials");
            }
            (TokenGrant::RefreshToken, _, Some(token)) => {
                form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", token);
            }
            (TokenGrant::ClientCredentials, None, _) | (TokenGrant::RefreshToken, _, None) => {
                return Ok(None);
            }
        }
        if let Some(scope) = &self.token_scope {
            form.append_pair("scope", scope);
        }
        let body = Zeroizing::new(form.finish());
        let mut headers = vec![("accept".to_owned(), Zeroizing::new("application/json".to_owned()))];
        headers.extend(client.map(|(id, secret)| basic(id, secret)));
        let body = Some(("application/x-www-form-urlencoded", body));
        Ok(Some(Call { method: Method::Post, url, headers, body, timeout_millis: self.timeout_millis() }))
    }

    /// Builds the request for a tool's invocation; `token` is a fetched one.
    ///
    /// # Errors
    /// The connection has no such tool, or may not access its host; parameters that do not fit their target.
    pub fn call(
        &self,
        auth_type: AuthType,
        secret: &ToolSecret,
        token: Option<&str>,
        invoked: Invoked<'_>,
    ) -> Result<Call, Refusal> {
        let mut call = match self.adapter {
            Some(Adapter::Webhook) => self.webhook(secret, invoked)?,
            Some(Adapter::Rest | Adapter::Oauth2) | None => {
                let mut call = self.rest(invoked)?;
                self.authorise(auth_type, secret, token, &mut call.headers, &mut call.url)?;
                call
            }
        };
        let host = call.url.host_str().unwrap_or_default().to_owned();
        let lists = invoked.hosts.iter().chain([&self.allowed_hosts]);
        if lists.filter(|hosts| !hosts.is_empty()).any(|hosts| !listed(&host, hosts)) {
            return Err(Refusal::new(
                Code::Forbidden,
                format!("The host `{host}` is not one that the credential and the grant allow."),
            ));
        }
        if call.url.as_str().len() > URL_BYTES {
            return Err(not_so(
                "The parameters make a URL that is too long. Send less, or have them in the body.",
            ));
        }
        call.timeout_millis = self.timeout_millis();
        Ok(call)
    }

    /// Returns whether a rejected token can be replaced by a new one.
    #[must_use]
    pub fn refreshes(&self, auth_type: AuthType, secret: &ToolSecret) -> bool {
        self.is_oauth(auth_type) && self.token_request(secret).is_ok_and(|request| request.is_some())
    }

    fn webhook(&self, secret: &ToolSecret, invoked: Invoked<'_>) -> Result<Call, Refusal> {
        let at = invoked.now.timestamp_millis();
        let body =
            json!({ "tool_name": invoked.tool, "parameters": invoked.parameters, "timestamp": at / 1_000 });
        let body = body.to_string();
        let mut headers = Vec::new();
        if let Some(key) = secret.first(&["signing_secret", "secret", "value"]) {
            // HMAC accepts keys of any length.
            let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes())
                .map_err(|e| not_so(format!("The signing secret cannot be used: {e}.")))?;
            mac.update(body.as_bytes());
            let hex = crate::canonical::hex(&mac.finalize().into_bytes());
            headers.push(("x-openintent-signature".to_owned(), Zeroizing::new(format!("sha256={hex}"))));
        }
        let body = Some(("application/json", Zeroizing::new(body)));
        Ok(Call { method: Method::Post, url: self.base()?, headers, body, timeout_millis: 0 })
    }

    fn rest(&self, invoked: Invoked<'_>) -> Result<Call, Refusal> {
        let usual = Endpoint::usual();
        let endpoint = match self.endpoints.get(invoked.tool) {
            Some(endpoint) => endpoint,
            None if self.endpoints.is_empty() => &usual,
            None => {
                let message = format!("The credential has no endpoint for the tool `{}`.", invoked.tool);
                return Err(not_so(message));
            }
        };
        let mut left = invoked.parameters.clone();
        let mut url = self.base()?;
        match &endpoint.path {
            Some(path) => paths::extend(&mut url, path, &mut left)?,
            None => paths::segment(&mut url, invoked.tool)?,
        }
        let plain = |(name, value): (&String, &String)| (name.clone(), Zeroizing::new(value.clone()));
        let headers = endpoint.headers.iter().map(plain).collect();
        let bodyless = matches!(endpoint.method, Method::Get | Method::Delete);
        let body = if bodyless || endpoint.param_mapping == Mapping::Query {
            paths::query(&mut url, &left)?;
            None
        } else {
            Some(("application/json", Zeroizing::new(Value::Object(left).to_string())))
        };
        Ok(Call { method: endpoint.method, url, headers, body, timeout_millis: 0 })
    }

    fn authorise(
        &self,
        auth_type: AuthType,
        secret: &ToolSecret,
        token: Option<&str>,
        headers: &mut Vec<(String, Zeroizing<String>)>,
        url: &mut Url,
    ) -> Result<(), Refusal> {
        let (key, prefix) = match auth_type {
            _ if self.is_oauth(auth_type) => {
                (token.or_else(|| secret.first(&["access_token", "token"])), Some("Bearer"))
            }
            AuthType::BasicAuth => {
                let user = secret.get("username").unwrap_or_default();
                let password = secret.get("password").ok_or_else(|| lacking("`username` and `password`"))?;
                headers.push(basic(user, password));
                return Ok(());
            }
            AuthType::BearerToken => (secret.first(&["token", "api_key", "value", "secret"]), Some("Bearer")),
            AuthType::ApiKey | AuthType::Custom => {
                (secret.first(&["api_key", "token", "value", "secret"]), None)
            }
            AuthType::ConnectionString | AuthType::Oauth2Token | AuthType::Oauth2ClientCredentials => {
                return Err(not_so(format!(
                    "A credential of the type `{}` makes no HTTP requests: the server only keeps it.",
                    auth_type.as_str()
                )));
            }
        };
        let key = key.ok_or_else(|| lacking("`api_key` or `token`"))?;
        if self.auth.location == Location::Query {
            let name = self.auth.query_param.as_deref().unwrap_or("api_key");
            url.query_pairs_mut().append_pair(name, key);
            return Ok(());
        }
        let name = self.auth.header_name.as_deref().unwrap_or("Authorization");
        let prefix = self.auth.header_prefix.as_deref().or(prefix).filter(|prefix| !prefix.is_empty());
        let value = prefix.map_or_else(|| key.to_owned(), |prefix| format!("{prefix} {key}"));
        if !fits(&value) {
            let message = "The secret has characters that cannot stand in a header.";
            return Err(Refusal::field(Code::InvalidRequest, "secret", "secret", message));
        }
        headers.push((name.to_owned(), Zeroizing::new(value)));
        Ok(())
    }
}

fn lacking(what: &str) -> Refusal {
    let message = format!("The credential's secret has not what its connection needs: {what}.");
    Refusal::field(Code::Unprocessable, "secret", "missing", message)
}

fn basic(user: &str, password: &str) -> (String, Zeroizing<String>) {
    let both = Zeroizing::new(format!("{user}:{password}"));
    ("Authorization".to_owned(), Zeroizing::new(format!("Basic {}", STANDARD.encode(both.as_bytes()))))
}
