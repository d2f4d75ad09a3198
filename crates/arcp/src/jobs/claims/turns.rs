//! Whose turn it is in the queues, as this server remembers it. A hint: a server that starts begins with the first
//! principal.

use std::sync::{Mutex, PoisonError};

use entente_domain::canonical::{Digest, sha256};
use entente_runtime::cache::Cache;
use entente_runtime::metrics::Metrics;

/// Maximum number of remembered queues: more than a server has sets of workers.
const QUEUES: usize = 10_000;

/// The turn of a queue.
#[derive(Debug, Clone, Default)]
pub(in crate::jobs) struct QueueTurn {
    /// Principal that was served last.
    pub after: String,
    /// Whether jobs of several priorities or principals waited.
    pub several: bool,
}

/// The turns of the queues, each of some agents that a worker claims for, and of the sweep over concurrency keys.
#[derive(Debug)]
pub struct Turns(Cache<Digest, QueueTurn>, Mutex<String>);

impl Turns {
    /// Creates the memory of a server.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Self(Cache::new("turns", QUEUES, metrics), Mutex::default())
    }

    /// Returns the gate at which the last sweep ended; empty if it came to the end of all.
    pub(super) fn last_gate(&self) -> String {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers that gate.
    pub(super) fn note_gate(&self, gate: String) {
        *self.1.lock().unwrap_or_else(PoisonError::into_inner) = gate;
    }

    /// Returns the turn of a queue.
    pub(in crate::jobs) fn of(&self, agents: &[String]) -> QueueTurn {
        self.0.get(&name(agents)).unwrap_or_default()
    }

    /// Remembers the turn of a queue.
    pub(in crate::jobs) fn note(&self, agents: &[String], turn: QueueTurn) {
        self.0.put(name(agents), turn);
    }
}

/// A queue's agents are sorted.
fn name(agents: &[String]) -> Digest {
    sha256(agents.join("\n"))
}
