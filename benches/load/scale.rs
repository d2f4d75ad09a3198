//! Numbers of a run: full ones, or the small ones of `--smoke`, which tries each scene for about a second with an
//! unoptimised server. A smoke run shows that the scenes work; its figures mean nothing and are written nowhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static SMOKE: AtomicBool = AtomicBool::new(false);

/// Makes the numbers small. The program calls it before the first scene.
pub fn make_small() {
    SMOKE.store(true, Ordering::Relaxed);
}

/// Whether the numbers are small.
pub fn is_small() -> bool {
    SMOKE.load(Ordering::Relaxed)
}

/// Returns the number for this run.
pub fn scaled(full: usize, smoke: usize) -> usize {
    if is_small() { smoke } else { full }
}

/// Duration of each load of a comparison.
pub fn spell() -> Duration {
    if is_small() { Duration::from_millis(300) } else { Duration::from_secs(4) }
}

/// Number of times that both sides of a comparison take turns.
pub fn rounds() -> usize {
    scaled(3, 1)
}

/// Time limit for a scene: several times the duration of the longest one.
pub fn limit() -> Duration {
    Duration::from_secs(if is_small() { 60 } else { 900 })
}
