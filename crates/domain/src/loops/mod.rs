//! Loops and storms among agents: which message came of which, and when that has to end.
//!
//! A *lineage* is a message with all messages that came of it: each message has a parent, which is the request that it
//! answers, or else the last message that was delivered to its sender on the intent ([`talk`]). A *loop* is a lineage
//! of many hops whose messages repeat each other ([`words`]); so a long dialogue with something to say is none. A
//! *storm* is too many messages of one lineage, from one agent to another, or because of one message. The policy of the
//! intent ([`policy`]) has the limits, and the steps to take when one is exceeded.

pub mod lineages;
pub mod policy;
pub mod talk;
pub mod words;

/// Messages of a lineage that are compared with a new one.
pub const WINDOW: usize = 16;
