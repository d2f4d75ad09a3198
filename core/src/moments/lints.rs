//! How a question could be put better. Nothing here refuses one: words that trip a lint can be right, and words that do not
//! can be wrong. How often either is so is not known.
//!
//! The lexical lints know English only; they are skipped where a text is not mostly of ASCII letters.

use serde::{Deserialize, Serialize};

use super::brief::Brief;

/// How much a lint weighs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Worth knowing.
    Info,
    /// Worth changing.
    Warn,
}

/// One thing that could be put better.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Lint {
    /// Which, a stable word such as `synopsis.hedge_phrase`.
    pub code: &'static str,
    /// How much it weighs.
    pub level: Level,
    /// Where, a JSON Pointer (RFC 6901) into the question.
    pub at: String,
    /// What it is, in words.
    pub note: String,
}

/// What could be put better in a question.
#[must_use]
pub fn lint(_brief: &Brief) -> Vec<Lint> {
    Vec::new()
}
