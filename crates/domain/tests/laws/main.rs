//! Property tests of `entente_domain`: for every module, what must hold for all inputs.
//!
//! One file per module, under its name and in the folder of its protocol, as in `src/`. `any` has the generators that
//! several of them share. A property states what the protocols guarantee, not how the code works; where it needs an
//! oracle, that is a slow and simple implementation.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod a2a;
mod access;
mod aee;
mod amounts;
mod any;
mod arcp;
mod bridges;
mod bundles;
mod canonical;
mod clock;
mod cursors;
mod egress;
mod globs;
mod idempotency;
mod identity;
mod ids;
mod inbox;
mod limits;
mod log;
mod loops;
mod moments;
mod notifications;
mod openintent;
mod payload;
mod rate;
mod refusal;
mod slips;
mod traces;
mod webhooks;
