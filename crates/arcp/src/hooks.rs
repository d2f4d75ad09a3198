//! What ARCP does when other protocols, or the kernel, change something.

use std::sync::Arc;

use super::jobs;
use crate::{Ctx, State};
use entente_kernel::hooks::{Hook, Reaction};
use entente_kernel::wakeups::WakeKey;

/// The hooks of ARCP.
pub struct Arcp(pub Arc<State>);

impl Arcp {
    fn ctx(&self, kernel: &entente_kernel::Ctx) -> Ctx {
        Ctx { kernel: Arc::new(kernel.clone()), state: Arc::clone(&self.0) }
    }
}

impl Hook for Arcp {
    fn versions<'a>(
        &'a self,
        ctx: &'a entente_kernel::Ctx,
        keys: &'a [WakeKey],
    ) -> Reaction<'a, Vec<(WakeKey, i64)>> {
        Box::pin(async move { jobs::versions(&self.ctx(ctx), keys).await })
    }
}
