//! The position of a record among the logs of all intents.

use entente_domain::ids::IntentId;

/// The position of a follower of many intents: the writing transaction, and within it the intent and its log.
///
/// Transactions lock all their intents before their first write, so this order agrees with every intent's own
/// (ARCHITECTURE.md, "One order").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlobalPosition {
    /// The writing transaction.
    pub xid: i64,
    /// The intent.
    pub intent_id: IntentId,
    /// The position in the intent's log.
    pub seq: i64,
}

impl GlobalPosition {
    /// Builds a position from the columns that store it; `None` if one of them is null.
    #[must_use]
    pub fn stored(xid: Option<i64>, intent: Option<uuid::Uuid>, seq: Option<i64>) -> Option<Self> {
        Some(Self { xid: xid?, intent_id: intent?.into(), seq: seq? })
    }
}
