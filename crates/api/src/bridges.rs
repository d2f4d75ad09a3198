//! Resources where two protocols meet: bridges for envelopes, and suspended intents, whose question is a binding moment;
//! who waits for whom, and turns of agents.

pub(crate) mod bundles;
pub(crate) mod envelope_bridges;
pub(crate) mod state_patches;
pub(crate) mod suspensions;
pub(crate) mod turns;
pub(crate) mod waits;
