//! One run of a bridge: the contexts, writers and caller that every kind of bridge works with, and the number of
//! items in a step.

use entente_arcp::jobs::JobWriter;
use entente_kernel::Caller;
use entente_openintent::messages::writer::MessageWriter;

use super::BridgeRecord;
use crate::Ctx;

/// Maximum number of items that a bridge carries in one step.
pub(super) const STRETCH: u32 = 32;

/// One run of a bridge, with everything it needs.
pub(super) struct BridgeRun<'a> {
    pub ctx: &'a Ctx,
    pub job_writer: &'a JobWriter,
    pub message_writer: &'a MessageWriter,
    pub kept: &'a BridgeRecord,
    /// The caller that the bridge acts as.
    pub caller: Caller,
}
