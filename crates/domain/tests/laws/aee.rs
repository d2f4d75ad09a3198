//! AEE 1: envelopes and the keys that sign them.

mod envelope_keys;
mod envelopes;
