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

use entente_domain::ids::{ChannelId, IntentId, TaskId};
use entente_domain::openintent::federation::Federation;
use entente_kernel::channels::access::ChannelAccess;
use entente_kernel::intents::IntentAs;
use entente_kernel::{Outcome, ProtocolCtx};
use entente_runtime::cache::Cache;
use entente_runtime::loader::Loader;
use entente_runtime::metrics::Metrics;

use crate::tools::vaults::VaultSettings;

/// State of OpenIntent.
#[derive(Debug)]
pub struct State {
    /// The federated servers; `None` when federation is off.
    pub federation: Option<Federation>,
    /// Vault and tool settings.
    pub vaults: VaultSettings,
    /// Cache of the intent of each task, which never changes.
    pub task_intents: Cache<TaskId, IntentId>,
    /// Channels whose messages somebody reads.
    pub channels: Loader<(ChannelId, String), ChannelAccess>,
    /// Intents that somebody reads.
    pub intents: Loader<(IntentId, String), Outcome<IntentAs>>,
}

/// Maximum number of tasks in the cache; the least recently used one is dropped.
const TASKS: usize = 100_000;

impl State {
    /// Creates the state, with empty caches.
    #[must_use]
    pub fn new(federation: Option<Federation>, vaults: VaultSettings, metrics: &Metrics) -> Self {
        let task_intents = Cache::new("task_intents", TASKS, metrics);
        Self { federation, vaults, task_intents, channels: Loader::default(), intents: Loader::default() }
    }
}

/// Context of the operations.
pub type Ctx = ProtocolCtx<State>;
