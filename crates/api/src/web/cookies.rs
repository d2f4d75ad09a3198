//! The cookie of a login: it holds the key. Scripts cannot read it, other sites cannot have it sent, and it opens pages alone.

use actix_web::HttpRequest;
use actix_web::http::header::{COOKIE, HOST};
use entente_domain::people::BROWSER_SECONDS;

use crate::http::Doors;

/// The cookie's name. With TLS the browser itself keeps to what the prefix says: secure, of this host, for all paths.
fn name(doors: &Doors) -> &'static str {
    if doors.limits.tls_terminated { "__Host-entente" } else { "entente" }
}

/// The key that a request's cookie holds.
pub fn key(request: &HttpRequest, doors: &Doors) -> Option<String> {
    let wanted = name(doors);
    let texts = request.headers().get_all(COOKIE).filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, value)| *name == wanted && !value.is_empty()).map(|(_, value)| value.to_owned())
}

/// The header that gives the browser a key.
pub fn give(doors: &Doors, key: &str) -> String {
    write(doors, key, BROWSER_SECONDS)
}

/// The header that takes it away.
pub fn take(doors: &Doors) -> String {
    write(doors, "", 0)
}

fn write(doors: &Doors, value: &str, seconds: u32) -> String {
    let secure = if doors.limits.tls_terminated { "; Secure" } else { "" };
    format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}", name(doors))
}

/// Whether nobody on the way reads along: a proxy in front ends TLS, or the browser is on this very machine. What the browser
/// calls the server says so, also when a container or a tunnel is in between.
pub fn private(request: &HttpRequest, doors: &Doors) -> bool {
    let host = request.headers().get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    doors.limits.tls_terminated || is_loopback(host)
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
