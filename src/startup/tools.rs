//! Starts the executor of tool calls (RFC-0014).

use std::sync::Arc;

use entente_bridges::Ctx;
use entente_openintent::tools::invocations::CallQueue;
use entente_runtime::tasks::Tasks;
use entente_store::Pool;
use entente_store::pooling::Route;
use tokio::sync::Mutex;

use super::StartError;
use crate::background::calling::Calling;
use crate::background::egress::{Egress, Trust};

/// Connections for tool calls: a call holds one while it waits for its vault, and no writer must wait for
/// that.
const TOOL_CONNECTIONS: u32 = 6;

/// Starts the executor on the current runtime; returns the queue that accepts calls, and the executor's own
/// pool.
///
/// # Errors
/// The HTTP client for tools cannot be set up.
pub(super) fn start(
    ctx: &Ctx,
    route: Route,
    trust: &Trust,
    tasks: &Tasks,
) -> Result<(CallQueue, Pool), StartError> {
    let (desk, orders) = CallQueue::new();
    let egress = Egress::to_tools(&ctx.openintent.state.vaults.allowed, trust).map_err(StartError::Egress)?;
    let pool = entente_store::pool(route, TOOL_CONNECTIONS, tasks.leaving());
    let ctx = ctx.with_pool(pool.clone());
    let (calling, orders) = (Calling::new(ctx, egress, tasks), Arc::new(Mutex::new(orders)));
    let all = tasks.clone();
    tasks.keep("tool calls", move || Arc::clone(&calling).drive(Arc::clone(&orders), all.clone()));
    Ok((desk, pool))
}
