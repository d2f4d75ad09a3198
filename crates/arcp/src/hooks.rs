//! The hook of ARCP: versions of the wake keys of jobs and sessions.

use entente_kernel::hooks::{Hook, Reaction};
use entente_kernel::wakeups::WakeKey;

use crate::jobs;

/// The hooks of ARCP.
pub struct Arcp;

impl Hook for Arcp {
    fn versions<'a>(
        &'a self,
        ctx: &'a entente_kernel::Ctx,
        keys: &'a [WakeKey],
    ) -> Reaction<'a, Vec<(WakeKey, i64)>> {
        Box::pin(jobs::versions(ctx, keys))
    }
}
