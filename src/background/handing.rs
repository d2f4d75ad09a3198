//! Webhook fan-out: queues new events for their receivers soon after the commit, and works on replays
//! (`kernel/src/webhooks/fanout.rs`, `kernel/src/webhooks/replays.rs`).

use std::sync::Arc;
use std::time::Duration;

use entente_bridges::Ctx;
use entente_kernel::Outcome;
use entente_kernel::webhooks::{fanout, replays};
use entente_runtime::tasks::Tasks;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::lookout::{FAN_OUT, Lookout};
use super::{TURN, keep, note, timely};

/// Longest pause without a wake-up while there are receivers: other servers commit too.
const INTERVAL: Duration = Duration::from_millis(300);

/// Pause between two steps, so that many small commits are handled together.
const REST: Duration = Duration::from_millis(10);

/// Starts the fan-out.
pub fn start(ctx: &Ctx, lookout: &Arc<Lookout>, tasks: &Tasks) {
    let lookout = Arc::clone(lookout);
    keep(ctx, tasks, "webhook fan-out", move |ctx, stopping| drive(ctx, Arc::clone(&lookout), stopping));
}

async fn drive(ctx: Ctx, lookout: Arc<Lookout>, stopping: CancellationToken) {
    while stopping.run_until_cancelled(woken(&ctx, &lookout)).await.is_some() {
        if let Err(failure) = all(&ctx).await {
            note("webhook fan-out", &failure);
        }
        let heard = ctx.webhooks.has_listeners().await;
        ctx.feed.set_webhook_wakeup(heard);
    }
}

/// Resolves at the next commit, or once there are receivers and the interval is over.
async fn woken(ctx: &Ctx, lookout: &Lookout) {
    tokio::select! {
        () = ctx.feed.webhook_wakeup() => {}
        () = async {
            sleep(INTERVAL).await;
            lookout.found(FAN_OUT).await;
        } => {}
    }
}

/// Runs until nothing is left to queue.
async fn all(ctx: &Ctx) -> Outcome<()> {
    while timely(TURN, round(ctx)).await? {
        sleep(REST).await;
    }
    Ok(())
}

/// Queues one page of new events and one page of replays, so that replays make progress under load.
///
/// Returns whether there may be more.
///
/// # Errors
/// The database fails.
pub async fn round(ctx: &Ctx) -> Outcome<bool> {
    let (new, old) = (fanout::step(ctx).await?, replays::step(ctx).await?);
    Ok(new || old)
}
