//! Whose turn it is to sweep. Each sweep has a task, a period and a limit of its own, so that one that stands still delays no
//! other; as many run at once as have connections.

use std::sync::Arc;
use std::time::Duration;

use entente_kernel::Ctx;
use entente_runtime::deadlines::within;
use entente_runtime::metrics::SweepLabels;
use entente_runtime::tasks::Tasks;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Sweep;
use crate::background::{every, note, tick};

/// Sweeps that run at once; those that read whole logs run beside them.
const AT_ONCE: usize = 4;

/// Connections that sweeps need: one each, one for those that read whole logs, and one for a connection that is cleared after
/// its sweep ran out of time.
pub const CONNECTIONS: u32 = 6;

/// Runs of a sweep in a row at the most, one full batch each. One that never gets to its end then waits for its period, so that
/// a defect in it does not turn into a loop without a pause.
const IN_A_ROW: usize = 1_000;

/// Begins them all: `ctx` has a pool of which nobody else takes connections.
pub fn start(ctx: &Ctx, tasks: &Tasks) {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    for sweep in Sweep::ALL.iter().copied() {
        let (ctx, stopping) = (ctx.clone(), tasks.stopping().clone());
        // What reads whole logs takes long, and waits for nobody.
        let turns = if sweep.is_long() { Arc::new(Semaphore::new(1)) } else { Arc::clone(&turns) };
        tasks.keep_always("sweeps", move || drive(ctx.clone(), sweep, Arc::clone(&turns), stopping.clone()));
    }
}

/// Runs one sweep until the server stops.
async fn drive(ctx: Ctx, sweep: Sweep, turns: Arc<Semaphore>, stopping: CancellationToken) {
    let mut ticks = every(sweep.period());
    while tick(&mut ticks, &stopping).await.is_some() {
        if sweep.is_long() {
            // One that is given up in the middle has done nothing, and is done by whoever sweeps next.
            let _given_up =
                stopping.run_until_cancelled(Box::pin(work_off(&ctx, sweep, &turns, &stopping))).await;
        } else {
            Box::pin(work_off(&ctx, sweep, &turns, &stopping)).await;
        }
    }
}

/// Runs a sweep, and again at once while its batches come back full: what becomes due faster than one batch per period would
/// pile up without end.
async fn work_off(ctx: &Ctx, sweep: Sweep, turns: &Semaphore, stopping: &CancellationToken) {
    for _ in 0..IN_A_ROW {
        let Some(Ok(turn)) = stopping.run_until_cancelled(turns.acquire()).await else { return };
        let ran = within(sweep.limit(), sweep.run(ctx)).await;
        // Whoever has waited for a turn comes before the next batch.
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
                // Whatever it stood still at has turns to spare for the others.
                stopping.run_until_cancelled(sleep(sweep.limit())).await;
                return;
            }
        }
    }
}

impl Sweep {
    /// Whether it reads whole logs, for as long as that takes.
    fn is_long(self) -> bool {
        self == Self::Checkpoints
    }

    /// How long one run may take: some hundred times as long as a full batch does on a database that is well.
    fn limit(self) -> Duration {
        match self {
            Self::Checkpoints => Duration::from_mins(10),
            // Batches ten times as large, of what nobody waits for.
            _ if self.beats() >= 240 => Duration::from_mins(1),
            _ => Duration::from_secs(15),
        }
    }

    /// Whether there may be more, as the last run did so much.
    fn is_full(self, done: u64) -> bool {
        match self {
            // What was used or heard since the last time is there as a whole.
            Self::Heartbeats | Self::KeyUses => false,
            // It counts what somebody heard of, not what it has read; it answers with at least one while there is more.
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
