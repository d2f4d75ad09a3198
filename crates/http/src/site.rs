//! The names of this server: its public URL, and the hosts and origins that a request may come in under. MCP checks
//! every request against them.

use std::net::{Ipv4Addr, Ipv6Addr};

use actix_web::HttpRequest;
use actix_web::http::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use entente_domain::refusal::{Code, Refusal};

/// The server's public URL, and the hosts and origins that it accepts.
#[derive(Debug, Clone, Default)]
pub struct Site {
    /// Public URL, without a trailing slash.
    url: Option<String>,
    /// Accepted hosts besides the public URL's; `*` for any.
    hosts: Vec<String>,
    /// Origins of foreign pages that may call the server.
    origins: Vec<String>,
}

impl Site {
    /// Creates a site from its public URL, further hosts, and origins of foreign pages that may call it.
    #[must_use]
    pub fn new(url: Option<String>, hosts: Vec<String>, origins: Vec<String>) -> Self {
        let url = url.map(|url| url.trim_end_matches('/').to_lowercase());
        let origins = origins.into_iter().map(|origin| origin.trim_end_matches('/').to_owned()).collect();
        Self { url, hosts, origins }
    }

    /// Returns the public URL, if the operator has set one.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Returns the scheme and authority of a URL.
    #[must_use]
    pub fn origin(url: &str) -> Option<&str> {
        let (scheme, rest) = url.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next().filter(|authority| !authority.is_empty())?;
        matches!(scheme, "http" | "https").then(|| &url[..scheme.len() + 3 + authority.len()])
    }

    /// Returns the URL of this server for a client that addressed it as `host`.
    #[must_use]
    pub fn base(&self, host: &str, tls: bool) -> String {
        let scheme = if tls { "https" } else { "http" };
        self.url.clone().unwrap_or_else(|| format!("{scheme}://{host}"))
    }

    /// Returns whether a request to this host is meant for this server.
    ///
    /// A page whose name was pointed at this machine (DNS rebinding) sends that name; IP addresses cannot be
    /// rebound.
    fn is_called(&self, host: &str) -> bool {
        let host = host.to_lowercase();
        let name = name_of(&host);
        let own = self.url.as_deref().and_then(|url| url.split_once("://")).map(|(_, authority)| authority);
        name == "localhost"
            || name.parse::<Ipv4Addr>().is_ok()
            || name.trim_matches(['[', ']']).parse::<Ipv6Addr>().is_ok()
            || own.is_some_and(|own| own == host || name_of(own) == name)
            || self.hosts.iter().any(|known| known == "*" || *known == host || known == name)
    }

    /// Returns whether a page of this origin may call: the server's own pages, and those that the operator
    /// configured.
    fn lets_in(&self, origin: &str, host: &str) -> bool {
        let origin = origin.to_lowercase();
        let same = Self::origin(&origin).and_then(|origin| origin.split_once("://"));
        same.is_some_and(|(_, authority)| authority == host.to_lowercase())
            || self.url.as_deref() == Some(origin.as_str())
            || self.origins.contains(&origin)
    }

    /// Returns the request's origin if it is a foreign page that the operator configured: its browser must be
    /// told that it may read the response.
    pub fn named(&self, request: &HttpRequest) -> Option<HeaderValue> {
        let origin = request.headers().get(ORIGIN)?;
        let known = self.origins.contains(&origin.to_str().ok()?.to_lowercase());
        known.then(|| origin.clone())
    }

    /// Requires that a request was meant for this server and comes from a permitted origin.
    ///
    /// # Errors
    /// [`Code::Forbidden`].
    pub fn check(&self, request: &HttpRequest) -> Result<(), Refusal> {
        let host = host(request);
        if !self.is_called(host) {
            let message = format!(
                "`{host}` is no name of this server. Its operator sets ENTENTE_PUBLIC_URL or ENTENTE_MCP_HOSTS."
            );
            return Err(Refusal::new(Code::Forbidden, message));
        }
        match text(request, ORIGIN) {
            Some(origin) if !self.lets_in(origin, host) => {
                let message = format!(
                    "Pages of {origin} may not call this. The operator names those that may in ENTENTE_MCP_ORIGINS."
                );
                Err(Refusal::new(Code::Forbidden, message))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the host that the request addresses; empty if it names none.
pub fn host(request: &HttpRequest) -> &str {
    text(request, HOST).unwrap_or_default()
}

/// Returns a header's text; a value that is not text becomes `?`, which no check accepts.
fn text(request: &HttpRequest, name: HeaderName) -> Option<&str> {
    request.headers().get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// Returns an authority without its port.
fn name_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => authority,
    }
}
