//! The relations between the limits. Most are checked at compile time.

use entente_domain::limits::{
    DEFAULT_MAX_MESSAGES, DURATION_SECONDS, JSON_DEPTH, MAX_MESSAGES, METADATA_BYTES, NAME_BYTES, PAGE,
    PATH_SEGMENTS, PAYLOAD_BYTES, RATE_PER_SECOND, STATE_BYTES, TEXT_BYTES, TITLE_BYTES, WAIT_SECONDS,
};
use serde_json::Value;

/// OI-10.5.1: `ask()` lists a channel without a filter until it finds its answer.
const _: () = assert!(PAGE >= DEFAULT_MAX_MESSAGES, "a page holds all that a usual channel keeps");
const _: () = assert!(MAX_MESSAGES >= DEFAULT_MAX_MESSAGES && DEFAULT_MAX_MESSAGES == 1_000, "RFC-0021 §1.2");

const _: () = assert!(NAME_BYTES < TITLE_BYTES && TITLE_BYTES < TEXT_BYTES && TEXT_BYTES < STATE_BYTES);
const _: () = assert!(METADATA_BYTES < PAYLOAD_BYTES && PAYLOAD_BYTES < STATE_BYTES, "parts fit their whole");
const _: () = assert!(WAIT_SECONDS < DURATION_SECONDS && DURATION_SECONDS == 10 * 365 * 86_400);

/// The database columns are signed 32-bit integers.
const MOST: u32 = i32::MAX as u32;
const _: () = assert!(DURATION_SECONDS <= MOST && MAX_MESSAGES <= MOST && RATE_PER_SECOND <= MOST);

/// Stored values can be parsed again: patches can nest a state deeper than one body, and an export wraps it.
#[test]
fn the_deepest_state_can_be_read_back() {
    let levels = PATH_SEGMENTS + JSON_DEPTH + 4;
    let deep = format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    assert!(serde_json::from_str::<Value>(&deep).is_ok(), "{levels} levels are more than the parser takes");
}
