//! How well an agent asks: how often it corrects itself, has its questions refused, closes hatches (binding moment §5.9, §11.2,
//! §11.3).

use serde::Serialize;

use super::brief::Hatches;
use super::resolution::ResolutionKind;

/// The latest questions that calibration notes and closed hatches are counted over.
pub const ASKED_WINDOW: usize = 50;
/// The latest answered questions that refusals are counted over.
pub const ANSWERED_WINDOW: usize = 20;
/// Percent of questions with a calibration note above which the agent's framing is the fault (binding moment §5.9).
pub const CORRECTED_PERCENT: usize = 20;
/// Percent of refused questions above which the options are framed wrongly (binding moment §11.2).
pub const REFUSED_PERCENT: usize = 25;
/// Percent of questions with a closed hatch above which that is a habit (binding moment §11.3); our own measure.
pub const CLOSED_PERCENT: usize = 20;
/// Questions below which nothing is flagged: one refusal of three says nothing.
pub const LEAST: usize = 10;

/// What counts of one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Whether it came with a calibration note.
    pub calibration_note: bool,
    /// The ways to answer otherwise that it left open.
    pub hatches: Hatches,
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

impl Rate {
    fn of(count: usize, of: usize, limit_percent: usize) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "dozens")]
        let share = if of == 0 { 0.0 } else { count as f64 / of as f64 };
        Self { count, of, share, flagged: of >= LEAST && count * 100 > limit_percent * of }
    }
}

/// Rates of some questions, the latest first. More than the windows need does no harm.
#[must_use]
pub fn rates(asked: &[Asked]) -> Rates {
    let lately = &asked[..asked.len().min(ASKED_WINDOW)];
    let noted = lately.iter().filter(|one| one.calibration_note).count();
    let closed = lately.iter().filter(|one| one.hatches != Hatches::OPEN).count();
    // A question that cannot be refused says nothing of how often one is: else closing that hatch would lower the rate.
    let answers = asked.iter().filter(|one| one.hatches.dialogue).filter_map(|one| one.answered);
    let judged: Vec<ResolutionKind> = answers.take(ANSWERED_WINDOW).collect();
    let refused = judged.iter().filter(|kind| **kind == ResolutionKind::Dialogue).count();
    Rates {
        asked: asked.len(),
        answered: asked.iter().filter(|one| one.answered.is_some()).count(),
        near_duplicates: asked.iter().filter(|one| one.near_duplicate).count(),
        calibration_notes: Rate::of(noted, lately.len(), CORRECTED_PERCENT),
        refused: Rate::of(refused, judged.len(), REFUSED_PERCENT),
        hatches_closed: Rate::of(closed, lately.len(), CLOSED_PERCENT),
    }
}
