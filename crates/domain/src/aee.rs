//! AEE 1: the rules of envelopes and of the keys that sign them.

pub mod envelope_keys;
pub mod envelopes;
