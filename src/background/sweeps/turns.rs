//! Schedules the sweeps. Each sweep has its own task, period and time limit, so that a blocked one delays no
//! other; their concurrency is limited by their connections.

use std::sync::Arc;
use std::time::Duration;

use entente_bridges::Ctx;
use entente_runtime::deadlines::within;
use entente_runtime::metrics::SweepLabels;
use entente_runtime::tasks::Tasks;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Sweep;
use crate::background::lookout::Lookout;
use crate::background::{every, note, tick};

/// Concurrent sweeps; those that read whole logs run in addition.
const AT_ONCE: usize = 4;

/// Connections for sweeps: one each, one for each sweep that reads whole logs, and one for a connection that
/// is being cleaned up after its sweep ran out of time.
pub const CONNECTIONS: u32 = 7;

/// Most consecutive full batches of a sweep.
///
/// A sweep that never ends then waits for its period, so that a defect does not become a busy loop.
const IN_A_ROW: usize = 1_000;

/// Starts all sweeps; `ctx` must have a pool for their exclusive use.
pub fn start(ctx: &Ctx, lookout: &Arc<Lookout>, tasks: &Tasks) {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    for sweep in Sweep::ALL.iter().copied() {
        let (ctx, lookout, stopping) = (ctx.clone(), Arc::clone(lookout), tasks.stopping().clone());
        // A sweep of whole logs takes long and does not wait for a permit.
        let turns = if sweep.is_long() { Arc::new(Semaphore::new(1)) } else { Arc::clone(&turns) };
        tasks.keep_always("sweeps", move || {
            drive(ctx.clone(), sweep, Arc::clone(&lookout), Arc::clone(&turns), stopping.clone())
        });
    }
}

/// Runs one sweep until the server stops: when its period is over, and when the look-around has found work for it.
async fn drive(
    ctx: Ctx,
    sweep: Sweep,
    lookout: Arc<Lookout>,
    turns: Arc<Semaphore>,
    stopping: CancellationToken,
) {
    let mut ticks = every(sweep.period());
    while tick(&mut ticks, &stopping).await.is_some() {
        if sweep.is_announced() && stopping.run_until_cancelled(lookout.found(sweep.name())).await.is_none() {
            return;
        }
        if sweep.is_long() {
            // An interrupted run has no effect, and the next sweep does its work.
            let _given_up =
                stopping.run_until_cancelled(Box::pin(work_off(&ctx, sweep, &turns, &stopping))).await;
        } else {
            Box::pin(work_off(&ctx, sweep, &turns, &stopping)).await;
        }
    }
}

/// Runs a sweep, and repeats it at once while its batches are full: otherwise items that become due faster
/// than one batch per period would pile up without end.
async fn work_off(ctx: &Ctx, sweep: Sweep, turns: &Semaphore, stopping: &CancellationToken) {
    for _ in 0..IN_A_ROW {
        let Some(Ok(turn)) = stopping.run_until_cancelled(turns.acquire()).await else { return };
        let ran = within(sweep.limit(), sweep.run(ctx)).await;
        // Waiting sweeps take their turn before the next batch.
        drop(turn);
        match ran {
            Ok(Ok(done)) if sweep.is_full(done) && !stopping.is_cancelled() => {}
            Ok(Ok(_done)) => return,
            Ok(Err(failure)) => return note(sweep.name(), &failure),
            Err(_late) => {
                ctx.metrics.sweep_failures.get_or_create(&SweepLabels { sweep: sweep.name() }).inc();
                tracing::warn!(
                    sweep = sweep.name(),
                    limit.seconds = sweep.limit().as_secs(),
                    "a sweep has run out of time; what it has not done is done by the next"
                );
                // The cause of the delay must not take permits from the other sweeps.
                stopping.run_until_cancelled(sleep(sweep.limit())).await;
                return;
            }
        }
    }
}

impl Sweep {
    /// Returns whether the sweep reads whole logs.
    fn is_long(self) -> bool {
        matches!(self, Self::Checkpoints | Self::OldEvents)
    }

    /// Returns the time limit of one run: some hundred times a full batch's duration on a healthy database.
    fn limit(self) -> Duration {
        match self {
            Self::Checkpoints | Self::OldEvents => Duration::from_mins(10),
            // Rare clean-ups, most of them with ten times larger batches, that nothing waits for.
            _ if self.beats() >= 240 => Duration::from_mins(1),
            _ => Duration::from_secs(15),
        }
    }

    /// Returns whether more items may be due after a run that processed `done`.
    fn is_full(self, done: u64) -> bool {
        match self {
            // Each run writes everything collected since the last one.
            Self::Heartbeats | Self::KeyUses => false,
            // It counts matches, not the events that it read, but returns at least one while events are left.
            Self::TriggerEvents => done > 0,
            _ => i64::try_from(done).unwrap_or(i64::MAX) >= self.batch(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_batch_is_followed_by_another() {
        for sweep in Sweep::ALL.iter().copied() {
            let batch = u64::try_from(sweep.batch()).unwrap();
            let bounded = !matches!(sweep, Sweep::Heartbeats | Sweep::KeyUses);
            assert_eq!(sweep.is_full(batch), bounded, "{}", sweep.name());
            assert!(!sweep.is_full(0), "{} would never rest", sweep.name());
        }
        assert!(!Sweep::Idempotency.is_full(4_999) && Sweep::Idempotency.is_full(5_000));
    }
}
