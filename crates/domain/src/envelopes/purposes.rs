//! What envelopes are about: AEE's `intent` (§9), a dotted name. `aee.*` is the protocol's own.

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

/// Names in the protocol's space that are taken although it does not define them.
pub const TOLERATED: [&str; 2] = ["aee.ext.**", "aee.protocol.explainer"];

/// A pattern over dotted names: `*` stands for one part, `**` for any number of them.
#[derive(Debug, Clone)]
pub struct Pattern(Glob);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// See [`NotAGlob`].
    pub fn parse(text: &str) -> Result<Self, NotAGlob> {
        // A part is a segment to the globs; a slash in a name is a letter like any other.
        Glob::parse(&segmented(text)).map(Self)
    }

    /// Whether it stands for this name.
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

/// Whether a name is in a space: `aee.` and `aee` both mean what begins with `aee.`, and the name itself.
#[must_use]
pub fn in_space(name: &str, space: &str) -> bool {
    let space = space.trim_end_matches('.');
    space.is_empty() || name == space || name.strip_prefix(space).is_some_and(|rest| rest.starts_with('.'))
}

/// Refuses names that applications must not take (AEE §9.2).
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
