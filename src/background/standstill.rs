//! Detects suspensions of this process: it was stopped (SIGSTOP, a debugger), or its machine slept or was
//! migrated. A receiver that did not answer meanwhile is not at fault.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use entente_domain::clock::{Clock as _, Timestamp};
use entente_runtime::environment::SystemClock;
use entente_runtime::tasks::Tasks;
use tokio_util::sync::CancellationToken;

use super::{every, tick};

/// Interval of the ticks that show that the process runs.
const TICK: Duration = Duration::from_millis(100);

/// Gap between two ticks that a busy machine does not explain: the process was suspended.
const TOLERANCE: Duration = Duration::from_secs(1);

/// Total time that this process was suspended; zero until the first tick.
#[derive(Debug, Default)]
pub struct Standstill(Mutex<Option<Seen>>);

#[derive(Debug, Clone, Copy)]
struct Seen {
    steady: Instant,
    wall: Timestamp,
    lost: Duration,
}

impl Seen {
    /// Returns the lost time up to now.
    ///
    /// The monotonic clock advances while a process is stopped, but not while a machine sleeps; the wall
    /// clock advances in both cases. Setting the wall clock forward excuses one failure too many, which is
    /// harmless.
    fn lost_by(&self, steady: Instant, wall: Timestamp) -> Duration {
        let passed = (wall - self.wall)
            .to_std()
            .unwrap_or_default()
            .max(steady.saturating_duration_since(self.steady));
        if passed > TICK + TOLERANCE { self.lost + passed.saturating_sub(TICK) } else { self.lost }
    }
}

impl Standstill {
    /// Records that the process runs.
    fn tick(&self) {
        let (steady, wall) = (Instant::now(), SystemClock.now());
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = seen.map_or(Duration::ZERO, |seen| seen.lost_by(steady, wall));
        *seen = Some(Seen { steady, wall, lost });
    }

    /// Returns the time that the process has lost since its start, including the current gap: the caller may
    /// run before the next tick.
    #[must_use]
    pub fn lost(&self) -> Duration {
        let seen = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.map_or(Duration::ZERO, |seen| seen.lost_by(Instant::now(), SystemClock.now()))
    }
}

/// Starts the ticks.
pub fn start(standstill: &Arc<Standstill>, tasks: &Tasks) {
    let (standstill, stopping) = (Arc::clone(standstill), tasks.stopping().clone());
    tasks.keep("standstill", move || drive(Arc::clone(&standstill), stopping.clone()));
}

async fn drive(standstill: Arc<Standstill>, stopping: CancellationToken) {
    let mut ticks = every(TICK);
    while tick(&mut ticks, &stopping).await.is_some() {
        standstill.tick();
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn time_is_lost_by_a_gap_on_either_clock_and_by_no_delay() {
        let (steady, wall) = (Instant::now(), SystemClock.now());
        let seen = Seen { steady, wall, lost: Duration::from_secs(7) };
        let by = |steadily: u64, on_the_wall: i64| {
            let lost = seen.lost_by(
                steady + Duration::from_millis(steadily),
                wall + TimeDelta::milliseconds(on_the_wall),
            );
            lost.as_millis()
        };
        assert_eq!(by(100, 100), 7_000, "a tick");
        assert_eq!(by(900, 900), 7_000, "a busy machine");
        assert_eq!(by(4_100, 4_100), 11_000, "stopped for four seconds");
        assert_eq!(by(100, 3_600_100), 3_607_000, "slept for an hour");
        assert_eq!(by(100, -60_000), 7_000, "the clock was set back");
        assert_eq!(Standstill::default().lost(), Duration::ZERO, "nobody ticks");
    }
}
