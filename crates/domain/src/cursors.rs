//! Cursors: resume positions of readers of a channel's messages (RFC-0021 §2.4, OI-10.4.1).
//!
//! A cursor is a position, not a row: it keeps working after the message it came from is gone. Clients treat
//! it as opaque.
//!
//! Named reading cursors are in `crates/kernel/src/cursors.rs`, resume tokens of streams in `crates/http/src/frames.rs` and,
//! of jobs, `crates/arcp-api/src/job_events.rs`.

use crate::clock::{self, Timestamp};
use crate::ids::MessageId;
use crate::refusal::{Code, Refusal};

/// The position to continue after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// After the message with this number in the channel.
    Number(u32),
    /// After everything sent up to this moment.
    Moment(Timestamp),
}

impl Since {
    /// Returns the number in the channel, if it is one.
    #[must_use]
    pub fn number(self) -> Option<u32> {
        match self {
            Self::Number(number) => Some(number),
            Self::Moment(_) => None,
        }
    }

    /// Parses the `since` parameter: a message id, a cursor from an earlier page, or a timestamp.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`] if it is none of the three.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        if let Ok(id) = text.parse::<MessageId>() {
            return Ok(Self::Number(id.number()));
        }
        let number = text.strip_prefix("cur_").and_then(|digits| digits.parse().ok());
        if let Some(number) = number.filter(|number| after(*number) == text) {
            return Ok(Self::Number(number));
        }
        if let Some(at) = clock::parse(text) {
            return Ok(Self::Moment(at));
        }
        Err(Refusal::new(
            Code::InvalidParameter,
            "`since` is neither a message id, a cursor nor a timestamp. Use the id of the last message you have, the \
             Entente-Next-Cursor header of the last page, or an RFC 3339 time.",
        ))
    }
}

/// Returns the cursor that continues after the message with this number.
#[must_use]
pub fn after(number: u32) -> String {
    format!("cur_{number}")
}
