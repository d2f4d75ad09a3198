//! Agents that run jobs, and their versions (ARCP §7.5): how they are named, and which one a job gets. An agent's record
//! in the directory (RFC-0016) is `agents.rs`; one may be both.

use std::fmt;

use crate::faults::Fault;
use crate::limits::NAME_BYTES;

/// What a job asks for: a name, and maybe a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRef {
    /// The agent's name.
    pub name: String,
    /// The version that it must be; the default one when nothing is said.
    pub version: Option<String>,
}

impl AgentRef {
    /// Reads `name` or `name@version`. `None` when it is neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let lawful = is_name(name) && version.is_none_or(is_version);
        lawful.then(|| Self { name: name.to_owned(), version: version.map(str::to_owned) })
    }

    /// Whether a job of `name@version` is one of those that this names: a bare name is all of its versions.
    #[must_use]
    pub fn names(&self, resolved: &str) -> bool {
        Self::parse(resolved).is_some_and(|job| {
            job.name == self.name && (self.version.is_none() || job.version == self.version)
        })
    }
}

impl fmt::Display for AgentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{}@{version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Whether a text is an agent's name: `[a-z0-9][a-z0-9._-]*`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let small = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=NAME_BYTES).contains(&text.len())
        && text.bytes().next().is_some_and(small)
        && text.bytes().all(|byte| small(byte) || b"._-".contains(&byte))
}

/// Whether a text is a version: `[a-zA-Z0-9.+_-]+`. What it means is its agent's affair.
#[must_use]
pub fn is_version(text: &str) -> bool {
    let lawful = |byte: u8| byte.is_ascii_alphanumeric() || b".+_-".contains(&byte);
    (1..=NAME_BYTES).contains(&text.len()) && text.bytes().all(lawful)
}

/// The versions of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// All of them, the oldest registration first.
    pub registered: Vec<String>,
    /// The one that a bare name means.
    pub default: Option<String>,
}

/// Which version a job gets: the one it names, else the default, else the one that was registered last. Once resolved it
/// is fixed (§7.5).
///
/// # Errors
/// `AGENT_NOT_AVAILABLE` when there is no such agent, `AGENT_VERSION_NOT_AVAILABLE` when it has no such version.
pub fn resolve(asked: &AgentRef, known: Option<&Versions>) -> Result<String, Fault> {
    let versions =
        known.filter(|versions| !versions.registered.is_empty()).ok_or(Fault::AgentNotAvailable)?;
    let Some(version) = &asked.version else {
        let default = versions.default.as_ref().filter(|default| versions.registered.contains(default));
        return default.or(versions.registered.last()).cloned().ok_or(Fault::AgentNotAvailable);
    };
    if versions.registered.contains(version) {
        Ok(version.clone())
    } else {
        Err(Fault::AgentVersionNotAvailable)
    }
}
