//! The hook of ARCP: versions of the wake keys of jobs and sessions.

use std::sync::Arc;

use entente_kernel::hooks::{Hook, Reaction};
use entente_kernel::wakeups::WakeKey;

use crate::jobs;
use crate::{Ctx, State};

/// The hooks of ARCP.
pub struct Arcp(pub Arc<State>);

impl Hook for Arcp {
    fn versions<'a>(
        &'a self,
        ctx: &'a entente_kernel::Ctx,
        keys: &'a [WakeKey],
    ) -> Reaction<'a, Vec<(WakeKey, i64)>> {
        Box::pin(async move { jobs::versions(&Ctx::of(ctx, &self.0), keys).await })
    }
}
