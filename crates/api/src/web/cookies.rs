//! The login cookie, which holds the key. Scripts cannot read it, other sites cannot cause it to be sent, and
//! it is valid for pages only.

use actix_web::HttpRequest;
use actix_web::http::header::{COOKIE, HOST};
use entente_domain::identity::people::BROWSER_SECONDS;
use entente_http::HttpState;

/// Returns the cookie's name; with TLS, the prefix makes the browser enforce a secure, host-only cookie for
/// all paths.
fn name(api: &HttpState) -> &'static str {
    if api.limits.encrypted() { "__Host-entente" } else { "entente" }
}

/// Returns the key in a request's cookie.
pub fn key(request: &HttpRequest, api: &HttpState) -> Option<String> {
    let wanted = name(api);
    let texts = request.headers().get_all(COOKIE).filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, value)| *name == wanted && !value.is_empty()).map(|(_, value)| value.to_owned())
}

/// Returns the `Set-Cookie` value that stores a key in the browser.
pub fn give(api: &HttpState, key: &str) -> String {
    write(api, key, BROWSER_SECONDS)
}

/// Returns the `Set-Cookie` value that removes the key.
pub fn take(api: &HttpState) -> String {
    write(api, "", 0)
}

fn write(api: &HttpState, value: &str, seconds: u32) -> String {
    let secure = if api.limits.encrypted() { "; Secure" } else { "" };
    format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}", name(api))
}

/// Returns whether the connection cannot be eavesdropped on: it has TLS to the server or to a proxy, or the browser
/// runs on this machine.
///
/// The latter is judged by the `Host` header, which also works through a container or a tunnel.
pub fn private(request: &HttpRequest, api: &HttpState) -> bool {
    let host = request.headers().get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    api.limits.encrypted() || is_loopback(host)
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
