//! What the feed needs from the database: what was committed without being published, what those who follow everything
//! should hear, and a look around in case something was missed.

use std::time::Duration;

use super::{FEED_TURN, every, note, tick, timely};
use crate::app::{Ctx, jobs, keys, streams};
use crate::shutdown::Tasks;

/// How often the database is asked for what was missed. Wake-ups make this rarely needed; it bounds what a lost one costs.
const LOOK_AROUND: Duration = Duration::from_millis(400);

/// How often those who follow everything are caught up although nothing was heard.
const TAIL: Duration = Duration::from_millis(250);

/// A pause between two looks at everything, so that many small commits are read together.
const TAIL_REST: Duration = Duration::from_millis(4);

/// Starts the feed's readers.
pub fn start(ctx: &Ctx, tasks: &Tasks) {
    let (task, stop) = (ctx.clone(), tasks.stopping().clone());
    tasks.spawn("feed fill", async move {
        while let Some(stale) = stop.run_until_cancelled(task.feed.stale()).await {
            for intent in stale {
                if let Err(failure) = timely(FEED_TURN, streams::fill(&task, intent)).await {
                    note("feed fill", &failure);
                }
            }
        }
    });
    let (task, stop) = (ctx.clone(), tasks.stopping().clone());
    tasks.spawn("feed tail", async move {
        loop {
            let heard = stop.run_until_cancelled(tokio::time::timeout(TAIL, task.feed.activity())).await;
            if heard.is_none() {
                return;
            }
            loop {
                match timely(FEED_TURN, streams::tail(&task)).await {
                    Ok(true) => tokio::time::sleep(TAIL_REST).await,
                    Ok(false) => break,
                    Err(failure) => {
                        note("feed tail", &failure);
                        break;
                    }
                }
            }
        }
    });
    let (task, stop) = (ctx.clone(), tasks.stopping().clone());
    tasks.spawn("feed look-around", async move {
        let mut ticks = every(LOOK_AROUND);
        while tick(&mut ticks, &stop).await.is_some() {
            if let Err(failure) = timely(FEED_TURN, streams::look_around(&task)).await {
                note("feed look-around", &failure);
            }
            if let Err(failure) = timely(FEED_TURN, jobs::look_around(&task)).await {
                note("jobs look-around", &failure);
            }
            if let Err(failure) = timely(FEED_TURN, keys::refresh(&task)).await {
                note("keys refresh", &failure);
            }
        }
    });
}
