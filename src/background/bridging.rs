//! Background task of the bridges, which transfer between envelopes, jobs and messages by explicit
//! configuration (`bridges/src/envelope_bridges.rs`), and submit the jobs of triggers (`bridges/src/trigger_jobs.rs`). Every server runs it; only one server at a time works on a given
//! bridge.

use std::sync::Arc;
use std::time::{Duration, Instant};

use entente_arcp::jobs::JobWriter;
use entente_bridges::{Ctx, envelope_bridges, trigger_jobs};
use entente_kernel::Outcome;
use entente_openintent::messages::writer::MessageWriter;
use tokio_util::sync::CancellationToken;

use super::lookout::{BRIDGES, Lookout};
use super::{TURN, every, note, tick, timely};

/// Shortest time between two runs.
const INTERVAL: Duration = Duration::from_millis(250);

/// Time between two clean-ups of old transfer records.
const TIDYING: Duration = Duration::from_mins(1);

/// Records removed per clean-up.
const FORGOTTEN: i64 = 5_000;

/// Runner of the bridges.
pub struct Bridging {
    ctx: Ctx,
    job_writer: Arc<JobWriter>,
    message_writer: Arc<MessageWriter>,
}

impl Bridging {
    /// Creates a runner that submits jobs and messages through the shared writers.
    #[must_use]
    pub fn new(ctx: &Ctx, message_writer: &Arc<MessageWriter>, job_writer: &Arc<JobWriter>) -> Self {
        Self {
            ctx: ctx.clone(),
            job_writer: Arc::clone(job_writer),
            message_writer: Arc::clone(message_writer),
        }
    }

    /// Runs until the server stops.
    pub async fn drive(self: Arc<Self>, lookout: Arc<Lookout>, stopping: CancellationToken) {
        let mut ticks = every(INTERVAL);
        let mut tidied = Instant::now();
        while tick(&mut ticks, &stopping).await.is_some() {
            if stopping.run_until_cancelled(lookout.found(BRIDGES)).await.is_none() {
                return;
            }
            loop {
                match timely(TURN, self.step()).await {
                    Ok(0) => break,
                    Ok(_more) if stopping.is_cancelled() => return,
                    Ok(_more) => {}
                    Err(failure) => {
                        note("bridges", &failure);
                        break;
                    }
                }
            }
            if tidied.elapsed() >= TIDYING {
                tidied = Instant::now();
                if let Err(failure) = envelope_bridges::forget(&self.ctx, FORGOTTEN).await {
                    note("carried long ago", &failure);
                }
            }
        }
    }

    /// Transfers one page of pending items, and returns their number.
    ///
    /// # Errors
    /// The database fails.
    pub async fn step(&self) -> Outcome<u64> {
        let jobs = trigger_jobs::step(&self.ctx, &self.job_writer).await?;
        Ok(jobs + envelope_bridges::step(&self.ctx, &self.job_writer, &self.message_writer).await?)
    }
}
