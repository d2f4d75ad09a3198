//! Bridging: carrying between envelopes, jobs and messages what somebody has said is to be carried (`kernel/src/bridges.rs`). Every
//! server does; one at a time has a bridge in hand.

use std::sync::Arc;
use std::time::Duration;

use entente_kernel::jobs::Works;
use entente_kernel::sends::Sends;
use entente_kernel::{Ctx, Outcome, bridges};
use tokio_util::sync::CancellationToken;

use super::{TURN, every, note, tick, timely};

/// How often it is looked whether there is something to carry.
const BEAT: Duration = Duration::from_millis(250);

/// In which beats what was carried long ago is forgotten: every so many.
const TIDYING: u64 = 240;

/// What is forgotten at once.
const FORGOTTEN: i64 = 5_000;

/// Who carries.
pub struct Bridging {
    ctx: Ctx,
    works: Arc<Works>,
    sends: Arc<Sends>,
}

impl Bridging {
    /// One who hands jobs and messages in where everybody does.
    #[must_use]
    pub fn new(ctx: &Ctx, sends: &Arc<Sends>, works: &Arc<Works>) -> Self {
        Self { ctx: ctx.clone(), works: Arc::clone(works), sends: Arc::clone(sends) }
    }

    /// Carries until the server stops.
    pub async fn drive(self: Arc<Self>, stopping: CancellationToken) {
        let mut ticks = every(BEAT);
        let mut beat = 0_u64;
        while tick(&mut ticks, &stopping).await.is_some() {
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
            beat += 1;
            if beat.is_multiple_of(TIDYING)
                && let Err(failure) = bridges::forget(&self.ctx, FORGOTTEN).await
            {
                note("carried long ago", &failure);
            }
        }
    }

    /// Carries a stretch of what there is; answers with how much that was.
    ///
    /// # Errors
    /// The database.
    pub async fn step(&self) -> Outcome<u64> {
        bridges::step(&self.ctx, &self.works, &self.sends).await
    }
}
