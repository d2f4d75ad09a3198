//! The position of a record among the logs of all intents. `order.rs` gives the numbers and translates positions of the form
//! before; `crates/http/src/frames.rs` reads and writes positions as resume tokens.

use entente_domain::ids::IntentId;

/// The position of a follower of many intents: a number of the order over all logs, and within its part of one log the
/// last entry that was read.
///
/// A part gets its number after its commit, and every number below it is given by then, so nothing can appear before a
/// position that was read (ARCHITECTURE.md, "One order").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlobalPosition {
    /// The number in the order, from 1.
    pub global: i64,
    /// The position in the log that this number has a part of.
    pub seq: i64,
}

impl GlobalPosition {
    /// The position before everything.
    pub const START: Self = Self { global: 0, seq: 0 };

    /// Builds a position from the columns that store it; `None` if one of them is null.
    #[must_use]
    pub fn stored(global: Option<i64>, seq: Option<i64>) -> Option<Self> {
        Some(Self { global: global?, seq: seq? })
    }
}

/// A position of the form before: the writing transaction, and within it the intent and its log. Clients still send such
/// positions (`order.rs` translates them).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormerPosition {
    /// The writing transaction.
    pub xid: i64,
    /// The intent.
    pub intent_id: IntentId,
    /// The position in the intent's log.
    pub seq: i64,
}
