//! Follower of agents' inboxes: writes entries soon after the commit of the records that they refer to
//! (`kernel/src/inbox/follower.rs`).

use std::sync::Arc;
use std::time::Duration;

use entente_bridges::Ctx;
use entente_kernel::inbox::follower;
use entente_kernel::inbox::follower::Step;
use entente_kernel::wakeups::inboxes::Mailboxes;
use entente_kernel::{Outcome, inbox};
use entente_runtime::tasks::Tasks;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::lookout::{INBOXES, Lookout};
use super::{TURN, keep, note, timely};

/// Longest pause without a wake-up while an inbox is open: other servers commit too, and may die before they tell.
const INTERVAL: Duration = Duration::from_millis(300);

/// Pause between two steps, so that many small commits are handled together.
const REST: Duration = Duration::from_millis(10);

/// Pause while another server writes: its next step may cover the commits of this server, too.
const BUSY_REST: Duration = Duration::from_millis(100);

/// Starts the follower.
pub fn start(ctx: &Ctx, lookout: &Arc<Lookout>, tasks: &Tasks) {
    let lookout = Arc::clone(lookout);
    keep(ctx, tasks, "inboxes", move |ctx, stopping| drive(ctx, Arc::clone(&lookout), stopping));
}

async fn drive(ctx: Ctx, lookout: Arc<Lookout>, stopping: CancellationToken) {
    while let Some(is_told) = stopping.run_until_cancelled(woken(&ctx, &lookout)).await {
        // Without a wake-up of its own it looks at all mailboxes, for those that a server that died has filled.
        let mailboxes = if is_told { ctx.feed.inboxes().take_mailboxes() } else { Mailboxes::All };
        if let Err(failure) = all(&ctx, mailboxes).await {
            note("inboxes", &failure);
        }
        match timely(TURN, inbox::is_any_open(&ctx)).await {
            Ok(open) => ctx.feed.inboxes().set_enabled(open),
            Err(failure) => note("inboxes", &failure),
        }
    }
}

/// Resolves at the next commit here, and returns true; or once an inbox is open and the interval is over.
async fn woken(ctx: &Ctx, lookout: &Lookout) -> bool {
    tokio::select! {
        () = ctx.feed.inboxes().stirred() => true,
        () = async {
            sleep(INTERVAL).await;
            lookout.found(INBOXES).await;
        } => false,
    }
}

/// Runs until nothing is left to write. While another server writes, it tries again: that server's last step may have
/// begun before changes that were committed here meanwhile, and leave them over.
async fn all(ctx: &Ctx, mailboxes: Mailboxes) -> Outcome<()> {
    let names = match &mailboxes {
        Mailboxes::These(names) => Some(names.as_slice()),
        Mailboxes::All => None,
    };
    loop {
        match timely(TURN, follower::step(ctx, names)).await? {
            Step::Idle => return Ok(()),
            Step::More => sleep(REST).await,
            Step::Busy => sleep(BUSY_REST).await,
        }
    }
}

/// Writes everything that is left, for tests without background tasks.
///
/// # Errors
/// The database fails.
pub async fn catch_up(ctx: &Ctx) -> Outcome<()> {
    all(ctx, Mailboxes::All).await
}
