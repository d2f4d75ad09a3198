//! Capabilities (ARCP §9.1 to §9.4, §9.7): the operations and targets a job is permitted.
//!
//! On the wire this is a *lease*; that word is taken by RFC-0003, so here it is an [`Authority`]
//! (GLOSSARY.md). Budgets are in `budgets.rs`. A target is compared only in its one canonical form; a target
//! without one is never covered. So dots, encodings or different capitalisation cannot bypass a pattern.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::globs::{Glob, NotAGlob, PATTERN_BYTES, WORK};
use crate::limits::{AUTHORITY_BYTES, LIST_ITEMS};
use crate::refusal::{Code, Refusal};

/// Maximum number of namespaces in one authority.
const NAMESPACES: usize = 64;

/// The kinds of namespaces that ARCP reserves (§9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Namespace {
    /// `fs.read`, `fs.write`: absolute paths.
    Path,
    /// `net.fetch`: HTTP and HTTPS URLs.
    Url,
    /// `tool.call`, `agent.delegate`, `model.use`, and those of vendors: names.
    Name,
    /// `cost.budget`: amounts, see `budgets.rs`.
    Budget,
}

impl Namespace {
    /// Returns the kind of patterns in a namespace; `None` if the namespace is invalid.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "fs.read" | "fs.write" => Some(Self::Path),
            "net.fetch" => Some(Self::Url),
            "tool.call" | "agent.delegate" | "model.use" => Some(Self::Name),
            "cost.budget" => Some(Self::Budget),
            _ => {
                let mut parts = word.strip_prefix("x-vendor.")?.splitn(2, '.');
                let lawful = |part: &str| {
                    !part.is_empty()
                        && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
                };
                (lawful(parts.next()?) && lawful(parts.next()?)).then_some(Self::Name)
            }
        }
    }
}

/// Permissions of a job: patterns by namespace; an operation that no pattern covers is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Authority(BTreeMap<String, Vec<String>>);

impl Authority {
    /// Checks a requested authority.
    ///
    /// # Errors
    /// An invalid namespace or glob, too many of either, or more than [`AUTHORITY_BYTES`] in total.
    pub fn check(asked: BTreeMap<String, Vec<String>>) -> Result<Self, Refusal> {
        if asked.len() > NAMESPACES {
            return Err(refused("lease_request", &format!("at most {NAMESPACES} namespaces are allowed")));
        }
        for (word, patterns) in &asked {
            let namespace = Namespace::parse(word).ok_or_else(|| {
                refused(word, "it is no namespace: use one of ARCP §9.2 or `x-vendor.<vendor>.<capability>`")
            })?;
            if patterns.len() > LIST_ITEMS {
                return Err(refused(word, &format!("at most {LIST_ITEMS} patterns are allowed")));
            }
            if namespace != Namespace::Budget {
                for pattern in patterns {
                    Glob::parse(pattern).map_err(|why| refused(word, &format!("`{pattern}` {why}")))?;
                }
            }
        }
        let asked = Self(asked);
        if serde_json::to_vec(&asked).map_or(usize::MAX, |json| json.len()) > AUTHORITY_BYTES {
            return Err(refused(
                "lease_request",
                &format!("at most {AUTHORITY_BYTES} bytes of JSON are allowed"),
            ));
        }
        Ok(asked)
    }

    /// Returns the patterns of a namespace.
    #[must_use]
    pub fn patterns(&self, namespace: &str) -> &[String] {
        self.0.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// Whether the authority has an entry for a namespace.
    #[must_use]
    pub fn names(&self, namespace: &str) -> bool {
        self.0.contains_key(namespace)
    }

    /// Iterates over the namespaces with their patterns.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.0.iter().map(|(word, patterns)| (word.as_str(), patterns.as_slice()))
    }

    /// Whether an operation on a target is covered (ARCP §9.3).
    #[must_use]
    pub fn covers(&self, namespace: &str, target: &str) -> bool {
        let Some(kind) = Namespace::parse(namespace).filter(|kind| *kind != Namespace::Budget) else {
            return false;
        };
        let Some(target) = canonical(kind, target) else { return false };
        self.globs(namespace, kind).iter().any(|glob| glob.matches(&target))
    }

    /// Checks that `parent` covers everything that this authority covers (ARCP §9.4).
    ///
    /// For each namespace, the parent's patterns together must cover each pattern. An equal authority
    /// qualifies (ARCP-W-9.3). Budgets are compared in `budgets.rs`.
    ///
    /// # Errors
    /// The first namespace and pattern not proved to be covered by the parent.
    pub fn within(&self, parent: &Self) -> Result<(), (String, String)> {
        let mut work = WORK;
        for (word, patterns) in self.iter() {
            let Some(kind) = Namespace::parse(word).filter(|kind| *kind != Namespace::Budget) else {
                continue;
            };
            let theirs = parent.globs(word, kind);
            for pattern in patterns {
                let covered = match read(kind, pattern) {
                    Ok(Some(glob)) => glob.is_proved_covered(&theirs, &mut work),
                    // The pattern covers nothing, but is still allowed only if the parent has it literally.
                    Ok(None) => parent.patterns(word).contains(pattern),
                    Err(_) => false,
                };
                if !covered {
                    return Err((word.to_owned(), pattern.clone()));
                }
            }
        }
        Ok(())
    }

    fn globs(&self, namespace: &str, kind: Namespace) -> Vec<Glob> {
        self.patterns(namespace).iter().filter_map(|pattern| read(kind, pattern).ok().flatten()).collect()
    }
}

fn refused(member: &str, why: &str) -> Refusal {
    Refusal::field(Code::InvalidRequest, member, "pattern", format!("`{member}` cannot be asked for: {why}."))
}

/// Parses a pattern of a namespace; `None` if no canonical target can match it, so that it covers nothing.
///
/// §9.2 lets any glob be requested; §9.3 refuses targets that are not covered. URL patterns are normalised
/// like targets: lower-case hosts without the scheme's default port, `https://host` as its root, `https://**`
/// as every path of every host.
fn read(kind: Namespace, pattern: &str) -> Result<Option<Glob>, NotAGlob> {
    let glob = Glob::parse(pattern)?;
    match kind {
        Namespace::Path if !pattern.starts_with('/') && !pattern.starts_with("**") => Ok(None),
        Namespace::Url => url(pattern),
        Namespace::Path => Ok(has_plain_segments(pattern).then_some(glob)),
        Namespace::Name | Namespace::Budget => Ok(Some(glob)),
    }
}

/// Parses a pattern of URLs.
fn url(pattern: &str) -> Result<Option<Glob>, NotAGlob> {
    let Some((scheme, rest)) = pattern.split_once("://") else { return Ok(None) };
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let lawful = matches!(scheme, "http" | "https" | "*") && !host.is_empty();
    if !lawful || host.contains('@') || !has_plain_segments(rest) {
        return Ok(None);
    }
    let port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => "",
    };
    let host = host.to_ascii_lowercase();
    let canonical = match (host.strip_suffix(port).unwrap_or(&host), path) {
        ("**", path) => format!("{scheme}://*/**{path}"),
        (host, "") => format!("{scheme}://{host}/"),
        (host, path) => format!("{scheme}://{host}{path}"),
    };
    Glob::parse(&canonical).map(Some)
}

fn has_plain_segments(path: &str) -> bool {
    is_plain(path) && !path.split('/').any(|segment| segment == "." || segment == "..")
}

/// Whether a path contains nothing that a file system or a server might interpret differently.
fn is_plain(path: &str) -> bool {
    let small = path.to_ascii_lowercase();
    let encoded = ["%2e", "%2f", "%5c", "%00", "%25"];
    !path.contains('\\')
        && !path.chars().any(char::is_control)
        && !encoded.iter().any(|code| small.contains(code))
}

/// Returns the canonical form of a target, which patterns are compared with; `None` if it has none.
#[must_use]
pub fn canonical(kind: Namespace, target: &str) -> Option<String> {
    if target.is_empty() || target.len() > PATTERN_BYTES || target.chars().any(char::is_control) {
        return None;
    }
    match kind {
        Namespace::Path => canonical_path(target),
        Namespace::Url => canonical_url(target),
        Namespace::Name => Some(target.to_owned()),
        Namespace::Budget => None,
    }
}

/// Normalises an absolute path: no doubled or trailing slashes; `None` if it contains `..` or encoded
/// characters.
fn canonical_path(path: &str) -> Option<String> {
    if !path.starts_with('/') || !is_plain(path) {
        return None;
    }
    let segments: Vec<&str> =
        path.split('/').filter(|segment| !segment.is_empty() && *segment != ".").collect();
    (!segments.contains(&"..")).then(|| format!("/{}", segments.join("/")))
}

/// Normalises a URL: lower-case scheme and host, no default port, canonical path, no query and no fragment.
///
/// A pattern is about the destination of a request. A URL with user info has no canonical form.
fn canonical_url(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let port = match scheme.as_str() {
        "http" => ":80",
        "https" => ":443",
        _ => return None,
    };
    let rest = rest.split(['?', '#']).next()?;
    let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix(port).unwrap_or(&host);
    let host = host.strip_suffix('.').unwrap_or(host);
    let lawful = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    if host.is_empty() || !host.bytes().all(lawful) {
        return None;
    }
    Some(format!("{scheme}://{host}{}", canonical_path(path)?))
}
