//! Handing out: has what happened queued for its receivers, soon after it happened, and replays done (`kernel/src/fanout.rs`,
//! `kernel/src/replays.rs`).

use std::time::Duration;

use entente_kernel::{Ctx, Outcome, fanout, replays};
use entente_runtime::tasks::Tasks;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{TURN, keep, note, timely};

/// How often it is looked although nothing was heard: other servers commit too.
const BEAT: Duration = Duration::from_millis(300);

/// A pause between two steps, so that many small commits are handed out together.
const REST: Duration = Duration::from_millis(10);

/// Starts handing out.
pub fn start(ctx: &Ctx, tasks: &Tasks) {
    keep(ctx, tasks, "webhook fan-out", drive);
}

async fn drive(ctx: Ctx, stopping: CancellationToken) {
    while stopping.run_until_cancelled(timeout(BEAT, ctx.feed.stirred())).await.is_some() {
        if let Err(failure) = all(&ctx).await {
            note("webhook fan-out", &failure);
        }
        let heard = ctx.webhooks.has_listeners().await;
        ctx.feed.set_stirring(heard);
    }
}

/// Hands out all there is.
async fn all(ctx: &Ctx) -> Outcome<()> {
    while timely(TURN, round(ctx)).await? {
        sleep(REST).await;
    }
    Ok(())
}

/// Hands out a stretch of what is new and one of what is handed out again: under load there is always something new, and a
/// replay gets on all the same. True when there may be more.
///
/// # Errors
/// The database.
pub async fn round(ctx: &Ctx) -> Outcome<bool> {
    let (new, old) = (fanout::step(ctx).await?, replays::step(ctx).await?);
    Ok(new || old)
}
