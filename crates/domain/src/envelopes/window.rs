//! How old an envelope may be, and how far ahead of the server's clock (AEE §11.1). What was seen before is known for longer
//! than that, so that no replay slips between the two. An envelope whose `ts` names no moment has no age; of such the server
//! remembers the ids for good (`src/app/envelopes/untimed.rs`), or takes none (strict mode).

use chrono::TimeDelta;

use crate::clock::Timestamp;
use crate::refusal::{Code, Refusal};

/// The limits of an envelope's `ts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Seconds that it may be old.
    pub max_age_seconds: u32,
    /// Seconds that it may be ahead.
    pub skew_seconds: u32,
}

impl Window {
    /// How long ids have to be remembered: as long as an envelope with this id could still be taken in.
    #[must_use]
    pub fn memory(self) -> TimeDelta {
        TimeDelta::seconds(i64::from(self.max_age_seconds) + i64::from(self.skew_seconds))
    }

    /// Checks the moment at which an envelope says that it was written. Both ends still count.
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
