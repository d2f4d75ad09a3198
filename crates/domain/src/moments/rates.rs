//! Measures how well an agent asks: rates of calibration notes, refused questions and closed hatches (binding moment
//! §5.9, §11.2, §11.3).

use serde::Serialize;

use super::brief::Hatches;
use super::resolution::ResolutionKind;

/// Number of latest questions over which calibration notes and closed hatches are counted.
pub const ASKED_WINDOW: usize = 50;
/// Number of latest answered questions over which refusals are counted.
pub const ANSWERED_WINDOW: usize = 20;
/// Percentage of questions with a calibration note above which the agent's framing is at fault (binding moment §5.9).
pub const CORRECTED_PERCENT: usize = 20;
/// Percentage of refused questions above which the options are badly framed (binding moment §11.2).
pub const REFUSED_PERCENT: usize = 25;
/// Percentage of questions with a closed hatch above which this is a habit (binding moment §11.3); the value is Entente's own.
pub const CLOSED_PERCENT: usize = 20;
/// Minimum number of questions for a flag: one refusal of three is not significant.
pub const LEAST: usize = 10;

/// Facts about one question that the rates use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Whether it had a calibration note.
    pub calibration_note: bool,
    /// Hatches that it left open.
    pub hatches: Hatches,
    /// Kind of answer, if it was answered.
    pub answered: Option<ResolutionKind>,
    /// Whether it was a near duplicate of a refused question.
    pub near_duplicate: bool,
}

/// A share of a number of questions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Rate {
    /// Number of matching questions.
    pub count: usize,
    /// Number of questions considered.
    pub of: usize,
    /// The share, from 0 to 1; 0 if no questions were considered.
    pub share: f64,
    /// Whether the share exceeds its threshold.
    pub flagged: bool,
}

/// How well an agent asks, or how well questions of a class are asked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Rates {
    /// Number of questions examined.
    pub asked: usize,
    /// Number of answered questions among them.
    pub answered: usize,
    /// Number of near duplicates of refused questions among them.
    pub near_duplicates: usize,
    /// Questions with a calibration note among the last 50; flagged above 20 % of at least 10.
    pub calibration_notes: Rate,
    /// Refused questions among the last 20 that were answered and could be refused; flagged above 25 % of at least 10.
    pub refused: Rate,
    /// Questions with a closed hatch among the last 50; flagged above 20 % of at least 10.
    pub hatches_closed: Rate,
}

impl Rate {
    fn of(count: usize, of: usize, limit_percent: usize) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "dozens")]
        let share = if of == 0 { 0.0 } else { count as f64 / of as f64 };
        Self { count, of, share, flagged: of >= LEAST && count * 100 > limit_percent * of }
    }
}

/// Computes the rates of questions given latest first; questions beyond the windows do no harm.
#[must_use]
pub fn rates(asked: &[Asked]) -> Rates {
    let lately = &asked[..asked.len().min(ASKED_WINDOW)];
    let noted = lately.iter().filter(|one| one.calibration_note).count();
    let closed = lately.iter().filter(|one| one.hatches != Hatches::OPEN).count();
    // Questions that cannot be refused are left out: otherwise closing that hatch would lower the rate.
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
