//! Pace of a follower of the log that works behind the writers. While others write it works a share of the time, in short steps:
//! a step keeps PostgreSQL busy, and the thread on which this server's writers run too, and a long one would hold up every write
//! that comes meanwhile.

use std::time::Duration;

/// Time that a step should take while others write.
const STEP: Duration = Duration::from_millis(10);

/// Entries of the smallest step.
const LEAST: i64 = 32;

/// Longest rest: after a step that waited for the database rather than worked.
const LONGEST_REST: Duration = Duration::from_secs(5);

/// Pace of one follower.
#[derive(Debug)]
pub(super) struct Pace<E> {
    /// How much longer than its work a rest is while others write.
    busy_rest: u32,
    /// Shortest rest between two steps.
    shortest: Duration,
    /// Entries of the largest step.
    most: i64,
    /// Entries of the next step.
    entries: i64,
    /// End of what it reads after the last step, by which it knows whether others write.
    end: Option<E>,
}

impl<E: PartialEq> Pace<E> {
    /// Creates the pace of a follower that rests `busy_rest` times as long as it works.
    pub fn new(busy_rest: u32, shortest: Duration, most: i64) -> Self {
        Self { busy_rest, shortest, most, entries: LEAST.min(most), end: None }
    }

    /// Returns the number of entries of the next step, at most.
    pub fn entries(&self) -> i64 {
        self.entries
    }

    /// Returns how long to rest after a step that took this long and left the end here, and chooses the size of the
    /// next one.
    pub fn rest_after(&mut self, took: Duration, end: E) -> Duration {
        let are_writing = self.end.as_ref().is_some_and(|before| *before != end);
        self.end = Some(end);
        let entries = if are_writing && took > STEP * 2 {
            self.entries / 2
        } else if !are_writing || took < STEP / 2 {
            self.entries.saturating_mul(2)
        } else {
            self.entries
        };
        self.entries = entries.clamp(LEAST.min(self.most), self.most);
        (took * if are_writing { self.busy_rest } else { 1 }).clamp(self.shortest, LONGEST_REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Duration = Duration::from_millis(5);

    /// Takes steps of which each entry takes this long, while others write or not.
    fn after(pace: &mut Pace<i64>, steps: i64, per_entry: Duration, are_writing: bool) -> Duration {
        let mut rest = Duration::ZERO;
        for step in 0..steps {
            let took = per_entry * u32::try_from(pace.entries()).unwrap();
            rest = pace.rest_after(took, if are_writing { step } else { -1 });
        }
        rest
    }

    #[test]
    fn steps_are_short_while_others_write_and_large_otherwise() {
        let mut pace = Pace::new(9, SHORTEST, 1_024);
        let per_entry = Duration::from_micros(50);
        after(&mut pace, 20, per_entry, false);
        assert_eq!(pace.entries(), 1_024);
        let rest = after(&mut pace, 20, per_entry, true);
        let took = per_entry * u32::try_from(pace.entries()).unwrap();
        assert!(took <= STEP * 2 && took * 2 > STEP, "{took:?}");
        assert_eq!(rest, took * 9);
        // However slow it is, a step has some entries, and a rest an end.
        let rest = after(&mut pace, 20, Duration::from_secs(1), true);
        assert_eq!((pace.entries(), rest), (LEAST, LONGEST_REST));
        assert_eq!(after(&mut pace, 20, Duration::ZERO, true), SHORTEST);
        assert_eq!(pace.entries(), 1_024);
    }

    #[test]
    fn a_small_bound_is_kept() {
        let mut pace = Pace::new(9, SHORTEST, 8);
        assert_eq!(pace.entries(), 8);
        after(&mut pace, 5, Duration::from_secs(1), true);
        assert_eq!(pace.entries(), 8);
    }
}
