//! The table for people.

use std::fmt::Write as _;

use super::Counts;
use crate::check::Tier;
use crate::finding::Finding;
use crate::runner::Result;

/// Returns a text in one line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the table, with the requests and answers of each failure.
pub(crate) fn table(results: &[Result]) -> String {
    let width = results.iter().map(|result| result.check.clause.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for result in results {
        let check = result.check;
        let word = match &result.outcome {
            Ok(()) => "pass",
            Err(Finding::Failed { .. }) => "FAIL",
            Err(Finding::Skipped(_)) => "skip",
        };
        let _ = writeln!(out, "{word}  {:<6}  {:<width$}  {}", check.tier.word(), check.clause, check.says);
        match &result.outcome {
            Ok(()) => {}
            Err(Finding::Skipped(reason)) => {
                let _ = writeln!(out, "      skipped: {}", line(reason));
            }
            Err(Finding::Failed { expected, came }) => {
                let _ = writeln!(out, "      expected: {}\n      came:     {}", line(expected), line(came));
                for passed in &result.record {
                    let _ = writeln!(out, "        {}", line(passed));
                }
                let _ = writeln!(out, "      alone: --only {}", check.name);
            }
        }
    }
    for tier in [Tier::Must, Tier::Should, Tier::May] {
        let counts = Counts::of(results.iter().filter(|result| result.check.tier == tier));
        let Counts { passed, failed, skipped } = counts;
        if counts != Counts::default() {
            let _ = writeln!(out, "{:<6}  {passed} passed, {failed} failed, {skipped} skipped", tier.word());
        }
    }
    out
}
