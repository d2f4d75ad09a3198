//! The laws of the law: what must hold of every module of `entente_core` for all inputs, as properties.
//!
//! One file per module, under its name. `any` makes the random inputs that several of them share. A property says what
//! the protocols promise, not how the code does it; where it needs a second opinion it has a slow and plain one.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod access;
mod agents;
mod amounts;
mod any;
mod approvals;
mod arbitration;
mod bridges;
mod budgets;
mod canonical;
mod capabilities;
mod channels;
mod checkpoints;
mod clock;
mod credentials;
mod cursors;
mod egress;
mod envelope_keys;
mod envelope_logs;
mod envelopes;
mod events;
mod export;
mod globs;
mod idempotency;
mod identities;
mod ids;
mod intents;
mod job_asks;
mod jobs;
mod judge;
mod keys;
mod leases;
mod limits;
mod merkle;
mod messages;
mod moments;
mod patch;
mod payload;
mod people;
mod plans;
mod principals;
mod proofs;
mod quotas;
mod rate;
mod redaction;
mod refusal;
mod retries;
mod schemas;
mod sessions;
mod signatures;
mod signing;
mod slips;
mod tasks;
mod tool_calls;
mod tool_grants;
mod tool_secrets;
mod traces;
mod vault_keys;
mod waits;
mod webhooks;
