//! What the feed needs from the database: what was committed without being published, what those who follow everything
//! should hear, and a look around in case something was missed.

use std::time::Duration;

use entente_kernel::{Ctx, jobs, keys, streams};
use entente_runtime::tasks::Tasks;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{FEED_TURN, every, keep, note, tick, timely};

/// How often the database is asked for what was missed. Wake-ups make this rarely needed; it bounds what a lost one costs.
const LOOK_AROUND: Duration = Duration::from_millis(400);

/// How often those who follow everything are caught up although nothing was heard.
const TAIL: Duration = Duration::from_millis(250);

/// A pause between two looks at everything, so that many small commits are read together.
const TAIL_REST: Duration = Duration::from_millis(4);

/// Starts the feed's readers.
pub fn start(ctx: &Ctx, tasks: &Tasks) {
    keep(ctx, tasks, "feed fill", fill);
    keep(ctx, tasks, "feed tail", tail);
    keep(ctx, tasks, "feed look-around", look_around);
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

async fn look_around(ctx: Ctx, stopping: CancellationToken) {
    let mut ticks = every(LOOK_AROUND);
    while tick(&mut ticks, &stopping).await.is_some() {
        if let Err(failure) = timely(FEED_TURN, streams::look_around(&ctx)).await {
            note("feed look-around", &failure);
        }
        if let Err(failure) = timely(FEED_TURN, jobs::look_around(&ctx)).await {
            note("jobs look-around", &failure);
        }
        if let Err(failure) = timely(FEED_TURN, keys::refresh(&ctx)).await {
            note("keys refresh", &failure);
        }
    }
}
