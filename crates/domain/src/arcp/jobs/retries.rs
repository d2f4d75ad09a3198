//! Retries of failed jobs (beyond ARCP): which failures are followed by another attempt, and when.
//!
//! A failure that is retried does not end the job: a job ends once (ARCP §7.3). Lost workers are another matter
//! ([`super::OnLost`]), and are counted apart.

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Job;
use crate::arcp::faults::Fault;
use crate::canonical::Digest;
use crate::clock::{Timestamp, rfc3339};
use crate::limits::RETRY_DELAY_MS;
use crate::refusal::{Code, Refusal};

/// Most attempts at a job that fails: more would hide a defect.
pub const ATTEMPTS: u32 = 100;

/// Largest growth of the delay from one attempt to the next.
const FACTOR: f64 = 10.0;

/// Maximum reduction of a delay by jitter, in thousandths: a half, so that jobs that failed together are not tried
/// again together.
const JITTER: u64 = 500;

/// Failures that no further attempt can mend: the authority or the budget is spent, or the job was cancelled.
const FINAL: [Fault; 3] = [Fault::LeaseExpired, Fault::BudgetExhausted, Fault::Cancelled];

/// The treatment of a job that its worker reports as failed. Absent members have their defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = JobRetry, example = json!({ "max_attempts": 5, "initial_delay_ms": 1000, "factor": 2, "max_delay_ms": 60000 }))]
pub struct RetryPolicy {
    /// How many attempts may fail, the last of them for good: 1 to 100; defaults to 3. With 1 nothing is retried. Attempts
    /// whose worker was lost do not count: the version's `max_attempts` limits them.
    pub max_attempts: u32,
    /// Milliseconds between the first failure and the next attempt, up to a day; defaults to 1,000.
    pub initial_delay_ms: u32,
    /// Growth of the delay with each failure, 1 to 10; defaults to 2.
    pub factor: f64,
    /// Longest delay in milliseconds, up to a day; defaults to 300,000.
    pub max_delay_ms: u32,
    /// Whether delays are shortened at random, by up to a half; defaults to true.
    pub jitter: bool,
    /// Codes of ARCP §12 that are retried. Defaults to those that ARCP calls retryable. A worker's `retryable` in its report
    /// decides instead, for all codes but `LEASE_EXPIRED`, `BUDGET_EXHAUSTED` and `CANCELLED`, which are never retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codes: Option<Vec<Fault>>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            initial_delay_ms: 1_000,
            factor: 2.0,
            max_delay_ms: 300_000,
            jitter: true,
            codes: None,
        }
    }
}

impl RetryPolicy {
    /// Checks a client's policy.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] with the member at fault.
    pub fn check(&self) -> Result<(), Refusal> {
        let wrong = |member: &str, message: String| {
            Err(Refusal::field(Code::InvalidRequest, &format!("retry.{member}"), "range", message))
        };
        if !(1..=ATTEMPTS).contains(&self.max_attempts) {
            let message = format!("`retry.max_attempts` must be a number from 1 to {ATTEMPTS}.");
            return wrong("max_attempts", message);
        }
        for (member, delay) in
            [("initial_delay_ms", self.initial_delay_ms), ("max_delay_ms", self.max_delay_ms)]
        {
            if delay > RETRY_DELAY_MS {
                let message =
                    format!("`retry.{member}` must be a number of milliseconds up to {RETRY_DELAY_MS}.");
                return wrong(member, message);
            }
        }
        if !(1.0..=FACTOR).contains(&self.factor) {
            return wrong("factor", format!("`retry.factor` must be a number from 1 to {FACTOR}."));
        }
        if let Some(fault) = self.codes.iter().flatten().find(|fault| FINAL.contains(fault)) {
            let message = format!(
                "`retry.codes` names {}, which is never retried: another attempt would end in the same way. Leave it out.",
                fault.wire()
            );
            return wrong("codes", message);
        }
        Ok(())
    }

    /// Whether a failure is retried, given the `retryable` of its report.
    #[must_use]
    pub fn retries(&self, fault: Fault, said: Option<bool>) -> bool {
        let listed = || self.codes.as_ref().map_or(fault.retryable(), |codes| codes.contains(&fault));
        !FINAL.contains(&fault) && said.unwrap_or_else(listed)
    }

    /// Returns the milliseconds between the failure of attempt `failed`, counted from 1, and the next one; jitter only
    /// shortens them.
    #[must_use]
    pub fn delay_ms(&self, failed: u32, chance: u64) -> u64 {
        let power = i32::try_from(failed.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = f64::from(self.initial_delay_ms) * self.factor.powi(power);
        // Not more than a day, so that the conversion is exact.
        let capped = grown.min(f64::from(self.max_delay_ms)) / 1_000.0;
        let delay = std::time::Duration::try_from_secs_f64(capped).unwrap_or_default().as_millis();
        let delay = u64::try_from(delay).unwrap_or(u64::MAX);
        if self.jitter { delay * (1_000 - chance % (JITTER + 1)) / 1_000 } else { delay }
    }
}

/// A failed attempt that another one follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Code of the failure.
    pub fault: Fault,
    /// The failure in words.
    pub message: String,
    /// When the next attempt may begin.
    pub next_at: Timestamp,
}

impl Failed {
    /// Body of the `status` event that tells of the failure (ARCP §8.2); `attempt` is the one that failed.
    #[must_use]
    pub fn event(&self, attempt: u32) -> Value {
        let next_at = rfc3339(self.next_at);
        let (code, said) = (self.fault.wire(), &self.message);
        json!({
            "phase": "retrying",
            "message": format!("Attempt {attempt} failed with {code}: {said} The next one may begin at {next_at}."),
            "x-entente": { "attempt": attempt, "code": code, "error": said, "next_attempt_at": next_at },
        })
    }
}

/// A report of a failure that was retried, by the digests of its claim's token and of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retried {
    /// Digest of the claim's token.
    pub token: Digest,
    /// Digest of the report.
    pub report: Digest,
}

impl Job {
    /// Returns when the next attempt may begin after a failure at `now`; `None` if the failure ends the job.
    ///
    /// An attempt that could begin only after the job's time is over is none.
    #[must_use]
    pub fn next_attempt(
        &self,
        fault: Fault,
        said: Option<bool>,
        now: Timestamp,
        chance: u64,
    ) -> Option<Timestamp> {
        let policy = self.retry.as_ref().filter(|_| self.cancel.is_none())?;
        let failed = self.failures + 1;
        if failed >= policy.max_attempts || !policy.retries(fault, said) {
            return None;
        }
        let delay = i64::try_from(policy.delay_ms(failed, chance)).ok()?;
        let next = now.checked_add_signed(TimeDelta::milliseconds(delay))?;
        let ends = self.deadline.into_iter().chain(self.expires_at).min();
        Some(next).filter(|next| ends.is_none_or(|end| *next < end))
    }
}
