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
    /// Entries below which a step hardly gets shorter: it waits for the network or for others rather than works.
    floor: i64,
    /// Time that the step took which was found too long.
    long: Option<Duration>,
    /// End of its input after the last step, by which it knows whether others write.
    end: Option<E>,
}

impl<E: PartialEq> Pace<E> {
    /// Creates the pace of a follower that rests `busy_rest` times as long as it works.
    pub fn new(busy_rest: u32, shortest: Duration, most: i64) -> Self {
        Self { busy_rest, shortest, most, entries: most, floor: LEAST.min(most), long: None, end: None }
    }

    /// Returns the number of entries of the next step, at most.
    pub fn entries(&self) -> i64 {
        self.entries
    }

    /// Returns how long to rest after a step that took this long and left the end here, and chooses the size of the next one.
    pub fn rest_after(&mut self, took: Duration, end: E) -> Duration {
        let are_writing = self.end.as_ref().is_some_and(|before| *before != end);
        self.end = Some(end);
        if are_writing {
            self.resize(took);
        } else {
            (self.entries, self.floor, self.long) = (self.most, LEAST.min(self.most), None);
        }
        (took * if are_writing { self.busy_rest } else { 1 }).clamp(self.shortest, LONGEST_REST)
    }

    fn resize(&mut self, took: Duration) {
        let long = self.long.take();
        if long.is_some_and(|long| took * 4 > long * 3) {
            // Half of the entries took more than three quarters of the time: a smaller step only gets less done.
            self.floor = (self.entries * 2).min(self.most);
            self.entries = self.floor;
        } else if took > STEP * 2 {
            let half = (self.entries / 2).max(self.floor);
            self.long = (half < self.entries).then_some(took);
            self.entries = half;
        } else if took < STEP / 2 {
            self.entries = (self.entries * 2).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Duration = Duration::from_millis(5);

    /// Takes steps that take this long, and this long for each entry, while others write or not. Returns the last rest.
    fn after(pace: &mut Pace<i64>, steps: i64, work: (Duration, Duration), are_writing: bool) -> Duration {
        let (fixed, per_entry) = work;
        let mut rest = Duration::ZERO;
        for step in 0..steps {
            let took = fixed + per_entry * u32::try_from(pace.entries()).unwrap();
            rest = pace.rest_after(took, if are_writing { step } else { -1 });
        }
        rest
    }

    #[test]
    fn steps_are_short_while_others_write_and_large_otherwise() {
        let mut pace = Pace::new(9, SHORTEST, 1_024);
        let work = (Duration::from_millis(1), Duration::from_micros(50));
        let rest = after(&mut pace, 20, work, true);
        let took = work.0 + work.1 * u32::try_from(pace.entries()).unwrap();
        assert!(took <= STEP * 2 && took * 2 > STEP, "{took:?}");
        assert_eq!(rest, took * 9);
        after(&mut pace, 2, work, false);
        assert_eq!(pace.entries(), 1_024);
        assert_eq!(after(&mut pace, 20, (Duration::ZERO, Duration::ZERO), true), SHORTEST);
    }

    #[test]
    fn a_step_that_waits_does_not_get_less_done() {
        let mut pace = Pace::new(19, SHORTEST, 256);
        let wait = (Duration::from_millis(40), Duration::from_micros(20));
        for steps in 2..30 {
            after(&mut pace, steps, wait, true);
            assert!(pace.entries() >= 128, "{}", pace.entries());
        }
        // However slow it is, a step has some entries, and a rest an end.
        let rest = after(&mut pace, 20, (Duration::ZERO, Duration::from_secs(1)), true);
        assert!(pace.entries() >= LEAST && rest == LONGEST_REST, "{} {rest:?}", pace.entries());
    }

    #[test]
    fn a_small_bound_is_kept() {
        let mut pace = Pace::new(9, SHORTEST, 8);
        after(&mut pace, 5, (Duration::ZERO, Duration::from_secs(1)), true);
        assert_eq!(pace.entries(), 8);
    }
}
