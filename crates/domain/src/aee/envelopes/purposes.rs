//! The purposes of envelopes: AEE's `intent` (§9), a dotted name. `aee.*` is reserved for the protocol.

use crate::globs::{Glob, NotAGlob};
use crate::refusal::{Code, Refusal};

/// The names that the protocol defines (AEE §9.2).
pub const CORE: [&str; 7] = [
    "aee.status.ping",
    "aee.status.health",
    "aee.spec.query",
    "aee.capability.list",
    "aee.context.fetch",
    "aee.context.refute",
    "aee.validate.payload",
];

/// Names in the reserved namespace that are accepted although the protocol does not define them.
pub const TOLERATED: [&str; 2] = ["aee.ext.**", "aee.protocol.explainer"];

/// A pattern over dotted names: `*` matches one part, `**` any number of parts.
#[derive(Debug, Clone)]
pub struct Pattern(Glob);

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// See [`NotAGlob`].
    pub fn parse(text: &str) -> Result<Self, NotAGlob> {
        // Globs match by path segments, so dots and slashes are swapped; a slash in a name is an ordinary
        // character.
        Glob::parse(&segmented(text)).map(Self)
    }

    /// Whether the pattern matches this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(&segmented(name))
    }
}

fn segmented(name: &str) -> String {
    name.chars()
        .map(|letter| match letter {
            '.' => '/',
            '/' => '.',
            letter => letter,
        })
        .collect()
}

/// Whether a name is in a namespace: `aee.` and `aee` both mean the name itself and all that begin with
/// `aee.`.
#[must_use]
pub fn in_space(name: &str, space: &str) -> bool {
    let space = space.trim_end_matches('.');
    space.is_empty() || name == space || name.strip_prefix(space).is_some_and(|rest| rest.starts_with('.'))
}

/// Refuses names that applications must not use (AEE §9.2).
///
/// # Errors
/// [`Code::ReservedNamespace`].
pub fn admit(purpose: &str, tolerated: &[Pattern]) -> Result<(), Refusal> {
    let reserved = purpose.starts_with("aee.") || purpose == "aee";
    if !reserved || CORE.contains(&purpose) || tolerated.iter().any(|pattern| pattern.matches(purpose)) {
        return Ok(());
    }
    Err(Refusal::field(
        Code::ReservedNamespace,
        "intent",
        "reserved",
        "`aee.*` is the protocol's own (AEE §9.2). Give your intent a name of your own, such as `ops.backup.check`.",
    ))
}
