//! The tests through the door: a real server on a real `PostgreSQL`, raw JSON over real sockets, time in the test's hand.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::disallowed_methods, reason = "a test owns its tasks, and some follow the true clock")]
#![expect(clippy::similar_names, reason = "`asked` and `asker` are what they are")]

mod access;
mod agents;
mod asks;
mod channels;
mod concurrency;
mod events;
mod harness;
mod intents;
mod keys;
mod ledger;
mod messages;
mod nodes;
mod outage;
mod streams;
