//! The tests through the door: a real server on a real PostgreSQL, raw JSON over real sockets, time in the test's hand.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::disallowed_methods, reason = "a test owns its tasks, and some follow the true clock")]
#![expect(clippy::similar_names, reason = "`asked` and `asker` are what they are")]

mod access;
mod agents;
mod answers;
mod arbitration;
mod arcp_sessions;
mod asks;
mod audits;
mod batches;
mod bridges;
mod channels;
mod checkpoints;
mod cli;
mod concurrency;
mod config;
mod credentials;
mod deliveries;
mod departures;
mod egress;
mod envelope_keys;
mod envelope_logs;
mod envelopes;
mod events;
mod exports;
mod harness;
mod heartbeats;
mod house_rules;
mod identities;
mod intents;
mod jobs;
mod keys;
mod leases;
mod ledger;
mod mailboxes;
mod messages;
mod nodes;
mod openapi;
mod outage;
mod plans;
mod powers;
mod principals;
mod proofs;
mod quotas;
mod rates;
mod reading;
mod readme;
mod replays;
mod revocations;
mod rules;
mod schemas;
mod seeds;
mod shifts;
mod spans;
mod streams;
mod sweeps;
mod tampering;
mod tasks;
mod traces;
mod unauthorized;
mod webhooks;
mod worker;
