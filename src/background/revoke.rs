//! Revokes due credentials at their upstreams, and records the outcomes
//! (`crates/arcp/src/credentials/revoking.rs`). No transaction is open during a request; an upstream that hangs
//! delays only its own revocations until all permits are in use.

use std::sync::Arc;

use entente_arcp::credentials;
use entente_arcp::credentials::{Due, ProvisionerError};
use entente_bridges::Ctx;
use entente_kernel::Outcome;
use entente_runtime::tasks::Tasks;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Semaphore;

use super::lookout::{Lookout, REVOCATIONS};
use super::{TURN, note, timely};

/// Concurrent revocations.
const PERMITS: usize = 32;

/// Revokes due credentials until the server stops.
pub async fn drive(ctx: Ctx, lookout: Arc<Lookout>, tasks: Tasks) {
    let permits = Arc::new(Semaphore::new(PERMITS));
    loop {
        tokio::select! {
            () = tasks.stopping().cancelled() => return,
            () = ctx.arcp.state.provisioners.queued() => {}
            () = lookout.found(REVOCATIONS) => {}
        }
        let free = permits.available_permits();
        if free == 0 {
            continue;
        }
        match timely(TURN, credentials::claim(&ctx.arcp, free)).await {
            Ok(due) => {
                for one in due {
                    let (ctx, permit) = (ctx.clone(), Arc::clone(&permits).try_acquire_owned());
                    let stop = tasks.stopping().clone();
                    tasks.spawn("revocation", async move {
                        // An interrupted revocation is repeated by the next claim.
                        if let Some(Err(failure)) = stop.run_until_cancelled(take_back(&ctx, one)).await {
                            note("revocations", &failure);
                        }
                        drop(permit);
                    });
                }
            }
            Err(failure) => note("revocation claims", &failure),
        }
    }
}

/// Revokes until nothing is due, for tests; returns the number of attempts.
///
/// # Errors
/// The database fails.
pub async fn step(ctx: &Ctx) -> Outcome<usize> {
    let mut made = 0;
    loop {
        let due = credentials::claim(&ctx.arcp, PERMITS).await?;
        if due.is_empty() {
            return Ok(made);
        }
        made += due.len();
        let mut under_way: FuturesUnordered<_> = due.into_iter().map(|one| take_back(ctx, one)).collect();
        while let Some(done) = under_way.next().await {
            done?;
        }
    }
}

/// Makes one attempt.
async fn take_back(ctx: &Ctx, due: Due) -> Outcome<()> {
    let answer = match ctx.arcp.state.provisioners.named(&due.provisioner) {
        Some(provisioner) => provisioner.upstream.revoke(&due.target).await,
        None => Err(ProvisionerError {
            why: format!("no provisioner is called `{}` any more; configure it again", due.provisioner),
            retry_after: None,
            perhaps: false,
        }),
    };
    credentials::record(&ctx.arcp, &due, answer).await
}
