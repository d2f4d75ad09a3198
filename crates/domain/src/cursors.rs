//! Cursors: where a reader of a channel's messages continues (RFC-0021 §2.4, contract 10.4).
//!
//! A cursor is a place, not a row: it goes on working when the message it came from is gone. To clients it is opaque.

use crate::clock::{self, Timestamp};
use crate::ids::MessageId;
use crate::refusal::{Code, Refusal};

/// Where to continue after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// After the message with this number in the channel.
    Number(u32),
    /// After everything that was sent up to this moment.
    Moment(Timestamp),
}

impl Since {
    /// Reads the `since` parameter: a message id, a cursor that a list answered with, or a timestamp.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`] when it is none of the three.
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

/// The cursor that continues after the message with this number.
#[must_use]
pub fn after(number: u32) -> String {
    format!("cur_{number}")
}
