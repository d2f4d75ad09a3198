//! Readers that keep the feed up to date with the database: intents with unpublished commits, followers of
//! everything, and a periodic check for missed notifications.

use std::sync::Arc;
use std::time::Duration;

use entente_arcp::jobs;
use entente_bridges::Ctx;
use entente_kernel::feed::streams;
use entente_kernel::identity::keys;
use entente_runtime::tasks::Tasks;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::lookout::{KEYS, Lookout};
use super::{FEED_TURN, every, keep, note, tick, timely};

/// Interval of the check for missed commits.
///
/// Wake-ups make it rarely necessary; it bounds the delay after a lost one.
const POLL: Duration = Duration::from_millis(400);

/// Longest time between two updates for followers of everything.
const TAIL: Duration = Duration::from_millis(250);

/// Pause between two such reads, so that many small commits are read together.
const TAIL_REST: Duration = Duration::from_millis(4);

/// Starts the feed's readers.
pub fn start(ctx: &Ctx, lookout: &Arc<Lookout>, tasks: &Tasks) {
    keep(ctx, tasks, "feed fill", fill);
    keep(ctx, tasks, "feed tail", tail);
    keep(ctx, tasks, "feed look-around", poll);
    let lookout = Arc::clone(lookout);
    keep(ctx, tasks, "keys refresh", move |ctx, stopping| refresh(ctx, Arc::clone(&lookout), stopping));
}

async fn fill(ctx: Ctx, stopping: CancellationToken) {
    while let Some(stale) = stopping.run_until_cancelled(ctx.feed.stale()).await {
        for intent in stale {
            if let Err(failure) = timely(FEED_TURN, streams::fill(&ctx, intent)).await {
                note("feed fill", &failure);
            }
        }
    }
}

async fn tail(ctx: Ctx, stopping: CancellationToken) {
    while stopping.run_until_cancelled(timeout(TAIL, ctx.feed.activity())).await.is_some() {
        loop {
            match timely(FEED_TURN, streams::tail(&ctx)).await {
                Ok(true) => sleep(TAIL_REST).await,
                Ok(false) => break,
                Err(failure) => {
                    note("feed tail", &failure);
                    break;
                }
            }
        }
    }
}

async fn poll(ctx: Ctx, stopping: CancellationToken) {
    let mut ticks = every(POLL);
    while tick(&mut ticks, &stopping).await.is_some() {
        if let Err(failure) = timely(FEED_TURN, streams::poll_topics(&ctx)).await {
            note("feed look-around", &failure);
        }
        if let Err(failure) = timely(FEED_TURN, streams::poll_wakeups(&ctx)).await {
            note("wake-ups look-around", &failure);
        }
        if let Err(failure) = timely(FEED_TURN, jobs::poll_pending(&ctx.arcp)).await {
            note("jobs look-around", &failure);
        }
    }
}

/// Forgets keys that other servers changed without notice.
async fn refresh(ctx: Ctx, lookout: Arc<Lookout>, stopping: CancellationToken) {
    while stopping.run_until_cancelled(lookout.found(KEYS)).await.is_some() {
        if let Err(failure) = timely(FEED_TURN, keys::refresh(&ctx)).await {
            note("keys refresh", &failure);
        }
    }
}
