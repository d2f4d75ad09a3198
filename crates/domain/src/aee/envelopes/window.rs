//! Limits on an envelope's age, and on how far it may be ahead of the server's clock (AEE §11.1).
//!
//! Known ids are remembered for longer than that, so that no replay fits in between. An envelope whose `ts`
//! is not a valid time has no age; the server remembers the ids of such permanently
//! (`crates/aee/src/envelopes/untimed.rs`), or refuses them (strict mode).

use chrono::TimeDelta;

use crate::clock::Timestamp;
use crate::refusal::{Code, Refusal};

/// The limits of an envelope's `ts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Maximum age in seconds.
    pub max_age_seconds: u32,
    /// Maximum seconds ahead of the server's clock.
    pub skew_seconds: u32,
}

impl Window {
    /// How long ids have to be remembered: as long as an envelope with the same id could still be accepted.
    #[must_use]
    pub fn memory(self) -> TimeDelta {
        TimeDelta::seconds(i64::from(self.max_age_seconds) + i64::from(self.skew_seconds))
    }

    /// Checks an envelope's stated time; both limits are inclusive.
    ///
    /// # Errors
    /// [`Code::OutsideWindow`].
    pub fn admit(self, sent_at: Timestamp, now: Timestamp) -> Result<(), Refusal> {
        let age = now - sent_at;
        let fault = if age > TimeDelta::seconds(i64::from(self.max_age_seconds)) {
            format!("more than {} seconds ago", self.max_age_seconds)
        } else if -age > TimeDelta::seconds(i64::from(self.skew_seconds)) {
            format!("more than {} seconds ahead of this server's clock", self.skew_seconds)
        } else {
            return Ok(());
        };
        let message = format!(
            "`ts` is {fault}: it may be a replay (AEE §11.1). Check your clock and send a new envelope with a new id."
        );
        Err(Refusal::field(Code::OutsideWindow, "ts", "outside_window", message))
    }
}
