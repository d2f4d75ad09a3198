//! Indexes words for the search, soon after the commit (`kernel/src/audit/search/follower.rs`). Every server runs it; only one at a
//! time works.
//!
//! Indexing a message costs more than writing it. So with a backlog the task rests longer than it works while others write, and
//! the search lags behind rather than slow them down.

use std::sync::Arc;
use std::time::Duration;

use entente_bridges::Ctx;
use entente_kernel::audit::search;
use entente_runtime::tasks::Tasks;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::lookout::{Lookout, SEARCH};
use super::pace::Pace;
use super::{TURN, keep, note, timely};

/// How much longer than its work a rest is while others write: so it works a twentieth of the time.
const BUSY_REST: u32 = 19;

/// Shortest rest between two steps, so that many small commits are indexed together.
const REST: Duration = Duration::from_millis(20);

/// Starts the task.
pub(super) fn start(ctx: &Ctx, lookout: &Arc<Lookout>, tasks: &Tasks) {
    let lookout = Arc::clone(lookout);
    keep(ctx, tasks, "search", move |ctx, stopping| drive(ctx, Arc::clone(&lookout), stopping));
}

async fn drive(ctx: Ctx, lookout: Arc<Lookout>, stopping: CancellationToken) {
    let mut pace = Pace::new(BUSY_REST, REST, search::ENTRIES);
    while stopping.run_until_cancelled(lookout.found(SEARCH)).await.is_some() {
        loop {
            let began = Instant::now();
            let step = match timely(TURN, search::step(&ctx, pace.entries())).await {
                Ok(step) => step,
                Err(failure) => {
                    note("search", &failure);
                    break;
                }
            };
            if !step.has_more {
                break;
            }
            let rest = pace.rest_after(began.elapsed(), step.ends);
            if stopping.run_until_cancelled(sleep(rest)).await.is_none() {
                return;
            }
        }
    }
}
