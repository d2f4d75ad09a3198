//! Versions of agents that run jobs (ARCP §7.5): names, and the resolution for a job. Agent records in the directory
//! (RFC-0016) are in `openintent/agents.rs`; an agent may have both.

use std::fmt;

use crate::arcp::faults::Fault;
use crate::limits::NAME_BYTES;

/// Reference of a job to an agent: a name, and optionally a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRef {
    /// Name of the agent.
    pub name: String,
    /// Version; `None` for the default one.
    pub version: Option<String>,
}

impl AgentRef {
    /// Parses `name` or `name@version`; `None` if it is neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let lawful = is_name(name) && version.is_none_or(is_version);
        lawful.then(|| Self { name: name.to_owned(), version: version.map(str::to_owned) })
    }

    /// Returns whether this reference covers a job of `name@version`: a bare name covers all versions.
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

/// Returns whether a text is a valid agent name: `[a-z0-9][a-z0-9._-]*`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let small = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=NAME_BYTES).contains(&text.len())
        && text.bytes().next().is_some_and(small)
        && text.bytes().all(|byte| small(byte) || b"._-".contains(&byte))
}

/// Returns whether a text is a version: `[a-zA-Z0-9.+_-]+`; its meaning is up to the agent.
#[must_use]
pub fn is_version(text: &str) -> bool {
    let lawful = |byte: u8| byte.is_ascii_alphanumeric() || b".+_-".contains(&byte);
    (1..=NAME_BYTES).contains(&text.len()) && text.bytes().all(lawful)
}

/// Versions of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// All versions, oldest registration first.
    pub registered: Vec<String>,
    /// Version that a bare name refers to.
    pub default: Option<String>,
}

/// Resolves the version for a job: the requested one, else the default, else the latest registered.
///
/// The resolved version is fixed (§7.5).
///
/// # Errors
/// `AGENT_NOT_AVAILABLE` if there is no such agent, `AGENT_VERSION_NOT_AVAILABLE` if it has no such version.
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
