//! Turns of bundles: a server writes and takes few at a time, and each principal has some of them at most, so that one with slow
//! readers keeps nobody else waiting.

use std::time::Duration;

use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{AppError, BundlePlace, Caller, Outcome};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::Ctx;

/// Maximum number of bundles of one principal that a server writes or takes at once.
const OWN: u64 = 2;

/// Time that a request waits for its turn.
const WAIT: Duration = Duration::from_secs(20);

/// The right to write or take a bundle; ends when it is dropped.
pub(super) struct BundleTurn {
    _of_principal: BundlePlace,
    _of_server: SemaphorePermit<'static>,
}

impl BundleTurn {
    /// Waits for a turn, of which a server has as many as `turns` has permits.
    ///
    /// # Errors
    /// [`Code::RateLimited`] if the caller's principal has as many as it may; [`AppError::Unavailable`] if all are taken for long.
    pub(super) async fn take(turns: &'static Semaphore, ctx: &Ctx, caller: &Caller) -> Outcome<Self> {
        let principal = caller.principal();
        let Some(of_principal) = ctx.quotas.usage(principal).open_bundle(OWN) else {
            let message = format!(
                "{principal} has {OWN} bundles under way on this server, as many as it may. Read them to their ends first."
            );
            let refusal =
                Refusal { retry_after_seconds: Some(5), ..Refusal::new(Code::RateLimited, message) };
            return Err(refusal.into());
        };
        match timeout(WAIT, turns.acquire()).await {
            Ok(Ok(of_server)) => Ok(Self { _of_principal: of_principal, _of_server: of_server }),
            _ => Err(AppError::Unavailable("the server writes other bundles".to_owned())),
        }
    }
}
