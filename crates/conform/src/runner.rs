//! Runs checks one after another, each within a time limit.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::check::Check;
use crate::finding::{Finding, Outcome, failed, skipped};
use crate::site::Site;

/// So many checks in a row may get no answer; the rest is skipped then.
const SILENCES: u32 = 3;

/// The result of a check.
pub(crate) struct Result {
    /// The check.
    pub(crate) check: &'static Check,
    /// Its outcome.
    pub(crate) outcome: Outcome,
    /// The requests and answers.
    pub(crate) record: Vec<String>,
    /// How long it took.
    pub(crate) took: Duration,
}

/// Runs the checks.
pub(crate) async fn run(site: &Site, checks: Vec<&'static Check>) -> Vec<Result> {
    let mut results = Vec::new();
    let mut silences = 0;
    let limit = site.check_limit();
    for check in checks {
        let begun = Instant::now();
        let outcome = if silences < SILENCES {
            match timeout(limit, (check.run)(site)).await {
                Ok(outcome) => outcome,
                Err(_late) => {
                    site.fell_silent();
                    Err(failed("an end of this check", format!("none within {} s", limit.as_secs())))
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
        let outcome = outcome.map_err(|finding| told(site, finding));
        results.push(Result { check, outcome, record: site.take_record(), took: begun.elapsed() });
    }
    results
}

/// Returns a finding for people, without keys.
fn told(site: &Site, finding: Finding) -> Finding {
    match finding {
        Finding::Failed { expected, came } => {
            Finding::Failed { expected: site.told(&expected), came: site.told(&came) }
        }
        Finding::Skipped(reason) => Finding::Skipped(site.told(&reason)),
    }
}
