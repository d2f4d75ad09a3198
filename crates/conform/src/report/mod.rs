//! Reports: a table for people, JSON and `JUnit` for programs.

pub(crate) mod json;
pub(crate) mod junit;
pub(crate) mod table;

use crate::finding::Finding;
use crate::runner::Result;

/// Counts of results.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Counts {
    /// Counts results.
    pub(crate) fn of<'a>(results: impl Iterator<Item = &'a Result>) -> Self {
        results.fold(Self::default(), |mut counts, result| {
            match &result.outcome {
                Ok(()) => counts.passed += 1,
                Err(Finding::Failed { .. }) => counts.failed += 1,
                Err(Finding::Skipped(_)) => counts.skipped += 1,
            }
            counts
        })
    }
}
