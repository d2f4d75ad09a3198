//! How well an agent asks: how often it corrects itself, has its questions refused, closes hatches (binding moment §5.9, §11.2,
//! §11.3).

use serde::Serialize;

use super::resolution::ResolutionKind;

/// The latest questions that calibration notes and closed hatches are counted over.
pub const ASKED_WINDOW: usize = 50;
/// The latest answered questions that refusals are counted over.
pub const ANSWERED_WINDOW: usize = 20;
/// Questions below which nothing is flagged: one refusal of three says nothing.
pub const LEAST: usize = 10;

/// What counts of one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Whether it came with a calibration note.
    pub calibration_note: bool,
    /// Whether the principal could answer in their own words.
    pub free_text: bool,
    /// Whether the principal could refuse the question.
    pub dialogue: bool,
    /// How it was answered, if it was.
    pub answered: Option<ResolutionKind>,
    /// Whether it was nearly a question that had been refused.
    pub near_duplicate: bool,
}

/// A share of some questions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Rate {
    /// How many.
    pub count: usize,
    /// Of how many.
    pub of: usize,
    /// The share, from 0 to 1; 0 of none.
    pub share: f64,
    /// Whether it is more than it should be.
    pub flagged: bool,
}

/// How well an agent asks, or how well questions of a class are asked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Rates {
    /// Questions that were looked at.
    pub asked: usize,
    /// Those of them that were answered.
    pub answered: usize,
    /// Those nearly like one that had been refused.
    pub near_duplicates: usize,
    /// With a calibration note, of the last 50; flagged above 20 % of at least 10.
    pub calibration_notes: Rate,
    /// Refused as a question, of the last 20 that were answered and could be refused; flagged above 25 % of at least 10.
    pub refused: Rate,
    /// With a hatch closed, of the last 50; flagged above 20 % of at least 10.
    pub hatches_closed: Rate,
}

/// Rates of some questions, the latest first.
#[must_use]
pub fn rates(asked: &[Asked]) -> Rates {
    let none = Rate { count: 0, of: 0, share: 0.0, flagged: false };
    Rates {
        asked: asked.len(),
        answered: 0,
        near_duplicates: 0,
        calibration_notes: none,
        refused: none,
        hatches_closed: none,
    }
}
