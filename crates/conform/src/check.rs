//! A check: a clause, how binding it is, its sentence, and the function that tries it.

use std::pin::Pin;

use clap::ValueEnum;

use crate::finding::Outcome;
use crate::site::Site;

/// How binding a clause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Tier {
    /// Mandatory: MUST, or a statement of the text without any condition
    Must,
    /// Recommended: SHOULD, or a default that the text gives
    Should,
    /// Optional: MAY, or a feature that only some servers offer
    May,
}

impl Tier {
    /// Returns the tier's word in tables.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::May => "MAY",
        }
    }
}

/// A running check.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// A check.
pub(crate) struct Check {
    /// The clause, such as `RFC-0021 §2.4`.
    pub(crate) clause: &'static str,
    /// How binding it is.
    pub(crate) tier: Tier,
    /// The check's own name: several may belong to one clause.
    pub(crate) name: &'static str,
    /// The clause in one sentence.
    pub(crate) says: &'static str,
    /// Tries it.
    pub(crate) run: for<'a> fn(&'a Site) -> Running<'a>,
}

/// Makes a table of checks: clause, tier, function, sentence.
macro_rules! checks {
    ($($clause:literal, $tier:ident, $function:ident, $says:literal;)*) => {
        /// The checks of this module.
        pub(crate) const CHECKS: &[crate::check::Check] = &[$(crate::check::Check {
            clause: $clause,
            tier: crate::check::Tier::$tier,
            name: stringify!($function),
            says: $says,
            run: |site| Box::pin($function(site)),
        }),*];
    };
}
pub(crate) use checks;
