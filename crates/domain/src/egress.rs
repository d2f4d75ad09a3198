//! Rules for outgoing requests of the server: none into its own network (OWASP API7, SSRF).
//!
//! An address is checked when it is connected to, not when its name is configured, because DNS may change in
//! between. The resolver that applies this is in `src/background/egress.rs`; only the operator grants
//! exemptions.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use url::{Host, Url};

use crate::limits::URL_BYTES;
use crate::refusal::{Code, Refusal};

/// A range of addresses that share their first bits (CIDR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    first: IpAddr,
    bits: u8,
}

impl Range {
    /// Whether an address is in the range.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let shared = |a: u128, b: u128, width: u32| {
            let left = width - u32::from(self.bits);
            left >= 128 || a >> left == b >> left
        };
        match (self.first, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => shared(u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => shared(a.to_bits(), b.to_bits(), 128),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Range {
    type Err = ();

    /// Parses `10.0.0.0/8`, or a single address.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_none| ())?;
        let width = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(width), str::parse).map_err(|_none| ())?;
        if bits > width { Err(()) } else { Ok(Self { first, bits }) }
    }
}

/// An IPv4 range.
const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Range {
    Range { first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits }
}

/// An IPv6 range, by its first three groups.
const fn v6(a: u16, b: u16, c: u16, bits: u8) -> Range {
    Range { first: IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)), bits }
}

/// Ranges that are not the public internet, or only appear to be: IANA's special-purpose registries.
pub const CLOSED: &[(Range, &str)] = &[
    (v4(0, 0, 0, 0, 8), "this network"),
    (v4(10, 0, 0, 0, 8), "private"),
    (v4(100, 64, 0, 0, 10), "shared by carriers"),
    (v4(127, 0, 0, 0, 8), "loopback"),
    // Public by its number, but only reachable from machines in the cloud: it serves their configuration.
    (v4(168, 63, 129, 16, 32), "Azure's own, where it keeps metadata"),
    (v4(169, 254, 0, 0, 16), "link-local, where clouds keep their metadata"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 0, 0, 0, 24), "protocol assignments"),
    (v4(192, 0, 2, 0, 24), "documentation"),
    (v4(192, 88, 99, 0, 24), "6to4 relays"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(198, 18, 0, 0, 15), "benchmarks"),
    (v4(198, 51, 100, 0, 24), "documentation"),
    (v4(203, 0, 113, 0, 24), "documentation"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(240, 0, 0, 0, 4), "reserved, broadcast"),
    // The first 96 bits zero: unspecified, loopback, and the long obsolete IPv4-compatible addresses.
    (v6(0, 0, 0, 96), "loopback, or version 4 inside version 6"),
    (v6(0x64, 0xff9b, 0, 96), "version 4 behind NAT64"),
    (v6(0x64, 0xff9b, 1, 48), "version 4 behind a local NAT64"),
    (v6(0x100, 0, 0, 64), "discard"),
    (v6(0x2001, 0, 0, 23), "protocol assignments, Teredo"),
    (v6(0x2001, 0xdb8, 0, 32), "documentation"),
    (v6(0x2002, 0, 0, 16), "version 4 inside 6to4"),
    (v6(0x3fff, 0, 0, 20), "documentation"),
    (v6(0x5f00, 0, 0, 16), "segment routing"),
    (v6(0xfc00, 0, 0, 7), "unique local"),
    (v6(0xfe80, 0, 0, 10), "link-local"),
    (v6(0xfec0, 0, 0, 10), "site-local"),
    (v6(0xff00, 0, 0, 8), "multicast"),
    // Of IPv6 only `2000::/3` is allocated.
    (v6(0, 0, 0, 3), "reserved"),
    (v6(0x4000, 0, 0, 2), "reserved"),
    (v6(0x8000, 0, 0, 1), "reserved"),
];

/// Returns why an address is closed; `None` if it is part of the public internet.
///
/// IPv4 mapped into IPv6 is checked as IPv4.
#[must_use]
pub fn closed(address: IpAddr) -> Option<&'static str> {
    let address = address.to_canonical();
    CLOSED.iter().find(|(range, _)| range.contains(address)).map(|(_, why)| *why)
}

/// The operator's exemptions from [`closed`]: address ranges, and names with any address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    ranges: Vec<Range>,
    names: Vec<String>,
}

impl FromStr for Allowed {
    type Err = ();

    /// Parses a comma-separated list of `10.1.0.0/16`, `fd00::/8`, `hooks.internal`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut allowed = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            if let Ok(range) = item.parse() {
                allowed.ranges.push(range);
            } else if item.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
                && item.bytes().any(|b| b.is_ascii_alphabetic())
            {
                allowed.names.push(item.to_ascii_lowercase());
            } else {
                return Err(());
            }
        }
        Ok(allowed)
    }
}

impl Allowed {
    /// Exempts the local machine, for development.
    #[must_use]
    pub fn loopback() -> Self {
        let one = IpAddr::V6(Ipv6Addr::LOCALHOST);
        Self { ranges: vec![v4(127, 0, 0, 0, 8), Range { first: one, bits: 128 }], names: Vec::new() }
    }

    /// Returns the union of both exemptions.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.ranges.extend(other.ranges);
        self.names.extend(other.names);
        self
    }

    /// Whether a name is exempt.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.eq_ignore_ascii_case(name.trim_end_matches('.')))
    }

    /// Whether the operator has exempted the host of a URL; the operator's own hosts may be used without TLS.
    #[must_use]
    pub fn exempts(&self, url: &Url) -> bool {
        let address = match url.host() {
            Some(Host::Domain(name)) => return self.names(name),
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            None => return false,
        };
        self.ranges.iter().any(|range| range.contains(address.to_canonical()))
    }

    /// Whether an address may be connected to.
    #[must_use]
    pub fn admits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        closed(address).is_none() || self.ranges.iter().any(|range| range.contains(address))
    }
}

/// Why requests may not be sent to a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is not an http or https URL.
    NoUrl,
    /// It is longer than [`URL_BYTES`].
    TooLong,
    /// It is http, and only https is allowed here.
    NotHttps,
    /// It contains a user or a password.
    Userinfo,
    /// Its port belongs to another protocol.
    Port,
    /// Its host is an address that is not public, with the reason.
    Closed(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoUrl => f.write_str("it is no http:// or https:// URL"),
            Self::TooLong => write!(f, "it has more than {URL_BYTES} bytes"),
            Self::NotHttps => f.write_str("this server only sends to https:// URLs"),
            Self::Userinfo => {
                f.write_str("a user or password does not belong into it; signatures say who sends")
            }
            Self::Port => f.write_str("its port belongs to another protocol; use 80, 443 or one above 1023"),
            Self::Closed(why) => write!(f, "its address is not public ({why}); the operator can allow it"),
        }
    }
}

/// Checks a URL by its text; the addresses of its host name are checked when it is connected to.
///
/// # Errors
/// The fault of the URL.
pub fn judge(text: &str, allowed: &Allowed, https_only: bool) -> Result<Url, Fault> {
    if text.len() > URL_BYTES {
        return Err(Fault::TooLong);
    }
    let url = Url::parse(text).map_err(|_none| Fault::NoUrl)?;
    match url.scheme() {
        "https" => {}
        "http" if !https_only => {}
        "http" => return Err(Fault::NotHttps),
        _ => return Err(Fault::NoUrl),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Fault::Userinfo);
    }
    let address = match url.host().ok_or(Fault::NoUrl)? {
        Host::Ipv4(address) => Some(IpAddr::V4(address)),
        Host::Ipv6(address) => Some(IpAddr::V6(address)),
        Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            if allowed.names(&name) {
                return Ok(url);
            }
            // These names always resolve to the local machine (RFC 6761).
            let here = name == "localhost" || name.ends_with(".localhost");
            here.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST))
        }
    };
    if let Some(address) = address
        && !allowed.admits(address)
    {
        return Err(Fault::Closed(closed(address).unwrap_or("closed")));
    }
    match url.port_or_known_default() {
        Some(80 | 443 | 1_024..) => Ok(url),
        _ => Err(Fault::Port),
    }
}

/// Checks like [`judge`], for requests with a secret: requires TLS except for hosts exempted by the operator.
///
/// # Errors
/// The fault of the URL.
pub fn judge_secret(text: &str, allowed: &Allowed) -> Result<Url, Fault> {
    match judge(text, allowed, false) {
        Ok(url) if url.scheme() == "https" || allowed.exempts(&url) => Ok(url),
        Ok(_plain) => Err(Fault::NotHttps),
        fault => fault,
    }
}

/// Checks like [`judge`], for a member of a request body.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check(member: &str, text: &str, allowed: &Allowed, https_only: bool) -> Result<(), Refusal> {
    judge(text, allowed, https_only).map(|_url| ()).map_err(|fault| {
        Refusal::field(Code::InvalidRequest, member, "url", format!("`{member}` cannot be used: {fault}."))
    })
}

/// Schemes of agents' addresses; the server itself only sends to http and https.
const AGENT_SCHEMES: [&str; 8] = ["http", "https", "ws", "wss", "mcp", "arcp", "grpc", "grpcs"];

/// Checks the address that an agent registers with (RFC-0016): readers of the directory open it, and the
/// server sends requests to it.
///
/// So its scheme must not run code when opened (as `javascript:` would), and its host must not be in the
/// server's own network. Its port is not restricted until a request is sent to it.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check_agent(member: &str, text: &str, allowed: &Allowed, https_only: bool) -> Result<(), Refusal> {
    let refused = |why: &dyn fmt::Display| {
        let message = format!("`{member}` cannot be used: {why}.");
        Err(Refusal::field(Code::InvalidRequest, member, "url", message))
    };
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let Some(scheme) = scheme.filter(|scheme| AGENT_SCHEMES.contains(&scheme.as_str())) else {
        return refused(&"it is no address such as https://agent.example/inbox");
    };
    // The host is parsed as a browser would, regardless of the scheme.
    let plain = scheme == "http";
    let rest = &text[scheme.len()..];
    match judge(&format!("{}{rest}", if plain { "http" } else { "https" }), allowed, https_only) {
        Ok(_) | Err(Fault::Port) => Ok(()),
        Err(fault) => refused(&fault),
    }
}
