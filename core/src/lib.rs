//! The law of Entente: what the protocols say may happen, as pure decisions.
//!
//! Every function here takes what is and what is asked and answers with the new state or a [`refusal::Refusal`].
//! Nothing in this crate knows HTTP, SQL, a clock or a random number: time and chance are arguments
//! ([`clock::Clock`], [`ids::Chance`]). The deeds of the server (`src/app`) call these functions inside their
//! transactions; `entente verify` calls them with no server at all.

pub mod access;
pub mod access_requests;
pub mod agent_keys;
pub mod agents;
pub mod amounts;
pub mod arbitration;
pub mod bridges;
pub mod budgets;
pub mod canonical;
pub mod capabilities;
pub mod chains;
pub mod channels;
pub mod checkpoints;
pub mod chunks;
pub mod clock;
pub mod coordinators;
pub mod credentials;
pub mod cursors;
pub mod egress;
pub mod envelope_keys;
pub mod envelopes;
pub mod events;
pub mod export;
pub mod faults;
pub mod globs;
pub mod idempotency;
pub mod identities;
pub mod ids;
pub mod intents;
pub mod jobs;
pub mod keys;
pub mod kinds;
pub mod leases;
pub mod limits;
pub mod merkle;
pub mod messages;
pub mod moments;
pub mod patch;
pub mod payload;
pub mod people;
pub mod plans;
pub mod principals;
pub mod proofs;
pub mod rate;
pub mod receipts;
pub mod refusal;
pub mod retries;
pub mod seals;
pub mod sessions;
pub mod signatures;
pub mod signing;
pub mod slips;
pub mod suspensions;
pub mod tasks;
pub mod traces;
pub mod versions;
pub mod waits;
pub mod webhooks;
