//! Resources where two protocols meet: bridges for envelopes, and suspended intents, whose question is a binding moment;
//! and who waits for whom.

pub(crate) mod envelope_bridges;
pub(crate) mod state_patches;
pub(crate) mod suspensions;
pub(crate) mod waits;
