//! Starts who calls tools (RFC-0014).

use std::sync::Arc;

use entente_kernel::Ctx;
use entente_kernel::invocations::Desk;
use entente_runtime::tasks::Tasks;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::Mutex;

use super::StartError;
use crate::background::calling::Calling;
use crate::background::egress::{Egress, Names};

/// Connections of those who call tools: a call waits for its vault with one in its hand, and no writer is to wait for that.
const TOOL_CONNECTIONS: u32 = 6;

/// Starts who calls tools, on the runtime that the server is started on; the desk where calls are handed in, and the pool that
/// is theirs alone.
///
/// # Errors
/// The client that calls cannot be set up.
pub(super) fn start(
    ctx: &Ctx,
    database: PgConnectOptions,
    names: &Arc<dyn Names>,
    tasks: &Tasks,
) -> Result<(Desk, PgPool), StartError> {
    let (desk, orders) = Desk::new();
    let egress =
        Egress::to_tools(&ctx.settings.vaults.allowed, Arc::clone(names)).map_err(StartError::Egress)?;
    let pool = entente_store::pool(database, TOOL_CONNECTIONS, tasks.draining());
    let ctx = Ctx { pool: pool.clone(), ..ctx.clone() };
    let (calling, orders) = (Calling::new(ctx, egress, tasks), Arc::new(Mutex::new(orders)));
    let all = tasks.clone();
    tasks.keep("tool calls", move || Arc::clone(&calling).drive(Arc::clone(&orders), all.clone()));
    Ok((desk, pool))
}
