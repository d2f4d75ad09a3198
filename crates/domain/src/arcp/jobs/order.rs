//! The order of waiting jobs (beyond ARCP): higher priorities first; within one, principals in turns; of one principal the
//! oldest job first.

use super::Job;
use crate::refusal::{Code, Refusal};

/// Highest priority; the lowest is its negation, and 0 is normal.
pub const PRIORITY: i16 = 100;

/// The priority of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(i16);

impl Priority {
    /// Checks a requested priority.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`].
    pub fn check(said: i64) -> Result<Self, Refusal> {
        let lawful = i16::try_from(said).ok().filter(|said| (-PRIORITY..=PRIORITY).contains(said));
        lawful.map(Self).ok_or_else(|| {
            let message = format!(
                "`priority` must be a whole number from -{PRIORITY} to {PRIORITY}: jobs with a higher one start first, 0 is \
                 normal."
            );
            Refusal::field(Code::InvalidRequest, "priority", "range", message)
        })
    }

    /// Returns the priority of a job with this [precedence](Self::precedence).
    #[must_use]
    pub fn of_precedence(precedence: i16) -> Self {
        Self(precedence.saturating_neg())
    }

    /// Returns the negated priority, so that ascending order is the order of claims.
    #[must_use]
    pub fn precedence(self) -> i16 {
        -self.0
    }

    /// Returns the number.
    #[must_use]
    pub fn get(self) -> i16 {
        self.0
    }

    /// Requires that a principal that may ask for at most `most` may ask for this one.
    ///
    /// # Errors
    /// [`Code::PermissionDenied`].
    pub fn require_at_most(self, most: Self) -> Result<(), Refusal> {
        if self <= most {
            return Ok(());
        }
        let (asked, most) = (self.0, most.0);
        let message = format!(
            "`priority` {asked} is above {most}, the highest that you may ask for. Submit with {most} or less; somebody with \
             the scope `admin` can raise it (PUT /api/v1/arcp/limits/principals/{{name}})."
        );
        Err(Refusal::field(Code::PermissionDenied, "priority", "range", message))
    }

    /// Returns the priority of a new job: the requested one, or that of the job that delegated it, because a part of
    /// urgent work is as urgent.
    #[must_use]
    pub fn of_new(asked: Option<Self>, parent: Option<&Job>) -> Self {
        asked.or(parent.map(|parent| parent.priority)).unwrap_or_default()
    }
}
