//! How a transaction begins: the locks that it waits for, and the fences without which it does not begin. Each fence calls a
//! function of the schema (`require_epoch`, `require_lease`, `require_task`, `require_job`:
//! `migrations/20261127150000_fences.sql`).

use std::time::Duration;

use entente_domain::canonical::hex;
use entente_domain::identity::fences::Fence;

use crate::limits::AT_ONCE;

/// Time that a transaction may be idle while it guards exclusive work on other connections.
const GUARD: Duration = Duration::from_secs(30);

/// How a transaction begins: the locks that it waits for, and its time limits.
#[derive(Debug, Clone, Default)]
pub struct Beginning {
    /// Advisory locks, taken in this order.
    locks: Vec<i64>,
    /// Time that the transaction waits for any lock, instead of the connection's limit.
    patience: Option<Duration>,
    /// Time that it may be idle, instead of the connection's limit.
    idle: Option<Duration>,
}

/// Begins a transaction which only holds a lock while work is done elsewhere.
#[must_use]
pub fn begin_guard() -> Beginning {
    Beginning { idle: Some(GUARD), ..Beginning::default() }
}

/// Begins a transaction with these advisory locks, each waited for up to `patience`, or up to the connection's limit.
#[must_use]
pub fn begin_with_locks(locks: Vec<i64>, patience: Option<Duration>) -> Beginning {
    Beginning { locks, patience, idle: None }
}

/// Begins a transaction which hardly waits for locks ([`AT_ONCE`]).
#[must_use]
pub fn begin_at_once() -> Beginning {
    Beginning { patience: Some(AT_ONCE), ..Beginning::default() }
}

impl Beginning {
    /// Returns the SQL, which takes one round trip. It fails unless each of the fences holds; they hold until the transaction
    /// ends.
    ///
    /// `BEGIN` comes last and includes the preceding statements in its transaction (PostgreSQL, "Multiple Statements in a
    /// Simple Query"): when a lock is not granted, or a fence is broken, no transaction is left open, and the connection is as
    /// good as before.
    ///
    /// Epochs come before the advisory locks: who opens a session waits for the writes of the one before, and nobody may
    /// wait for that with the lock of an intent. Leases and claims come after them: they end under the lock of their
    /// intent, and who has that would wait for a write that waits for the lock.
    pub(super) fn sql(&self, fences: &[Fence]) -> String {
        let milliseconds =
            |name: &str, time: Duration| format!("SET LOCAL {name} = '{}ms'", time.as_millis());
        let patience = self.patience.map(|time| milliseconds("lock_timeout", time));
        let idle = self.idle.map(|time| milliseconds("idle_in_transaction_session_timeout", time));
        let (epochs, others): (Vec<&Fence>, Vec<&Fence>) =
            fences.iter().partition(|fence| fence.epoch().is_some());
        let parts =
            [patience, idle, require(&epochs), lock(&self.locks), require(&others), Some("BEGIN".to_owned())];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// Returns the SQL that takes these advisory locks.
///
/// The locks are numbers; no client input gets into this text. The rows of an array keep its order, so the locks are
/// taken in that order.
fn lock(locks: &[i64]) -> Option<String> {
    let list: Vec<String> = locks.iter().map(i64::to_string).collect();
    let list = list.join(",");
    (!locks.is_empty()).then(|| {
        format!("SELECT count(pg_advisory_xact_lock(k)::text) FROM unnest('{{{list}}}'::bigint[]) AS k")
    })
}

/// Returns the SQL that fails unless each of these fences holds.
///
/// Names of agents are client input: they get into this text as hexadecimal digits only.
fn require(fences: &[&Fence]) -> Option<String> {
    let name = |agent: &str| format!("convert_from(decode('{}', 'hex'), 'UTF8')", hex(agent.as_bytes()));
    let call = |fence: &&Fence| match fence {
        Fence::Epoch(epoch) => format!("require_epoch({}, {})", name(&epoch.agent), epoch.epoch),
        Fence::Lease { id, agent, token } => {
            format!("require_lease('{}', {}, {token})", id.uuid(), name(agent))
        }
        Fence::Task { id, agent, token } => {
            format!("require_task('{}', {}, {token})", id.uuid(), name(agent))
        }
        Fence::Job { id, token } => format!("require_job('{}', '\\x{}')", id.uuid(), hex(token)),
    };
    (!fences.is_empty()).then(|| format!("SELECT {}", fences.iter().map(call).collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use entente_domain::identity::epochs::Epoch;

    use super::*;

    #[test]
    fn a_transaction_takes_locks_between_epochs_and_claims() {
        assert_eq!(Beginning::default().sql(&[]), "BEGIN");
        let epoch = Fence::Epoch(Epoch { agent: "a'; --".to_owned(), epoch: 7 });
        let job = Fence::Job { id: "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F".parse().unwrap(), token: [0xab; 32] };
        let sql = begin_with_locks(vec![-3, 5], Some(AT_ONCE)).sql(&[epoch, job]);
        let places =
            ["SET LOCAL lock_timeout = '50ms'", "require_epoch(", "'{-3,5}'", "require_job(", "BEGIN"];
        let places = places.map(|part| sql.find(part).unwrap_or_else(|| panic!("{part}: {sql}")));
        assert!(places.is_sorted() && !sql.contains("--"), "{sql}");
    }
}
