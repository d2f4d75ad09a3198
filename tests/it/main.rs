//! The tests through the door: a real server on a real PostgreSQL, raw JSON over real sockets, time in the test's hand.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::disallowed_methods, reason = "a test is its own world: it spawns, waits and reads PATH")]
#![expect(clippy::match_wild_err_arm, reason = "a time-out says nothing but that")]

mod access;
mod agents;
mod asks;
mod audits;
mod batches;
mod channels;
mod cli;
mod concurrency;
mod config;
mod departures;
mod events;
mod exports;
mod harness;
mod heartbeats;
mod house_rules;
mod intents;
mod keys;
mod ledger;
mod messages;
mod nodes;
mod openapi;
mod outage;
mod powers;
mod principals;
mod rates;
mod reading;
mod readme;
mod revocations;
mod seeds;
mod streams;
mod sweeps;
mod unauthorized;
