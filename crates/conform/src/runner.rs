//! Runs checks one after another, each within a time limit.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::check::Check;
use crate::finding::{Finding, Outcome, failed, skipped};
use crate::site::Site;

/// Time limit of a check, whatever it waits for.
const LIMIT: Duration = Duration::from_secs(40);
/// So many checks in a row may get no answer; the rest is skipped then.
const SILENCES: u32 = 3;

/// What a check found.
pub(crate) struct Result {
    /// The check.
    pub(crate) check: &'static Check,
    /// What it found.
    pub(crate) outcome: Outcome,
    /// What was sent, and what came.
    pub(crate) record: Vec<String>,
    /// How long it took.
    pub(crate) took: Duration,
}

/// Runs the checks.
pub(crate) async fn run(site: &Site, checks: Vec<&'static Check>) -> Vec<Result> {
    let mut results = Vec::new();
    let mut silences = 0;
    for check in checks {
        let begun = Instant::now();
        let outcome = if silences < SILENCES {
            match timeout(LIMIT, (check.run)(site)).await {
                Ok(outcome) => outcome,
                Err(_late) => {
                    site.fell_silent();
                    Err(failed("an end of this check", format!("none within {} s", LIMIT.as_secs())))
                }
            }
        } else {
            Err(skipped(format!("the server gave no answer to {SILENCES} checks in a row")))
        };
        if site.take_silence() && matches!(outcome, Err(Finding::Failed { .. })) {
            silences += 1;
        } else if silences < SILENCES {
            silences = 0;
        }
        let outcome = outcome.map_err(|finding| redacted(site, finding));
        results.push(Result { check, outcome, record: site.take_record(), took: begun.elapsed() });
    }
    results
}

/// Returns a finding without keys.
fn redacted(site: &Site, finding: Finding) -> Finding {
    match finding {
        Finding::Failed { expected, came } => {
            Finding::Failed { expected: site.redacted(&expected), came: site.redacted(&came) }
        }
        Finding::Skipped(reason) => Finding::Skipped(site.redacted(&reason)),
    }
}
