//! Follower of agents' talk, for loops and storms (`kernel/src/loops/follower.rs`). Every server runs it; only one at a time
//! works.
//!
//! The look-around wakes it, so that a send costs nothing more. With a backlog it rests longer than it works while others
//! write, and finds loops later rather than slow them down.

use std::sync::Arc;
use std::time::Duration;

use entente_bridges::Ctx;
use entente_kernel::Outcome;
use entente_kernel::loops::follower::{self, Step};
use entente_runtime::tasks::Tasks;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::lookout::{LOOP_HOLDS, LOOPS, Lookout};
use super::pace::Pace;
use super::{FEED_TURN, TURN, keep, note, timely};

/// How much longer than its work a rest is while others write: so it works a tenth of the time.
const BUSY_REST: u32 = 9;

/// Shortest rest between two steps.
const REST: Duration = Duration::from_millis(10);

/// Starts the follower, and the renewal of this server's copy of the holds.
pub fn start(ctx: &Ctx, lookout: &Arc<Lookout>, tasks: &Tasks) {
    let (look, holds) = (Arc::clone(lookout), Arc::clone(lookout));
    keep(ctx, tasks, "loops", move |ctx, stopping| drive(ctx, Arc::clone(&look), stopping));
    keep(ctx, tasks, "holds refresh", move |ctx, stopping| refresh(ctx, Arc::clone(&holds), stopping));
}

async fn drive(ctx: Ctx, lookout: Arc<Lookout>, stopping: CancellationToken) {
    let mut pace = Pace::new(BUSY_REST, REST, follower::ENTRIES);
    while stopping.run_until_cancelled(lookout.found(LOOPS)).await.is_some() {
        if stopping.run_until_cancelled(all(&ctx, &mut pace)).await.is_none() {
            return;
        }
    }
}

async fn all(ctx: &Ctx, pace: &mut Pace<i64>) {
    loop {
        let began = Instant::now();
        let step = match timely(TURN, turn(ctx, pace.entries())).await {
            Ok(step) => step,
            Err(failure) => return note("loops", &failure),
        };
        let Step::More(reached) = step else { return };
        sleep(pace.rest_after(began.elapsed(), reached)).await;
    }
}

/// One step, and the events that it and others have left.
async fn turn(ctx: &Ctx, entries: i64) -> Outcome<Step> {
    let step = follower::step(ctx, entries).await?;
    follower::announce(ctx).await?;
    Ok(step)
}

/// Renews the copy of the holds after a change on another server.
async fn refresh(ctx: Ctx, lookout: Arc<Lookout>, stopping: CancellationToken) {
    while stopping.run_until_cancelled(lookout.found(LOOP_HOLDS)).await.is_some() {
        if let Err(failure) = timely(FEED_TURN, ctx.loops.refresh(&ctx)).await {
            note("holds refresh", &failure);
        }
    }
}

/// Reads everything that is left, for tests without background tasks.
///
/// # Errors
/// The database fails.
pub async fn catch_up(ctx: &Ctx) -> Outcome<()> {
    while let Step::More(_) = turn(ctx, follower::ENTRIES).await? {}
    Ok(())
}
