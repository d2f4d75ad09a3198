//! Reading and proving logs: events, verification, checkpoints, exports and proofs (RFC-0001, RFC-0018, RFC-0019), the
//! system log, traces (RFC-0020), and the search by words. Appending to a log is in `log`.

pub mod chains;
pub mod checkpoints;
pub mod events;
pub mod exports;
pub(crate) mod floors;
pub mod proofs;
pub mod retention;
pub mod search;
pub mod system_log;
pub mod traces;
