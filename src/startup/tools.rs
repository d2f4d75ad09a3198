//! Starts who calls tools (RFC-0014).

use std::sync::Arc;

use crate::app::Ctx;
use crate::app::invocations::Desk;
use crate::background::calling::Calling;
use crate::background::egress::{Egress, Names};
use crate::shutdown::Tasks;

/// Starts who calls tools, on the runtime that the server is started on; the desk where calls are handed in.
///
/// # Errors
/// The client that calls cannot be set up.
pub(super) fn start(ctx: &Ctx, names: Arc<dyn Names>, tasks: &Tasks) -> Result<Desk, String> {
    let (desk, orders) = Desk::new();
    let egress = Egress::to_tools(&ctx.settings.vaults.allowed, names)?;
    tasks.spawn("tool calls", Calling::new(ctx.clone(), egress, tasks).drive(orders, tasks.clone()));
    Ok(desk)
}
