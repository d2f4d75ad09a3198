//! OpenIntent: the use cases of RFC-0001 to RFC-0025, one file per noun.

pub mod agents;
pub mod approvals;
pub mod arbitration;
pub mod attachments;
pub mod channels;
pub mod coordinators;
pub mod costs;
pub mod escalations;
pub mod failures;
pub mod federation;
pub mod governance;
pub mod graphs;
pub mod hooks;
pub mod intents;
pub mod leases;
pub mod memory;
mod memory_entries;
pub mod messages;
pub mod portfolios;
pub mod suspensions;
pub mod tasks;
pub mod tools;
pub mod triggers;

use entente_domain::openintent::federation::Federation;
use entente_kernel::ProtocolCtx;

use crate::tools::vaults::VaultSettings;

/// State of OpenIntent.
#[derive(Debug)]
pub struct State {
    /// The federated servers; `None` when federation is off.
    pub federation: Option<Federation>,
    /// Vault and tool settings.
    pub vaults: VaultSettings,
}

/// Context of the operations.
pub type Ctx = ProtocolCtx<State>;
