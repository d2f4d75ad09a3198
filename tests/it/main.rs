//! The tests through the door: a real server on a real PostgreSQL, raw JSON over real sockets, time in the test's hand.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::disallowed_methods, reason = "a test owns its tasks, and some follow the true clock")]
#![expect(clippy::similar_names, reason = "`asked` and `asker` are what they are")]

/// As in the program itself: servers that come and go are mostly allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod access;
mod agents;
mod answers;
mod approvals;
mod arbitration;
mod arcp_sessions;
mod asks;
mod attachments;
mod audits;
mod authority;
mod batches;
mod bridges;
mod channels;
mod checkpoints;
mod cli;
mod concurrency;
mod config;
mod coordinators;
mod costs;
mod credentials;
mod dashboard;
mod deliveries;
mod departures;
mod discovery;
mod egress;
mod envelope_keys;
mod envelope_logs;
mod envelopes;
mod escalations;
mod events;
mod exports;
mod failures;
mod federation;
mod governance;
mod graphs;
mod harness;
mod heartbeats;
mod house_rules;
mod identities;
mod intents;
mod invocations;
mod jobs;
mod keys;
mod leases;
mod ledger;
mod mailboxes;
mod mcp;
mod memory;
mod messages;
mod moments;
mod nodes;
mod openapi;
mod outage;
mod pages;
mod people;
mod permits;
mod plans;
mod portfolios;
mod powers;
mod principals;
mod proofs;
mod pushes;
mod quotas;
mod rates;
mod reading;
mod readme;
mod redactions;
mod replays;
mod revocations;
mod rules;
mod schemas;
mod secrets;
mod seeds;
mod shares;
mod shifts;
mod spans;
mod streams;
mod suspensions;
mod sweeps;
mod tampering;
mod tasks;
mod tool_grants;
mod traces;
mod triggers;
mod unauthorized;
mod vaults;
mod webhooks;
mod worker;
