//! Resources where two protocols meet: bridges for envelopes, and suspended intents, whose question is a binding moment.

pub(crate) mod envelope_bridges;
pub(crate) mod state_patches;
pub(crate) mod suspensions;
