//! The login cookie, which holds the key. Scripts cannot read it, other sites cannot cause it to be sent, and
//! it is valid for pages only. A second cookie binds a login at the provider to the browser that began it.

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
    find(request, name(api))
}

/// Returns the name of the cookie of a login at the provider.
fn lax_name(api: &HttpState) -> &'static str {
    if api.limits.encrypted() { "__Host-entente-login" } else { "entente-login" }
}

fn find(request: &HttpRequest, wanted: &str) -> Option<String> {
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

/// Returns the secret in the cookie of a login at the provider that has begun.
pub fn lax(request: &HttpRequest, api: &HttpState) -> Option<String> {
    find(request, lax_name(api))
}

/// Returns the `Set-Cookie` value that binds a login at the provider to the browser, or removes it after no seconds. It is
/// sent along when the provider's page leads back.
pub fn give_lax(api: &HttpState, value: &str, seconds: u32) -> String {
    written(api, lax_name(api), value, seconds, "Lax")
}

fn write(api: &HttpState, value: &str, seconds: u32) -> String {
    written(api, name(api), value, seconds, "Strict")
}

fn written(api: &HttpState, name: &str, value: &str, seconds: u32, same_site: &str) -> String {
    let secure = if api.limits.encrypted() { "; Secure" } else { "" };
    format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}")
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
